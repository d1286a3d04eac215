"""The steps of a spread cleaning, each a task that a worker does: plain values in, plain values out.

In the order of `spread_cleaning`, which says what they are for: facts, plan, keys, newest, groups, proof. What a step
leaves for the next lies in the run's folder; what it tells the driver is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from logcore.columns.cleaning import CompiledCleaner
from logcore.columns.offset_map import HashKey, OffsetMap
from logcore.errors import LogError
from logcore.logs.broker_line import BrokerLine
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, TransactionState
from logcore.logs.compaction.cleaning_round import ActiveProducer, CleaningRound, SourceSegment, Uncleanable
from logcore.logs.compaction.plan import CompactionPlan, PlannedGroup
from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.records.control import ControlType
from logcore.segments.scan import Stretch
from logcore.segments.transaction_index import AbortedTransaction
from spark_jobs import key_pieces
from spark_jobs.cleaning_proof import Aborted
from spark_jobs.key_pieces import KeyPiece, PieceOfRange
from spark_jobs.keyed_rows import keyed_rows
from spark_jobs.lake import cleaned_files
from spark_jobs.lake.archive import Segment
from spark_jobs.lake.log_directory import segment_bytes, zeros
from spark_jobs.lake.log_segments import LogSegment, log_segments
from spark_jobs.log_cleaning import (
    CleaningTask,
    SourceFiles,
    aborted_of,
    damage_of,
    directory_of,
    planned,
    proven_part,
    replacement,
    result,
)
from spark_jobs.segment_facts import SegmentFacts, read_facts, write_facts

Values = dict[str, Any]


def _faults(work: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """A step whose faults are results, as every task's are."""

    def step(value: Values) -> Values:
        try:
            return work(value)
        except Uncleanable as error:
            return {"fault": result(refusal=Refusal(RefusalReason.NOT_REBUILDABLE, str(error)))}
        except (LogError, OSError) as error:
            return {"fault": result(unproven=f"reading or writing failed: {error}")}

    step.__doc__, step.__name__, step.__qualname__ = work.__doc__, work.__name__, work.__qualname__
    step.__module__ = work.__module__
    return step


@_faults
def write_segment_facts(value: Values) -> Values:
    """A segment verified."""
    segment = _log_segment(value["slices"])
    with segment_bytes(value["lake"], segment) as content:
        path = f"{value['folder']}/facts-{segment.base_offset:020d}"
        facts = write_facts(value["lake"], path, content, segment.base_offset, value["next_base_offset"])
        return facts.as_dict()


@_faults
def plan_round(value: Values) -> Values:
    """The round, as plain values."""
    task = CleaningTask.from_plain(value["task"])
    facts = {each["base_offset"]: SegmentFacts.from_plain(each) for each in value["facts"]}
    with directory_of(task, opened=_only_sizes(task)) as directory:
        plan = planned(task, directory, lambda _, base, __: read_facts(task.lake, facts[base]))
        if isinstance(plan, Refusal):
            return {"refusal": [str(plan.reason), plan.message]}
        end = plan.round.upper_bound_offset
        places = {segment.base_offset: number for number, segment in enumerate(plan.segments)}
        groups = plan.groups(end)
        states = _states(task, plan, groups, facts)
        return {
            "refusal": None,
            "round": _plain_round(plan.round),
            "segments": [_plain_source(segment) for segment in plan.segments],
            "groups": [
                {
                    "segments": [places[segment.base_offset] for segment in group.segments],
                    "refusal": group.refusal,
                    "state": state.as_dict(),
                }
                for group, state in zip(groups, states, strict=True)
            ],
            "end_offset": end,
            "first_dirty_offset": plan.next_first_dirty(end),
            "damage": damage_of(plan, SourceFiles(task.segments)),
        }


def _only_sizes(task: CleaningTask) -> Callable[[str, LogSegment], AbstractContextManager[memoryview]]:
    """Zeros in the place of all segments but the active one: what they hold, their facts say."""
    active = log_segments(task.segments)[-1].base_offset

    def opened(lake: str, segment: LogSegment) -> AbstractContextManager[memoryview]:
        return segment_bytes(lake, segment) if segment.base_offset == active else zeros(segment.facts.size)

    return opened


