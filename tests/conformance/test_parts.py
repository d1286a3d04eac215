"""Logs with a part of what consumers saw: of lagging or diverged replicas, and tiered. And KRaft's snapshots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance import dump_text, oracles, ours
from tests.conformance.oracles import Consumed
from tests.conformance.snapshots import BOTH, SNAPSHOTS, snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

TIERED = ("tiered-3.9.2", "tiered-4.3.1")
REPLICAS = "replicas-4.4.0"


def test_a_lagging_replica_holds_the_beginning_of_what_consumers_got(corpus: Corpus):
    logs = corpus.logs(snapshot(f"{REPLICAS}/lag-n3"))
    consumed = corpus.consumed(snapshot(f"{REPLICAS}/lag-n1"), "read_uncommitted")
    shorter = 0
    for name, records in consumed.items():
        held = ours.stored(logs[name].batches())
        assert held
        assert held == records[: len(held)], name
        shorter += len(held) < len(records)
    assert shorter == len(consumed) == 3


@pytest.mark.parametrize("isolation_level", BOTH)
def test_a_leader_that_was_killed_holds_what_consumers_had_got(corpus: Corpus, isolation_level: str):
    """At that time; an unclean election gave other records the same offsets afterwards."""
    killed, elected = snapshot(f"{REPLICAS}/diverged-n1"), snapshot(f"{REPLICAS}/diverged-n2")
    consumed = oracles.consumed(corpus.case(killed) / "oracle" / "diverged-old-leader" / f"{isolation_level}.jsonl")
    held = ours.stored(corpus.logs(killed)["rep-div-0"].batches())
    assert {"rep-div-0": held} == consumed
    after_election = {record.offset: record for record in corpus.consumed(elected, isolation_level)["rep-div-0"]}
    differing = [record for record in held if after_election.get(record.offset, record) != record]
    assert differing


@pytest.mark.parametrize("isolation_level", BOTH)
@pytest.mark.parametrize("case", TIERED)
def test_what_tiered_storage_left_in_a_log_is_the_end_of_what_consumers_got(
    corpus: Corpus, case: str, isolation_level: str
):
    local = snapshot(f"{case}/logdir")
    consumed = corpus.consumed(local, isolation_level)
    logs = corpus.logs(local)
    shorter = 0
    for name, records in consumed.items():
        visible = logs[name].visible(isolation_level)
        held = [r for r in ours.stored(logs[name].batches()) if any(start <= r.offset < end for start, end in visible)]
        first = logs[name].segments[0].file.base_offset
        assert held == [record for record in records if record.offset >= first], name
        shorter += len(held) < len(records)
    assert shorter >= 4


def remote_segments(corpus: Corpus, case: str) -> dict[str, list[tuple[Path, ours.Segment]]]:
    """Segments in the remote store by topic partition, in the order of their offsets."""
    root = corpus.directory(snapshot(f"{case}/remote"))
    found: dict[str, list[tuple[Path, ours.Segment]]] = {}
    for path in sorted(root.rglob("*.log")):
        segment = ours.walk(str(path), int(path.name[:20]), sealed=True)
        assert segment.accounting.valid == segment.accounting.file_size
        log = re.fullmatch(r"(.+-\d+)-[\w-]{22}", path.parent.name)
        assert log is not None
        found.setdefault(log[1], []).append((path, segment))
    return found


@pytest.mark.parametrize("case", TIERED)
def test_remote_store_and_log_together_are_what_consumers_got(corpus: Corpus, case: str):
    local = snapshot(f"{case}/logdir")
    logs, remote = corpus.logs(local), remote_segments(corpus, case)
    compared = 0
    for name, records in corpus.consumed(local, "read_uncommitted").items():
        held: dict[int, Consumed] = {}
        for _, segment in remote.get(name, []):
            held |= {record.offset: record for record in ours.stored(segment.batches)}
        for record in ours.stored(logs[name].batches()):
            assert held.setdefault(record.offset, record) == record
        start = corpus.summary(local, "read_uncommitted")[name]["beginning"]
        assert [held[offset] for offset in sorted(held) if offset >= start] == records, name
        compared += len(records)
    assert compared > 500
    assert sum(map(len, remote.values())) == 13


@pytest.mark.parametrize("case", TIERED)
def test_every_batch_of_the_remote_store_is_what_the_dump_tool_prints(corpus: Corpus, case: str):
    store = snapshot(f"{case}/remote")
    dumps = corpus.dumps(store, ".log")
    tool = corpus.facts(store)["dump_tool_version"]
    root = corpus.directory(store)
    found = set()
    for path, segment in (entry for entries in remote_segments(corpus, case).values() for entry in entries):
        place = (str(path.parent.relative_to(root)), path.name)
        found.add(place)
        # the tool was given the file under a name that it knows
        body = dump_text.comparable(dumps[place]).partition("\n")[2]
        expected = dump_text.segment_text(segment, "", payload=True, tool=tool).partition("\n")[2]
        assert without_gaps(expected) == without_gaps(body), place
    assert found == set(dumps)


def without_gaps(text: str) -> str:
    """The tool's text up to its complaints."""
    return text.partition("Non-consecutive offsets in ")[0]


def test_every_metadata_snapshot_is_what_the_dump_tool_prints(corpus: Corpus):
    """`.checkpoint` files hold batches like a segment: header, records, footer."""
    compared = 0
    for entry in SNAPSHOTS:
        if entry.dump is None or entry.era == "legacy":
            continue
        for (directory, file), text in corpus.dumps(entry, ".checkpoint").items():
            path = corpus.directory(entry) / directory / file
            segment = ours.walk(str(path), 0, sealed=True)
            assert segment.stretches == []
            printed = dump_text.comparable(without_gaps(text)).split("\n", 2)
            assert printed[1].startswith(("Snapshot end offset: ", "KRaft bootstrap snapshot")), printed[1]
            expected = dump_text.comparable("".join(dump_text.batch_lines(segment.batches, payload=entry.payload)))
            assert expected == printed[2], (entry, file)
            compared += len(segment.batches)
    assert compared == 69
