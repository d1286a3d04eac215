"""`dump` shows what a consumer would see, or all there is, in forms that scripts depend on."""

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
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]


def dump(capsys: Captured, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    assert main(["dump", "--format", "jsonl", *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def offsets(capsys: Captured, *arguments: str, code: int = 0) -> list[object]:
    return [line["offset"] for line in dump(capsys, *arguments, code=code)]


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
        assert ',,,"",,[],0\n' in out  # no key, and an empty value

    def test_it_is_for_no_other_format(self, root: Path, capsys: Captured) -> None:
        for form in ("text", "arrow", "parquet"):
            assert main(["dump", "--format", form, "--text", str(root)]) == 64
            assert "--text is for --format jsonl and csv" in capsys.readouterr().err


class TestWhatADirectoryShows:
    """Like a broker to a consumer."""

    def test_records_without_markers(self, root: Path, capsys: Captured) -> None:
        assert offsets(capsys, str(root)) == [0, 1, 2, 3, 5, 7]

    def test_nothing_at_or_above_the_high_watermark(self, root: Path, capsys: Captured) -> None:
        for high_watermark, expected in ((7, [0, 1, 2, 3, 5]), (2, [0, 1]), (0, []), (99, [0, 1, 2, 3, 5, 7])):
            made.write_checkpoint(root, "replication-offset-checkpoint", orders=high_watermark)
            assert offsets(capsys, str(root)) == expected

    def test_nothing_below_the_log_start(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "log-start-offset-checkpoint", orders=2)
        assert offsets(capsys, str(root)) == [2, 3, 5, 7]

    def test_a_checkpoint_without_the_partition_shows_nothing(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", payments=5)
        assert offsets(capsys, str(root)) == []

    @pytest.mark.parametrize("content", [None, ""])
    def test_no_checkpoint_shows_everything_with_a_warning(
        self, root: Path, capsys: Captured, content: str | None
    ) -> None:
        path = root / "replication-offset-checkpoint"
        path.unlink() if content is None else path.write_text(content)
        assert offsets(capsys, str(root), code=1) == [0, 1, 2, 3, 5, 7]

    def test_the_high_watermark_can_be_decided_otherwise(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=2)
        assert offsets(capsys, "--high-watermark", "log-end", str(root)) == [0, 1, 2, 3, 5, 7]
        assert offsets(capsys, "--high-watermark", "1", str(root)) == [0]
        assert offsets(capsys, "--high-watermark", "checkpoint", str(root)) == [0, 1]

    def test_all_shows_everything(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=2)
        made.write_checkpoint(root, "log-start-offset-checkpoint", orders=1)
        assert offsets(capsys, "--all", str(root)) == [0, 1, 2, 3, 5, 7]

    def test_a_named_file_shows_everything_and_misses_no_checkpoint(self, root: Path, capsys: Captured) -> None:
        (root / "replication-offset-checkpoint").unlink()
        assert offsets(capsys, str(root / "orders-0" / "00000000000000000005.log")) == [5, 7]
        assert capsys.readouterr().err == ""

    def test_several_logs_come_by_topic_partition_and_offset(self, root: Path, capsys: Captured) -> None:
        for name in ("orders-10", "orders-2", "alpha-0"):
            (root / name).mkdir()
            (root / name / "00000000000000000000.log").write_bytes(made.FIRST)
        lines = dump(capsys, "--all", str(root))
        order = [(line["topic"], line["partition"], line["offset"]) for line in lines]
        assert order == sorted(order)
        assert len({entry[:2] for entry in order}) == 4

    def test_the_same_partition_from_two_paths_is_shown_once(
        self, root: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        other = tmp_path / "other" / "orders-0"
        other.mkdir(parents=True)
        (other / "00000000000000000000.log").write_bytes(made.FIRST)
        (tmp_path / "other" / "replication-offset-checkpoint").write_text("0\n1\norders 0 3\n")
        assert offsets(capsys, str(root), str(tmp_path / "other"), code=1) == [0, 1, 2, 3, 5, 7]

    def test_directories_out_of_use_are_not_shown(self, root: Path, capsys: Captured) -> None:
        os.rename(root / "orders-0", root / "orders-0.478272f0a33c41a18c274462e3ef6713-delete")
        assert offsets(capsys, str(root)) == []


class TestReadCommitted:
    """Aborted and undecided records are hidden."""

    def test_aborted_records_are_hidden_and_committed_ones_shown(self, root: Path, capsys: Captured) -> None:
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 5, 7]

    def test_a_marker_at_the_high_watermark_decides_nothing(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=6)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2]
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=7)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 5]

    def test_an_open_transaction_ends_what_is_shown(self, root: Path, capsys: Captured) -> None:
        active = root / "orders-0" / "00000000000000000005.log"
        active.write_bytes(made.COMMITTED + made.LAST)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2]

    def test_gaps_that_compaction_left_do_not_hide_outcomes(self, root: Path, capsys: Captured) -> None:
        (root / "orders-0" / "00000000000000000000.log").write_bytes(made.FIRST)
        shifted = handmade.batch(
            [handmade.record(0, b"c", b"kept")],
            base_offset=20,
            attributes=handmade.TRANSACTIONAL,
            producer_id=9,
            producer_epoch=0,
        )
        commit = handmade.marker(30, handmade.COMMIT, producer_id=9)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(shifted + commit)
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=31)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 20]

    def test_a_record_outside_of_its_producers_transaction_is_shown(self, root: Path, capsys: Captured) -> None:
        plain = handmade.simple_batch(4, [(b"p", b"plain")], producer_id=9, producer_epoch=0)
        more = handmade.patch(made.ABORTED, 7, b"\x05")
        abort = handmade.marker(6, handmade.ABORT, producer_id=9)
        (root / "orders-0" / "00000000000000000005.log").unlink()
        (root / "orders-0" / "00000000000000000000.log").write_bytes(made.FIRST + made.ABORTED + plain + more + abort)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 4]

    def test_uncommitted_is_the_default(self, root: Path, capsys: Captured) -> None:
        assert offsets(capsys, str(root)) == offsets(capsys, "--isolation.level", "read_uncommitted", str(root))


