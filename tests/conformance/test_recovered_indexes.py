"""Side files made again from whole logs are those that brokers wrote while the logs grew.

Transaction indexes always; offset and time indexes of sealed segments that were never active when their broker stopped
or cut them: there the distance to the next entry starts at zero. Compacted and trimmed logs are left out: their earlier
bytes are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logcore.columns.engines import segment_recovery
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.reindexing import plan_reindex
from tests.conformance.snapshots import SNAPSHOTS, Snapshot
from tests.conformance.test_recovered import held, written

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

LEFT_OUT = ("compaction-", "retention-", "recovery-", "tiered-", "internal-topics-4.4.0/compacted")
WHOLE = [
    each
    for each in SNAPSHOTS
    if each.era == "modern"
    and (not str(each).startswith(LEFT_OUT) or (each.case[:4], each.name) == ("comp", "before1"))
]

INTERVALS = (0, 200, 300, 400, 500, 600, 700, 900, 4096)
"""What `index.interval.bytes` may have been; it is the same for all segments of a log."""

_STOPPED = "it was active when its broker was stopped"
_CUT = "it was active when its replica was cut back"
RESTARTED = {
    ("internal-topics-4.4.0", "__consumer_offsets-0", 0): _STOPPED,
    ("internal-topics-4.4.0", "__consumer_offsets-1", 0): _STOPPED,
    ("replicas-4.4.0", "rep-1", 0): _STOPPED,
    ("replicas-4.4.0", "rep-txn-0", 41): _STOPPED,
    ("replicas-4.4.0", "rep-div-0", 30): _CUT,
}


def partitions(corpus: Corpus, snapshot: Snapshot) -> Iterator[Path]:
    for path in sorted(corpus.directory(snapshot).iterdir()):
        if path.is_dir() and path.name.rpartition("-")[2].isdigit() and any(path.glob("*.log")):
            yield path


def different(path: Path, interval: int) -> tuple[set[str], set[str], int]:
    """Indexes of sealed segments and transaction indexes that are not the broker's, and how many there are."""
    source = held(path, clean=False)
    config = TopicConfig(index_interval_bytes=interval)
    plan = plan_reindex(source, config, as_of_ms=0, recover=segment_recovery())
    assert plan.refusal is None
    assert plan.losses == (), path
    ours = written(plan, source)
    broker = {name: bytes(file.content) for name, file in source.files.items()}
    active = max(name for name in ours if name.endswith(".log"))[:20]
    sealed = {name for name in ours if name.endswith((".index", ".timeindex")) and not name.startswith(active)}
    aborted = {name for name in ours | broker if name.endswith(".txnindex")}
    indexes = {name for name in sealed if ours[name] != broker.get(name)}
    transactions = {name for name in aborted if ours.get(name) != broker.get(name)}
    return indexes, transactions, len(sealed) + len(aborted)


@pytest.mark.parametrize("snapshot", WHOLE, ids=str)
def test_side_files_of_whole_logs_are_made_again_to_the_byte(corpus: Corpus, snapshot: Snapshot):
    for path in partitions(corpus, snapshot):
        tried = [different(path, interval) for interval in INTERVALS]
        indexes, transactions, _ = min(tried, key=lambda each: len(each[0]))
        assert transactions == set(), path.name
        restarted = {base for case, name, base in RESTARTED if (case, name) == (snapshot.case, path.name)}
        assert {int(name[:20]) for name in indexes} <= restarted, path.name


def test_the_files_made_again_are_many(corpus: Corpus):
    """So that no filter above leaves nothing to look at."""
    files = sum(different(path, 4096)[2] for snapshot in WHOLE for path in partitions(corpus, snapshot))
    print(f"{files} files")
    assert files == 549
