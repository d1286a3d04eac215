"""A path where no log is: what was found there, and where the logs are. A segment alone is read wherever it lies."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory

Captured = pytest.CaptureFixture[str]
COMMANDS = (("verify",), ("ls",), ("ledger",), ("dump",), ("transactions",), ("offsets", "--at", "latest"))
SEGMENT = f"{30:020d}.log"


def logs(folder: Path) -> LogDirectory:
    root = LogDirectory(folder)
    orders = root.partition("orders-0")
    orders.next_offset = 30
    orders.append(10)
    orders.epochs([(0, 30)])
    root.high_watermarks(orders_0=40)
    return root


def parent(folder: Path) -> Path:
    for name in ("disk1", "disk2"):
        logs(folder / "data" / name)
    return folder


def text_logs(folder: Path) -> Path:
    for name in ("server.log", "controller.log", "kafkaServer-gc.log"):
        (folder / name).write_text("[2026-01-05 10:00:00,000] INFO [KafkaServer id=1] started (kafka.server)\n" * 9)
    return folder


def streams(folder: Path) -> Path:
    store = folder / "my-app" / "0_0" / "rocksdb" / "counts"
    store.mkdir(parents=True)
    (store / "000012.log").write_bytes(b"\x01\x02" * 70)
    (folder / "my-app" / "0_0" / ".checkpoint").write_text("0\n1\nmy-app-counts-changelog 0 12\n")
    return folder


def redpanda(folder: Path) -> Path:
    partition = folder / "kafka" / "orders" / "0_23"
    partition.mkdir(parents=True)
    (partition / "0-1-v1.log").write_bytes(bytes(range(70)))
    (partition / "0-1-v1.base_index").touch()
    return folder


def packed_segments(folder: Path) -> Path:
    (folder / "orders-0").mkdir()
    (folder / "orders-0" / f"{SEGMENT}.gz").write_bytes(gzip.compress(b"segment"))
    return folder


def tar_file(folder: Path) -> Path:
    logs(folder / "logs")
    with tarfile.open(folder / "kafka-logs.tar", "w") as archive:
        archive.add(folder / "logs", "logs")
    shutil.rmtree(folder / "logs")
    return folder / "kafka-logs.tar"


def gzip_file(folder: Path) -> Path:
    path = folder / f"{SEGMENT}.gz"
    path.write_bytes(gzip.compress(handmade.simple_batch(0, [(b"k", b"v")])))
    return path


def lake(folder: Path) -> Path:
    (folder / "lake.json").write_text("{}")
    (folder / "tables").mkdir()
    return folder


PLACES = (
    (parent, "is above the log directories {0}/data/disk1 {0}/data/disk2: name these."),
    (text_logs, "has text logs of a broker, not its data"),
    (lambda folder: text_logs(folder) / "server.log", "is a text file"),
    (streams, "has the state of a Kafka Streams application"),
    (lambda folder: streams(folder) / "my-app" / "0_0", "has the state of a Kafka Streams application"),
    (redpanda, "has data of Redpanda"),
    (lambda folder: redpanda(folder) / "kafka" / "orders" / "0_23", "has data of Redpanda"),
    (packed_segments, "has packed files. Unpack them"),
    (tar_file, "is a tar file. Unpack it"),
    (gzip_file, "is a gzip file. Unpack it"),
    (lake, "is a lake. `loglake verify {0}` verifies it"),
)


@pytest.mark.parametrize(("make", "expected"), PLACES)
def test_every_command_says_what_is_there(
    make: Callable[[Path], Path], expected: str, tmp_path: Path, capsys: Captured
) -> None:
    path = make(tmp_path)
    for command in COMMANDS[1 if make is lake else 0 :]:
        assert main([*command, str(path)]) == 3
        captured = capsys.readouterr()
        assert expected.format(path) in captured.out + captured.err


@pytest.mark.parametrize("name", [SEGMENT, "orders.log", f"{SEGMENT} (1).log", "attachment"])
@pytest.mark.parametrize("folder", ["orders-0", "Downloads", "."])
def test_a_segment_alone_is_read_under_any_name_in_any_directory(
    tmp_path: Path, folder: str, name: str, capsys: Captured
) -> None:
    source = logs(tmp_path / "logs").path / "orders-0" / SEGMENT
    path = tmp_path / "mail" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
    assert main(["dump", "--format", "jsonl", str(path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["offset"] for row in rows] == list(range(30, 40))
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders" if folder == "orders-0" else "unknown", 0)}
    for command in COMMANDS:
        assert main([*command, str(path)]) == 0
    capsys.readouterr()


def test_a_packed_segment_under_its_own_name_is_named(tmp_path: Path, capsys: Captured) -> None:
    """As the last segment too, of which a part might still be written."""
    path = logs(tmp_path / "logs").path / "orders-0" / SEGMENT
    for head in (b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00\x00\x40"):
        path.write_bytes(head + bytes(range(3, 103)))
        assert main(["verify", str(path.parent)]) == 2
        assert f"; unpack it: `{'zstd -dc' if head[0] == 0x28 else 'gunzip'} < {path} > " in capsys.readouterr().out


def test_segments_that_overlap_after_a_swap_are_named(tmp_path: Path, capsys: Captured) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    for _ in range(2):
        orders.append(10)
        orders.roll()
    orders.append(5)
    first, second, _ = orders.segments()
    first.write_bytes(first.read_bytes() + second.read_bytes())  # the cleaned one is in place, the old one is there
    root.high_watermarks(orders_0=25)
    assert main(["verify", str(root.path)]) == 2
    assert "the next segment begins at offset 10. Segments overlap in a copy" in capsys.readouterr().out


def test_dump_says_why_it_prints_nothing(tmp_path: Path, capsys: Captured) -> None:
    root = logs(tmp_path / "logs")
    # A log that ends below its start begins there, empty: a broker drops all its segments.
    for state, end, bounds in (
        ({"log-start": 60}, 60, "log start 60"),
        ({"replication": 30}, 40, "high watermark 30"),
    ):
        for name in ("log-start", "replication"):
            root.checkpoint(name, orders_0={"log-start": 30, "replication": 40}[name])
        for name, offset in state.items():
            root.checkpoint(name, orders_0=offset)
        assert main(["dump", str(root.path)]) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert f"orders-0 shows offsets none of [30, {end})" in captured.err
        assert bounds in captured.err
        assert main(["dump", "--all", str(root.path)]) == 0
        assert "none of" not in capsys.readouterr().err


@pytest.mark.parametrize(("offsets", "code"), [("39..", 0), ("40..", 0), ("41..", 3), ("..30", 3), ("0..9", 3)])
def test_offsets_outside_of_the_log_are_out_of_range(tmp_path: Path, offsets: str, code: int, capsys: Captured) -> None:
    assert main(["dump", "--offsets", offsets, str(logs(tmp_path / "logs").path)]) == code
    assert ("error nothing-chosen" in capsys.readouterr().err) == (code == 3)
