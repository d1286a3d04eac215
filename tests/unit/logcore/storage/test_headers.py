"""Headers of messages of format v0 and v1 in files; test_header_reader has those of v2."""

from pathlib import Path

import pytest

from logcore.storage.discovery import SegmentFile
from logcore.storage.headers import HeaderReader
from tests import handmade


def file_of(path: Path, data: bytes) -> SegmentFile:
    path = path / "00000000000000000000.log"
    path.write_bytes(data)
    return SegmentFile(0, str(path), len(data), 0, 0)


MIXED = [
    handmade.message_v0(0, None, None),
    handmade.wrapper_v1([1, 2, 4]),
    handmade.simple_batch(5, [(b"k", b"v")]),
    handmade.wrapper_v0([6, 8], codec=handmade.LZ4),
    handmade.message_v0(9, None, None),
]


def test_headers_of_all_formats_are_read_and_wrappers_unfolded(tmp_path: Path) -> None:
    file = file_of(tmp_path, b"".join(MIXED))
    walked = list(HeaderReader().headers(file))
    assert [(header.magic, header.base_offset, header.last_offset, header.record_count) for _, header in walked] == [
        (0, 0, 0, 1),
        (1, 1, 4, 3),
        (2, 5, 5, 1),
        (0, 6, 8, 2),
        (0, 9, 9, 1),
    ]
    for position, header in walked:
        assert HeaderReader().header_at(file, position) == header


@pytest.mark.parametrize("last", MIXED)
def test_a_message_that_is_not_whole_has_no_header(tmp_path: Path, last: bytes) -> None:
    for length in range(len(last)):
        file = file_of(tmp_path, MIXED[0] + last[:length])
        assert HeaderReader().header_at(file, len(MIXED[0])) is None
    file = file_of(tmp_path, MIXED[0] + last)
    assert HeaderReader().header_at(file, len(MIXED[0])) is not None


def test_nothing_is_decompressed_for_a_damaged_wrapper(tmp_path: Path) -> None:
    damaged = handmade.flip(MIXED[1], 60)
    (_, first), (_, second), (_, third) = HeaderReader().headers(file_of(tmp_path, MIXED[0] + damaged + MIXED[2]))
    assert (first.base_offset, second.base_offset, second.record_count, third.base_offset) == (0, 4, 1, 5)


def test_an_empty_wrapper_is_skipped_if_a_batch_follows(tmp_path: Path) -> None:
    empty = handmade.wrapper([b""], offset=4)
    walked = list(HeaderReader().headers(file_of(tmp_path, MIXED[0] + empty + MIXED[2])))
    assert [header.base_offset for _, header in walked] == [0, 5]
    walked = list(HeaderReader().headers(file_of(tmp_path, MIXED[0] + empty)))
    assert [header and header.base_offset for _, header in walked] == [0, None]
