"""Recovery, salvage and reindexing of offsets that no log can hold: they end, with a loss or a refusal."""

import struct
from collections.abc import Iterator

import pytest

from logcore.columns.engines import Engine, available
from logcore.errors import LogError
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, PartitionFile
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery import salvage
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.logs.recovery.reindexing import plan_reindex
from logcore.logs.recovery.segment_recovery import IndexRules, Recover, recover_segment
from logcore.segments.filenames import TopicPartition
from tests import handmade

MAX_OFFSET = 2**63 - 1
FAR_OFFSETS = [
    2**31,
    2**33,
    2**62,
    2**62 + 1,
    MAX_OFFSET - 2**31,
    MAX_OFFSET - 2,
    MAX_OFFSET - 1,
    MAX_OFFSET,
    -(2**63),
    -1,
]


def engines() -> Iterator[Recover]:
    yield recover_segment
    if Engine.KERNELS in available():
        from logcore.columns.recovery import recover_compiled

        yield recover_compiled


ENGINES = list(engines())


class Endless(AssertionError):
    """The work does not end."""


@pytest.fixture
def counted_scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Scans that a salvage begins; more than fifty of them mean that it does not end."""
    begun: list[int] = []

    def counted(*args: object, **named: object) -> object:
        begun.append(1)
        if len(begun) > 50:
            raise Endless
        return real(*args, **named)  # type: ignore[arg-type]

    real = salvage.SegmentScan
    monkeypatch.setattr(salvage, "SegmentScan", counted)
    return begun


def batch(offset: int, count: int = 1, **fields: int) -> bytes:
    return handmade.simple_batch(offset, [(b"k", b"v")] * count, **fields)


def at_offset(data: bytes, offset: int) -> bytes:
    """The same batch with another base offset; its checksum does not cover it."""
    return struct.pack(">q", offset) + data[8:]


def directory(files: dict[str, bytes], *, is_clean: bool = False) -> PartitionDirectory:
    held = {file: PartitionFile(file, content, 77) for file, content in files.items()}
    return PartitionDirectory(TopicPartition("orders", 0), held, is_clean=is_clean)


def log(base: int = 0) -> str:
    return f"{base:020d}.log"


def planned(files: dict[str, bytes], *, as_salvage: bool = False, recover: Recover = recover_segment) -> RecoveryPlan:
    config = TopicConfig(index_interval_bytes=0)
    return plan_recovery(directory(files), config, as_of_ms=5_000, salvage=as_salvage, recover=recover)


# -- salvage ends


@pytest.mark.parametrize("recover", ENGINES)
@pytest.mark.parametrize("span", [2**31, 2**33])
def test_salvage_ends_where_one_wrapper_spans_more_than_an_index_can_say(
    counted_scans: list[int], recover: Recover, span: int
) -> None:
    wide = handmade.wrapper_v1([0, span])
    behind = batch(span + 1)
    plan = planned({log(): wide + behind}, as_salvage=True, recover=recover)
    assert plan.refusal is None
    assert [(loss.kind, loss.position, loss.nbytes) for loss in plan.losses if loss.file == log()] == [
        ("cut", 0, len(wide))
    ]
    assert plan.log_end_offset == span + 2


@pytest.mark.parametrize("offset", [MAX_OFFSET - 1, MAX_OFFSET])
def test_salvage_ends_where_a_batch_reaches_the_greatest_offset(counted_scans: list[int], offset: int) -> None:
    last = at_offset(batch(1, 2), offset)
    plan = planned({log(): batch(0) + last}, as_salvage=True)
    assert [loss.nbytes for loss in plan.losses if loss.file == log()] == [len(last)]
    assert plan.log_end_offset == 1


# -- offsets near 2^63


@pytest.mark.parametrize("recover", ENGINES)
@pytest.mark.parametrize("offset", [MAX_OFFSET - 1, MAX_OFFSET])
def test_recovery_refuses_a_last_batch_that_leaves_no_next_offset(recover: Recover, offset: int) -> None:
    last = at_offset(batch(1, 2), offset)
    plan = planned({log(): batch(0) + last}, recover=recover)
    assert plan.refusal is not None
    assert "greatest offset" in plan.refusal
    assert plan.exit_code == 3


@pytest.mark.parametrize("recover", ENGINES)
def test_a_clean_start_refuses_a_log_that_ends_beyond_the_greatest_offset(recover: Recover) -> None:
    files = {log(): batch(0) + at_offset(batch(1), MAX_OFFSET), log().replace(".log", ".index"): b""}
    source = directory(files, is_clean=True)
    plan = plan_recovery(source, TopicConfig(), as_of_ms=5_000, heeds_clean_mark=True, recover=recover)
    assert plan.refusal is not None
    assert "greatest offset" in plan.refusal


@pytest.mark.parametrize("offset", FAR_OFFSETS)
@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("as_salvage", [False, True])
def test_both_engines_plan_the_same_for_a_far_base_offset(
    counted_scans: list[int], offset: int, is_sealed: bool, as_salvage: bool
) -> None:
    files = {log(): batch(0) + at_offset(batch(1, 2, producer_id=7, producer_epoch=0, base_sequence=0), offset)}
    if is_sealed:
        files[log(3)] = batch(3)
    plans = [planned(files, as_salvage=as_salvage, recover=recover) for recover in ENGINES]
    assert all(plan.refusal is not None or plan.losses or as_salvage for plan in plans)
    assert [plan.as_dict() for plan in plans] == [plans[0].as_dict()] * len(plans)


@pytest.mark.parametrize("offset", FAR_OFFSETS)
@pytest.mark.parametrize("recover", ENGINES)
def test_reindexing_a_far_base_offset_ends_in_a_loss(recover: Recover, offset: int) -> None:
    source = directory({log(): batch(0) + at_offset(batch(1, 2), offset)})
    plan = plan_reindex(source, TopicConfig(index_interval_bytes=0), as_of_ms=5_000, recover=recover)
    assert [loss.kind for loss in plan.losses] == ["damaged-segment"]
    assert plan.files[log()] == Keep(log())


@pytest.mark.parametrize("base", [MAX_OFFSET - 2**31, MAX_OFFSET - 3, MAX_OFFSET - 1, MAX_OFFSET])
@pytest.mark.parametrize("rules", [IndexRules(0), IndexRules()])
def test_both_engines_recover_a_segment_near_the_greatest_offset_alike(base: int, rules: IndexRules) -> None:
    batches = [batch(base, 1, producer_id=4, producer_epoch=0, base_sequence=0)]
    batches += [at_offset(batch(0, count), min(base + 1, MAX_OFFSET)) for count in (1, 2)]
    for count in range(1, 4):
        found = [outcome(recover, b"".join(batches[:count]), base, rules) for recover in ENGINES]
        assert found == [found[0]] * len(found)


def outcome(recover: Recover, content: bytes, base: int, rules: IndexRules) -> object:
    try:
        return recover(content, base, rules)
    except LogError as error:
        return type(error), error.message, error.position, error.offset
