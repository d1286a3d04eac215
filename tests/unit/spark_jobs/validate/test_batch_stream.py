"""Rows of `batches` come in the order of the log, whichever files hold them, and no file is read that need not be."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.lake.delta.files import live_files
from spark_jobs.lake.table_specs import BATCHES
from spark_jobs.validate import batch_stream
from spark_jobs.validate.batch_stream import BatchFile, SegmentPlace, stream_batches

WIDTH = 100
"""Offsets of a segment."""


def segment(number: int) -> SegmentPlace:
    # Names say nothing of the order, as digests do not.
    return SegmentPlace(f"{(number * 7919) % 1000:03d}", number * WIDTH, (number + 1) * WIDTH, "nowhere", 0)


def rows_of(place: SegmentPlace, log: str = "l") -> list[dict]:
    """A batch for every second offset, and corrupt bytes before each tenth batch."""
    rows = []
    for offset in range(place.base_offset, place.next_offset, 2):
        position = (offset - place.base_offset) * 10
        if offset % 20 == 10:
            rows.append({"base_offset": offset, "verdict": "CRC", "position": position - 5, "size": 5})
        rows.append(
            {"base_offset": offset, "last_offset": offset + 1, "verdict": "ok", "position": position, "size": 10}
        )
    return [row | {"segment_id": place.segment_id, "log": log} for row in rows]


def written(path: Path, *rows: dict, least: int | None = -1) -> BatchFile:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=BATCHES), path, row_group_size=37)
    return BatchFile(str(path), min(row["base_offset"] for row in rows) if least == -1 else least)


def said(*files: BatchFile, segments: list[SegmentPlace], resume: int = 0) -> list[tuple]:
    found = []
    for chunk in stream_batches(files, segments, resume):
        columns = [chunk.column(name).to_pylist() for name in ("segment_id", "position", "base_offset", "verdict")]
        found += list(zip(*columns, strict=True))
    return found


def expected(segments: list[SegmentPlace], resume: int = 0) -> list[tuple]:
    rows = [row for place in segments for row in rows_of(place)]
    return [
        (row["segment_id"], row["position"], row["base_offset"], row["verdict"])
        for row in rows
        if row.get("last_offset", row["base_offset"]) >= resume
    ]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_stream, "CHUNK_ROWS", 16)


@pytest.mark.parametrize("resume", [0, 5, 199, 250, 390, 400])
def test_a_file_a_segment_is_read_in_the_order_of_the_segments(tmp_path, resume):
    segments = [segment(n) for n in range(4)]
    files = [written(tmp_path / s.segment_id, *rows_of(s)) for s in segments]
    random.Random(1).shuffle(files)
    assert said(*files, segments=segments, resume=resume) == expected(segments, resume)


@pytest.mark.parametrize("known", [True, False], ids=["with statistics", "without statistics"])
def test_files_that_hold_several_segments_and_logs_are_merged(tmp_path, known):
    segments = [segment(n) for n in range(6)]
    of_others = rows_of(segment(0), "k") + rows_of(SegmentPlace("x", 300, 500, "nowhere", 0), "m")
    one = [row for n in (0, 2, 5) for row in rows_of(segments[n])]
    middle = rows_of(segments[3])
    files = [
        written(tmp_path / "one", *one, *of_others[60:], least=0 if known else None),
        written(tmp_path / "two", *rows_of(segments[1]), *middle[:20], least=100 if known else None),
        written(tmp_path / "three", *middle[20:], *rows_of(segments[4]), least=340 if known else None),
    ]
    assert said(*files, segments=segments) == expected(segments)


def test_segments_that_do_not_feed_the_log_are_passed_over(tmp_path):
    segments = [segment(n) for n in range(3)]
    cut_back = SegmentPlace("gone", 100, 300, "nowhere", 0)
    files = [written(tmp_path / s.segment_id, *rows_of(s)) for s in (*segments, cut_back)]
    assert said(*files, segments=segments) == expected(segments)


def test_a_file_is_opened_only_when_the_log_comes_to_it_and_row_groups_below_the_resume_offset_never(
    tmp_path, monkeypatch
):
    segments = [segment(n) for n in range(9)]
    files = [written(tmp_path / s.segment_id, *rows_of(s)) for s in segments]
    opened: list[str] = []
    groups: list[int] = []

    class Watched(pq.ParquetFile):
        def __init__(self, source, **given) -> None:
            opened.append(source)
            super().__init__(source, **given)

        def iter_batches(self, batch_size, row_groups, **given):
            groups.append(len(row_groups))
            return super().iter_batches(batch_size, row_groups, **given)

    monkeypatch.setattr(live_files.pq, "ParquetFile", Watched)
    stream = stream_batches(files, segments, 180)
    for _ in range(3):
        next(stream)
    assert len(opened) <= 4
    list(stream)
    assert len(groups) == 2 * len(segments) - 3  # all of two each, but those of segment 0 and the first of segment 1
    assert sorted(opened) == sorted(s.segment_id for s in segments)


def test_rows_out_of_order_are_an_error_and_not_another_ledger(tmp_path):
    segments = [segment(0)]
    rows = rows_of(segments[0])
    with pytest.raises(ValueError, match="not in the order of the log"):
        said(written(tmp_path / "f", *rows[:30], *reversed(rows[30:])), segments=segments)
