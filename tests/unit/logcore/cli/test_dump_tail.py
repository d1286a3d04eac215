"""`dump --tail N`: the last N records that the other options choose, of each log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.cli.reading import tail
from logcore.storage.source_bytes import SourceBytes
from tests import handmade
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.test_dump_seek import BATCHES, EVERY_FIFTH, POSITIONS

Captured = pytest.CaptureFixture[str]


@pytest.fixture(params=["kernels", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", request.param)


def offsets(capsys: Captured, *arguments: str | Path, code: int = 0) -> list[int]:
    assert main(["dump", "--format", "jsonl", *map(str, arguments)]) == code
    return [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tail", "0"], []),
        (["--tail", "1"], [7]),
        (["--tail", "3"], [3, 5, 7]),
        (["--tail", "6"], [0, 1, 2, 3, 5, 7]),
        (["--tail", "99"], [0, 1, 2, 3, 5, 7]),
        (["--tail", "3", "--control"], [5, 6, 7]),
        (["--tail", "2", "--isolation.level", "read_committed"], [5, 7]),
        (["--tail", "4", "--isolation.level", "read_committed"], [1, 2, 5, 7]),
        (["--tail", "2", "--offsets", "..5"], [2, 3]),
        (["--tail", "9", "--offsets", "2..5"], [2, 3]),
        (["--tail", "2", "--high-watermark", "3"], [1, 2]),
        (["--tail", "1", "--producer-id", "9"], [5]),
        (["--tail", "1", "--key", "k1"], [0]),
        (["--tail", "1", "--header", "trace"], [0]),
        (["--tail", "1", "--until", "1700000000100"], [2]),
        (["--tail", "1", "--key", "none"], []),
    ],
)
def test_the_last_chosen_records(root: Path, capsys: Captured, options: list[str], expected: list[int]) -> None:
    assert offsets(capsys, *options, root) == expected


@pytest.mark.usefixtures("engine")
def test_each_log_has_its_own_last_records(root: Path, capsys: Captured) -> None:
    (root / "alpha-0").mkdir()
    (root / "alpha-0" / "00000000000000000000.log").write_bytes(made.FIRST)
    made.identify(root / "alpha-0")
    assert offsets(capsys, "--all", "--tail", "2", root) == [1, 2, 5, 7]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("form", ["text", "csv", "arrow", "parquet"])
def test_other_formats_have_them_too(root: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    assert main(["dump", "--tail", "2", "--format", form, "-o", str(out), str(root)]) == 0
    if form == "text":
        assert [line.split()[2] for line in out.read_text().splitlines()] == ["5", "7"]
    elif form == "csv":
        assert [line.split(",")[2] for line in out.read_text().splitlines()] == ["offset", "5", "7"]
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(out) if form == "parquet" else pa.ipc.open_stream(out.read_bytes()).read_all()
        assert table.column("offset").to_pylist() == [5, 7]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("count", [1, 9, 10, 11, 49, 50, 51, 300, 590, 600, 700])
@pytest.mark.parametrize("has_index", [True, False])
def test_the_records_from_the_end_of_a_large_segment(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, count: int, has_index: bool
) -> None:
    monkeypatch.setattr(tail, "FIRST_BYTES", 100)
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"".join(BATCHES))
    if has_index:
        (folder / "00000000000000000000.index").write_bytes(EVERY_FIFTH)
    assert offsets(capsys, "--all", "--tail", str(count), folder) == list(range(max(0, 600 - count), 600))


@pytest.mark.usefixtures("engine")
def test_damage_from_the_first_shown_record_on_is_reported_once(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(handmade.flip(b"".join(BATCHES), POSITIONS[57] + 80))
    (folder / "00000000000000000000.index").write_bytes(EVERY_FIFTH)
    assert offsets(capsys, "--all", "--tail", "25", folder, code=2) == [*range(565, 570), *range(580, 600)]
    assert main(["dump", "--all", "--tail", "25", str(folder)]) == 2
    assert capsys.readouterr().err.count("error corrupt-bytes: ") == 1
    path.write_bytes(handmade.flip(b"".join(BATCHES), POSITIONS[52] + 80))
    assert offsets(capsys, "--all", "--tail", "15", folder) == list(range(585, 600))


def test_few_bytes_of_a_large_segment_are_read(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "FIRST_BYTES", 100)
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"".join(BATCHES))
    (folder / "00000000000000000000.index").write_bytes(EVERY_FIFTH)
    lowest: list[int] = []
    real = SourceBytes.fetch

    def watched(self: SourceBytes, start: int, end: int) -> None:
        lowest.append(start)
        real(self, start, end)

    monkeypatch.setattr(SourceBytes, "fetch", watched)
    assert offsets(capsys, "--all", "--tail", "3", folder) == [597, 598, 599]
    assert min(lowest) >= POSITIONS[50]


@pytest.mark.parametrize(
    "options", [["--limit", "3"], ["--batches"], ["--indexes"], ["--snapshots"], ["--checkpoints"]]
)
def test_it_is_for_records_and_not_with_a_limit(root: Path, capsys: Captured, options: list[str]) -> None:
    assert main(["dump", "--tail", "2", *options, str(root)]) == 64
    assert "--tail" in capsys.readouterr().err


def test_a_segment_that_cannot_be_opened_is_reported(root: Path, capsys: Captured) -> None:
    first = root / "orders-0" / "00000000000000000000.log"
    first.unlink()
    first.mkdir()
    assert offsets(capsys, "--tail", "2", root, code=3) == [5, 7]
