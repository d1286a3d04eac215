"""The steps of a spread cleaning, each a task that a worker does: plain values in, plain values out.

In the order of `spread_cleaning`, which says what they are for: facts, plan, keys, newest, groups, proof. What a step
leaves for the next lies in the run's folder, in files that are named by what they are of: nobody has to be told of
them, and what the driver tells a task speaks of its own segment, range or group alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap
from logcore.errors import LogError
from logcore.logs.checks.validation import BatchVerdict
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import ActiveProducer, CleaningRound, SourceSegment, Uncleanable
from logcore.logs.compaction.plan import CompactionPlan, PlannedGroup
from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.logs.model.broker_line import BrokerLine
from logcore.records.control import ControlType
from logcore.segments.side_files.transaction_index import AbortedTransaction
from spark_jobs.compaction import key_pieces
from spark_jobs.compaction.aborted_offsets import Aborted
from spark_jobs.compaction.keyed_rows import keyed_rows
from spark_jobs.compaction.log_cleaning import (
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
from spark_jobs.compaction.segment_facts import SegmentFacts, read_facts, read_transactions, write_facts
from spark_jobs.lake.segments import cleaned_files
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import segment_bytes, zeros
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments
from spark_jobs.lake.store import storage

Values = dict[str, Any]


class _Unproven(Exception):
    """What was made must not be used."""


def _faults(work: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """A step whose faults are results, as every task's are."""

    def step(value: Values) -> Values:
        try:
            return work(value)
        except Uncleanable as error:
            return {"fault": result(refusal=Refusal(RefusalReason.NOT_REBUILDABLE, str(error)))}
        except _Unproven as error:
            return {"fault": result(unproven=str(error))}
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
    """The round: what every task has to know of it as a file, what there is to do as plain values."""
    task = CleaningTask.from_plain(value["task"])
    facts = {each["base_offset"]: SegmentFacts.from_plain(each) for each in value["facts"]}
    with directory_of(task, opened=_only_sizes(task)) as directory:
        plan = planned(task, directory, lambda _, base, __, ___: read_facts(task.lake, facts[base]))
        if isinstance(plan, Refusal):
            return {"refusal": [str(plan.reason), plan.message]}
        end = plan.round.upper_bound_offset
        places = {segment.base_offset: number for number, segment in enumerate(plan.segments)}
        groups = plan.groups(end)
        states, known = _states(task, plan, groups, facts), _states_of_map(task, plan, facts)
        records = sum(facts[segment.base_offset].records for segment in plan.segments)
        _write_round(
            value,
            {
                "round": _plain_round(plan.round),
                "end_offset": end,
                "bits": key_pieces.bits_for(records, value["rows"]),
                "groups": [[segment.base_offset for segment in group.segments] for group in groups],
            },
        )
        return {
            "refusal": None,
            "ranges": 1 << key_pieces.bits_for(records, value["rows"]),
            "segments": [_plain_source(segment) for segment in plan.segments],
            "states": [known.get(segment.base_offset) for segment in plan.segments],
            "groups": [
                {
                    "segments": [places[segment.base_offset] for segment in group.segments],
                    "refusal": group.refusal,
                    "state": state.as_dict(),
                }
                for group, state in zip(groups, states, strict=True)
            ],
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
) -> Iterator[CleanedTransactionState]:
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
            for batch in read_transactions(task.lake, facts[segment.base_offset]):
                _tell(tracker, batch)


def _states_of_map(task: CleaningTask, plan: CompactionPlan, facts: Mapping[int, SegmentFacts]) -> dict[int, Values]:
    """The same in front of each dirty segment, for the walk that makes the map, by base offset; only where that begins
    inside of a segment: markers in front, which it does not see, end nothing. Else each segment's own list says it."""
    dirty = plan.dirty_segments
    if not dirty or not dirty[0].dirty_position:
        return {}
    tracker, states = CleanedTransactions(), {}
    for segment in dirty:
        tracker.add(segment.aborted)
        if plan.round.frozen_from is not None:
            tracker.forget_ended(segment.base_offset)
        states[segment.base_offset] = tracker.state().as_dict()
        for batch in read_transactions(task.lake, facts[segment.base_offset]):
            if batch.position >= segment.dirty_position:
                _tell(tracker, batch)
    return states


def _tell(tracker: CleanedTransactions, batch: BatchVerdict) -> None:
    if batch.is_control:
        kind = None if batch.control_type is None else ControlType(batch.control_type)
        tracker.control(batch.last_offset, batch.producer_id, kind)
    else:
        tracker.data(batch.last_offset, batch.producer_id, is_transactional=batch.is_transactional)


