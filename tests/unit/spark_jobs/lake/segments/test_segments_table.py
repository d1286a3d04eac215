"""Claims on the table of segments: why one was retired, and tables from before they said so."""

from __future__ import annotations

from dataclasses import asdict, replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.table_specs import SEGMENTS

LOG = "topic.0/0"


def segment(base: int, end: int, generation: int = 0) -> Segment:
    values = dict.fromkeys(Segment.__dataclass_fields__)
    named = {"segment_id": f"s{base}.{generation}", "log": LOG, "generation": generation}
    return Segment(**values | named | {"base_offset": base, "next_offset": end})


def test_what_is_cut_back_filled_or_merged_feeds_nothing_and_what_maintenance_took_still_does(tmp_path):
    lake = str(tmp_path)
    parts = [segment(base, base + 5) for base in (0, 5, 10, 15, 25, 20)]
    archive.commit_segments(lake, [*parts, segment(5, 10, generation=1)], {LOG: None}, "run", 3)
    because = dict(
        zip([p.segment_id for p in parts[:5]], ["retention", "compaction", "cut-back", "filled", "merged"], strict=True)
    )
    archive.swap_segments(lake, parts[:5], [], {LOG: 1}, "run", 7, because)
    assert [s.base_offset for s in archive.ingested_segments(lake)] == [0, 5, 20]
    assert {s.segment_id: s.retired_because for s in archive.read_segments(lake, live=False)} == because | {
        "s20.0": None,
        "s5.1": None,
    }


@pytest.mark.parametrize("because", [None, "retention", "compaction", "cut-back", "filled", "merged"])
def test_a_segment_feeds_its_log_unless_its_bytes_are_gone_or_in_another_segment(because):
    retired = replace(segment(0, 5), retired_because=because, retired_ms=None if because is None else 7)
    assert retired.feeds == (because in (None, "retention", "compaction"))


def test_a_table_from_before_the_column_is_read_and_gets_it_with_the_next_commit(tmp_path):
    lake = str(tmp_path)
    later = SEGMENTS.names[SEGMENTS.names.index("retired_because") :]
    before = pa.schema([field for field in SEGMENTS if field.name not in later])
    old = asdict(segment(0, 5)) | {"retired_ms": 3}
    write_deltalake(table_uri(lake, "segments"), pa.Table.from_pylist([old], schema=before))
    assert [(s.base_offset, s.retired_because) for s in archive.ingested_segments(lake)] == [(0, None)]
    archive.commit_segments(lake, [segment(5, 10)], {LOG: None}, "run", 3)
    version = ensure_table(lake, "segments").version()
    archive.swap_segments(lake, [segment(5, 10)], [], {LOG: 1}, "run", 7, "cut-back")
    assert ensure_table(lake, "segments").version() == version + 1, "the column is added once"
    assert [(s.base_offset, s.retired_because) for s in archive.read_segments(lake, live=False)] == [
        (0, None),
        (5, "cut-back"),
    ]
