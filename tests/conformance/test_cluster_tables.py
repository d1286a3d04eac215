"""The tables of internal topics say what the Admin API of the broker said before it stopped."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig, JobReport
from tests.conformance.conftest import Corpus
from tests.conformance.oracles import Consumed, consumed
from tests.conformance.snapshots import snapshot
from tests.spark.cycle import AS_OF_MS, Lake

GROUPS = ("internal-topics-4.4.0/logdir", "internal-topics-4.4.0/compacted")
METADATA = "cluster-metadata-4.4.0/logdir"
TIERED = "tiered-4.3.1/logdir"
COMMIT_KEY = 1

Rows = list[dict[str, Any]]


def cluster(lake: Lake, source: Path) -> JobReport:
    return launch.run(ClusterConfig(str(lake.path), "cluster", AS_OF_MS, (str(source),)))


def made(corpus: Corpus, name: str, path: Path) -> Lake:
    """A lake of a snapshot, with the tables."""
    lake = Lake(path)
    source = corpus.directory(snapshot(name))
    lake.turn(source)
    cluster(lake, source)
    return lake


def answer(corpus: Corpus, name: str, file: str) -> Any:
    return json.loads(corpus.oracle(snapshot(name), file).read_text())


@pytest.mark.parametrize("name", GROUPS)
def test_groups_members_and_offsets_are_those_that_the_broker_described(
    corpus: Corpus, tmp_path: Path, name: str
) -> None:
    lake = made(corpus, name, tmp_path / "lake")
    members, offsets = lake.rows("cluster_group_members"), lake.rows("cluster_group_offsets")
    ours = {
        row["group"]: {
            "group": row["group"],
            "type": row["type"],
            "state": row["state"],
            "assignor": row["assignor"] or ("uniform" if row["type"] == "Consumer" else ""),
            "members": sorted(
                (
                    {field: each[field] for field in ("member_id", "instance_id", "client_id", "host", "assignment")}
                    for each in members
                    if each["group"] == row["group"]
                ),
                key=lambda each: each["member_id"],
            ),
            "offsets": {
                f"{each['topic']}-{each['partition']}": {
                    "offset": each["committed_offset"],
                    "leader_epoch": each["leader_epoch"],
                    "metadata": each["metadata"],
                }
                for each in offsets
                if each["group"] == row["group"]
            },
        }
        for row in lake.rows("cluster_groups")
        if row["type"] != "Share"
    }
    theirs = {
        entry["group"]: entry for entry in answer(corpus, name, "group_describe.json") if "describe_error" not in entry
    }
    for entry in theirs.values():
        entry["members"] = sorted(entry["members"], key=lambda member: member["member_id"])
        for member in entry["members"]:
            member["assignment"] = sorted(member["assignment"])
    assert len(theirs) >= 8
    assert ours == theirs


def commits_of(records: Iterable[Consumed]) -> list[tuple[str, str, int, int | None, int]]:
    """Group, topic, partition, committed offset and record offset of each commit, by `struct` alone."""
    found = []
    for record in records:
        assert record.key is not None
        if struct.unpack_from(">h", record.key)[0] != COMMIT_KEY:
            continue
        at, names = 2, []
        for _ in range(2):
            (length,) = struct.unpack_from(">h", record.key, at)
            names.append(record.key[at + 2 : at + 2 + length].decode())
            at += 2 + length
        (partition,) = struct.unpack_from(">i", record.key, at)
        committed = None if record.value is None else struct.unpack_from(">q", record.value, 2)[0]
        found.append((*names, partition, committed, record.offset))
    return found


@pytest.mark.parametrize("name", GROUPS)
def test_offset_commits_are_those_that_a_consumer_of_committed_records_received(
    corpus: Corpus, tmp_path: Path, name: str
) -> None:
    rows = made(corpus, name, tmp_path / "lake").rows("cluster_offset_commits")
    received = consumed(corpus.oracle(snapshot(name), "read_committed.jsonl"))
    logs = {place: records for place, records in received.items() if place.startswith("__consumer_offsets-")}
    assert sum(len(commits_of(records)) for records in logs.values()) > 20
    for place, records in logs.items():
        ours = [
            (row["group"], row["topic"], row["partition"], row["committed_offset"], row["record_offset"])
            for row in rows
            if row["internal_log"].endswith(f"/{place}")
        ]
        assert sorted(ours, key=lambda commit: commit[-1]) == commits_of(records)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        (GROUPS[0], 3),
        ("transactions-4.4.0/logdir", 6),
        ("transactions-3.9.2/logdir", 6),
        ("recovery-kill9-4.4.0/after", 1),
    ],
)
def test_transactional_ids_are_those_that_the_broker_described(
    corpus: Corpus, tmp_path: Path, name: str, count: int
) -> None:
    lake = Lake(tmp_path / "lake")
    cluster(lake, corpus.directory(snapshot(name)))
    ours = {
        row["transactional_id"]: {
            "transactional_id": row["transactional_id"],
            "producer_id": row["producer_id"],
            "producer_epoch": row["producer_epoch"],
            "timeout_ms": row["timeout_ms"],
            "state": row["state"],
            "partitions": row["partitions"],
            "start_ms": None if row["start_time"] is None else round(row["start_time"].timestamp() * 1000),
        }
        for row in lake.rows("cluster_transactional_ids")
    }
    theirs = {entry["transactional_id"]: entry for entry in answer(corpus, name, "transactions.json")}
    assert len(theirs) == count
    assert ours == {
        transactional_id: entry | {"partitions": sorted(entry["partitions"])}
        for transactional_id, entry in theirs.items()
    }


def valid_at(rows: Rows, offset: int) -> Rows:
    """Rows that count in the state before an offset."""
    return [
        row
        for row in rows
        if row["valid_from_offset"] < offset and (row["valid_to_offset"] is None or row["valid_to_offset"] >= offset)
    ]


def test_topics_settings_and_partitions_are_those_of_the_admin_api(corpus: Corpus, tmp_path: Path) -> None:
    lake = made(corpus, METADATA, tmp_path / "lake")
    moment = answer(corpus, METADATA, "quorum.json")["high_watermark"]
    topics = {row["topic"]: row["topic_id"] for row in valid_at(lake.rows("cluster_topics"), moment)}
    partitions = valid_at(lake.rows("cluster_partitions"), moment)
    ours = {
        topic: {
            "topic_id": topic_id,
            "partitions": [
                {field: row[field] for field in ("partition", "leader", "replicas", "isr")}
                for row in sorted(partitions, key=lambda row: row["partition"])
                if row["topic_id"] == topic_id
            ],
        }
        for topic, topic_id in topics.items()
    }
    assert ours == answer(corpus, METADATA, "topics.json")
    assert len(ours) > 10
    settings: dict[str, dict[str, str]] = {}
    for row in valid_at(lake.rows("cluster_topic_configs"), moment):
        settings.setdefault(row["topic"], {})[row["name"]] = row["value"]
    assert settings == answer(corpus, METADATA, "topic_configs.json")


def test_features_are_those_of_the_admin_api(corpus: Corpus, tmp_path: Path) -> None:
    rows = made(corpus, METADATA, tmp_path / "lake").rows("cluster_features")
    now = {row["name"]: row["level"] for row in rows if row["valid_to_offset"] is None}
    assert now == answer(corpus, METADATA, "features.json")


def test_what_no_snapshot_covers_is_tentative(corpus: Corpus, tmp_path: Path) -> None:
    """The log without the later half of its snapshots."""
    directory = corpus.directory(snapshot(METADATA)) / "__cluster_metadata-0"
    snapshots = sorted(directory.glob("*.checkpoint"))
    snapshots = snapshots[: len(snapshots) // 2 + 1]
    source, lake = tmp_path / directory.name, Lake(tmp_path / "lake")
    source.mkdir()
    for path in [*directory.glob("*.log"), *snapshots]:
        shutil.copy2(path, source)
    lake.turn(source)
    cluster(lake, source)
    covered = int(snapshots[-1].name[:20])
    rows = [row for name in ("partitions", "brokers", "topics") for row in lake.rows(f"cluster_{name}")]
    for row in rows:
        known = row["valid_from_offset"] if row["valid_to_offset"] is None else row["valid_to_offset"]
        assert row["standing"] == ("committed" if known < covered else "tentative")
    assert {row["standing"] for row in rows} == {"committed", "tentative"}


def test_no_secret_of_the_cluster_is_in_a_file_of_the_lake(corpus: Corpus, tmp_path: Path) -> None:
    """Salts and keys of SCRAM are in the dump tool's output, as are values of settings that are passwords."""
    case = corpus.case(snapshot(METADATA))
    dumps = case.glob("oracle/logdir/dump/__cluster_metadata-0/*.decoded.txt")
    texts = "".join(path.read_text() for path in dumps)
    secrets = set(re.findall(r'"(?:salt|storedKey|serverKey)":"([^"]+)"', texts))
    assert len(secrets) >= 9
    lake = made(corpus, METADATA, tmp_path / "lake")
    written = [*lake.path.glob("tables/cluster_*/*.parquet"), *lake.path.glob("tables/*/_delta_log/*.json")]
    assert len(written) > 5
    shown = "".join(str(lake.rows(path.name)) for path in lake.path.glob("tables/cluster_*"))
    content = b"".join(path.read_bytes() for path in written)
    assert not any(secret in shown or secret.encode() in content for secret in secrets)


