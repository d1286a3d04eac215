"""The work of a plan grows with the number of segments, not with its square."""

from collections.abc import Callable

import pytest

from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.logs.recovery.reindexing import plan_reindex
from logcore.segments.filenames import TopicPartition
from tests import handmade
from tests.executed import executed

pytestmark = pytest.mark.slow

FEW, MANY = 20, 120
CONFIG = TopicConfig()
EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")


def log(count: int, *, has_side_files: bool, is_damaged: bool = False) -> PartitionDirectory:
    """Segments of one batch each; every one damaged at its end, if asked for."""
    files: dict[str, bytes] = {}
    for base in range(count):
        batch = handmade.simple_batch(base, [(b"k", b"v")])
        files[f"{base:020d}.log"] = batch + (b"\1" * 70 if is_damaged else b"")
        if has_side_files:
            files[f"{base:020d}.index"] = files[f"{base:020d}.timeindex"] = b""
            files[f"{base:020d}.snapshot"] = EMPTY_SNAPSHOT
    held = {name: PartitionFile(name, content, 77) for name, content in files.items()}
    return PartitionDirectory(TopicPartition("orders", 0), held)


def recovery(directory: PartitionDirectory) -> object:
    return plan_recovery(directory, CONFIG, as_of_ms=5_000)


def salvage(directory: PartitionDirectory) -> object:
    return plan_recovery(directory, CONFIG, as_of_ms=5_000, salvage=True)


def clean_start(directory: PartitionDirectory) -> object:
    return plan_recovery(directory, CONFIG, as_of_ms=5_000, heeds_clean_mark=True)


def reindexing(directory: PartitionDirectory) -> object:
    return plan_reindex(directory, CONFIG, as_of_ms=5_000)


@pytest.mark.parametrize("has_side_files", [True, False])
@pytest.mark.parametrize("is_damaged", [True, False])
@pytest.mark.parametrize("plan", [recovery, salvage, clean_start, reindexing])
def test_the_steps_of_a_plan_grow_with_the_number_of_segments(
    plan: Callable[[PartitionDirectory], object], has_side_files: bool, is_damaged: bool
) -> None:
    few, many = (log(count, has_side_files=has_side_files, is_damaged=is_damaged) for count in (FEW, MANY))
    plan(few)  # imports and caches
    assert executed(lambda: plan(many), "opcode") < 1.15 * MANY / FEW * executed(lambda: plan(few), "opcode")