def _states(
    task: CleaningTask, plan: CompactionPlan, groups: Sequence[PlannedGroup], facts: Mapping[int, SegmentFacts]
) -> Iterator[TransactionState]:
    """What is known of transactions in front of each group, told the tracker as cleaning would tell it."""
    tracker = CleanedTransactions()
    for group in groups:
        yield tracker.state()
        if group.refusal is not None:
            continue
        for segment in group.segments:
            tracker.add(segment.aborted)
            if plan.round.frozen_from is not None:
                tracker.forget_ended(segment.base_offset)
            for batch in read_facts(task.lake, facts[segment.base_offset]):
                if isinstance(batch, Stretch):
                    continue
                if batch.is_control:
                    kind = None if batch.control_type is None else ControlType(batch.control_type)
                    tracker.control(batch.last_offset, batch.producer_id, kind)
                elif batch.is_transactional:
                    tracker.data(batch.last_offset, batch.producer_id, is_transactional=True)


@_faults
def write_keys(value: Values) -> Values:
    """Hashes of the keys of one segment."""
    lake, first_dirty = value["lake"], value["round"]["first_dirty_offset"]
    with _source(lake, value["source"], value["slices"]) as source:
        rows = (
            key_pieces.Hashed(*(column[~some.is_aborted] for column in some.hashed.columns))
            for some in keyed_rows(source, HashKey(*value["hash_key"]))
        )
        path = f"{value['folder']}/keys-{source.base_offset:020d}"
        pieces = key_pieces.write_pieces(lake, path, value["group"], rows, first_dirty, value["bits"], value["rows"])
    return {"pieces": [asdict(piece) for piece in pieces]}


@_faults
def write_newest(value: Values) -> Values:
    """What the groups are to know of one range of hashes."""
    path = f"{value['folder']}/newer-{value['bucket']:05d}"
    pieces = [PieceOfRange(**each) for each in value["pieces"]]
    parts = key_pieces.write_newer(value["lake"], path, pieces, value["groups"], value["rows"])
    return {"parts": parts}


@_faults
def clean_group(value: Values) -> Values:
    """One new segment, and what is left in it as hashes for the proof."""
    task = CleaningTask.from_plain(value["task"])
    round, group = _round_of(value["round"]), value["group"]
    hash_key = HashKey(*value["hash_key"])
    with ExitStack() as opened:
        segments = log_segments(task.segments)
        sources = [
            opened.enter_context(_source(task.lake, source, [asdict(one) for one in segment.slices]))
            for source, segment in zip(value["sources"], segments, strict=True)
        ]
        planned_group = PlannedGroup(tuple(sources), group["refusal"])
        placed: Segment | None = None
        if group["refusal"] is None:
            cleaner = CompiledCleaner.resumed(
                round,
                _map_of(value),
                value["end_offset"],
                hash_key=hash_key,
                transactions=TransactionState.from_dict(group["state"]),
            )
            with cleaned_files.log_file(task.lake, task.log) as file:
                cleaned = cleaner.clean(sources, file)
                placed = cleaned_files.place(task.lake, file, cleaned, task.segments)
            del cleaner
        if placed is None:
            return {"replaced": None, "pieces": _proof_pieces(value, task, sources, sources, round)}
        wrong, validation = proven_part(task.lake, planned_group, placed)
        if wrong is not None:
            return {"fault": result(unproven=wrong)}
        left = replace(
            sources[0],
            base_offset=placed.base_offset,
            next_base_offset=placed.next_offset,
            aborted=(),
            unreadable=(),
        )
        with _source(task.lake, _plain_source(left), [asdict(placed)]) as new:
            pieces = _proof_pieces(value, task, sources, [new], round)
        return {"replaced": replacement(task.segments, placed, validation), "pieces": pieces}


def _map_of(value: Values) -> OffsetMap:
    paths = [f"{value['folder']}/newer-{bucket:05d}" for bucket in range(1 << value["bits"])]
    found = key_pieces.read_newer(value["lake"], paths, value["number"], value["groups"])
    newest = OffsetMap()
    for some in found:
        newest.put(*some.columns)
    return newest


