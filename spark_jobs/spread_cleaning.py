"""One log cleaned by many tasks: the same bytes as by one (`log_cleaning`), whatever the number of tasks and cores.

    facts     a task a segment       every batch verified; a row a batch                        (`segment_facts`)
    plan      one task, no bytes     the round, its groups, the state of transactions before each
    keys      a task a segment       hashes of keys with their offsets                          (`key_pieces`)
    newest    a task a range of hashes   what each group is to know
    groups    a task a group         new files, read again and proven as far as a group can be
    proof     a task a range of hashes   of every key the newest is left, under another hash key

Results depend on no hash and on no order: files are named by what they hold. A task that is done again, or twice at
once, writes the same again. What the steps leave for one another lies in a folder of the run's own in the archive, gone
at its end; what a killed run left there goes with the next.

Memory of a task: some 20 MiB of buffers, and
    plan      an index entry for each `index.interval.bytes` of the log
    keys      `MAP_ROWS` rows of 56 bytes; with more, a file more
    newest    as many; a range of hashes with more is gone through in parts
    groups    the map of keys of which something goes from the group, at most 51 bytes a key of `segment.bytes`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

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
from spark_jobs.lake import cleaned_files, run_folder
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAP_ROWS = 4_000_000
"""Rows that a task holds at a time."""

Values = dict[str, Any]


def clean_spread(spark: SparkSession, task: CleaningTask) -> Values:
    """Clean one log with tasks all over the cluster; returns as :func:`~spark_jobs.log_cleaning.result`."""
    folder = run_folder.new_folder()
    try:
        return _Spreading(spark, task, folder).run()
    except _Ended as ended:
        return ended.result
    finally:
        run_folder.remove(task.lake, folder)


class _Ended(Exception):
    """Carries a result out of the middle."""

    def __init__(self, result: Values) -> None:
        super().__init__()
        self.result = result


class _Spreading:
    """The driver's side. `common` is what every task is told."""

    def __init__(self, spark: SparkSession, task: CleaningTask, folder: str) -> None:
        self._spark, self._task = spark, task
        self._segments = log_segments(task.segments)
        secrets = [HashKey.random() for _ in range(2)]
        self._common: Values = {
            "lake": task.lake,
            "folder": folder,
            "rows": MAP_ROWS,
            "hash_key": [secrets[0].first, secrets[0].second],
            "proof_key": [secrets[1].first, secrets[1].second],
        }

    def run(self) -> Values:
        facts = self._each(write_segment_facts, self._segment_tasks(), self._sizes(self._segments))
        plan = self._each(plan_round, [{"task": asdict(self._task), "facts": facts}])[0]
        if plan["refusal"] is not None:
            return result(refusal=Refusal(RefusalReason(plan["refusal"][0]), plan["refusal"][1]))
        groups, sources = plan["groups"], plan["segments"]
        by_base = {segment.base_offset: segment for segment in self._segments}
        records = {each["base_offset"]: each["records"] for each in facts}
        bits = key_pieces.bits_for(sum(records[each["base_offset"]] for each in sources), MAP_ROWS)
        told = {"round": plan["round"], "bits": bits, "groups": len(groups)}
        tasks = [
            told | {"source": source, "slices": _slices(by_base[source["base_offset"]]), "group": number}
            for number, group in enumerate(groups)
            for source in (sources[at] for at in group["segments"])
        ]
        sizes = self._sizes([by_base[task["source"]["base_offset"]] for task in tasks])
        self._each(write_newest, _by_range(told, self._each(write_keys, tasks, sizes), bits))
        ranges = [
            told
            | {
                "task": asdict(replace(self._task, segments=_all_slices(group, sources, by_base))),
                "number": number,
                "group": group,
                "sources": [sources[at] for at in group["segments"]],
                "end_offset": plan["end_offset"],
            }
            for number, group in enumerate(groups)
        ]
        done = self._each(clean_group, ranges)
        self._each(prove_newest, _by_range(told, done, bits))
        return result(
            damage=plan["damage"],
            replaced=[each["replaced"] for each in done if each["replaced"] is not None],
            first_dirty_offset=plan["first_dirty_offset"],
        )

    def _each(
        self, work: Callable[[Values], Values], tasks: Sequence[Values], sizes: Sequence[int] | None = None
    ) -> list[Values]:
        """Results in the order of tasks; the first that tells a fault ends it all."""
        from spark_jobs.spread import spread

        done = spread(self._spark, [self._common | task for task in tasks], work, sizes)
        for each in done:
            if each.get("fault") is not None:
                raise _Ended(each["fault"])
        return done

    def _segment_tasks(self) -> list[Values]:
        following = [*(segment.base_offset for segment in self._segments[1:]), None]
        return [
            {"slices": _slices(segment), "next_base_offset": behind}
            for segment, behind in zip(self._segments, following, strict=True)
        ]

    def _sizes(self, segments: Sequence[LogSegment]) -> list[int]:
        return [sum(one.size for one in segment.slices) for segment in segments]


def _by_range(told: Values, done: Sequence[Values], bits: int) -> list[Values]:
    """A task for each range of hashes, with what the tasks before wrote for it."""
    pieces = [KeyPiece(p["path"], p["group"], tuple(p["rows"])) for each in done for p in each["pieces"]]
    return [
        told | {"bucket": number, "pieces": [asdict(piece) for piece in key_pieces.pieces_of(pieces, number)]}
        for number in range(1 << bits)
    ]


def _slices(segment: LogSegment) -> list[Values]:
    return [asdict(one) for one in segment.slices]


def _all_slices(group: Values, sources: Sequence[Values], by_base: Mapping[int, LogSegment]) -> tuple[Segment, ...]:
    return tuple(one for at in group["segments"] for one in by_base[sources[at]["base_offset"]].slices)


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
            opened.enter_context(_source(task.lake, source, _slices(segment)))
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
