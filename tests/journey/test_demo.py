"""`make demo`: what real clusters hold equals what real consumers read, and a second time there is nothing new."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.spark.event_logs import shuffled_bytes

pytestmark = pytest.mark.dagster

UNDAMAGED = ["codecs-v2-4.3.1", "internal-topics-4.4.0", "timestamps-v2-4.4.0", "transactions-4.4.0"]
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def _rows(lake: Path, table: str) -> list[dict[str, Any]]:
    return DeltaTable(str(lake / "tables" / table)).to_pyarrow_table().to_pylist()


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _as_consumed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `records` in the words of the consumer's oracle."""
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp_ms"],
        "timestamp_type": TIMESTAMP_TYPES[row["timestampType"]],
        "key": _text(row["key"]),
        "value": _text(row["value"]),
        "headers": [[header["key"], _text(header["value"])] for header in row["headers"] or ()],
        "leader_epoch": row["leader_epoch"],
    }


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def _published(lake: Path) -> list[dict[str, Any]]:
    return sorted(map(_as_consumed, _rows(lake, "records")), key=_place)


@pytest.mark.parametrize("name", UNDAMAGED)
def test_records_of_an_undamaged_cluster_are_what_its_consumer_read_committed(name, demo, sample):
    consumed = [line for line in sample(name).consumed() if not line["topic"].startswith("__")]
    assert len(consumed) > 100
    assert _published(demo.lake(name)) == sorted(consumed, key=_place)


@pytest.mark.parametrize("name", UNDAMAGED)
def test_timestamps_in_the_table_are_the_raw_ones_in_microseconds(name, demo):
    for row in _rows(demo.lake(name), "records"):
        assert int(row["timestamp"].timestamp() * 1000 + 0.5) == row["timestamp_ms"]


def test_the_question_about_decoded_rows_has_the_answer_of_the_values_that_the_consumer_read(demo, sample):
    orders: dict[str, list[float]] = {}
    for line in sample("codecs-v2-4.3.1").consumed():
        if line["topic"] == "codec-none" and line["value"] is not None:
            text = base64.b64decode(line["value"])
            with contextlib.suppress(ValueError):
                value = json.loads(text)
                if isinstance(value, dict):
                    orders.setdefault(value["name"], []).append(value["amount"])
    largest = sorted(((sum(amounts), len(amounts), name) for name, amounts in orders.items()), reverse=True)[:3]
    assert len(largest) == 3
    said = demo.outputs["make demo"].stdout
    lines = [line.split() for line in said.splitlines()]
    begin = lines.index(["name", "orders", "amount"]) + 1
    assert lines[begin : begin + 3] == [[name, str(count), f"{round(total, 2)}"] for total, count, name in largest]


@pytest.mark.parametrize("name", UNDAMAGED)
def test_the_ledger_counts_what_the_consumer_saw_and_tiles_every_log(name, demo, sample):
    ledger: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in _rows(demo.lake(name), "offset_ledger"):
        ledger.setdefault((row["topic"], row["partition"]), []).append(row)
    committed, uncommitted = sample(name).summary(), sample(name).summary("read_uncommitted")
    for topic_partition, seen in committed.items():
        topic, _, partition = topic_partition.rpartition("-")
        if topic.startswith("__"):
            continue
        if not uncommitted[topic_partition]["end"]:  # never written to: nothing to account for
            assert (topic, int(partition)) not in ledger
            continue
        ranges = sorted(ledger[topic, int(partition)], key=lambda r: r["start_offset"])
        assert ranges[0]["start_offset"] == 0
        assert all(a["end_offset"] == b["start_offset"] for a, b in pairwise(ranges))
        assert ranges[-1]["end_offset"] == uncommitted[topic_partition]["end"]
        decided = [r for r in ranges if r["state"] != "open"]
        assert (
            decided[-1]["end_offset"] == seen["end"]
        )  # the last stable offset, as the broker reported it to its consumer
        assert sum(r["records"] for r in ranges if r["state"] == "present") == seen["records"]
        assert all(r["published"] for r in decided)
        assert not any(r["published"] for r in ranges if r["state"] == "open")


def test_internal_topics_are_validated_and_not_published(demo):
    lake = demo.lake("internal-topics-4.4.0")
    validated = {row["topic"] for row in _rows(lake, "offset_ledger")}
    assert {"__consumer_offsets", "__transaction_state", "__share_group_state"} <= validated
    assert not [row for row in _rows(lake, "records") if row["topic"].startswith("__")]
    assert "delete-directory" in {row["rule"] for row in _rows(lake, "findings")}


def test_the_damaged_cluster_is_what_its_stated_expectation_says(demo, sample, expected_of_damaged):
    lake = demo.lake("damaged")
    consumed = {_place(line): line for line in sample("damaged").consumed("read_uncommitted")}
    published: dict[str, list[dict[str, Any]]] = {}
    for row in _published(lake):
        published.setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
    ledger, findings, validated = (_rows(lake, name) for name in ("offset_ledger", "findings", "validations"))
    for name, expected in expected_of_damaged.items():
        topic = name.rpartition("-")[0]
        rows = published.get(name, [])
        assert [row["offset"] for row in rows] == expected["published_offsets"], name
        assert rows == [consumed[topic, 0, offset] for offset in expected["published_offsets"]], name
        mine = [r for r in ledger if r["topic"] == topic]
        stated = ("start_offset", "end_offset", "state")
        found = _merged(sorted(([r[key] for key in stated] for r in mine), key=lambda r: r[0]))
        rows = [r | ({"state": "present"} if r.get("marker") == "COMMIT" else {}) for r in expected["ledger"]]
        assert found == _merged([[r[key] for key in stated] for r in rows]), name
        for stated_finding in expected["findings"]:
            assert any(_says(finding, topic, stated_finding) for finding in findings), (name, stated_finding)
        errors = {f["rule"] for f in findings if f["topic"] == topic and f["severity"] == "error"}
        assert errors <= {f["rule"] for f in expected["findings"]} | {"corrupt-offsets", "missing-offsets"}, name
        assert sum(r["quarantined_bytes"] for r in validated if r["topic"] == topic) == expected["quarantined_bytes"], (
            name
        )
        assert sum(r["file_bytes"] for r in validated if r["topic"] == topic) == sum(
            expected["archived_bytes"].values()
        )


