"""`dump` has forms that scripts depend on."""

import base64
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logcore.cli.main import main
from tests import handmade
from tests.file_limits import UNCOMPILED
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.dumped_records import Captured, dump


class TestJsonLines:
    """The form that is a contract."""

    def test_a_line_has_these_keys_in_this_order_and_nothing_escaped(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--format", "jsonl", "--offsets", "0..2", str(root)]) == 0
        assert capsys.readouterr().out == (
            '{"topic":"orders","partition":0,"offset":0,"timestamp":1700000000000,"timestamp_type":"CreateTime",'
            '"key":"azE=","value":null,"headers":[["trace","AAE="],["trace",null]],"leader_epoch":3}\n'
            '{"topic":"orders","partition":0,"offset":1,"timestamp":1700000000001,"timestamp_type":"CreateTime",'
            '"key":null,"value":"","headers":[],"leader_epoch":3}\n'
        )

    def test_no_leader_epoch_is_null(self, root: Path, capsys: Captured) -> None:
        (line,) = dump(capsys, "--offsets", "7..", str(root))
        assert line["leader_epoch"] is None

    def test_append_time_is_named(self, root: Path, capsys: Captured) -> None:
        batch = handmade.simple_batch(8, [(b"k", b"v")], attributes=handmade.LOG_APPEND_TIME, max_timestamp=77)
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(batch)
        (line,) = dump(capsys, "--all", "--offsets", "8..", str(root))
        assert (line["timestamp"], line["timestamp_type"]) == (77, "LogAppendTime")

    def test_header_names_are_text_and_what_is_none_becomes_replacement(self, root: Path, capsys: Captured) -> None:
        record = handmade.record(0, b"k", b"v", headers=[("ü\n".encode(), b""), (b"\xff", b"x")])
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(handmade.batch([record], base_offset=8))
        (line,) = dump(capsys, "--all", "--offsets", "8..", str(root))
        assert line["headers"] == [["ü\n", ""], ["\ufffd", "eA=="]]

    @pytest.mark.parametrize("engine", ["kernels", "reference"])
    def test_names_that_are_not_utf8_are_there_as_bytes_too(
        self, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, engine: str
    ) -> None:
        monkeypatch.setenv("LOGLAKE_ENGINE", engine)
        records = [
            handmade.record(0, b"k", b"v", headers=[("ü".encode(), b""), (b"\xff\xfe", b"x")]),
            handmade.record(1, b"k", b"v", headers=[(b"\xef\xbf\xbd", b"x")]),
            handmade.record(2, b"k", b"v"),
        ]
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(handmade.batch(records, base_offset=8))
        lines = dump(capsys, "--all", "--offsets", "8..", str(root))
        assert lines[0]["headers"] == [["ü", ""], ["\ufffd\ufffd", "eA=="]]
        assert lines[0]["header_keys_raw"] == ["w7w=", "//4="]
        assert list(lines[0])[-2:] == ["leader_epoch", "header_keys_raw"]
        assert [list(line)[-1] for line in lines[1:]] == ["leader_epoch", "leader_epoch"]

    def test_text_shows_strings_where_there_are_any(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--format", "jsonl", "--text", "--offsets", "1..3", str(root)]) == 0
        first, second = capsys.readouterr().out.splitlines()
        assert '"key":null,"value":""' in first
        assert '"key_base64":"/w==","value":"v3"' in second

    def test_a_control_record_says_what_it_is(self, root: Path, capsys: Captured) -> None:
        lines = dump(capsys, "--control", str(root))
        assert [(line["offset"], line["control_type"]) for line in lines if "control_type" in line] == [
            (4, "ABORT"),
            (6, "COMMIT"),
        ]
        assert list(lines[4]) == [*list(lines[0]), "control_type"]


class TestCsvWithText:
    """Keys and values as text, each beside a column for bytes that are no text."""

    @pytest.mark.parametrize("engine", ["kernels", "reference"])
    def test_text_is_in_the_named_column_and_other_bytes_are_base64_in_the_next(
        self, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, engine: str
    ) -> None:
        monkeypatch.setenv("LOGLAKE_ENGINE", engine)
        rows = [(b"\xff", 'ü,"\r\n'.encode()), (None, b""), (b"plain", b"\x00\x80"), (b"a\nb", None)]
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(handmade.simple_batch(8, rows))
        assert main(["dump", "--all", "--format", "csv", "--text", "--offsets", "8..", str(root)]) == 0
        out = capsys.readouterr().out
        names, *lines = csv.reader(io.StringIO(out, newline=""))
        assert names == [
            *("topic", "partition", "offset", "timestamp", "timestamp_type"),
            *("key", "key_base64", "value", "value_base64", "headers", "leader_epoch"),
        ]
        assert [line[5:9] for line in lines] == [
            ["", "/w==", 'ü,"\r\n', ""],
            ["", "", "", ""],
            ["plain", "", "", "AIA="],
            ["a\nb", "", "", ""],
        ]
        assert ',,,"",,"[]",0\n' in out  # no key, and an empty value

    def test_it_is_for_no_other_format(self, root: Path, capsys: Captured) -> None:
        for form in ("text", "arrow", "parquet"):
            assert main(["dump", "--format", form, "--text", str(root)]) == 64
            assert "--text is for --format jsonl and csv" in capsys.readouterr().err


class TestOtherForms:
    """Text, CSV, Arrow, Parquet, and files."""

    def test_text_is_one_readable_line_a_record(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--control", str(root)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 8
        assert lines[0] == (
            'orders-0 offset 0  2023-11-14T22:13:20.000Z  CreateTime  key "k1"  value null  '
            'headers "trace"=0x0001 "trace"=null'
        )
        assert 'key 0xff  value "v3"' in lines[2]
        assert "  ABORT  " in lines[4]

    @pytest.mark.parametrize("value", [b"\x1b[31m", b"a\nb", "a\u202eb".encode(), b"\xff"])
    def test_text_lets_nothing_through_that_moves_a_terminal(self, root: Path, capsys: Captured, value: bytes) -> None:
        active = root / "orders-0" / "00000000000000000005.log"
        active.write_bytes(handmade.simple_batch(5, [(None, value)]))
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=6)
        assert main(["dump", "--offsets", "5..", str(root)]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.endswith(f"value 0x{value.hex()}")

    @pytest.mark.parametrize("timestamp", [-1, 0, -(2**63), 2**63 - 1, 253402300800000])
    def test_any_timestamp_can_be_shown(self, root: Path, capsys: Captured, timestamp: int) -> None:
        batch = handmade.simple_batch(5, [(b"k", b"v")], base_timestamp=timestamp)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(batch)
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=6)
        assert main(["dump", "--offsets", "5..", str(root)]) == 0
        shown = capsys.readouterr().out
        assert ("no-timestamp" if timestamp == -1 else "1970-" if timestamp == 0 else str(timestamp)) in shown
        (line,) = dump(capsys, "--offsets", "5..", str(root))
        assert line["timestamp"] == timestamp

    def test_csv_distinguishes_null_from_empty(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--format", "csv", "--offsets", "0..3", str(root)]) == 0
        text = capsys.readouterr().out
        assert ',,"","[]",3' in text.splitlines()[2]
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["key"] for row in rows] == ["azE=", "", "/w=="]
        assert json.loads(rows[0]["headers"]) == [["trace", "AAE="], ["trace", None]]

    def test_csv_of_any_bytes_is_read_back(self, root: Path, capsys: Captured) -> None:
        contents: list[bytes | None] = [
            None,
            b"",
            *(bytes([char]) for char in range(256)),
            b'a,"b"\r\nc',
            "ключ".encode(),
        ]
        records = [
            handmade.record(at, key, contents[-at], headers=[(b'n"\n', contents[-at])])
            for at, key in enumerate(contents)
        ]
        batch = handmade.batch(records, base_offset=5, last_offset_delta=len(records) - 1)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(batch)
        assert main(["dump", "--all", "--format", "csv", "--offsets", "5..", str(root)]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        packed = ["" if each is None else base64.b64encode(each).decode() for each in contents]
        assert [row["key"] for row in rows] == packed
        assert [row["value"] for row in rows] == [packed[-at] for at in range(len(packed))]
        headers = [None if each is None else base64.b64encode(each).decode() for each in contents]
        assert [json.loads(row["headers"]) for row in rows] == [[['n"\n', headers[-at]]] for at in range(len(packed))]

    def test_arrow_and_parquet_hold_the_same_records_as_json_lines(
        self, root: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        lines = dump(capsys, str(root))
        stream, file = tmp_path / "records.arrow", tmp_path / "records.parquet"
        assert main(["dump", "--format", "arrow", "-o", str(stream), str(root)]) == 0
        assert main(["dump", "--format", "parquet", "-o", str(file), str(root)]) == 0
        with pa.ipc.open_stream(stream) as reader:
            arrow = reader.read_all()
        assert pq.read_table(file).equals(arrow)
        rows = arrow.to_pylist()
        assert [row["offset"] for row in rows] == [line["offset"] for line in lines]
        for row, line in zip(rows, lines, strict=True):
            for name in ("key", "value"):
                encoded = None if row[name] is None else base64.b64encode(row[name]).decode()
                assert encoded == line[name]
            assert row["timestamp_ms"] == line["timestamp"]
        assert {row["log_id"] for row in rows} == {f"{made.TOPIC_ID}.0"}
        assert {row["segment_id"] for row in rows} == {"00000000000000000000", "00000000000000000005"}

    def test_output_goes_to_a_new_file(self, root: Path, tmp_path: Path, capsys: Captured) -> None:
        path = tmp_path / "out.jsonl"
        assert main(["dump", "--format", "jsonl", "-o", str(path), str(root)]) == 0
        assert capsys.readouterr().out == ""
        assert len(path.read_text().splitlines()) == 6
        assert main(["dump", "--format", "jsonl", "-o", str(path), str(root)]) == 3
        assert len(path.read_text().splitlines()) == 6

    def test_an_output_that_the_disk_cannot_hold_leaves_nothing(self, root: Path, tmp_path: Path) -> None:
        """The process may write files of 512 bytes at most; the lines are longer."""
        place = tmp_path / "place"
        place.mkdir()
        dumped = f"{sys.executable} -m logcore.cli.main dump --format jsonl -o {place / 'out'} {root}"
        done = subprocess.run(
            ["sh", "-c", f"ulimit -f 1; exec {dumped}"],
            env=os.environ | UNCOMPILED | {"LOGLAKE_ENGINE": "reference"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 3, done
        assert done.stderr.startswith("error: ")
        assert list(place.iterdir()) == []

    @pytest.mark.parametrize("target", ["out", "orders-0/out", "../logs/out"])
    def test_output_into_a_path_that_is_read_is_wrong_usage(self, root: Path, target: str, capsys: Captured) -> None:
        assert main(["dump", "-o", str(root / target), str(root)]) == 64
        assert not (root / target).exists()
        assert "only read" in capsys.readouterr().err
