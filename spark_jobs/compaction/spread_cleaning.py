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
    plan      an index entry for each `index.interval.bytes` of the log; its time goes with the number of batches
    keys      `MAP_ROWS` rows of 120 bytes; with more, a piece more
    newest    no more; a range of hashes with more is gone through in parts
    groups    the map of keys of which something goes from the group, at most 51 bytes a key of `segment.bytes`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from logcore.columns.cleaning.offset_map import HashKey
from logcore.logs.compaction.selection import Refusal, RefusalReason
from spark_jobs.compaction.log_cleaning import CleaningTask, result
from spark_jobs.compaction.spread_steps import (
    Values,
    clean_group,
    plan_round,
    prove_newest,
    write_keys,
    write_newest,
    write_segment_facts,
)
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments
from spark_jobs.lake.store import run_folder

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

MAP_ROWS = 2_000_000
"""Rows that a task holds at a time."""


def clean_spread(executor: Executor, task: CleaningTask) -> Values:
    """Clean one log with tasks all over the cluster; returns as :func:`~spark_jobs.compaction.log_cleaning.result`."""
    folder = run_folder.new_folder()
    try:
        return _Spreading(executor, task, folder).run()
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

    def __init__(self, executor: Executor, task: CleaningTask, folder: str) -> None:
        self._executor, self._task = executor, task
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
        sizes = self._sizes([by_base[source["base_offset"]] for source in sources])
        keys = [
            {"source": source, "slices": _slices(by_base[source["base_offset"]]), "state": state}
            for source, state in zip(sources, plan["states"], strict=True)
        ]
        self._each(write_keys, keys, sizes)
        ranges = [{"bucket": number} for number in range(plan["ranges"])]
        self._each(write_newest, ranges)
        done = self._each(
            clean_group,
            [
                {
                    "task": asdict(replace(self._task, segments=_all_slices(group, sources, by_base))),
                    "number": number,
                    "group": group,
                    "sources": [sources[at] for at in group["segments"]],
                }
                for number, group in enumerate(groups)
            ],
        )
        self._each(prove_newest, ranges)
        return result(
            damage=plan["damage"],
            replaced=[each["replaced"] for each in done if each["replaced"] is not None],
            first_dirty_offset=plan["first_dirty_offset"],
        )

    def _each(
        self, work: Callable[[Values], Values], tasks: Sequence[Values], sizes: Sequence[int] | None = None
    ) -> list[Values]:
        """Results in the order of tasks; the first that tells a fault ends it all."""
        done = self._executor.run([self._common | task for task in tasks], work, sizes)
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


def _slices(segment: LogSegment) -> list[Values]:
    return [asdict(one) for one in segment.slices]


def _all_slices(group: Values, sources: Sequence[Values], by_base: Mapping[int, LogSegment]) -> tuple[Segment, ...]:
    return tuple(one for at in group["segments"] for one in by_base[sources[at]["base_offset"]].slices)
