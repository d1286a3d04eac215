"""For all logs, clocks and limits: what retention keeps is what a small model of the three rules keeps.

The model knows of a segment only what the generator drew for it, counts forwards and shares no code with the plan; the
bytes are packed by `tests.handmade`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.retention.retention_plan import RetentionPlan, plan_retention
from logcore.segments.filenames import TopicPartition
from tests import handmade
from tests.sampling import examples

CLOCK = 1_000


TIMES = st.one_of(st.sampled_from([-1, 0, 400, 900, CLOCK, CLOCK + 50]), st.integers(-1, CLOCK + 100))
"""Few different ones, so that what hangs on one of them is met."""


@dataclass(frozen=True)
class Drawn:
    """A segment: its base, the timestamp of each of its batches of one record, gaps before them, its mtime."""

    base: int
    timestamps: tuple[int, ...]
    gaps: tuple[int, ...]
    modified: int

    @property
    def offsets(self) -> list[int]:
        return [self.base + sum(self.gaps[: n + 1]) + n for n in range(len(self.timestamps))]

    @property
    def end(self) -> int:
        return self.offsets[-1] + 1 if self.timestamps else self.base

    @property
    def content(self) -> bytes:
        rows = zip(self.offsets, self.timestamps, strict=True)
        return b"".join(
            handmade.batch([handmade.record(0, b"k", b"v")], base_offset=o, base_timestamp=t) for o, t in rows
        )


SIZE = len(Drawn(0, (0,), (0,), 0).content)


@st.composite
def logs(draw: st.DrawFn) -> list[Drawn]:
    base = draw(st.integers(0, 5))
    made = []
    for _ in range(draw(st.integers(1, 6))):
        timestamps = tuple(draw(st.lists(TIMES, max_size=3)))
        gaps = tuple(draw(st.integers(0, 2)) for _ in timestamps)
        made.append(Drawn(base, timestamps, gaps, draw(st.integers(0, CLOCK))))
        base = max(made[-1].end, base + 1) + draw(st.integers(0, 2))
    return made


POLICIES = st.sampled_from([(), ("compact",), ("delete",), ("delete",), ("compact", "delete")])


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[Drawn], TopicConfig, int, int]:
    log = draw(logs())
    end = log[-1].end
    config = TopicConfig(
        cleanup_policy=draw(POLICIES),
        retention_ms=draw(st.sampled_from([-1, 0, 100, 500, 600])),
        retention_bytes=draw(st.one_of(st.just(-1), st.integers(0, 18 * SIZE))),
    )
    start = draw(st.integers(log[0].base, end))
    return log, config, start, draw(st.one_of(st.just(end), st.integers(start, end)))


def kept_by_model(log: list[Drawn], config: TopicConfig, start: int, committed: int) -> list[int]:
    """Bases that stay: the longest tail on which the rules, tried on prefixes, agree."""
    bases = [segment.base for segment in log]
    ends = [*bases[1:], log[-1].end]
    lengths = [SIZE * len(segment.timestamps) for segment in log]
    ages = []
    for segment in log:
        known = [at for at in segment.timestamps if at >= 0]
        ages.append(CLOCK - (max(known) if known else segment.modified))

    def may_go(n: int) -> bool:
        return ends[n] <= committed and (n + 1 < len(log) or lengths[n] > 0)

    gone = 0
    while gone + 1 < len(log) and may_go(gone) and bases[gone + 1] <= start:
        gone += 1
    if "delete" in config.cleanup_policy:
        if config.retention_bytes >= 0:
            while gone < len(log) and may_go(gone) and sum(lengths[gone + 1 :]) >= config.retention_bytes:
                gone += 1
        if config.retention_ms >= 0:
            while gone < len(log) and may_go(gone) and ages[gone] > config.retention_ms:
                gone += 1
    return bases[gone:]


def directory(log: list[Drawn], start: int, committed: int) -> PartitionDirectory:
    files = {"leader-epoch-checkpoint": PartitionFile("leader-epoch-checkpoint", b"0\n1\n0 0\n", 5)}
    for segment in log:
        known = [at for at in segment.timestamps if at >= 0]
        entry = struct.pack(">qi", max(known), 0) if known else b""
        for suffix, content in ((".log", segment.content), (".index", b""), (".timeindex", entry)):
            name = f"{segment.base:020d}{suffix}"
            files[name] = PartitionFile(name, content, segment.modified)
    return PartitionDirectory(TopicPartition("t", 0), files, log[-1].end, start, committed, None, is_clean=True)


def made(held: PartitionDirectory, config: TopicConfig) -> RetentionPlan:
    return plan_retention(held, config, line=BrokerLine.V4_4, as_of_ms=CLOCK)


def after(plan: RetentionPlan) -> PartitionDirectory:
    """The directory that a plan leaves."""
    files = {}
    for name, file in plan.files.items():
        if isinstance(file, Keep):
            files[name] = replace(plan.directory.files[file.source], name=name)
        else:
            assert isinstance(file, Write)
            files[name] = PartitionFile(name, file.content, file.modified_ms)
    root = plan.root
    return PartitionDirectory(
        plan.directory.topic_partition,
        files,
        root.recovery_point,
        root.log_start_offset,
        root.high_watermark,
        root.first_dirty_offset,
        is_clean=True,
    )


@settings(max_examples=examples(400), deadline=None)
@given(rounds())
def test_what_stays_is_what_the_model_keeps(drawn: tuple[list[Drawn], TopicConfig, int, int]) -> None:
    log, config, start, committed = drawn
    plan = made(directory(log, start, committed), config)
    kept = kept_by_model(log, config, start, committed)
    assert [stay.segment.base_offset for stay in plan.decision.stays] == kept
    assert all(stay.why for stay in plan.decision.stays)
    assert all(gone.why for gone in plan.decision.deletions)
    end = log[-1].end
    assert plan.new_segment == (None if kept else end)
    first = kept[0] if kept else end
    assert plan.new_log_start_offset == max(start, first)
    assert plan.root.log_start_offset == (start if start > first else None)
    assert {name for name in plan.files if name.endswith(".log")} == {f"{base:020d}.log" for base in kept or [end]}
    assert plan.new_log_start_offset <= committed


@settings(max_examples=examples(200), deadline=None)
@given(rounds())
def test_one_round_is_all_there_is_to_do(drawn: tuple[list[Drawn], TopicConfig, int, int]) -> None:
    log, config, start, committed = drawn
    once = after(made(directory(log, start, committed), config))
    again = made(once, config)
    assert not again.decision.deletions
    assert again.new_log_start_offset == again.log_start_offset
    # a snapshot where the log starts now: the next start of a broker removes it, and so does the next round
    assert set(again.dropped) <= {f"{again.log_start_offset:020d}.snapshot"}
    settled = after(again)
    nothing = made(settled, config)
    assert not nothing.decision.deletions
    assert (nothing.new_log_start_offset, nothing.removed()) == (nothing.log_start_offset, {})
    assert after(nothing) == settled


@settings(max_examples=examples(300), deadline=None)
@given(logs(), st.sampled_from([-1, 100, 500]), st.sampled_from([-1, SIZE, 4 * SIZE]), st.data())
def test_damage_never_makes_more_go(log: list[Drawn], age: int, size: int, data: st.DataObject) -> None:
    config = TopicConfig(retention_ms=age, retention_bytes=size)
    start, committed = log[0].base, log[-1].end
    held = directory(log, start, committed)
    whole = made(held, config)
    files = dict(held.files)
    for segment in data.draw(st.lists(st.sampled_from(log), min_size=1, max_size=2, unique=True)):
        content = bytearray(segment.content)
        how = data.draw(st.sampled_from(["flip", "cut", "cut between batches", "zeros", "garbage", "no time index"]))
        name = f"{segment.base:020d}.log"
        if how == "flip" and content:
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del content[data.draw(st.integers(0, len(content))) :]
        elif how == "cut between batches":
            del content[SIZE * data.draw(st.integers(0, 2)) :]
        elif how == "zeros":
            content += bytes(data.draw(st.integers(1, 3 * SIZE)))
        elif how == "garbage":
            content += b"\x55" * data.draw(st.integers(1, 3 * SIZE))
        else:
            del files[f"{segment.base:020d}.timeindex"]
        files[name] = replace(files[name], held=bytes(content))
    hurt = made(replace(held, files=files), config)
    assert len(hurt.decision.deletions) <= len(whole.decision.deletions)
