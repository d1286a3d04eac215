"""One bad file, line or word gets one clear message, and everything else goes on."""

import errno
import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.file_limits import UNCOMPILED
from tests.unit.logcore.cli.conftest import write_checkpoint

pytestmark = pytest.mark.slow

LOG_END = 35
BATCHES = 7

Captured = pytest.CaptureFixture[str]


def verified(path: Path, capsys: Captured, *arguments: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """The exit code of `verify`, its findings, and its summary."""
    code = main(["verify", "--format", "jsonl", *arguments, str(path)])
    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, lines, last["summary"]


def rules(lines: list[dict[str, Any]], *severities: str) -> list[str]:
    return [line["rule"] for line in lines if line["severity"] in severities]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A log of 3,000 segments of one batch each; number 1,500 cannot be read."""
    root = tmp_path / "logs"
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    for offset in range(3000):
        (directory / f"{offset:020d}.log").write_bytes(handmade.simple_batch(offset, [(b"k", b"v")]))
    bad = directory / f"{1500:020d}.log"
    bad.unlink()
    bad.mkdir()
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    write_checkpoint(root, "replication-offset-checkpoint", orders=3000)
    (root / "meta.properties").write_text("version=0\nbroker.id=0\n")
    return root


def test_of_3000_segments_one_that_cannot_be_read_is_named_and_the_others_are_checked(
    many: Path, capsys: Captured
) -> None:
    code, lines, summary = verified(many, capsys)
    assert code == 3
    said = [line for line in lines if line["severity"] in ("warning", "error")]
    assert [Path(line["file"]).name for line in said] == [f"{1500:020d}.log"]
    assert (summary["files"], summary["records"]) == (2999, 2999)


@pytest.mark.parametrize("command", ["ledger", "dump"])
def test_the_other_2999_segments_are_shown(many: Path, command: str, capsys: Captured) -> None:
    assert main([command, "--format", "jsonl", str(many)]) == 3
    captured = capsys.readouterr()
    shown = [json.loads(line) for line in captured.out.splitlines()]
    if command == "dump":
        assert [line["offset"] for line in shown] == [offset for offset in range(3000) if offset != 1500]
    else:
        assert [(line["start_offset"], line["end_offset"]) for line in shown] == [
            *[(0, 1500), (1500, 1501), (1501, 3000)],
        ]
        assert shown[1]["state"] in ("unknown", "missing", "corrupt")
    assert f"{1500:020d}.log" in captured.err


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A log of two segments, 7 batches and 35 records, without any finding."""
    logs = LogDirectory(tmp_path / "logs")
    orders = logs.partition("orders-0")
    orders.append(20)
    orders.roll()
    orders.append(15)
    logs.high_watermarks(orders_0=LOG_END)
    return logs.path


def test_the_whole_log_has_no_warning_or_error(whole: Path, capsys: Captured) -> None:
    code, lines, summary = verified(whole, capsys)
    assert (code, rules(lines, "warning", "error")) == (0, [])
    assert (summary["batches"], summary["records"]) == (BATCHES, LOG_END)


@pytest.mark.parametrize(("epoch", "first", "said"), [(1, 5, []), (0, 99, ["checkpoint-beyond-log-end"])])
def test_leader_epochs_that_begin_above_the_log_start_are_one_finding_of_them(
    whole: Path, epoch: int, first: int, said: list[str], capsys: Captured
) -> None:
    (whole / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} {first}\n")
    _, lines, summary = verified(whole, capsys)
    ordinary = ("index-missing", "leader-epochs-unproven", "leader-epoch-differs")
    assert [line["rule"] for line in lines if line["rule"] not in ordinary] == said
    (epochs,) = (line for line in lines if line["rule"] == "leader-epochs-unproven")
    assert epochs["file"].endswith("orders-0/leader-epoch-checkpoint")
    assert f"begins at offset {first}, and the log at 0" in epochs["message"]
    assert summary["records"] == LOG_END
    assert main(["ledger", str(whole)]) == 0


@pytest.mark.parametrize("log_start", [5, 7])
def test_leader_epochs_that_begin_at_or_below_the_log_start_are_ordinary(
    whole: Path, log_start: int, capsys: Captured
) -> None:
    (whole / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 5\n")
    write_checkpoint(whole, "log-start-offset-checkpoint", orders=log_start)
    code, lines, _ = verified(whole, capsys)
    assert (code, {line["rule"] for line in lines}) == (0, {"index-missing"})


def snapshot() -> bytes:
    """A producer snapshot of one entry: version and checksum, a count, then entries; nothing follows."""
    entry = struct.pack(">qhiqiqiq", 9, 0, 1, 5, 0, 1_700_000_000_400, 0, -1)
    body = struct.pack(">i", 1) + entry
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


@pytest.mark.parametrize("length", [0, 1, 6, 9, 10, 30])
def test_a_producer_snapshot_that_ends_too_soon_is_one_finding_of_that_file(
    whole: Path, length: int, capsys: Captured
) -> None:
    (whole / "orders-0" / f"{LOG_END:020d}.snapshot").write_bytes(snapshot()[:length])
    code, lines, summary = verified(whole, capsys)
    assert code in (1, 2)
    assert {line["file"].rpartition("/")[2] for line in lines if line["severity"] != "info"} == {
        f"{LOG_END:020d}.snapshot"
    }
    assert summary["batches"] == BATCHES


def test_a_metadata_snapshot_without_its_footer_is_one_finding_of_that_file(tmp_path: Path, capsys: Captured) -> None:
    root = tmp_path / "logs"
    directory = root / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    header = handmade.control_batch(0, struct.pack(">hh", 0, 3), struct.pack(">hhq", 0, 0, 0) + b"\0")
    record = handmade.simple_batch(1, [(None, b"\x01")])
    (directory / f"{0:020d}.log").write_bytes(handmade.simple_batch(0, [(None, b"\x01")] * 9))
    (directory / f"{5:020d}-{1:010d}.checkpoint").write_bytes(header + record)
    _, lines, _ = verified(root, capsys)
    said = [(line["rule"], Path(line["file"]).suffix) for line in lines if line["severity"] == "error"]
    assert said == [("snapshot-not-whole", ".checkpoint")]


@pytest.mark.parametrize(
    "name", ["replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"]
)
def test_a_checkpoint_that_names_a_log_twice_is_named_and_the_log_is_checked(
    whole: Path, name: str, capsys: Captured
) -> None:
    (whole / name).write_text("0\n2\norders 0 5\norders 0 8\n")
    code, lines, summary = verified(whole, capsys)
    assert code != 0
    broken = [line for line in lines if line["rule"] == "broken-root-file"]
    assert [os.path.basename(line["file"]) for line in broken] == [name]
    assert "orders-0" in broken[0]["message"]
    assert (summary["batches"], summary["records"]) == (BATCHES, LOG_END)


def test_a_topic_with_a_typo_gets_the_nearest_name_and_exit_code_3(whole: Path, capsys: Captured) -> None:
    assert main(["verify", "--topic", "oders*", str(whole)]) == 3
    captured = capsys.readouterr()
    assert "orders" in captured.out + captured.err
    assert "oders*" in captured.out + captured.err


def test_one_pattern_of_two_that_matches_nothing_is_reported_and_the_other_is_checked(
    whole: Path, capsys: Captured
) -> None:
    code, _, summary = verified(whole, capsys, "--topic", "orders", "--topic", "paymnets")
    assert summary["files"] == 2
    assert code == 3


def write_limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.parametrize("form", ["jsonl", "csv", "arrow", "parquet", "text"])
def test_an_output_file_on_a_full_disk_is_one_message_and_leaves_nothing(
    whole: Path, tmp_path: Path, form: str
) -> None:
    # A file may have so many bytes and no more; Python turns the signal for it into an error, as a full disk gives one.
    content = handmade.simple_batch(0, [(b"k", os.urandom(3000)) for _ in range(20)], leader_epoch=3)
    orders = whole / "orders-0"
    for path in orders.iterdir():
        path.unlink()
    (orders / f"{0:020d}.log").write_bytes(content)
    write_checkpoint(whole, "replication-offset-checkpoint", orders=20)
    target = tmp_path / "out"
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "logcore.cli.main", "dump", "--format", form, "-o", str(target / "records"), str(whole)],
        cwd=REPOSITORY,
        env=os.environ | UNCOMPILED,
        capture_output=True,
        text=True,
        preexec_fn=write_limit,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"{target / 'records'}: it cannot be written" in done.stderr
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "mistake" not in done.stderr
    assert list(target.iterdir()) == []


def test_recover_on_a_full_disk_is_one_message_and_leaves_nothing(whole: Path, tmp_path: Path) -> None:
    orders = whole / "orders-0"
    content = handmade.simple_batch(0, [(b"k", bytes(9000))], leader_epoch=3)
    (orders / f"{0:020d}.log").write_bytes(content)
    target = tmp_path / "out"
    target.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "logcore.cli.main",
            "recover",
            str(orders),
            "--salvage",
            "--out",
            str(target / "orders-0"),
        ],
        cwd=REPOSITORY,
        env=os.environ | UNCOMPILED,
        capture_output=True,
        text=True,
        preexec_fn=write_limit,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    why = f"the output {target}/orders-0 cannot be written: {os.strerror(errno.EFBIG)}. Remove the cause"
    assert why in done.stderr
    assert "mistake" not in done.stderr
    assert list(target.iterdir()) == []


def test_properties_of_many_bytes_are_refused_before_they_are_read(whole: Path, capsys: Captured) -> None:
    # 16 MiB took 0.8 GiB to parse. A broker writes a few lines.
    for path in (whole / "meta.properties", whole / "orders-0" / "partition.metadata"):
        path.write_bytes(path.read_bytes() + bytes(2 << 20))
    code, lines, summary = verified(whole, capsys)
    assert code != 0
    rules = ("broken-partition-file", "no-meta-properties")
    said = {os.path.basename(line["file"]): line["message"] for line in lines if line["rule"] in rules}
    assert said.keys() == {"meta.properties", "partition.metadata"}
    assert all("at most 1048576 are allowed" in message for message in said.values())
    assert summary["batches"] == BATCHES