@_faults
def write_keys(value: Values) -> Values:
    """Hashes of the keys of one segment."""
    lake, told = value["lake"], _read_round(value)
    before = None if value["state"] is None else CleanedTransactionState.from_dict(value["state"])
    with _source(lake, value["source"], value["slices"]) as source:
        # An aborted record is no newest, but behind damage it stays for as long as nothing newer takes its place.
        rows = (
            replace(some.hashed, offsets=np.where(some.is_aborted, ~some.hashed.offsets, some.hashed.offsets))
            for some in keyed_rows(source, HashKey(*value["hash_key"]), before)
        )
        first_dirty = told["round"]["first_dirty_offset"]
        path = _keys(value, source.base_offset)
        key_pieces.write_pieces(lake, path, rows, first_dirty, told["bits"], value["rows"], keeps_oldest=True)
    return {}


@_faults
def write_newest(value: Values) -> Values:
    """What the groups are to know of one range of hashes."""
    told, bucket = _read_round(value), value["bucket"]
    groups = [[_keys(value, base) for base in bases] for bases in told["groups"]]
    path = _newer(value, bucket)
    return {"parts": key_pieces.write_newer(value["lake"], path, groups, bucket, told["bits"], value["rows"])}


@_faults
def clean_group(value: Values) -> Values:
    """One new segment, and what is left in it as hashes for the proof."""
    task, told = CleaningTask.from_plain(value["task"]), _read_round(value)
    round, group = _round_of(told["round"]), value["group"]
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
                _map_of(value, told),
                told["end_offset"],
                hash_key=hash_key,
                transactions=CleanedTransactionState.from_dict(group["state"]),
            )
            with cleaned_files.log_file(task.lake, task.log) as file:
                cleaned = cleaner.clean(sources, file)
                placed = cleaned_files.place(task.lake, file, cleaned, task.segments)
            del cleaner
        if placed is None:
            _write_proof(value, told, task, sources, sources, is_judged=group["refusal"] is None)
            return {"replaced": None}
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
            _write_proof(value, told, task, sources, [new], is_judged=True)
        return {"replaced": replacement(task.segments, placed, validation)}


def _map_of(value: Values, told: Values) -> OffsetMap:
    paths = [_newer(value, bucket) for bucket in range(1 << told["bits"])]
    newest = OffsetMap()
    for some in key_pieces.read_newer(value["lake"], paths, value["number"], len(told["groups"])):
        newest.put(*some.columns)
    return newest


def _write_proof(
    value: Values,
    told: Values,
    task: CleaningTask,
    before: Sequence[SourceSegment],
    after: Sequence[SourceSegment],
    *,
    is_judged: bool,
) -> None:
    """Newest records by another hash, before and after cleaning; what the ledger calls aborted is in neither.
    is_judged: whether it must not be there after cleaning."""
    aborted, round = aborted_of(task), _round_of(told["round"])
    hash_key = HashKey(*value["proof_key"])

    def rows(segments: Sequence[SourceSegment], *, is_judged: bool) -> Iterator[key_pieces.Hashed]:
        for segment in segments:
            for some in keyed_rows(segment, hash_key):
                offsets = some.hashed.offsets
                if is_judged:
                    _refuse_aborted(aborted, offsets, round)
                chosen = (offsets < told["end_offset"]) & ~aborted.holds(offsets)
                words = offsets * 2 + ~some.has_value
                yield key_pieces.Hashed(some.hashed.high[chosen], some.hashed.low[chosen], words[chosen])

    for side, found in enumerate((rows(before, is_judged=False), rows(after, is_judged=is_judged))):
        path = _proof(value, side, value["number"])
        # As if all were dirty: the newest word of each hash is kept.
        key_pieces.write_pieces(value["lake"], path, found, 0, told["bits"], value["rows"], keeps_oldest=False)


def _refuse_aborted(aborted: Aborted, offsets: np.ndarray, round: CleaningRound) -> None:
    """Raises _Unproven where an aborted record is left."""
    there = aborted.holds(offsets)
    if round.frozen_from is not None:
        there &= offsets < round.frozen_from
    if there.any():
        offset = int(offsets[there.argmax()])
        raise _Unproven(f"offset {offset} belongs to an aborted transaction and is still there")


@_faults
def prove_newest(value: Values) -> Values:
    """Whether of each key with a hash in one range the newest record is left."""
    told = _read_round(value)
    before, after = ([_proof(value, side, number) for number in range(len(told["groups"]))] for side in range(2))
    lost = key_pieces.lost_newest(value["lake"], before, after, value["bucket"], told["bits"], value["rows"])
    if lost is None:
        return {}
    return {"fault": result(unproven=f"the record at offset {lost} is the newest of its key and is gone")}


def _write_round(value: Values, told: Values) -> None:
    storage.put(storage.join(value["lake"], f"{value['folder']}/round.json"), json.dumps(told).encode())


def _read_round(value: Values) -> Values:
    told: Values = json.loads(storage.read(storage.join(value["lake"], f"{value['folder']}/round.json")))
    return told


def _keys(value: Values, base_offset: int) -> str:
    return f"{value['folder']}/keys-{base_offset:020d}"


def _newer(value: Values, bucket: int) -> str:
    return f"{value['folder']}/newer-{bucket:05d}"


def _proof(value: Values, side: int, number: int) -> str:
    return f"{value['folder']}/proof-{side}-{number:05d}"


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
        held=content,
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
