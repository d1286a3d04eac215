"""`loglake metadata`, `topics` and `groups` on the data directory of a ZooKeeper."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from logcore.reading.internal_topics import zookeeper_nodes
from logcore.records.compression import Codec, compress
from tests.zookeeper_files import (
    CLIENT,
    END_SESSION,
    OPEN_SESSION,
    as_json,
    change,
    create,
    log,
    node,
    numbered,
    small_cluster,
    snapshot,
    transaction,
    write,
)

Captured = pytest.CaptureFixture[str]

START = snapshot(*small_cluster())
NEW_LEADER = as_json(controller_epoch=1, leader=8, version=1, leader_epoch=4, isr=[8])
STATE = "/brokers/topics/orders/partitions/0/state"
SETTINGS = "/config/topics/orders"
LATER = (change(STATE, NEW_LEADER, 5), change(SETTINGS, as_json(version=1, config={"retention.ms": "6"})))


def rows(capsys: Captured, command: str, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    """The rows, and a row for each line about a finding."""
    found = main([command, *map(str, arguments), "--format", "jsonl"])
    captured = capsys.readouterr()
    assert found == code, captured.err
    said = [{"kind": "finding", "rule": line.split()[1].rstrip(":")} for line in captured.err.splitlines()]
    return [*said, *(json.loads(line) for line in captured.out.splitlines())]


def leader(shown: list[dict[str, Any]]) -> int:
    (topic,) = [row for row in shown if row["kind"] == "topic"]
    number: int = topic["partitions"][0]["leader"]
    return number


def findings(shown: list[dict[str, Any]]) -> list[str]:
    return [row["rule"] for row in shown if row["kind"] == "finding"]


def test_the_data_directory_and_version_2_give_the_same_rows_with_controller_and_cluster(
    tmp_path: Path, capsys: Captured
) -> None:
    write(tmp_path, {"snapshot.8": START, "log.9": numbered(*LATER, first=9)})
    shown = rows(capsys, "metadata", tmp_path)
    assert shown == rows(capsys, "metadata", tmp_path / "version-2")
    kinds = [row["kind"] for row in shown]
    assert kinds == ["cluster", "controller", "broker", "setting", "topic", "summary"]
    assert (shown[0]["cluster_id"], shown[1]["broker"]) == ("0123456789abcdefghijkl", 7)
    assert leader(shown) == 8
    assert (shown[3]["value"], shown[3]["offset"], shown[3]["committed"]) == ("6", 10, True)
    assert (shown[-1]["end_offset"], shown[-1]["snapshot_end"]) == (11, 9)


def test_topics_lists_partitions_and_null_for_an_id_that_the_cluster_did_not_have(
    tmp_path: Path, capsys: Captured
) -> None:
    write(tmp_path, {"snapshot.8": START})
    (topic,) = rows(capsys, "topics", tmp_path)
    assert (topic["topic"], topic["topic_id"]) == ("orders", None)
    assert [(row["partition"], row["replicas"], row["isr"]) for row in topic["partitions"]] == [
        (0, [7, 8], [7]),
        (1, [8, 7], []),
    ]
    assert main(["topics", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("orders  -  retention.ms=5")


def test_groups_lists_old_consumers_as_members_and_owners_as_assignment(tmp_path: Path, capsys: Captured) -> None:
    write(tmp_path, {"snapshot.8": START})
    (group,) = rows(capsys, "groups", tmp_path)
    assert (group["group"], group["type"], group["state"], group["coordinator_partition"]) == (
        *("g", "ZooKeeper", "Stable"),
        None,
    )
    (member,) = group["members"]
    assert (member["member_id"], member["assignment"]) == ("g_h-1-ab", [{"topic": "orders", "partitions": [0]}])
    assert [(each["topic"], each["partition"], each["offset"]) for each in group["offsets"]] == [("orders", 0, 42)]
    assert rows(capsys, "groups", tmp_path, "--group", "g") == [group]


def test_a_moment_is_the_number_of_a_transaction_or_a_time(tmp_path: Path, capsys: Captured) -> None:
    write(tmp_path, {"snapshot.8": START, "log.9": numbered(*LATER, first=9), "snapshot.a": START})
    assert leader(rows(capsys, "metadata", tmp_path, "--at", "9")) == 7
    assert leader(rows(capsys, "metadata", tmp_path, "--at", "10")) == 8
    assert leader(rows(capsys, "metadata", tmp_path, "--at", "1970-01-01T00:00:08.999Z")) == 7
    assert (
        leader(rows(capsys, "metadata", tmp_path, "--at", "1970-01-01T00:00:09Z")) == 7
    )  # the newest snapshot says so


def test_nodes_of_a_closed_session_are_gone_also_if_only_the_snapshot_knew_them(
    tmp_path: Path, capsys: Captured
) -> None:
    write(tmp_path, {"snapshot.8": START, "log.9": numbered(END_SESSION, first=9)})
    assert not {"controller", "broker"} & {row["kind"] for row in rows(capsys, "metadata", tmp_path)}
    assert rows(capsys, "groups", tmp_path)[0]["members"] == []


@pytest.mark.parametrize("is_packed", [False, True])
def test_half_a_snapshot_is_a_warning_and_an_earlier_one_is_used(
    is_packed: bool, tmp_path: Path, capsys: Captured
) -> None:
    half = gzip.compress(START)[:-200] if is_packed else START[:-30]
    write(
        tmp_path,
        {"snapshot.8": START, "log.9": numbered(*LATER, first=9), "snapshot.a" + ".gz" * is_packed: half},
    )
    shown = rows(capsys, "metadata", tmp_path, code=1)
    assert findings(shown) == ["zookeeper-cut-off"]
    assert leader(shown) == 8


def test_half_a_snapshot_alone_gives_what_it_has(tmp_path: Path, capsys: Captured) -> None:
    write(tmp_path, {"snapshot.8": START[:-30]})
    shown = rows(capsys, "metadata", tmp_path, code=1)
    assert findings(shown) == ["zookeeper-cut-off"]
    assert leader(shown) == 7


def test_packed_snapshots_are_read(tmp_path: Path, capsys: Captured) -> None:
    write(tmp_path, {"snapshot.8.gz": gzip.compress(START)})
    assert leader(rows(capsys, "metadata", tmp_path)) == 7


@pytest.mark.parametrize("suffix", [".gz", ".snappy"])
def test_a_packed_snapshot_with_too_many_bytes_is_not_read(
    suffix: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = {".gz": gzip.compress(START), ".snappy": compress(Codec.SNAPPY, START)}[suffix]
    write(tmp_path, {"snapshot.8": START, f"snapshot.a{suffix}": packed})
    monkeypatch.setattr(zookeeper_nodes, "_MOST_UNPACKED", len(START))
    assert findings(rows(capsys, "metadata", tmp_path)) == []
    monkeypatch.setattr(zookeeper_nodes, "_MOST_UNPACKED", len(START) - 1)
    assert main(["metadata", str(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert f"more than {len(START) - 1} bytes unpacked" in captured.err
    assert "orders" in captured.out


def test_a_torn_transaction_is_a_warning_and_those_before_it_count(tmp_path: Path, capsys: Captured) -> None:
    torn = log(transaction(9, LATER[0]), transaction(10, LATER[1])[:-7])
    write(tmp_path, {"snapshot.8": START, "log.9": torn})
    shown = rows(capsys, "metadata", tmp_path, code=1)
    assert findings(shown) == ["zookeeper-cut-off"]
    assert leader(shown) == 8


def test_a_wrong_sum_in_a_log_is_damage_and_the_rest_goes_on(tmp_path: Path, capsys: Captured) -> None:
    data = bytearray(numbered(create("/x", "y"), *LATER, first=9))
    data[60] ^= 4
    write(tmp_path, {"snapshot.8": START, "log.9": bytes(data)})
    shown = rows(capsys, "metadata", tmp_path, code=2)
    assert findings(shown) == ["zookeeper-damaged"]
    assert leader(shown) == 8


def test_a_wrong_sum_of_a_snapshot_is_damage_and_an_earlier_one_is_used(tmp_path: Path, capsys: Captured) -> None:
    wrong = bytearray(START)
    wrong[200] ^= 1
    write(tmp_path, {"snapshot.8": START, "log.9": numbered(*LATER, first=9), "snapshot.a": bytes(wrong)})
    shown = rows(capsys, "metadata", tmp_path, code=2)
    assert findings(shown) == ["zookeeper-damaged"]
    assert leader(shown) == 8
    (tmp_path / "version-2" / "snapshot.8").unlink()
    (tmp_path / "version-2" / "log.9").unlink()
    assert leader(rows(capsys, "metadata", tmp_path, code=2)) == 7


def test_transactions_between_files_that_are_gone_are_noticed(tmp_path: Path, capsys: Captured) -> None:
    write(tmp_path, {"snapshot.8": START, "log.b": numbered(*LATER, first=11)})
    shown = rows(capsys, "metadata", tmp_path, code=1)
    assert findings(shown) == ["zookeeper-transactions-missing"]
    assert leader(shown) == 8


def test_the_first_transaction_of_a_later_epoch_follows_any_other(tmp_path: Path, capsys: Captured) -> None:
    data = numbered(OPEN_SESSION, *LATER, first=(2 << 32) + 1)
    write(tmp_path, {"snapshot.8": START, "log.200000001": data})
    assert leader(rows(capsys, "metadata", tmp_path)) == 8


def topics(shown: list[dict[str, Any]]) -> set[str]:
    return {row["topic"] for row in shown if row["kind"] == "topic"}


@pytest.mark.parametrize("first", [0x51, 0x200000001, 0x500000001])
def test_logs_of_a_later_time_alone_are_not_the_whole_history(first: int, tmp_path: Path, capsys: Captured) -> None:
    new = create("/brokers/topics/new", as_json(version=1, partitions={"0": [7]}))
    write(tmp_path, {f"log.{first:x}": numbered(new, first=first)})
    shown = rows(capsys, "metadata", tmp_path, code=1)
    assert findings(shown) == ["zookeeper-transactions-missing"]
    assert topics(shown) == {"new"}
    assert main(["groups", str(tmp_path)]) == 1


@pytest.mark.parametrize("first", [0, 1, 0x100000001])
def test_logs_from_the_first_transaction_on_need_no_snapshot(first: int, tmp_path: Path, capsys: Captured) -> None:
    new = create("/brokers/topics/new", as_json(version=1, partitions={"0": [7]}))
    write(tmp_path, {f"log.{first:x}": numbered(new, first=first)})
    assert topics(rows(capsys, "metadata", tmp_path)) == {"new"}


@pytest.mark.parametrize("first", [9, 0x500000001])
def test_half_a_snapshot_counts_with_logs_that_are_not_the_whole_history(
    first: int, tmp_path: Path, capsys: Captured
) -> None:
    new = create("/brokers/topics/new", as_json(version=1, partitions={"0": [7]}))
    write(tmp_path, {"snapshot.8": START[:-30], f"log.{first:x}": numbered(new, first=first)})
    shown = rows(capsys, "metadata", tmp_path, code=1)
    assert findings(shown) == ["zookeeper-cut-off", "zookeeper-transactions-missing"]
    assert topics(shown) == {"orders", "new"}


def test_a_moment_before_the_first_file_is_not_known(tmp_path: Path, capsys: Captured) -> None:
    write(tmp_path, {"snapshot.8": START, "log.9": numbered(*LATER, first=9)})
    shown = rows(capsys, "metadata", tmp_path, "--at", "3", code=1)
    assert findings(shown) == ["zookeeper-transactions-missing"]


def test_a_directory_without_logs_of_kafka_is_an_error_of_other_commands_that_names_these(
    tmp_path: Path, capsys: Captured
) -> None:
    write(tmp_path, {"snapshot.8": START})
    assert main(["verify", str(tmp_path)]) == 3
    assert "`loglake metadata`, `topics` and `groups` read it" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_half_of_a_surrogate_pair_in_a_node_is_printed(form: str, tmp_path: Path, capsys: Captured) -> None:
    cluster = node("/cluster/id", r'{"version":"1","id":"\ud800"}')
    broker = node("/brokers/ids/9", r'{"endpoints":["A://\ud800:1"],"rack":"\ud800\u001b"}', owner=CLIENT)
    write(tmp_path, {"snapshot.8": snapshot(*small_cluster(), cluster, broker)})
    assert main(["metadata", str(tmp_path), "--format", form]) == 0
    assert capsys.readouterr().out.count("\ufffd") == 3


def test_a_node_of_a_megabyte_is_read(tmp_path: Path, capsys: Captured) -> None:
    many = {str(number): [7, 8] for number in range(60_000)}
    nodes = (create("/brokers/topics/wide", as_json(version=1, partitions=many)),)
    assert len(nodes[0][1]) > 900_000
    write(tmp_path, {"snapshot.8": START, "log.9": numbered(*nodes, first=9)})
    assert rows(capsys, "metadata", tmp_path)[-1]["partitions"] == 60_002
