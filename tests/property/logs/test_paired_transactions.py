"""Random histories of coordinators and partitions, which know what became of each transaction.

The model writes down a history in its order: states of transactional ids, data, markers. A coordinator may stop after
it has prepared, a marker may be lost, data may come too late, the log of the coordinator may be cleaned, and high
watermarks may lag. What the partitions have is derived from these events here, without the code under test.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from logcore.logs.model.paired_transactions import (
    PairedState,
    PairedTransaction,
    PartitionTransactions,
    paired_transactions,
)
from logcore.logs.model.transactions import Transaction, TransactionState
from logcore.topics.coordinated_transactions import CoordinatedTransactions
from tests.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    state_key,
    state_value,
)

PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
TIMEOUT_MS = 60_000
Part = tuple[tuple[str, int], int]
"""A partition, and the first offset of data in it."""


@dataclass
class Meant:
    """A transaction of the model."""

    name: str
    producer_id: int
    version: int
    commit: bool | None = None
    end: str = "complete"  # or ongoing, prepared
    parts: set[Part] = field(default_factory=set)
    lost: set[Part] = field(default_factory=set)  # without a marker

    def state(self, is_over: bool) -> str:
        """The right one, if no record of the coordinator is missing."""
        if not self.lost:
            return "complete" if self.end == "complete" else "ongoing"
        if self.end == "complete":
            return "torn"
        if not is_over:
            return "ongoing"
        return "torn" if self.end == "prepared" else "hanging"


@dataclass
class History:
    """A history that a seed draws.

    Attributes:
        loses: A marker may be lost.
        is_late: Data may come after the marker, before version 2.
        fills: Each partition that was added gets data.
        stops: A coordinator may stop within the last transaction of an id.
    """

    draw: random.Random
    loses: bool = False
    is_late: bool = False
    fills: bool = True
    stops: bool = True
    versions: tuple[int, ...] = (0, 1, 2)
    now: int = 1_000_000
    states: list[tuple[str, bytes]] = field(default_factory=list)
    logs: dict[tuple[str, int], list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    meant: list[Meant] = field(default_factory=list)
    late: set[Part] = field(default_factory=set)

    def run(self) -> None:
        """Draw transactional ids, whose events interleave."""
        running = [self._id(f"id{number}", number) for number in range(self.draw.randint(1, 4))]
        while running:
            each = self.draw.choice(running)
            if next(each, "ended") == "ended":
                running.remove(each)

    def _put(self, name: str, status: int, **fields: Any) -> None:
        self.now += 10
        value = state_value(status, updated_ms=self.now, timeout_ms=TIMEOUT_MS, **fields)
        self.states.append((name, value))

    def _data(self, partition: tuple[str, int], producer_id: int, epoch: int) -> Part:
        self.now += 1
        log = self.logs[partition]
        log.append(("data", producer_id, epoch, self.now))
        return partition, len(log) - 1

    def _id(self, name: str, producer_id: int) -> Iterator[str]:
        draw, version, epoch = self.draw, self.draw.choice(self.versions), 0
        of: dict[str, Any] = {"producer_id": producer_id, "version": version}
        self._put(name, EMPTY, epoch=epoch, **of)
        unusable: set[tuple[str, int]] = set()
        count = draw.randint(1, 6)
        for number in range(count):
            yield "running"
            usable = [each for each in PARTITIONS if each not in unusable]
            if not usable:
                return
            chosen = draw.sample(usable, draw.randint(1, len(usable)))
            one = Meant(name, producer_id, version)
            self.meant.append(one)
            start, added = self.now + 10, []
            for partition in chosen:
                added.append(partition)
                of |= {"start_ms": start, "partitions": named(added)}
                self._put(name, ONGOING, epoch=epoch, **of)
                yield "running"
                if self.fills or draw.random() < 0.8:
                    one.parts.add(self._data(partition, producer_id, epoch))
                    yield "running"
            is_last = self.stops and number == count - 1
            if is_last and draw.random() < 0.3:
                one.end, one.lost = "ongoing", set(one.parts)
                return
            one.commit = draw.random() < 0.5
            bumps = draw.choice((1, 2)) if version == 2 and not one.commit else int(version == 2)
            is_fenced = version < 2 and not one.commit and draw.random() < 0.3
            marker_epoch = epoch + bumps + is_fenced
            self._put(name, PREPARE_COMMIT if one.commit else PREPARE_ABORT, epoch=marker_epoch, **of)
            yield "running"
            stops_here = is_last and draw.random() < 0.4
            written = draw.randint(0, len(added)) if stops_here else len(added)
            for at, partition in enumerate(added):
                held = {part for part in one.parts if part[0] == partition}
                if at >= written or (self.loses and draw.random() < 0.2):
                    one.lost |= held
                    unusable.add(partition)
                    continue
                self.logs[partition].append(("marker", producer_id, marker_epoch, one.commit))
                if version < 2 and self.is_late and draw.random() < 0.2:
                    self.late.add(self._data(partition, producer_id, epoch))
                    unusable.add(partition)
                yield "running"
            if stops_here:
                one.end = "prepared"
                return
            of["partitions"] = {}
            self._put(name, COMPLETE_COMMIT if one.commit else COMPLETE_ABORT, epoch=marker_epoch, **of)
            epoch = marker_epoch
            if is_fenced or draw.random() < 0.2:
                epoch += 1
                self._put(name, EMPTY, epoch=epoch, **(of | {"start_ms": -1, "partitions": None}))

    def coordinated(self, cleaned: int = 0) -> CoordinatedTransactions:
        """The log of the coordinator, whose first records were cleaned."""
        last = {name: at for at, (name, _) in enumerate(self.states[:cleaned])}
        kept = [self.states[at] for at in sorted(last.values())] + self.states[cleaned:]
        found = CoordinatedTransactions()
        for name, value in kept:
            assert found.add(state_key(name), value) == ()
        return found

    def partitions(self, high_watermarks: dict[tuple[str, int], int] | None = None) -> list[PartitionTransactions]:
        """What the partitions have."""
        found = []
        for partition, events in self.logs.items():
            high_watermark = (high_watermarks or {}).get(partition, len(events))
            rows: list[Transaction] = []
            begun: dict[tuple[int, int], int] = {}
            in_progress: dict[int, list[int]] = {}
            for offset, (kind, producer_id, epoch, more) in enumerate(events):
                if kind == "data":
                    now = in_progress.setdefault(producer_id, [epoch, offset, offset])
                    begun.setdefault((producer_id, now[1]), more)
                    now[0], now[2] = epoch, offset
                elif producer_id in in_progress:
                    data, state = in_progress.pop(producer_id), TransactionState.OPEN
                    if offset < high_watermark:
                        state = TransactionState.COMMITTED if more else TransactionState.ABORTED
                    marker = offset if offset < high_watermark else None
                    rows.append(Transaction(producer_id, *data, marker, state, epoch))  # type: ignore[misc]
            for producer_id, data in in_progress.items():
                rows.append(Transaction(producer_id, *data, None, TransactionState.OPEN))  # type: ignore[misc]
            rows.sort(key=lambda row: row.first_offset)
            found.append(PartitionTransactions(partition, high_watermark, rows, begun))
        return found


def named(partitions: list[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    topics: dict[str, tuple[int, ...]] = {}
    for topic, number in partitions:
        topics[topic] = (*topics.get(topic, ()), number)
    return topics


def drawn(seed: int, **fields: Any) -> History:
    made = History(random.Random(seed), **fields)
    made.run()
    return made


def parts_of(row: PairedTransaction) -> set[Part]:
    return {(part.partition, part.transaction.first_offset) for part in row.parts}


def paired(history: History, *, is_over: bool = True, cleaned: int = 0, **fields: Any) -> list[PairedTransaction]:
    newest_ms = history.now + (TIMEOUT_MS + 20_000 if is_over else 0)
    found = list(
        paired_transactions(
            history.partitions(**fields), history.coordinated(cleaned), newest_ms=newest_ms, has_every_coordinator=True
        )
    )
    held = [part for row in found for part in parts_of(row)]
    assert sorted(held) == sorted(
        (log.partition, each.first_offset) for log in history.partitions(**fields) for each in log.transactions
    )
    return found


SEEDS = range(250)
BAD = (PairedState.TORN, PairedState.HANGING)


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize("is_over", [False, True])
def test_with_all_records_of_coordinators_each_transaction_has_its_parts_and_its_state(
    loses: bool, is_over: bool
) -> None:
    seen = set()
    for seed in SEEDS:
        history = drawn(seed, loses=loses)
        found = [(str(row.transactional_id), row) for row in paired(history, is_over=is_over)]
        meant = [(each.name, each.parts, each.state(is_over)) for each in history.meant]
        by_id = sorted(found, key=lambda named: named[0])  # each producer has its order
        assert [(name, parts_of(row), str(row.state)) for name, row in by_id] == sorted(meant, key=lambda m: m[0]), seed
        seen |= {str(row.state) for _, row in found}
    expected = {"complete", "ongoing"} | ({"torn"} if loses or is_over else set()) | ({"hanging"} if is_over else set())
    assert seen == expected


def test_data_after_its_marker_hangs_and_nothing_else_does() -> None:
    for seed in SEEDS:
        history = drawn(seed, is_late=True, stops=False, versions=(0, 1))
        for row in paired(history):
            assert (row.state is PairedState.HANGING) == bool(parts_of(row) & history.late), seed
            assert row.state in (PairedState.HANGING, PairedState.COMPLETE), seed
    assert any(drawn(seed, is_late=True, stops=False, versions=(0, 1)).late for seed in SEEDS)


@pytest.mark.parametrize("versions", [(0, 1), (2,)])
def test_a_healthy_cluster_is_neither_torn_nor_hanging_whatever_was_cleaned_or_lags(versions: tuple[int, ...]) -> None:
    unknown = 0
    for seed in SEEDS:
        history = drawn(seed, fills=False, versions=versions)
        cleaned = history.draw.randint(0, len(history.states))
        lagging = {partition: history.draw.randint(0, len(events)) for partition, events in history.logs.items()}
        for high_watermarks in ({}, lagging):
            found = paired(history, is_over=False, cleaned=cleaned, high_watermarks=high_watermarks)
            assert not [row for row in found if row.state in BAD], seed
            unknown += sum(row.state is PairedState.UNKNOWN for row in found)
    assert bool(unknown) == (versions != (2,))  # since version 2 nothing is in doubt


@pytest.mark.parametrize("versions", [(0, 1), (2,)])
def test_each_lost_marker_is_found_whatever_was_cleaned_and_no_sound_transaction_is_blamed(
    versions: tuple[int, ...],
) -> None:
    for seed in SEEDS:
        history = drawn(seed, loses=True, stops=False, versions=versions)
        lost = {part for each in history.meant for part in each.lost}
        found = paired(history, cleaned=history.draw.randint(0, len(history.states)))
        blamed = {part for row in found if row.state in BAD for part in parts_of(row)}
        assert lost <= blamed, seed
        torn = [each for each in history.meant if each.lost]
        for row in found:
            if row.state in BAD:
                assert any(parts_of(row) <= each.parts for each in torn), seed
            elif row.state is PairedState.UNKNOWN:
                assert versions != (2,), seed


def test_a_part_is_never_paired_with_another_transaction() -> None:
    for seed in SEEDS:
        history = drawn(seed, loses=True, fills=False, stops=True)
        owner = {part: each for each in history.meant for part in each.parts}
        for row in paired(history, cleaned=history.draw.randint(0, len(history.states))):
            meant = {id(owner[part]) for part in parts_of(row)}
            assert len(meant) <= 1, seed
            if row.coordinated is not None and meant:
                (one,) = (each for each in history.meant if id(each) in meant)
                assert row.coordinated.state.is_commit == one.commit, seed
