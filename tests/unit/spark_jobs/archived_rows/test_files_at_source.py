"""Segments that are registered at their source: others may cut them while they are read.

Each reader runs in a process of its own: a byte of a mapped file that is gone would kill it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import handmade

pytestmark = pytest.mark.slow

BATCHES = 300

CHILD = """
import contextlib, os, sys
from spark_jobs.lake.store import mapped_file
from spark_jobs.lake.segments.log_directory import slice_bytes
from spark_jobs.archived_rows.records_file import Piece, WriteTask, decoded
from spark_jobs.ingest.segment_copy import CopyTask, copy_segment

reader, victim, lake = sys.argv[1:]
size = os.stat(victim).st_size
task = CopyTask(
    lake=lake, log="id.0/0", topic="orders", log_id="id.0", partition=0, source=victim, file_base_offset=0, start=0,
    first_offset=0, sealed=True, next_base_offset=300, modified_ms=0, size=size, in_place=True,
)
whole = mapped_file.mapped

@contextlib.contextmanager
def cut(path, *bounds, **options):
    with whole(path, *bounds, **options) as content:
        if path == victim:
            os.truncate(path, 10)
        yield content

if reader == "copy":
    mapped_file.mapped = cut
    print(copy_segment(task).segment.next_offset)
    sys.exit()
segment = copy_segment(task).segment
assert segment.lies_at_source
mapped_file.mapped = cut
if reader == "slice":
    with slice_bytes(lake, segment) as content:
        print(bytes(content[-100:]).count(0) < 100 and 300)
elif reader == "decode":
    piece = Piece(segment.segment_id, victim, 0, 0, size, 0, 300)
    of_log = {"lake": lake, "topic": "orders", "log_id": "id.0", "partition": 0}
    print(sum(rows.num_rows for rows in decoded(WriteTask(**of_log, pieces=(piece,), visible=((0, 300),)))))
"""


@pytest.mark.parametrize("reader", ["copy", "slice", "decode"])
def test_a_segment_at_its_source_that_is_cut_while_it_is_read_stays_as_it_was_read(tmp_path: Path, reader: str) -> None:
    victim = tmp_path / "orders-0" / f"{0:020d}.log"
    victim.parent.mkdir()
    victim.write_bytes(b"".join(handmade.simple_batch(at, [(b"k", b"v")]) for at in range(BATCHES)))
    command = [sys.executable, "-c", CHILD, reader, str(victim), str(tmp_path / "lake")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(BATCHES)]