def _merged(ranges: list[list[Any]]) -> list[list[Any]]:
    """Neighbours in one state as one range."""
    merged: list[list[Any]] = []
    for start, end, state in ranges:
        if merged and merged[-1][1:] == [start, state]:
            merged[-1][1] = end
        else:
            merged.append([start, end, state])
    return merged


def _says(finding: dict[str, Any], topic: str, stated: dict[str, Any]) -> bool:
    return finding["topic"] == topic and all(
        os.path.basename(finding["file"] or "") == value if key == "file" else finding[key] == value
        for key, value in stated.items()
    )


def test_the_demo_shows_the_damage_and_says_what_to_type_next(demo):
    said = demo.outputs["make demo"].stdout
    for name in (*UNDAMAGED, "damaged"):
        assert name in said
    assert "d-flip-crc-0" in said
    assert "corrupt" in said
    assert "loglake ui" in said
    assert "loglake query" in said
    assert "loglake run" in said
    assert "Traceback" not in said + demo.outputs["make demo"].stderr


def test_the_night_of_the_demo_retains_and_compacts_in_stages_of_spark_and_shuffles_newest_offsets(demo):
    written = {job: shuffled_bytes(demo.events, job) for job in ("retention", "compaction")}
    assert sum(written["retention"]), "its tasks are rows that Spark spreads"
    # Each of these also spreads tasks; a stage that emits offsets to ranges of hashes follows the one of its tasks.
    assert len([size for size in written["compaction"] if size]) > len([size for size in written["retention"] if size])
    assert sum(written["compaction"]) > sum(written["retention"])


def test_the_demo_ends_with_a_night_that_retains_by_size_and_cleans_the_archive_by_key(demo):
    segments = _rows(demo.lake("codecs-v2-4.3.1"), "segments")
    assert [row["topic"] for row in segments if row["retired_because"] == "retention"] == ["multi"]
    cleaned = {row["segment_id"] for row in segments if row["retired_because"] == "compaction"}
    replacements = {row["replaced_by"] for row in segments if row["segment_id"] in cleaned}
    assert cleaned
    assert replacements <= {row["segment_id"] for row in segments if row["retired_ms"] is None}
    (night,) = [row for row in _rows(demo.lake("codecs-v2-4.3.1"), "runs") if row["job"] == "maintenance"]
    assert night["outcome"] == "succeeded"


def test_a_second_demo_says_nothing_new_starts_no_jvm_and_moves_no_table(demo, tmp_path):
    versions = _versions(demo.path / ".loglake" / "lakes")
    assert len(versions) >= 5 * 7
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    started = tmp_path / "started"
    fake = java / "bin" / "java"
    fake.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    done = demo.type("make demo", JAVA_HOME=str(java))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing new" in done.stdout
    assert not started.exists()
    assert _versions(demo.path / ".loglake" / "lakes") == versions


def _versions(lakes: Path) -> dict[str, int]:
    return {
        str(log.parent.relative_to(lakes)): DeltaTable(str(log.parent)).version()
        for log in lakes.glob("*/tables/*/_delta_log")
    }


def test_every_published_table_is_readable_by_the_oldest_reader(demo):
    for log in (demo.path / ".loglake" / "lakes").glob("*/tables/*/_delta_log"):
        protocol = DeltaTable(str(log.parent)).protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), log


def test_data_docs_can_be_read_without_a_network(demo):
    pages = list((demo.path / ".loglake" / "lakes").glob("*/data_docs/**/*.html"))
    assert pages
    for page in pages:
        text = page.read_text()
        for attribute in ('src="http', 'href="http', "url(http", 'src="//', 'href="//'):
            assert attribute not in text, page


def test_the_samples_were_not_written_to(demo, sample):
    for name in (*UNDAMAGED, "damaged"):
        pristine, used = sample(name).logdir, demo.path / ".loglake" / "samples" / name / "logdir"
        files = {path.relative_to(pristine) for path in pristine.rglob("*") if path.is_file()}
        assert {path.relative_to(used) for path in used.rglob("*") if path.is_file()} == files
        for path in files:
            assert (used / path).read_bytes() == (pristine / path).read_bytes(), path
            assert (used / path).stat().st_mtime_ns == (pristine / path).stat().st_mtime_ns, path


def test_what_each_run_made_is_in_the_history_of_one_dagster_instance(demo):
    code = (
        "import json, dagster as dg\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    print(json.dumps(sorted(key.path[0] for key in instance.get_asset_keys() if key.path[1] == 'records')))\n"
    )
    script = demo.path / "assets.py"
    script.write_text(code)
    done = demo.type(".venv/bin/python assets.py", DAGSTER_HOME=str(demo.path / ".loglake" / "dagster"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == sorted([*UNDAMAGED, "damaged"])
