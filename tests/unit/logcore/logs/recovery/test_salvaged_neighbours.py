"""A salvage leaves no contradiction between batches that are neighbours only because damage between them is gone."""

import pytest

from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.plan import plan_recovery
from logcore.segments.filenames import TopicPartition
from logcore.segments.scanning.scan import ScannedBatch, scan
from tests import handmade

NAME = f"{0:020d}.log"


@pytest.mark.parametrize("has_rest", [False, True], ids=["at the end", "in the middle"])
def test_a_batch_that_overlaps_its_new_neighbour_is_cut_out_and_named_at_its_old_place(has_rest: bool) -> None:
    begins_one_too_high = handmade.empty_batch(1, 1)
    repeated = handmade.simple_batch(0, [(b"k", b"0")])
    follows_the_right_one = handmade.wrapper_v1([2, 3, 4], codec=handmade.LZ4)
    rest = handmade.message_v1(5, 1, b"k", b"5") if has_rest else b""
    content = begins_one_too_high + repeated + follows_the_right_one + rest
    files = {NAME: PartitionFile(NAME, content, 77)}
    directory = PartitionDirectory(TopicPartition("orders", 0), files, is_clean=False)

    plan = plan_recovery(directory, TopicConfig(), as_of_ms=5_000, salvage=True)

    file = plan.files[NAME]
    assert isinstance(file, Write)
    assert file.content == follows_the_right_one + rest
    steps = list(scan(file.content, base_offset=0, sealed=True))
    assert steps
    assert all(isinstance(step, ScannedBatch) for step in steps)
    cut = {(loss.kind, loss.file, loss.position, loss.nbytes) for loss in plan.losses}
    assert cut >= {("cut", NAME, 0, 61), ("cut", NAME, 61, len(repeated))}


def test_places_after_a_hole_are_those_of_the_old_file() -> None:
    first = handmade.simple_batch(0, [(b"k", b"0")])
    damaged = handmade.flip(handmade.simple_batch(1, [(b"k", b"1")]), 40)
    begins_one_too_high = handmade.empty_batch(3, 1)
    repeated = handmade.simple_batch(0, [(b"k", b"0")])
    last = handmade.wrapper_v1([4, 5, 6], codec=handmade.LZ4)
    content = first + damaged + begins_one_too_high + repeated + last
    files = {NAME: PartitionFile(NAME, content, 77)}
    directory = PartitionDirectory(TopicPartition("orders", 0), files, is_clean=False)

    plan = plan_recovery(directory, TopicConfig(), as_of_ms=5_000, salvage=True)

    assert isinstance(plan.files[NAME], Write)
    assert plan.files[NAME].content == first + last
    cut = [(loss.position, loss.nbytes) for loss in plan.losses if loss.kind == "cut"]
    assert (content.index(begins_one_too_high), 61) in cut
