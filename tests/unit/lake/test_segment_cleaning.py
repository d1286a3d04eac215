"""Claims on cleaning one log before any swap: what is written, and that what can't be proven is not handed on."""

from __future__ import annotations

from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import segment_cleaning
from spark_jobs.lake import storage
from spark_jobs.lake.archive import Segment, segment_id, segment_path
from spark_jobs.segment_cleaning import CleaningTask, clean_log
from tests import handmade

LOG = "topic.0/0"
ROWS = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]


def archived(lake: Path, base: int, data: bytes, next_offset: int) -> Segment:
    digest = sha256(data).hexdigest()
    path = segment_path(LOG, segment_id(LOG, base, digest), base)
    (lake / path).parent.mkdir(parents=True)
    (lake / path).write_bytes(data)
    values: dict[str, Any] = dict.fromkeys(Segment.__dataclass_fields__)
    return Segment(
        **values
        | {
            "segment_id": segment_id(LOG, base, digest),
            "log": LOG,
            "base_offset": base,
            "next_offset": next_offset,
            "path": path,
            "start": 0,
            "size": len(data),
            "digest": digest,
            "modified_ms": 1_700_000_000_000,
            "generation": 0,
        }
    )


def task(lake: Path, *segments: Segment) -> dict[str, Any]:
    return asdict(CleaningTask(str(lake), segments, segments[-1].next_offset))


def cleaned_files(lake: Path) -> list[Path]:
    return sorted(path for path in lake.rglob("*") if path.is_file())


def test_a_cleaned_segment_lies_beside_its_source_with_the_sources_time(tmp_path):
    source = archived(tmp_path, 0, handmade.simple_batch(0, ROWS), 3)
    result = clean_log(task(tmp_path, source))
    [replaced] = result["replaced"]
    new = tmp_path / replaced["segment"]["path"]
    # Offset 0 is gone; base offset and last offset of the batch stay.
    expected = handmade.batch(
        [handmade.record(1, *ROWS[1]), handmade.record(2, *ROWS[2])], last_offset_delta=2, base_timestamp=1000
    )
    assert new.read_bytes() == expected
    assert int(new.stat().st_mtime * 1000) == source.modified_ms
    assert (replaced["segment"]["generation"], replaced["segment"]["next_offset"]) == (1, 3)
    assert replaced["validation"]["records"] == 2
    assert cleaned_files(tmp_path) == sorted([tmp_path / source.path, new])


def test_cleaning_the_same_bytes_again_gives_the_same_file(tmp_path):
    source = archived(tmp_path, 0, handmade.simple_batch(0, ROWS), 3)
    assert clean_log(task(tmp_path, source)) == clean_log(task(tmp_path, source))
    assert len(cleaned_files(tmp_path)) == 2


def test_a_log_without_an_obsolete_record_gets_no_new_file(tmp_path):
    source = archived(tmp_path, 0, handmade.simple_batch(0, ROWS[1:]), 2)
    assert clean_log(task(tmp_path, source)) == {"refusal": None, "unproven": None, "replaced": []}
    assert cleaned_files(tmp_path) == [tmp_path / source.path]


def test_a_cleaner_that_loses_the_newest_record_of_a_key_is_found_out(tmp_path, monkeypatch):
    source = archived(tmp_path, 0, handmade.simple_batch(0, ROWS), 3)
    real = segment_cleaning.clean_segment

    def loses(*arguments: Any, **options: Any) -> Any:
        lost = handmade.batch([handmade.record(1, *ROWS[1])], last_offset_delta=2, base_timestamp=1000)
        return replace(real(*arguments, **options), data=lost)

    monkeypatch.setattr(segment_cleaning, "clean_segment", loses)
    result = clean_log(task(tmp_path, source))
    assert "offset 2" in result["unproven"]
    assert result["replaced"] == []


def test_a_file_that_does_not_hold_what_was_written_is_found_out(tmp_path, monkeypatch):
    source = archived(tmp_path, 0, handmade.simple_batch(0, ROWS), 3)
    real = storage.os.replace

    def damages(temporary: str, final: str) -> None:
        path = Path(temporary)
        path.write_bytes(handmade.flip(path.read_bytes(), 70))
        real(temporary, final)

    monkeypatch.setattr(storage.os, "replace", damages)
    result = clean_log(task(tmp_path, source))
    assert "cannot be trusted" in result["unproven"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (handmade.simple_batch(0, [(None, b"v")]), "records-without-key"),
        (handmade.simple_batch(0, ROWS, attributes=handmade.TRANSACTIONAL, producer_id=1), "transactional"),
        (handmade.flip(handmade.simple_batch(0, ROWS), 70), "corrupt"),
    ],
)
def test_what_can_not_be_cleaned_is_refused_and_nothing_is_written(tmp_path, data, reason):
    source = archived(tmp_path, 0, data, 3)
    assert clean_log(task(tmp_path, source))["refusal"][0] == reason
    assert cleaned_files(tmp_path) == [tmp_path / source.path]


def test_a_file_that_is_gone_is_said_and_not_raised(tmp_path):
    source = archived(tmp_path, 0, handmade.simple_batch(0, ROWS), 3)
    (tmp_path / source.path).unlink()
    assert "reading or writing failed" in clean_log(task(tmp_path, source))["unproven"]
