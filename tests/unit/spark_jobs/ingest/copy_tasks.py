"""One sealed segment at a source, and the task to copy it into a lake."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.ingest.segment_copy import CopyTask


def copy_task(tmp_path: Path, content: bytes, next_base_offset: int) -> CopyTask:
    """Write the segment, `orders-0` at offset 0; nothing of the lake is made."""
    source = tmp_path / "orders-0" / f"{0:020d}.log"
    source.parent.mkdir()
    source.write_bytes(content)
    return CopyTask(
        lake=str(tmp_path / "lake"),
        log="id.0/0",
        topic="orders",
        log_id="id.0",
        partition=0,
        source=str(source),
        file_base_offset=0,
        start=0,
        first_offset=0,
        sealed=True,
        next_base_offset=next_base_offset,
        modified_ms=1_700_000_000_000,
        size=len(content),
        in_place=False,
    )