def _proof_pieces(
    value: Values,
    task: CleaningTask,
    before: Sequence[SourceSegment],
    after: Sequence[SourceSegment],
    round: CleaningRound,
) -> list[Values]:
    """Newest records by another hash, before and after cleaning; what the ledger calls aborted is in neither."""
    aborted = aborted_of(task)
    hash_key = HashKey(*value["proof_key"])

    def rows(segments: Sequence[SourceSegment]) -> Iterator[key_pieces.Hashed]:
        for segment in segments:
            for some in keyed_rows(segment, hash_key):
                offsets = some.hashed.offsets
                if segments is not before:
                    _refuse_aborted(aborted, offsets, round)
                chosen = (offsets < value["end_offset"]) & ~aborted.holds(offsets)
                words = offsets * 2 + ~some.has_value
                yield key_pieces.Hashed(some.hashed.high[chosen], some.hashed.low[chosen], words[chosen])

    pieces: list[KeyPiece] = []
    for side, segments in ((0, before), (1, after)):
        path = f"{value['folder']}/proof-{side}-{value['number']:05d}"
        # As if all were dirty: the newest word of each hash is kept.
        pieces += key_pieces.write_pieces(value["lake"], path, side, rows(segments), 0, value["bits"], value["rows"])
    return [asdict(piece) for piece in pieces]


def _refuse_aborted(aborted: Aborted, offsets: np.ndarray, round: CleaningRound) -> None:
    """Raises LogError where an aborted record is left."""
    there = aborted.holds(offsets)
    if round.frozen_from is not None:
        there &= offsets < round.frozen_from
    if there.any():
        offset = int(offsets[there.argmax()])
        raise LogError(f"offset {offset} belongs to an aborted transaction and is still there")


@_faults
def prove_newest(value: Values) -> Values:
    """Whether of each key with a hash in one range the newest record is left."""
    pieces = [PieceOfRange(**each) for each in value["pieces"]]
    lost = key_pieces.lost_newest(value["lake"], pieces, value["rows"])
    if lost is None:
        return {}
    return {"fault": result(unproven=f"the record at offset {lost} is the newest of its key and is gone")}


def _log_segment(slices: Sequence[Mapping[str, Any]]) -> LogSegment:
    return LogSegment(tuple(Segment(**one) for one in slices))


@contextmanager
def _source(lake: str, source: Mapping[str, Any], slices: Sequence[Mapping[str, Any]]) -> Iterator[SourceSegment]:
    with segment_bytes(lake, _log_segment(slices)) as content:
        yield _source_of(source, content)


def _plain_source(segment: SourceSegment) -> Values:
    named = {name: getattr(segment, name) for name in _SOURCE_FIELDS}
    return named | {
        "aborted": [[a.producer_id, a.first_offset, a.last_offset, a.last_stable_offset] for a in segment.aborted],
        "unreadable": [list(stretch) for stretch in segment.unreadable],
    }


_SOURCE_FIELDS = (
    "base_offset",
    "next_base_offset",
    "modified_ms",
    "offset_index_size",
    "time_index_size",
    "dirty_position",
)


def _source_of(value: Mapping[str, Any], content: memoryview) -> SourceSegment:
    named = {name: value[name] for name in _SOURCE_FIELDS}
    return SourceSegment(
        content=content,
        aborted=tuple(AbortedTransaction(*each) for each in value["aborted"]),
        unreadable=tuple((start, end) for start, end in value["unreadable"]),
        **named,
    )


def _plain_round(round: CleaningRound) -> Values:
    values = asdict(round)
    values["line"] = str(round.line)
    values["producers"] = [[pid, each.epoch, each.last_data_offset] for pid, each in round.producers.items()]
    return values


def _round_of(value: Mapping[str, Any]) -> CleaningRound:
    producers = {pid: ActiveProducer(epoch, last) for pid, epoch, last in value["producers"]}
    return CleaningRound(**dict(value) | {"line": BrokerLine(value["line"]), "producers": producers})
