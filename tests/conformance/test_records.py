"""Every record of every snapshot is what a real consumer received when it read these very files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from logcore.columns.engines import Engine
from tests.conformance import ours
from tests.conformance.snapshots import BOTH, SNAPSHOTS, Snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

CONSUMED = [(snapshot, level) for snapshot in SNAPSHOTS for level in snapshot.consumed]


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize(("snapshot", "isolation_level"), CONSUMED, ids=lambda value: str(value))
def test_every_record_is_what_the_real_consumer_received(
    corpus: Corpus, snapshot: Snapshot, isolation_level: str, engine: Engine
):
    expected = corpus.consumed(snapshot, isolation_level)
    logs = corpus.logs(snapshot)
    assert set(expected) <= set(logs)
    for name, records in expected.items():
        rows = ours.records(logs[name], isolation_level, engine)
        assert [row.offset for row in rows] == [record.offset for record in records], name
        for row, record in zip(rows, records, strict=True):
            if record.leader_epoch is None and snapshot.era == "legacy":
                row = row._replace(leader_epoch=None)  # clients before 2.1 do not tell it
            assert row == record, f"{name} offset {record.offset}"
