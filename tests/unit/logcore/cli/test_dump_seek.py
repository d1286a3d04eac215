"""`dump --offsets` begins at a proved entry of the index and ends after the last offset. It ignores all other bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import crc32c
import pytest

from logcore.cli.main import main
from logcore.storage.source_bytes import SourceBytes
from tests import handmade

Captured = pytest.CaptureFixture[str]

COUNT = 60
BATCHES = [
    handmade.simple_batch(10 * at, [(b"k%d" % at, b"v" * 100)] * 10, producer_id=at % 3, producer_epoch=0)
    for at in range(COUNT)
]
POSITIONS = [sum(map(len, BATCHES[:at])) for at in range(COUNT + 1)]
EVERY_FIFTH = b"".join(struct.pack(">ii", 10 * at + 9, POSITIONS[at]) for at in range(5, COUNT, 5))


@pytest.fixture(params=["kernels", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", request.param)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """`orders-0` with 60 batches of ten records, and an entry of the index for every fifth batch."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"".join(BATCHES))
    (folder / "00000000000000000000.index").write_bytes(EVERY_FIFTH)
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {10 * COUNT}\n")
    return folder


def offsets(capsys: Captured, *arguments: str | Path, code: int = 0) -> list[int]:
    assert main(["dump", "--format", "jsonl", *map(str, arguments)]) == code
    return [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]


def flipped(folder: Path, batch: int) -> None:
    path = folder / "00000000000000000000.log"
    path.write_bytes(handmade.flip(path.read_bytes(), POSITIONS[batch] + 80))


@pytest.mark.usefixtures("engine")
class TestSeek:
    @pytest.mark.parametrize(
        ("chosen", "start", "end"),
        [("0..", 0, 600), ("54..", 54, 600), ("59..60", 59, 60), ("333..377", 333, 377), ("..12", 0, 12)],
    )
    def test_the_same_records_with_and_without_an_index(
        self, orders: Path, capsys: Captured, chosen: str, start: int, end: int
    ) -> None:
        assert offsets(capsys, "--offsets", chosen, orders) == list(range(start, end))
        (orders / "00000000000000000000.index").unlink()
        assert offsets(capsys, "--offsets", chosen, orders) == list(range(start, end))

    def test_a_wrong_index_hides_no_record(self, orders: Path, capsys: Captured) -> None:
        wrong = b"".join(struct.pack(">ii", 10 * at + 9, POSITIONS[min(at + 3, 59)]) for at in range(5, COUNT, 5))
        for content in (wrong, wrong[::-1], bytes(80), b"\xff" * 400, b"\x01\x02\x03"):
            (orders / "00000000000000000000.index").write_bytes(content)
            assert offsets(capsys, "--offsets", "333..340", orders) == list(range(333, 340))

    def test_damage_before_the_entry_and_after_the_last_offset_is_not_reported(
        self, orders: Path, capsys: Captured
    ) -> None:
        flipped(orders, 2)
        flipped(orders, 50)
        assert offsets(capsys, "--offsets", "333..377", orders) == list(range(333, 377))
        assert offsets(capsys, "--offsets", "333..", "--limit", "5", orders) == list(range(333, 338))
        assert len(offsets(capsys, "--offsets", "333..", orders, code=2)) == 600 - 333 - 10
        assert len(offsets(capsys, "--offsets", "..377", orders, code=2)) == 377 - 10
        assert len(offsets(capsys, orders, code=2)) == 580

    def test_damage_between_is_reported(self, orders: Path, capsys: Captured) -> None:
        flipped(orders, 34)
        shown = [*range(333, 340), *range(350, 377)]
        assert offsets(capsys, "--offsets", "333..377", orders, code=2) == shown

    def test_an_entry_whose_batch_is_damaged_is_passed_over(self, orders: Path, capsys: Captured) -> None:
        flipped(orders, 30)
        assert offsets(capsys, "--offsets", "314..316", orders, code=2) == [314, 315]

    def test_zeros_at_the_end_are_named_by_their_position_in_the_file(self, orders: Path, capsys: Captured) -> None:
        path = orders / "00000000000000000000.log"
        path.write_bytes(path.read_bytes() + bytes(500))
        assert main(["dump", "--offsets", "590..", str(orders)]) == 0
        assert f"the last 500 bytes, from position {POSITIONS[60]}, are zeros" in capsys.readouterr().err

    @pytest.mark.parametrize("form", ["text", "csv", "arrow"])
    def test_other_formats_seek_too(self, orders: Path, capsys: Captured, form: str, tmp_path: Path) -> None:
        flipped(orders, 2)
        arguments = ["--offsets", "333..336", "-o", str(tmp_path / "out"), str(orders)]
        assert main(["dump", "--format", form, *arguments]) == 0


def test_few_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Of 64 MiB, only the bytes at the index entry and the first step are read."""
    monkeypatch.setenv("LOGLAKE_ENGINE", "kernels")
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batch = handmade.batch([handmade.record(0, None, bytes(1 << 20))], base_offset=0, crc=0)
    batch = handmade.patch(batch, 17, struct.pack(">I", crc32c.crc32c(batch[21:])))
    with (folder / "00000000000000000000.log").open("wb") as file:
        for offset in range(64):
            file.write(struct.pack(">q", offset) + batch[8:])
    entries = [struct.pack(">ii", offset, offset * len(batch)) for offset in range(1, 64)]
    (folder / "00000000000000000000.index").write_bytes(b"".join(entries))
    fetched: list[int] = []
    real = SourceBytes.fetch

    def watched(self: SourceBytes, start: int, end: int) -> None:
        fetched.append(min(end, self.size) - start)
        real(self, start, end)

    monkeypatch.setattr(SourceBytes, "fetch", watched)
    assert main(["dump", "--all", "--offsets", "50..", "--limit", "2", str(folder)]) == 0
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["50", "51"]
    assert sum(fetched) < 16 << 20
