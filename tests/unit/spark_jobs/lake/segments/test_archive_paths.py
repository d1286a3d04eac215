"""Paths of archived segments: in one folder for each log, and the files of a segment have a stem of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.lake.segments.archive import id_of, segment_path, stem_of

ID, OTHER = "48ec14ed1ba482f76d12d257677c4ee6", "ce1d01d0005d9b9667ed40de57836afb"


def test_a_path_has_the_log_the_digits_that_kafka_reads_and_the_id() -> None:
    path = segment_path("orders@shop.0/3", ID, 42)
    assert path == f"archive/orders@shop.0/3/00000000000000000042.{ID}.log"
    # As kafka-dump-log reads names: what is before the first point, and what follows the last one.
    name = Path(path).name
    assert (int(name.split(".")[0]), name[name.rindex(".") :]) == (42, ".log")


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex", "txnindex", "snapshot"])
def test_side_files_have_the_stem_of_their_segment_and_no_other_segment_has_it(suffix: str) -> None:
    folder = "archive/orders@shop.0/3"
    assert stem_of(f"{folder}/00000000000000000042.{ID}.{suffix}") == f"{folder}/00000000000000000042.{ID}"
    assert stem_of(f"{folder}/00000000000000000042.{OTHER}.{suffix}") != f"{folder}/00000000000000000042.{ID}"


@pytest.mark.parametrize("name", [f"42.{ID}.log", f"00000000000000000042.{ID[1:]}.log", "notes.txt", f"{ID}.log"])
def test_a_file_of_another_name_belongs_to_no_segment_of_the_folder(name: str) -> None:
    assert stem_of(f"archive/l.0/0/{name}") == "archive/l.0/0"


@pytest.mark.parametrize(
    ("path", "identity"),
    [
        (segment_path("l.0/0", ID, 42), ID),
        (f"archive/l.0/0/00000000000000000042.{ID}.index", ID),
        (f"archive/l.0/0/{ID}/00000000000000000042.log", None),
        ("archive/l.0/0/notes.txt", None),
        (f"archive/{ID}/notes.txt", None),
    ],
)
def test_the_id_of_a_segment_is_read_from_the_path_of_each_of_its_files(path: str, identity: str | None) -> None:
    assert id_of(stem_of(path)) == identity
