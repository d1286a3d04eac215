"""The latest row of each key, from a lake that took a broker's compacted log: what a real consumer saw last of the key.

Each snapshot is a lake of its own: before a round of the broker's cleaner, and after it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, LatestConfig, PublishConfig, ValidateConfig
from spark_jobs.lake.segments import archive
from spark_jobs.policies.policies_file import read_policies
from tests.conformance.conftest import Corpus
from tests.conformance.oracles import Consumed
from tests.conformance.snapshots import SNAPSHOTS, Snapshot

AS_OF_MS = 1_900_000_000_000
Shown = dict[tuple[str, bytes], tuple[int, bytes | None]]
CASES = [
    snapshot
    for snapshot in SNAPSHOTS
    if snapshot.case.startswith(("compact-", "compaction-")) and "read_committed" in snapshot.consumed
]


def last_values(consumed: dict[str, list[Consumed]], logs: set[str], *, keeps_tombstones: bool) -> Shown:
    """The last record of each key, by topic partition and key."""
    last: Shown = {}
    for log in logs:
        for record in consumed.get(log, []):
            if record.key is not None:
                last[log, record.key] = (record.offset, record.value)
    return {key: (offset, value) for key, (offset, value) in last.items() if value is not None or keeps_tombstones}


def kept(lake: Path) -> Shown:
    found: Shown = {}
    for folder in sorted((lake / "tables" / "latest").iterdir()):
        for row in DeltaTable(str(folder)).to_pyarrow_table().to_pylist():
            key = (f"{folder.name}-{row['partition']}", row["key"])
            assert key not in found, "a key has two rows"
            found[key] = (row["offset"], row["value"])
    return found


def test_the_corpus_has_cases_to_compare() -> None:
    assert len(CASES) >= 10


@pytest.mark.long
@pytest.mark.parametrize("policy", ["delete", "soft-delete"])
@pytest.mark.parametrize("snapshot", CASES, ids=str)
def test_it_is_the_last_value_that_a_real_consumer_received(
    corpus: Corpus, snapshot: Snapshot, policy: str, tmp_path: Path
) -> None:
    lake, policies = tmp_path / "lake", tmp_path / "policies.yaml"
    policies.write_text(f'topics: {{"*": {{latest: {policy}}}}}')
    source = tmp_path / "source"
    shutil.copytree(corpus.directory(snapshot), source)
    stated = (str(lake), "take", AS_OF_MS)
    launch.run(IngestConfig(str(lake), (str(source),), "take", AS_OF_MS))
    launch.run(ValidateConfig(*stated))
    launch.run(PublishConfig(*stated))
    launch.run(LatestConfig(*stated, read_policies(str(policies))))
    consumed = corpus.consumed(snapshot, "read_committed")
    logs = {row.topic_partition for row in archive.read_logs(str(lake)).values()} & consumed.keys()
    assert logs
    expected = last_values(consumed, logs, keeps_tombstones=policy == "soft-delete")
    found = {key: row for key, row in kept(lake).items() if key[0] in logs}
    assert found == expected
    if policy == "delete":
        return
    for topic in {log.rpartition("-")[0] for log in logs}:
        path = tmp_path / "state.parquet"
        arguments = ["state", str(lake), topic, "--at", "2200-01-01", "--out", str(path), "--keep-tombstones"]
        assert main.main(arguments) in (0, 1)  # incomplete where the broker had cleaned it before
        rows = pq.read_table(path).to_pylist()
        path.unlink()
        shown = {(f"{topic}-{row['partition']}", row["key"]): (row["offset"], row["value"]) for row in rows}
        assert {key: row for key, row in shown.items() if key[0] in logs} == {
            key: row for key, row in expected.items() if key[0].rpartition("-")[0] == topic
        }
