"""Which files make up the log, whenever a broker was stopped: what its next start would keep (LogLoader)."""

import pytest

from logcore.segments.startup import DropReason, kept_at_start

SUFFIXES = (".log", ".index", ".timeindex")


def names(base: int, suffix: str = "", kinds: tuple[str, ...] = SUFFIXES) -> list[str]:
    return [f"{base:020d}{kind}{suffix}" for kind in kinds]


def segments(present: list[str], **ends: int) -> list[str]:
    """Names, as they are on disk, of the segments a start would have; `s40=80`: 40.log.swap reaches offset 80."""

    def next_offset(name: str) -> int:
        return ends[f"s{int(name[:20])}"]

    plan = kept_at_start(present, next_offset)
    return [f"{int(now[:20])}{now[20:]}" for plain, now in plan.kept.items() if plain.endswith(".log")]


def never(name: str) -> int:
    raise AssertionError(f"nobody needs to know where {name} ends")


PLAIN = names(0) + names(40) + names(80)


def test_plain_segments_are_the_log() -> None:
    plan = kept_at_start(PLAIN, never)
    assert plan.kept == {name: name for name in sorted(PLAIN)}
    assert plan.dropped == {}
    assert plan.swapped == ()


def test_names_that_are_not_numbered_are_left_out_of_it() -> None:
    others = ["leader-epoch-checkpoint", "partition.metadata", "7.log", "x.swap", ".log", "0000000000000000000x.log"]
    plan = kept_at_start([*PLAIN, *others, "00000000000000000090.tmp"], never)
    assert list(plan.kept) == sorted(PLAIN)
    assert plan.dropped == {}


def test_deleted_files_are_gone_but_for_those_of_kraft_snapshots() -> None:
    plan = kept_at_start([*PLAIN, *names(90, ".deleted"), f"{5:020d}-{1:010d}.checkpoint.deleted"], never)
    assert plan.dropped == dict.fromkeys(names(90, ".deleted"), DropReason.DELETED)


@pytest.mark.parametrize(
    ("phase", "present", "expected"),
    [
        ("writing", PLAIN + names(0, ".cleaned"), ["0.log", "40.log", "80.log"]),
        (
            "first file renamed",
            [*PLAIN, *names(0, ".swap", (".log",)), *names(0, ".cleaned", SUFFIXES[1:])],
            ["0.log", "40.log", "80.log"],
        ),
        ("all renamed", PLAIN + names(0, ".swap"), ["0.log.swap", "80.log"]),
        (
            "old segments being renamed",
            names(0, ".deleted") + names(0, ".swap") + names(40) + names(80),
            ["0.log.swap", "80.log"],
        ),
        (
            "old segments renamed",
            names(0, ".deleted") + names(40, ".deleted") + names(0, ".swap") + names(80),
            ["0.log.swap", "80.log"],
        ),
        (
            "taking the place",
            [*names(40, ".deleted"), *names(0, kinds=(".log",)), *names(0, ".swap", SUFFIXES[1:]), *names(80)],
            ["0.log", "80.log"],
        ),
        ("done", names(0) + names(80), ["0.log", "80.log"]),
    ],
)
def test_a_cleaning_of_two_segments_into_one_is_seen_wholly_or_not_at_all(
    phase: str, present: list[str], expected: list[str]
) -> None:
    # The cleaned segment holds offsets 0 to 79 of the old ones at 0 and 40.
    assert segments(present, s0=80) == expected, phase


@pytest.mark.parametrize(
    ("phase", "present", "expected"),
    [
        ("writing the second", PLAIN + names(0, ".cleaned") + names(20, ".cleaned"), [0, 40, 80]),
        ("the upper one renamed", PLAIN + names(0, ".cleaned") + names(20, ".swap"), [0, 40, 80]),
        ("both renamed", PLAIN + names(0, ".swap") + names(20, ".swap"), [0, 20, 40, 80]),
        ("the lower one in place", names(0) + names(20, ".swap") + names(40) + names(80), [0, 20, 40, 80]),
    ],
)
def test_a_split_of_one_segment_into_two_is_seen_wholly_or_not_at_all(
    phase: str, present: list[str], expected: list[int]
) -> None:
    # New segments are renamed from the highest down, so a .swap above a .cleaned is half a split (KAFKA-6264).
    ends = {0: 20, 20: 40}
    plan = kept_at_start(present, lambda name: ends[int(name[:20])])
    assert [int(name[:20]) for name in plan.kept if name.endswith(".log")] == expected, phase
    assert (f"{20:020d}.log.swap" in plan.dropped) == (phase == "the upper one renamed")


