"""Headers of batches of a source, by one small read each."""

from pathlib import Path

import pytest

from logcore.storage.discovery import HeaderReader, SegmentFile
from tests import handmade
from tests.unit.logcore.storage.partition_folder import segment


class TestHeaderReader:
    """Headers of a source's batches, one small read each."""

    FIRST = handmade.simple_batch(0, [(b"k", b"v")] * 2)
    SECOND = handmade.simple_batch(2, [(b"k", b"v")] * 3)
    THIRD = handmade.simple_batch(5, [(b"k", b"v")])

    def file(self, tmp_path: Path, content: bytes) -> SegmentFile:
        path = segment(tmp_path, 0, content)
        return SegmentFile(0, str(path), len(content), 0, 0)

    def test_headers_follow_one_another(self, tmp_path: Path) -> None:
        file = self.file(tmp_path, self.FIRST + self.SECOND + self.THIRD)
        walked = [(at, header and header.base_offset) for at, header in HeaderReader().headers(file)]
        second, third = len(self.FIRST), len(self.FIRST) + len(self.SECOND)
        assert walked == [(0, 0), (second, 2), (third, 5)]
        assert [at for at, _ in HeaderReader().headers(file, third)] == [third]
        header = HeaderReader().header_at(file, second)
        assert header is not None
        assert header.base_offset == 2

    @pytest.mark.parametrize("position", [-1, 1, 10_000])
    def test_a_position_without_a_header_has_none(self, tmp_path: Path, position: int) -> None:
        assert HeaderReader().header_at(self.file(tmp_path, self.FIRST), position) is None

    def test_every_cut_ends_the_walk_with_none(self, tmp_path: Path) -> None:
        whole = self.FIRST + self.SECOND
        for length in range(len(self.FIRST) + 1, len(whole)):
            walked = list(HeaderReader().headers(self.file(tmp_path, whole[:length])))
            assert [header is None for _, header in walked] == [False, True]

    def test_a_batch_of_unknown_format_is_passed_over_if_one_follows(self, tmp_path: Path) -> None:
        injured = handmade.patch(self.SECOND, 16, b"\x7f")
        walked = list(HeaderReader().headers(self.file(tmp_path, self.FIRST + injured + self.THIRD)))
        assert [header and header.base_offset for _, header in walked] == [0, 5]

    @pytest.mark.parametrize("garbage", [b"\xff" * 100, bytes(100), b"\0" * 8 + b"\0\0\0\x20" + b"\xff" * 200])
    def test_garbage_ends_the_walk_with_none(self, tmp_path: Path, garbage: bytes) -> None:
        walked = list(HeaderReader().headers(self.file(tmp_path, self.FIRST + garbage)))
        assert walked[-1] == (len(self.FIRST), None)
