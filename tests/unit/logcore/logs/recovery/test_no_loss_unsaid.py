"""After any damage to a log, a loss names each committed offset that is not in the new directory.

The log is packed by hand, so the test knows which bytes hold which offsets. To find what the new
directory holds, it searches the directory for the whole batches, byte for byte.
"""

from __future__ import annotations

import random

import pytest

from logcore.logs.model.gaps import GapRules
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.segments.filenames import TopicPartition
from tests import handmade

SEGMENTS, BATCHES, RECORDS = 3, 4, 2
END = SEGMENTS * BATCHES * RECORDS
UNPROTECTED = frozenset((*range(8), *range(12, 16)))
"""Bytes of base offset and leader epoch, which no checksum covers: a batch may stand at other offsets then."""


def whole() -> tuple[dict[str, bytes], dict[bytes, range]]:
    """The segments' files, and the offsets of each batch by its bytes."""
    files: dict[str, bytes] = {}
    offsets: dict[bytes, range] = {}
    for segment in range(SEGMENTS):
        base = segment * BATCHES * RECORDS
        for first in range(base, base + BATCHES * RECORDS, RECORDS):
            rows = [(b"k", b"value %02d" % offset) for offset in range(first, first + RECORDS)]
            batch = handmade.simple_batch(first, rows)
            offsets[batch] = range(first, first + RECORDS)
            files[f"{base:020d}.log"] = files.get(f"{base:020d}.log", b"") + batch
    return files, offsets


def harmed(files: dict[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """Some of: flipped bits, a segment that is gone, cut or renamed, zeros or junk at the end of the log."""
    files = dict(files)
    names = sorted(files)
    for _ in range(chance.randrange(4)):
        name = chance.choice(names)
        size = len(files[name]) // BATCHES
        at = chance.choice([at for at in range(len(files[name])) if at % size not in UNPROTECTED])
        files[name] = handmade.flip(files[name], at, chance.randrange(8))
    match chance.randrange(6):
        case 0:
            del files[chance.choice(names[1:])]
        case 1:
            name = chance.choice(names)
            files[name] = files[name][: chance.randrange(len(files[name]))]
        case 2:
            files[names[-1]] = files[names[-1]][: -chance.randrange(1, 90)] + bytes(90)
        case 3:
            files[names[-1]] += chance.randbytes(chance.randrange(1, 100))
        case 4:
            name = chance.choice(names[1:])
            files[f"{int(name[:20]) - chance.randrange(1, 9):020d}.log"] = files.pop(name)
    return files


def made(plan: RecoveryPlan, files: dict[str, bytes]) -> dict[str, bytes]:
    content: dict[str, bytes] = {}
    for name, file in plan.files.items():
        match file:
            case Keep(source):
                content[name] = files[source]
            case Cut(source, size, _):
                content[name] = files[source][:size]
            case Write(data, _):
                content[name] = data
    return {name: data for name, data in content.items() if name.endswith(".log")}


@pytest.mark.parametrize("salvage", [False, True])
def test_each_committed_offset_is_in_the_new_directory_or_named_by_a_loss(salvage: bool) -> None:
    sound, offsets = whole()
    everything = set(range(END))
    for seed in range(400):
        files = harmed(sound, random.Random(seed))
        directory = PartitionDirectory(
            TopicPartition("orders", 0),
            {name: PartitionFile(name, data, 1_000) for name, data in files.items()},
            high_watermark=END,
        )
        plan = plan_recovery(directory, TopicConfig(), as_of_ms=5_000, salvage=salvage, gaps=GapRules())
        assert plan.refusal is None, seed
        there = b"".join(data for _, data in sorted(made(plan, files).items()))
        kept = {offset for batch, span in offsets.items() if batch in there for offset in span}
        named = {
            offset
            for loss in plan.losses
            if loss.first_offset is not None and loss.last_offset is not None
            for offset in range(loss.first_offset, loss.last_offset + 1)
        }
        assert everything - kept <= named, seed
        assert plan.exit_code == 2 if everything - kept else True, seed
        for loss in plan.losses:
            if loss.last_offset is not None:
                assert loss.first_offset is not None, seed
                assert 0 <= loss.first_offset <= loss.last_offset < END, seed
                assert loss.records is None or loss.records <= loss.last_offset - loss.first_offset + 1, seed
        if salvage:
            cut = {offset for loss in plan.losses if loss.kind == "cut" for offset in _span(loss)}
            assert not cut & kept, (seed, "what is kept is not said to be lost")


def _span(loss: object) -> range:
    first, last = getattr(loss, "first_offset", None), getattr(loss, "last_offset", None)
    return range(0) if first is None or last is None else range(first, last + 1)
