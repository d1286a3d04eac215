"""How much is compared, counted from what real tools wrote alone: a glob that finds nothing cannot pass.

Each test of this folder compares all that its oracle holds, so these are the numbers of things compared.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tests.conformance.snapshots import SNAPSHOTS
from tests.conformance.test_records import APART, CONSUMED

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

COMPARED = {
    "consumed read_committed": 23_372,
    "consumed read_uncommitted": 36_641,
    "dumped segments": 2_148,
    "dumped batches": 22_076,
    "dumped records": 48_917,
    "dumped .index files": 2_105,
    "dumped .index entries": 6_564,
    "dumped .timeindex files": 2_072,
    "dumped .timeindex entries": 6_107,
    "dumped .txnindex files": 629,
    "dumped .txnindex entries": 1_031,
    "dumped .snapshot files": 2_052,
    "dumped .snapshot entries": 6_125,
    "listed segments": 527,
    "listed batches": 9_831,
    "listed records": 16_437,
}
"""Counted at the first run that compared them all. consumed: records, by isolation level. dumped, listed: what
DumpLogSegments and FileRecords say of files."""

_BATCH = re.compile(r"^(?:baseOffset|offset): \d.* isvalid: true$", re.MULTILINE)
_RECORD = re.compile(r"^\| offset: \d+ ", re.MULTILINE)
_ENTRY = {
    ".index": re.compile(r"^offset: \d+ position: \d+$", re.MULTILINE),
    ".timeindex": re.compile(r"^timestamp: \d+ offset: \d+$", re.MULTILINE),
    ".txnindex": re.compile(r"^version: 0 producerId: ", re.MULTILINE),
    ".snapshot": re.compile(r"^producerId: ", re.MULTILINE),
}


def test_as_much_is_compared_as_there_is(corpus: Corpus):
    counts: Counter[str] = Counter()
    for snapshot, isolation_level in CONSUMED:
        for name, records in corpus.consumed(snapshot, isolation_level).items():
            apart, _ = APART.get((str(snapshot), name), ((), ""))
            if isolation_level not in apart:
                counts[f"consumed {isolation_level}"] += len(records)
    for snapshot in SNAPSHOTS:
        if snapshot.dump is not None:
            for text in corpus.dumps(snapshot, ".log").values():
                counts["dumped segments"] += 1
                counts["dumped batches"] += len(_BATCH.findall(text))
                counts["dumped records"] += len(_RECORD.findall(text))
            for suffix, entry in _ENTRY.items():
                for text in corpus.dumps(snapshot, suffix).values():
                    counts[f"dumped {suffix} files"] += 1
                    counts[f"dumped {suffix} entries"] += len(entry.findall(text))
        if snapshot.listing:
            for listed in corpus.listing(snapshot).values():
                counts["listed segments"] += 1
                counts["listed batches"] += len(listed.batches)
                counts["listed records"] += len(listed.records)
    for what, count in sorted(counts.items()):
        print(f"{count:7} {what}")
    assert counts == COMPARED
