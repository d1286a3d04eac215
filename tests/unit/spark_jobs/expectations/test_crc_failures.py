"""What `expectations` counts as failed checksums: not those of bytes that were replaced, or that retention took."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from spark_jobs.expectations.expectations_job import _crc_failures
from spark_jobs.lake.delta import commits
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import FILLED, Segment
from spark_jobs.lake.table_specs import BATCHES, VALIDATIONS

LOG = "orders@test.0/0"


def segment(name: str, base_offset: int, retired_because: str | None = None) -> Segment:
    blank = dict.fromkeys(f.name for f in fields(Segment))
    place = {"segment_id": name, "log": LOG, "base_offset": base_offset, "next_offset": base_offset + 10}
    retired = {"retired_ms": 1, "retired_because": retired_because} if retired_because else {}
    return Segment(**{**blank, **place, "generation": 0, **retired})  # type: ignore[arg-type]


def test_damage_that_better_bytes_replaced_or_that_retention_took_is_no_failure(tmp_path: Path):
    lake = str(tmp_path)
    held = [segment("kept", 0), segment("replaced", 10, FILLED), segment("retained", 20, "retention")]
    archive.commit_segments(lake, held, {LOG: None}, "test", 3)
    rows = [
        {**dict.fromkeys(BATCHES.names), "log": LOG, "segment_id": name, "base_offset": offset, "verdict": verdict}
        for name, offset, verdict in (
            ("kept", 3, "CRC"),
            ("kept", 5, "ok"),
            ("replaced", 15, "CRC"),
            ("retained", 25, "CRC"),
        )
    ]
    commits.append(lake, "batches", pa.Table.from_pylist(rows, schema=BATCHES), "test")
    validated = [
        {**dict.fromkeys(VALIDATIONS.names), "log": LOG, "segment_id": name, "quarantined_bytes": 100}
        for name in ("kept", "replaced", "retained")
    ]
    commits.append(lake, "validations", pa.Table.from_pylist(validated, schema=VALIDATIONS), "test")
    assert _crc_failures(lake, [LOG]) == {LOG: [3]}