class TestFilters:
    """Options that choose records."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--offsets", "2..5"], [2, 3]),
            (["--offsets", "5.."], [5, 7]),
            (["--offsets", "..1"], [0]),
            (["--offsets", "3..3"], []),
            (["--since", "1700000000300"], [5, 7]),
            (["--until", "1700000000002"], [0, 1]),
            (["--since", "2023-11-14T22:13:20.100", "--until", "2023-11-14T23:13:20.500+01:00"], [3, 5]),
            (["--key", "k1"], [0]),
            (["--key", "0xff"], [2]),
            (["--key", "0x"], []),
            (["--header", "trace"], [0]),
            (["--header", "trace=0x0001"], [0]),
            (["--header", "trace=no"], []),
            (["--header", "no"], []),
            (["--producer-id", "9"], [3, 5]),
            (["--producer-id", "9", "--control"], [3, 4, 5, 6]),
            (["--producer-id", "-1"], [0, 1, 2, 7]),
            (["--limit", "4"], [0, 1, 2, 3]),
            (["--limit", "2"], [0, 1]),
            (["--limit", "0"], []),
            (["--limit", "99"], [0, 1, 2, 3, 5, 7]),
            (["--topic", "ord*"], [0, 1, 2, 3, 5, 7]),
            (["--topic", "ORD*"], []),
            (["--partition", "1"], []),
            (["--control"], [0, 1, 2, 3, 4, 5, 6, 7]),
        ],
    )
    def test_only_requested_parts_are_shown(
        self, root: Path, capsys: Captured, options: list[str], expected: list[int]
    ) -> None:
        assert offsets(capsys, *options, str(root)) == expected


class TestDamage:
    """Said on stderr, passed over, and in the exit code."""

    def test_a_flipped_bit_costs_its_batch_and_is_exit_code_2(self, root: Path, capsys: Captured) -> None:
        path = root / "orders-0" / "00000000000000000000.log"
        path.write_bytes(handmade.flip(made.SEALED, 70))
        assert main(["dump", "--format", "jsonl", str(root)]) == 2
        captured = capsys.readouterr()
        assert [json.loads(line)["offset"] for line in captured.out.splitlines()] == [3, 5, 7]
        (line,) = captured.err.splitlines()
        assert line.startswith("error: ")
        assert str(path) in line
        assert "position 0" in line

    def test_a_torn_tail_is_information_and_exit_code_0(self, root: Path, capsys: Captured) -> None:
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(made.UNDER_WAY)
        assert main(["dump", str(root)]) == 0
        assert capsys.readouterr().err.startswith("info: ")

    def test_a_torn_sealed_segment_is_damage(self, root: Path, capsys: Captured) -> None:
        path = root / "orders-0" / "00000000000000000000.log"
        path.write_bytes(made.SEALED[:-1])
        assert offsets(capsys, str(root), code=2) == [0, 1, 2, 3, 5, 7]

    def test_a_named_file_that_others_follow_is_sealed(self, root: Path) -> None:
        path = root / "orders-0" / "00000000000000000000.log"
        path.write_bytes(made.SEALED[:-1])
        assert main(["dump", str(path)]) == 2

    def test_messages_of_old_formats_are_dumped_too(self, root: Path, capsys: Captured) -> None:
        before = offsets(capsys, str(root))
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(handmade.message_v1(8, 1000, b"k", b"v") + handmade.wrapper_v0([9, 11]))
        (root / "replication-offset-checkpoint").unlink()
        assert offsets(capsys, str(root), code=1) == [*before, 8, 9, 11]

    def test_a_segment_that_goes_away_is_reported_and_the_rest_continues(
        self, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from logcore.logs.model.sources import SegmentFile
        from logcore.reading import segment_reading
        from logcore.storage.discovery import SourceUnreadable
        from logcore.storage.source_bytes import SourceBytes

        def gone(path: str, *, sealed: bool, seen: SegmentFile | None) -> object:
            if path.endswith("00000000000000000000.log"):
                raise SourceUnreadable("it cannot be read: gone.", file=path)
            return SourceBytes(path, sealed=sealed, seen=seen)

        monkeypatch.setattr(segment_reading, "SourceBytes", gone)
        assert offsets(capsys, str(root), code=3) == [5, 7]

    def test_no_payload_reaches_stderr(self, root: Path, capsys: Captured) -> None:
        secret = handmade.simple_batch(5, [(b"secretkey", b"secretvalue")], count=7)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(secret + made.LAST)
        assert main(["dump", "--all", str(root)]) == 2
        assert "secret" not in capsys.readouterr().err

    def test_nothing_is_written_into_a_source(self, root: Path) -> None:
        def state() -> list[tuple[str, int, int]]:
            return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))]

        before = state()
        for options in ([], ["--batches"], ["--indexes"], ["--checkpoints"], ["--isolation.level", "read_committed"]):
            main(["dump", *options, str(root)])
        assert state() == before


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
        assert main(["dump", "--offsets", "5..", str(root)]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.endswith(f"value 0x{value.hex()}")

    @pytest.mark.parametrize("timestamp", [-1, 0, -(2**63), 2**63 - 1, 253402300800000])
    def test_any_timestamp_can_be_shown(self, root: Path, capsys: Captured, timestamp: int) -> None:
        batch = handmade.simple_batch(5, [(b"k", b"v")], base_timestamp=timestamp)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(batch)
        assert main(["dump", "--offsets", "5..", str(root)]) == 0
        shown = capsys.readouterr().out
        assert ("no-timestamp" if timestamp == -1 else "1970-" if timestamp == 0 else str(timestamp)) in shown
        (line,) = dump(capsys, "--offsets", "5..", str(root))
        assert line["timestamp"] == timestamp

    def test_csv_distinguishes_null_from_empty(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--format", "csv", "--offsets", "0..3", str(root)]) == 0
        text = capsys.readouterr().out
        assert ',,"",[],3' in text.splitlines()[2]
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["key"] for row in rows] == ["azE=", "", "/w=="]
        assert json.loads(rows[0]["headers"]) == [["trace", "AAE="], ["trace", None]]

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
            env=os.environ | {"LOGLAKE_ENGINE": "reference"},
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


class TestBatches:
    """Headers, whatever the directory shows of the records."""

    def test_a_line_has_these_keys_in_this_order(self, root: Path, capsys: Captured) -> None:
        first = dump(capsys, "--batches", str(root))[0]
        assert list(first.items()) == [
            ("topic", "orders"),
            ("partition", 0),
            ("segment", 0),
            ("position", 0),
            ("size", len(made.FIRST)),
            ("magic", 2),
            ("base_offset", 0),
            ("last_offset", 2),
            ("record_count", 3),
            ("codec", "none"),
            ("timestamp_type", "CreateTime"),
            ("max_timestamp", 1_700_000_000_002),
            ("delete_horizon_ms", None),
            ("producer_id", -1),
            ("producer_epoch", -1),
            ("base_sequence", -1),
            ("is_transactional", False),
            ("is_control", False),
            ("control_type", None),
            ("leader_epoch", 3),
            ("crc", handmade.crc32c(made.FIRST[21:])),
            ("crc_ok", True),
        ]

    def test_control_batches_and_those_above_the_high_watermark_are_among_them(
        self, root: Path, capsys: Captured
    ) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=0)
        lines = dump(capsys, "--batches", str(root))
        assert [line["base_offset"] for line in lines] == [0, 3, 4, 5, 6, 7]
        assert [line["control_type"] for line in lines] == [None, None, "ABORT", None, "COMMIT", None]
        assert [line["segment"] for line in lines] == [0, 0, 0, 5, 5, 5]

    def test_a_batch_whose_crc_fails_is_shown_as_such(self, root: Path, capsys: Captured) -> None:
        (root / "orders-0" / "00000000000000000000.log").write_bytes(handmade.flip(made.SEALED, 70))
        lines = dump(capsys, "--batches", str(root), code=2)
        assert [line["crc_ok"] for line in lines] == [False, True, True, True, True, True]

    def test_batches_can_be_chosen_by_offset_producer_and_number(self, root: Path, capsys: Captured) -> None:
        def chosen(*options: str) -> list[object]:
            return [line["base_offset"] for line in dump(capsys, "--batches", *options, str(root))]

        assert chosen("--offsets", "2..5") == [0, 3, 4]
        assert chosen("--producer-id", "9") == [3, 4, 5, 6]
        assert chosen("--limit", "2") == [0, 3]

    def test_text_says_the_same_by_name(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--batches", "--limit", "1", str(root)]) == 0
        text = capsys.readouterr().out
        assert "base_offset 0  last_offset 2  record_count 3  codec none" in text
        assert "  is_transactional false  is_control false  leader_epoch 3  " in text
        assert text.endswith("  crc_ok true\n")


class TestSideFiles:
    """Indexes and checkpoints."""

    def test_index_entries_are_absolute(self, root: Path, capsys: Captured) -> None:
        assert dump(capsys, "--indexes", str(root)) == [
            {
                "topic": "orders",
                "partition": 0,
                "segment": 0,
                "index": "offset",
                "offset": 3,
                "position": len(made.FIRST),
            },
            {
                "topic": "orders",
                "partition": 0,
                "segment": 0,
                "index": "time",
                "offset": 4,
                "timestamp": 1_700_000_000_200,
            },
        ]

    def test_a_damaged_index_is_a_warning_and_the_rest_continues(self, root: Path, capsys: Captured) -> None:
        (root / "orders-0" / "00000000000000000000.index").write_bytes(b"\xff" * 16)
        lines = dump(capsys, "--indexes", str(root), code=1)
        assert [line["index"] for line in lines] == ["time"]

    def test_checkpoints_are_lines(self, root: Path, capsys: Captured) -> None:
        lines = dump(capsys, "--checkpoints", str(root))
        assert [line["file"] for line in lines] == [
            "meta.properties",
            "replication-offset-checkpoint",
            "partition.metadata",
            "leader-epoch-checkpoint",
        ]
        assert lines[1] == {"file": "replication-offset-checkpoint", "topic": "orders", "partition": 0, "offset": 8}
        assert lines[3]["epoch"] == 3

    def test_a_broken_checkpoint_is_a_warning(self, root: Path, capsys: Captured) -> None:
        (root / "log-start-offset-checkpoint").write_text("broken")
        assert len(dump(capsys, "--checkpoints", str(root), code=1)) == 4
