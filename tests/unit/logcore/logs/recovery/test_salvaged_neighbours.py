"""A salvage keeps every good batch, and leaves none that contradicts its neighbour when the damage between is gone."""

from collections.abc import Iterator
from typing import Any

import pytest

from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, ProposedFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.segments.filenames import TopicPartition
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from tests import handmade

FAR = 1 << 40


def salvaged(content: bytes) -> tuple[dict[str, bytes], RecoveryPlan]:
    """The segments that a salvage of one segment leaves, and the plan. Each is scanned."""
    name = f"{0:020d}.log"
    directory = PartitionDirectory(
        TopicPartition("orders", 0), {name: PartitionFile(name, content, 77)}, is_clean=False
    )
    plan = plan_recovery(directory, TopicConfig(), as_of_ms=5_000, salvage=True)
    made = {file: _bytes(directory, each) for file, each in plan.files.items() if file.endswith(".log")}
    for file, data in made.items():
        steps = list(SegmentScan(data, base_offset=int(file[:20]), sealed=True))
        assert steps
        assert all(isinstance(step, ScannedBatch) for step in steps)
    return made, plan


def _bytes(directory: PartitionDirectory, file: ProposedFile) -> bytes:
    match file:
        case Write(content, _):
            return content
        case Cut(source, size, _):
            return bytes(directory.files[source].content)[:size]
        case Keep(source):
            return bytes(directory.files[source].content)


@pytest.mark.parametrize("has_rest", [False, True], ids=["at the end", "in the middle"])
def test_a_batch_that_would_overlap_the_one_before_begins_a_new_file(has_rest: bool) -> None:
    begins_one_too_high = handmade.empty_batch(1, 1)
    repeated = handmade.simple_batch(0, [(b"k", b"0")])
    begins_inside = handmade.wrapper_v1([2, 3, 4], codec=handmade.LZ4)
    rest = handmade.message_v1(5, 1, b"k", b"5") if has_rest else b""

    made, plan = salvaged(begins_one_too_high + repeated + begins_inside + rest)

    assert made == {f"{0:020d}.log": begins_one_too_high, f"{3:020d}.log": begins_inside + rest}
    assert [(loss.kind, loss.position, loss.nbytes) for loss in plan.losses if loss.kind != "metadata-missing"] == [
        ("cut", 61, len(repeated))
    ]


@pytest.mark.parametrize("between", ["nothing", "damage"])
def test_a_batch_far_above_is_cut_out_if_good_batches_follow_at_lower_offsets(between: str) -> None:
    first, follows = (handmade.simple_batch(offset, [(b"k", b"v")]) for offset in (0, 2))
    far = handmade.simple_batch(FAR, [(b"k", b"far")])
    damaged = handmade.flip(handmade.simple_batch(1, [(b"k", b"1")]), 65) if between == "damage" else b""

    made, plan = salvaged(first + far + damaged + follows)

    assert made == {f"{0:020d}.log": first + follows}
    assert {(loss.kind, loss.position) for loss in plan.losses} >= {("cut", len(first))}


def test_a_length_is_not_corrected_if_that_takes_offsets_from_a_good_batch() -> None:
    short = handmade.patch(handmade.simple_batch(0, [(b"k", b"0")]), 8, b"\x7f\xff\xff\xff")
    good = handmade.simple_batch(1, [(b"k", b"0"), (b"k", b"1")], last_offset_delta=0)  # as old clients wrote it

    made, plan = salvaged(short + good)

    assert made == {f"{0:020d}.log": good}
    assert [(loss.kind, loss.position, loss.nbytes) for loss in plan.losses if loss.kind != "metadata-missing"] == [
        ("cut", 0, len(short))
    ]


def test_a_damaged_swap_file_replaces_only_the_segments_below_the_end_of_its_last_batch() -> None:
    swapped, later = handmade.simple_batch(3, [(b"k", b"3")]), handmade.simple_batch(61, [(b"k", b"61")])
    claims = handmade.simple_batch(100, [(b"k", b"100")]) + handmade.simple_batch(4, [(b"k", b"4")])
    contents = {f"{3:020d}.log.swap": swapped + claims, f"{61:020d}.log": later}
    files = {name: PartitionFile(name, content, 77) for name, content in contents.items()}
    directory = PartitionDirectory(TopicPartition("orders", 0), files, is_clean=False)

    plan = plan_recovery(directory, TopicConfig(), as_of_ms=5_000, salvage=True)

    assert plan.files[f"{61:020d}.log"] == Keep(f"{61:020d}.log")


def _noted(steps: Iterator[ScannedBatch | Stretch], given: list[object]) -> Iterator[ScannedBatch | Stretch]:
    for step in steps:
        given.append(step)
        yield step


@pytest.mark.parametrize("has_good", [False, True])
def test_many_batches_far_above_cost_one_look_ahead_each_at_most(
    has_good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches that the scans give, of 300 that are each too far above the one before."""
    given: list[object] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        walk = SegmentScan(*arguments, **named)
        walk._walk = _noted(walk._walk, given)
        return walk

    monkeypatch.setattr("logcore.logs.recovery.segment_pieces.SegmentScan", counted)
    far = b"".join(handmade.simple_batch(number << 32, [(b"k", b"v")]) for number in range(1, 301))
    good = handmade.simple_batch(1, [(b"k", b"v")]) if has_good else b""

    made, _ = salvaged(handmade.simple_batch(0, [(b"k", b"v")]) + far + good)

    assert len(made) == (1 if has_good else 301)
    assert len(given) < 5 * 300