def test_remote_segments_are_those_that_a_consumer_of_their_metadata_received(corpus: Corpus, tmp_path: Path) -> None:
    """A record that begins a copy has the api key 0; topic id and segment id are compared as bytes elsewhere."""
    rows = made(corpus, TIERED, tmp_path / "lake").rows("cluster_remote_segments")
    records = [
        record
        for place, received in consumed(corpus.oracle(snapshot(TIERED), "remote_log_metadata.jsonl")).items()
        if place.startswith("__remote_log_metadata-")
        for record in received
    ]
    begun = [record for record in records if record.value is not None and record.value[:3] == b"\x01\x00\x00"]
    assert len(rows) == len(begun) > 5
    assert {row["state"] for row in rows} >= {"COPY_SEGMENT_FINISHED"}


@pytest.mark.parametrize("name", [GROUPS[0], METADATA])
def test_a_second_run_writes_nothing(corpus: Corpus, tmp_path: Path, name: str) -> None:
    lake = made(corpus, name, tmp_path / "lake")
    before = lake.versions()
    report = cluster(lake, corpus.directory(snapshot(name)))
    assert lake.versions() == before
    assert not any(report.plan.rows.values())


def test_two_lakes_have_the_same_rows_in_the_same_order(corpus: Corpus, tmp_path: Path) -> None:
    for name in (GROUPS[0], METADATA):
        one, other = (made(corpus, name, tmp_path / f"{name.partition('/')[0]}-{number}") for number in range(2))
        tables = sorted(path.name for path in one.path.glob("tables/cluster_*"))
        assert len(tables) >= 4
        assert {table: one.rows(table) for table in tables} == {table: other.rows(table) for table in tables}
