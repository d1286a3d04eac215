"""`dump --indexes`, `--snapshots` and `--checkpoints`: everything beside the segments, a line each."""

import json
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade

Captured = pytest.CaptureFixture[str]


def dump(capsys: Captured, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    assert main(["dump", "--format", "jsonl", *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def snapshot(*rows: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(rows)) + b"".join(struct.pack(">qhiqiqiq", *row) for row in rows)
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


@pytest.fixture
def orders(root: Path) -> Path:
    path = root / "orders-0"
    (path / "00000000000000000000.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 3, 4, 5))
    (path / "00000000000000000005.snapshot").write_bytes(snapshot((9, 0, 0, 3, 0, 1_700_000_000_200, 2, -1)))
    (path / "00000000000000000008.snapshot").write_bytes(
        snapshot((9, 0, 1, 5, 0, 1_700_000_000_400, 2, -1), (12, 1, -1, -1, 0, -1, -1, 6))
    )
    return path


def test_aborted_transactions_are_index_entries(orders: Path, capsys: Captured) -> None:
    lines = dump(capsys, "--indexes", str(orders))
    assert [line["index"] for line in lines] == ["offset", "time", "transaction"]
    assert lines[2] == {
        "topic": "orders",
        "partition": 0,
        "segment": 0,
        "index": "transaction",
        "producer_id": 9,
        "first_offset": 3,
        "last_offset": 4,
        "last_stable_offset": 5,
    }


@pytest.mark.parametrize(("offsets", "shown"), [("..3", False), ("3..4", True), ("4..", True), ("5..", False)])
def test_an_aborted_transaction_is_shown_where_it_touches_the_offsets(
    orders: Path, capsys: Captured, offsets: str, shown: bool
) -> None:
    lines = dump(capsys, "--indexes", "--offsets", offsets, str(orders))
    assert ("transaction" in [line["index"] for line in lines]) is shown


@pytest.mark.parametrize("content", [struct.pack(">hqqqq", 7, 9, 3, 4, 5), struct.pack(">hqqqq", 0, 9, 4, 3, 5)])
def test_a_transaction_index_that_cannot_be_read_is_a_warning(orders: Path, capsys: Captured, content: bytes) -> None:
    (orders / "00000000000000000000.txnindex").write_bytes(content)
    assert [line["index"] for line in dump(capsys, "--indexes", str(orders), code=1)] == ["offset", "time"]


def test_indexes_of_a_swap_under_way_are_those_of_the_segment_that_counts(orders: Path, capsys: Captured) -> None:
    batch = handmade.simple_batch(0, [(b"k", b"v")] * 5)
    (orders / "00000000000000000000.log.swap").write_bytes(batch)
    (orders / "00000000000000000000.index.swap").write_bytes(b"")
    (orders / "00000000000000000000.timeindex.swap").write_bytes(struct.pack(">qi", 77, 4))
    lines = dump(capsys, "--indexes", str(orders))
    assert [(line["index"], line["offset"]) for line in lines] == [("time", 4)]


def test_producers_are_lines_of_their_snapshots(orders: Path, capsys: Captured) -> None:
    lines = dump(capsys, "--snapshots", str(orders))
    assert [(line["snapshot"], line["producer_id"]) for line in lines] == [(5, 9), (8, 9), (8, 12)]
    assert lines[2] == {
        "topic": "orders",
        "partition": 0,
        "snapshot": 8,
        "producer_id": 12,
        "producer_epoch": 1,
        "last_sequence": -1,
        "last_offset": -1,
        "offset_delta": 0,
        "timestamp": -1,
        "coordinator_epoch": -1,
        "current_txn_first_offset": 6,
    }


def test_snapshots_can_be_chosen_by_offset_producer_and_number(orders: Path, capsys: Captured) -> None:
    assert len(dump(capsys, "--snapshots", "--offsets", "6..", str(orders))) == 2
    assert len(dump(capsys, "--snapshots", "--producer-id", "9", str(orders))) == 2
    assert len(dump(capsys, "--snapshots", "--limit", "1", str(orders))) == 1


def test_an_empty_snapshot_is_a_line_that_says_so(orders: Path, capsys: Captured) -> None:
    (orders / "00000000000000000005.snapshot").write_bytes(bytes.fromhex("000148674bc700000000"))
    lines = dump(capsys, "--snapshots", "--offsets", "..6", str(orders))
    assert lines == [{"topic": "orders", "partition": 0, "snapshot": 5, "entries": 0}]


def test_a_damaged_snapshot_is_a_warning_and_the_rest_continues(orders: Path, capsys: Captured) -> None:
    path = orders / "00000000000000000005.snapshot"
    path.write_bytes(handmade.flip(path.read_bytes(), 20))
    assert [line["snapshot"] for line in dump(capsys, "--snapshots", str(orders), code=1)] == [8, 8]


def test_text_says_the_same_by_name(orders: Path, capsys: Captured) -> None:
    assert main(["dump", "--snapshots", "--limit", "1", str(orders)]) == 0
    assert "snapshot 5  producer_id 9  producer_epoch 0  last_sequence 0" in capsys.readouterr().out


def test_marks_and_what_kraft_keeps_are_lines_too(orders: Path, capsys: Captured) -> None:
    root = orders.parent
    (root / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":11}')
    (root / ".lock").touch()
    (root / "bootstrap.checkpoint").write_bytes(b"x" * 609)
    metadata = root / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "00000000000000000000.log").touch()
    (metadata / "00000000000000000064-0000000001.checkpoint").write_bytes(b"y" * 2995)
    (metadata / "quorum-state").write_text('{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":1}')
    lines = {str(line["file"]): line for line in dump(capsys, "--checkpoints", str(root))}
    assert lines[".kafka_cleanshutdown"] == {"file": ".kafka_cleanshutdown", "broker_epoch": 11}
    assert lines[".lock"] == {"file": ".lock", "bytes": 0}
    assert lines["bootstrap.checkpoint"] == {"file": "bootstrap.checkpoint", "bytes": 609}
    place = {"topic": "__cluster_metadata", "partition": 0}
    assert lines["00000000000000000064-0000000001.checkpoint"] == {
        "file": "00000000000000000064-0000000001.checkpoint",
        **place,
        "end_offset": 64,
        "epoch": 1,
        "bytes": 2995,
    }
    assert lines["quorum-state"] == {
        "file": "quorum-state",
        **place,
        "leaderId": 1,
        "leaderEpoch": 2,
        "votedId": -1,
        "data_version": 1,
    }


def test_a_clean_shutdown_marker_of_an_old_broker_is_empty(orders: Path, capsys: Captured) -> None:
    (orders.parent / ".kafka_cleanshutdown").touch()
    lines = dump(capsys, "--checkpoints", str(orders))
    assert {"file": ".kafka_cleanshutdown", "broker_epoch": None} in lines


def test_a_broken_quorum_state_is_a_warning(orders: Path, capsys: Captured) -> None:
    (orders / "quorum-state").write_text("{")
    assert "quorum-state" not in [line["file"] for line in dump(capsys, "--checkpoints", str(orders), code=1)]


def test_a_log_directory_shows_the_lines_of_partitions_that_are_not_there(orders: Path, capsys: Captured) -> None:
    (orders.parent / "recovery-point-offset-checkpoint").write_text("0\n3\norders 0 8\ngone 3 17\norders 1 5\n")

    def points(*arguments: str, code: int = 2) -> list[tuple[object, object]]:  # orders-1 is lost
        lines = dump(capsys, "--checkpoints", *arguments, code=code)
        name = "recovery-point-offset-checkpoint"
        return [(line["topic"], line["partition"]) for line in lines if line["file"] == name]

    assert points(str(orders.parent)) == [("gone", 3), ("orders", 0), ("orders", 1)]
    assert points(str(orders), code=0) == [("orders", 0)]
    assert points(str(orders.parent), "--topic", "orders") == [("orders", 0), ("orders", 1)]
    assert points(str(orders.parent), "--partition", "3", code=1) == [("gone", 3)]


def test_a_log_directory_without_partitions_shows_its_files_too(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"xyz")
    lines = dump(capsys, "--checkpoints", str(tmp_path))
    assert [line["file"] for line in lines] == ["meta.properties", "bootstrap.checkpoint"]
