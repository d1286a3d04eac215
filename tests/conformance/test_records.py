"""Every record of every snapshot is what a real consumer received when it read these very files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from logcore.columns.engines import Engine
from logcore.segments.filenames import DirectoryKind, is_internal_topic
from tests.conformance import ours
from tests.conformance.snapshots import BOTH, SNAPSHOTS, Snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

CONSUMED = [(snapshot, level) for snapshot in SNAPSHOTS for level in snapshot.consumed]

INDEXES_GONE = "the broker's index was damaged, and so were its answers"
CONSUMER_FAILED = "damage that stayed in the log: the consumer failed"
APART = {
    ("recovery-damage-clean-4.4.0/after", "d-flip-crc-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-clean-4.4.0/after", "d-flip-old-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-clean-4.4.0/after", "d-seg-empty-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-clean-4.4.0/after", "d-idx-junk-0"): (BOTH, INDEXES_GONE),
    ("recovery-damage-clean-4.4.0/after", "d-txnidx-del-0"): (("read_committed",), INDEXES_GONE),
    ("recovery-damage-unclean-4.4.0/after", "d-flip-magic-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-unclean-4.4.0/after", "d-seg-empty-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-unclean-rp-4.4.0/after", "d-flip-magic-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-unclean-rp-4.4.0/after", "d-flip-old-0"): (BOTH, CONSUMER_FAILED),
    ("recovery-damage-unclean-rp-4.4.0/after", "d-idx-junk-0"): (("read_committed",), INDEXES_GONE),
    ("recovery-damage-unclean-rp-4.4.0/after", "d-txnidx-del-0"): (("read_committed",), INDEXES_GONE),
}
"""Logs of which the consumer's output at some level is no measure; `test_recovery.py` says what is expected of them."""

NOT_ASKED = {
    **{f"replicas-4.4.0/{name}": {"rep-div-0"} for name in ("clean-n1", "clean-n2", "clean-n3", "lag-n1", "lag-n2")},
    "internal-topics-4.4.0/compacted": {"pay.ments_x-0", "pay.ments_x-1"},
    "replicas-4.4.0/diverged-n2": {"rep-0", "rep-1", "rep-txn-0"},
}
"""Logs that no consumer was sent to; the dump tool looked at all of them."""


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize(("snapshot", "isolation_level"), CONSUMED, ids=lambda value: str(value))
def test_every_record_is_what_the_real_consumer_received(
    corpus: Corpus, snapshot: Snapshot, isolation_level: str, engine: Engine
):
    expected = corpus.consumed(snapshot, isolation_level)
    logs = {name: log for name, log in corpus.logs(snapshot).items() if log.source.kind is DirectoryKind.LIVE}
    assert set(expected) <= set(logs)
    for name, log in logs.items():
        if name not in expected and is_internal_topic(name):
            continue  # its consumers are the broker's own; dump tool and listing cover it
        if isolation_level in APART.get((str(snapshot), name), ((), ""))[0]:
            continue
        if name in NOT_ASKED.get(str(snapshot), ()):
            assert name not in expected
            continue
        rows, records = ours.records(log, isolation_level, engine), expected.get(name, [])
        assert [row.offset for row in rows] == [record.offset for record in records], name
        for row, record in zip(rows, records, strict=True):
            if record.leader_epoch is None and snapshot.era == "legacy":
                row = row._replace(leader_epoch=None)  # clients before 2.1 do not report it
            assert row == record, f"{name} offset {record.offset}"


def test_the_logs_set_apart_are_those_the_cases_call_unreadable(corpus: Corpus):
    for snapshot in SNAPSHOTS:
        if snapshot.case.startswith("recovery-damage") and snapshot.name == "after":
            stated = {f"{topic}-0" for topic in corpus.facts(snapshot)["unreadable_topics"]}
            apart = {log for (at, log), (_, why) in APART.items() if at == str(snapshot) and why is CONSUMER_FAILED}
            assert apart == stated


def test_what_broker_and_consumer_say_of_the_ends_is_what_the_log_says(corpus: Corpus):
    """Log start, high watermark and last stable offset of every log that a modern consumer read."""
    compared = 0
    for snapshot in SNAPSHOTS:
        if snapshot.era == "legacy" or snapshot.consumed != BOTH:
            continue
        logs = corpus.logs(snapshot)
        for isolation_level in BOTH:
            for name, ends in corpus.summary(snapshot, isolation_level).items():
                if (str(snapshot), name) in APART:
                    continue
                log = logs[name]
                end = log.high_watermark
                if isolation_level == "read_committed":
                    end = min(end, log.transactions().last_stable_offset)
                assert ends["beginning"] == log.source.log_start_offset, (snapshot, name)
                assert ends["end"] == max(end, ends["beginning"]), (snapshot, name, isolation_level)
                compared += 1
    assert compared > 500