def test_a_swap_below_the_lowest_cleaned_file_is_in_force() -> None:
    plan = kept_at_start(PLAIN + names(0, ".swap") + names(80, ".cleaned"), lambda _: 40)
    assert plan.swapped == (f"{0:020d}.log.swap",)
    assert plan.dropped[f"{0:020d}.log"] is DropReason.REPLACED
    assert f"{40:020d}.log" in plan.kept


def test_what_a_swapped_segment_covers_goes_with_its_indexes_and_snapshots() -> None:
    present = [*PLAIN, *names(0, ".swap"), f"{40:020d}.snapshot", f"{40:020d}.txnindex", f"{80:020d}.snapshot"]
    plan = kept_at_start(present, lambda _: 80)
    gone = [*names(0), *names(40), f"{40:020d}.snapshot", f"{40:020d}.txnindex"]
    assert plan.dropped == dict.fromkeys(gone, DropReason.REPLACED)
    assert plan.kept[f"{80:020d}.snapshot"] == f"{80:020d}.snapshot"
    assert plan.beside(0) == {".index": f"{0:020d}.index.swap", ".timeindex": f"{0:020d}.timeindex.swap"}


def test_segments_above_the_last_batch_that_was_kept_stay_in_the_log() -> None:
    # Compaction emptied everything from offset 30 on: the old segment at 40 is loaded beside the cleaned one.
    assert segments(PLAIN + names(0, ".swap"), s0=30) == ["0.log.swap", "40.log", "80.log"]


def test_a_cleaned_segment_without_batches_takes_the_place_of_its_name_only() -> None:
    plan = kept_at_start(PLAIN + names(40, ".swap"), lambda _: 40)
    assert plan.kept[f"{40:020d}.log"] == f"{40:020d}.log.swap"
    assert plan.dropped == dict.fromkeys(names(40), DropReason.REPLACED)


def test_an_old_index_stays_where_the_cleaned_segment_is_empty_and_brings_none() -> None:
    present = [*PLAIN, f"{40:020d}.txnindex", *names(40, ".swap")]
    plan = kept_at_start(present, lambda _: 40)
    assert plan.beside(40)[".txnindex"] == f"{40:020d}.txnindex"


def test_a_swap_of_an_index_alone_is_finished() -> None:
    present = [*names(0, kinds=(".log",)), *names(0, ".swap", (".index",))]
    plan = kept_at_start(present, never)
    assert plan.kept == {f"{0:020d}.log": f"{0:020d}.log", f"{0:020d}.index": f"{0:020d}.index.swap"}
    assert plan.swapped == ()


def test_an_index_without_its_segment_goes() -> None:
    plan = kept_at_start([*PLAIN, *names(60, kinds=(".index", ".timeindex", ".txnindex"))], never)
    assert set(plan.dropped.values()) == {DropReason.NO_SEGMENT}
    assert len(plan.dropped) == 3


def test_snapshots_stay_at_segments_bases_and_one_above_the_last() -> None:
    snapshots = [f"{offset:020d}.snapshot" for offset in (0, 20, 40, 80, 90, 95)]
    plan = kept_at_start(PLAIN + snapshots, never)
    assert [int(name[:20]) for name in plan.kept if name.endswith(".snapshot")] == [0, 40, 80, 95]
    assert set(plan.dropped.values()) == {DropReason.STRAY_SNAPSHOT}


def test_a_snapshot_below_the_last_segment_at_no_base_offset_is_removed_even_if_it_is_the_highest() -> None:
    plan = kept_at_start([*PLAIN, f"{60:020d}.snapshot"], never)
    assert plan.dropped == {f"{60:020d}.snapshot": DropReason.STRAY_SNAPSHOT}


def test_snapshots_at_or_before_the_log_start_are_removed() -> None:
    snapshots = names(0, kinds=(".snapshot",)) + names(40, kinds=(".snapshot",)) + names(80, kinds=(".snapshot",))
    plan = kept_at_start([*PLAIN, *snapshots], never).without_old_snapshots(40)
    assert plan.dropped == dict.fromkeys(snapshots[:2], DropReason.OLD_SNAPSHOT)
    assert set(plan.kept) == {*PLAIN, snapshots[2]}
