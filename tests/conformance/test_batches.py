"""Every batch and every record's structure is what Kafka's DumpLogSegments prints of these very files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance import dump_text
from tests.conformance.snapshots import SNAPSHOTS, Snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

DUMPED = [snapshot for snapshot in SNAPSHOTS if snapshot.dump is not None and snapshot.name != "remote"]


@pytest.mark.parametrize("snapshot", DUMPED, ids=str)
def test_every_batch_is_what_the_dump_tool_prints(corpus: Corpus, snapshot: Snapshot):
    dumps = corpus.dumps(snapshot, ".log")
    logs = corpus.logs(snapshot)
    tool = corpus.facts(snapshot).get("dump_tool_version")  # not kept of legacy cases, nor were complaints
    seen = set()
    for name, log in logs.items():
        for segment in log.segments:
            key = (name, segment.name)
            seen.add(key)
            if key not in dumps:
                assert segment.accounting.file_size == 0
                continue
            expected = dump_text.comparable(dumps[key])
            assert dump_text.segment_text(segment, name, payload=snapshot.payload, tool=tool) == expected, key
    assert set(dumps) <= seen
