"""A segment's offset and time index against its batches; every expectation is packed by hand."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.errors import LogError
from logcore.logs.checks.index_check import WalkedSegment, check_indexes
from logcore.logs.model.findings import Finding
from logcore.logs.model.sources import SegmentFile
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from logcore.storage.discovery import read_file
from tests import handmade

BATCHES = [
    handmade.simple_batch(5 + 2 * number, [(b"k", b"v" * 100)] * 2, base_timestamp=1000 * (number + 1))
    for number in range(5)
]
LOG = b"".join(BATCHES)
AT = [sum(map(len, BATCHES[:number])) for number in range(6)]

Check = Callable[..., list[Finding]]


def offsets(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", offset - 5, position) for offset, position in entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", timestamp, offset - 5) for timestamp, offset in entries)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def run(
        index: bytes | None = None,
        time: bytes | None = None,
        *,
        valid_end: int = len(LOG),
        is_damaged: bool = False,
        is_sealed: bool = False,
    ) -> list[Finding]:
        path = tmp_path / f"{5:020d}.log"
        beside = []
        for suffix, content in ((".index", index), (".timeindex", time)):
            if content is not None:
                file = path.with_suffix(suffix)
                file.write_bytes(content)
                beside.append((suffix, str(file)))
        segment = SegmentFile(5, str(path), len(LOG), 0, 0, tuple(beside))

        def batches() -> list[ScannedBatch]:
            walk = SegmentScan(LOG[:valid_end], base_offset=5, sealed=True, decode=False)
            return [item for item in walk if isinstance(item, ScannedBatch)]

        facts = WalkedSegment(valid_end, is_damaged, is_sealed, max_timestamp=5000)
        return list(check_indexes(segment, facts, batches, read_file))

    return run


GOOD = offsets((10, AT[2]), (14, AT[4]))
GOOD_TIMES = times((3000, 10), (5000, 14))


def test_indexes_as_brokers_write_them_are_right(check: Check) -> None:
    assert check(GOOD, GOOD_TIMES) == []
    assert check(GOOD + bytes(800), GOOD_TIMES + bytes(1200)) == []
    assert check(b"", b"") == []


def test_indexes_as_old_brokers_wrote_them_are_right(check: Check) -> None:
    assert check(offsets((9, AT[2]), (13, AT[4])), times((3000, 9))) == []
    assert check(offsets((12, AT[2]), (14, AT[4]))) == []


@pytest.mark.parametrize(
    ("index", "number", "position"),
    [
        (offsets((8, AT[2]), (14, AT[4])), 1, 0),
        (offsets((10, AT[2]), (14, AT[4] + 1)), 1, 8),
        (offsets((9, AT[2] - 1), (14, AT[4] - 1)), 2, 0),
    ],
)
def test_entries_that_no_broker_would_have_written_are_reported_once_per_file(
    check: Check, index: bytes, number: int, position: int
) -> None:
    (finding,) = check(index)
    assert (finding.rule, finding.position, finding.nbytes) == ("offset-index-differs", position, 8)
    assert finding.message.startswith(f"{number} of 2 entries")
    assert str(finding.file).endswith(".index")


@pytest.mark.parametrize("time", [times((3000, 12), (5000, 14)), times((3001, 10), (5000, 14))])
def test_a_time_index_that_does_not_fit_is_reported(check: Check, time: bytes) -> None:
    (finding,) = check(GOOD, time)
    assert (finding.rule, finding.position) == ("time-index-differs", 0)


def test_an_entry_after_the_last_good_batch_shows_that_the_segment_was_cut(check: Check) -> None:
    (finding,) = check(GOOD, valid_end=AT[4])
    assert (finding.rule, finding.position, finding.nbytes, finding.start_offset) == ("index-past-end", 8, 8, 14)
    assert check(GOOD, valid_end=AT[5]) == []
    assert check(GOOD, valid_end=AT[4], is_damaged=True)[0].rule == "index-past-end"


def test_entries_of_a_damaged_segment_may_be_of_what_was_lost(check: Check) -> None:
    assert check(offsets((8, AT[2]), (14, AT[4])), times((3000, 12)), is_damaged=True) == []


@pytest.mark.parametrize(
    ("index", "time"),
    [(offsets((10, AT[2]), (9, AT[4])), None), (struct.pack(">ii", -1, 5), None), (b"", times((3000, 10), (2000, 14)))],
)
def test_an_index_that_contradicts_itself_is_corrupt(check: Check, index: bytes, time: bytes | None) -> None:
    assert [finding.rule for finding in check(index, time)] == ["corrupt-index"]


def test_a_segment_without_an_offset_index_is_information(check: Check) -> None:
    (finding,) = check(None)
    assert (finding.rule, finding.severity) == ("index-missing", "info")


def test_an_index_that_went_away_or_cannot_be_read_is_reported(check: Check, tmp_path: Path) -> None:
    def refuse(path: str) -> bytes:
        raise LogError("no")

    segment = SegmentFile(5, str(tmp_path / f"{5:020d}.log"), len(LOG), 0, 0, None)
    findings = list(check_indexes(segment, WalkedSegment(len(LOG), False, False, None), list, refuse))
    assert [finding.rule for finding in findings] == ["unreadable", "unreadable"]


def test_bytes_that_are_no_whole_entry_are_information(check: Check) -> None:
    findings = check(GOOD + b"abc", GOOD_TIMES + b"abcdef")
    assert [(f.rule, f.position, f.nbytes) for f in findings] == [
        ("index-partial-entry", 16, 3),
        ("index-partial-entry", 24, 6),
    ]


def test_zeros_are_room_while_a_segment_is_written_and_a_loss_once_it_is_complete(check: Check) -> None:
    assert check(bytes(80), GOOD_TIMES) == []
    (finding,) = check(bytes(80), GOOD_TIMES, is_sealed=True)
    assert (finding.rule, finding.position, finding.nbytes) == ("index-zeroed", 0, 80)
    assert check(GOOD, GOOD_TIMES, is_sealed=True) == []


def test_the_time_index_of_a_complete_segment_ends_at_its_greatest_timestamp(check: Check) -> None:
    assert check(GOOD, times((3000, 10))) == []
    for time in (times((3000, 10)), b""):
        (finding,) = check(GOOD, time, is_sealed=True)
        assert finding.rule == "time-index-differs"
        assert "reach 5000" in finding.message
    assert check(GOOD, None, is_sealed=True) == []
