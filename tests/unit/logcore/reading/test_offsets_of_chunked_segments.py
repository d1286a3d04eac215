"""One offset of a segment in chunks costs its index and a chunk, not the segment."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.columns.wanted import Wanted
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading import shown_segments
from logcore.reading.consumer_log import ChosenRecords
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import index_of
from logcore.reading.shown_segments import columns_of
from logcore.remote.aiven_layout import index_path
from logcore.remote.stored_part import SegmentPart
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage import source_bytes
from logcore.storage.remote_tier import chunked_segment
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from tests import handmade, remote_objects

NAME = "orders-GW-1GPphSsCFtpdS005Bug/0/00000000000000000000-Zs2vpUXwT1WTbYAIMD4Ahg"
BATCHES, VALUE_BYTES, CHUNK_BYTES = 300, 3_000, 1 << 17


@pytest.fixture
def segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SegmentFile:
    """A segment of 300 batches of one record, in seven encrypted chunks, with an entry for each batch but the first."""
    batches, entries, position = [], [], 0
    for offset in range(BATCHES):
        batches.append(handmade.simple_batch(offset, [(b"k", b"%04d" % offset * (VALUE_BYTES // 4))]))
        entries.append(struct.pack(">ii", offset, position))
        position += len(batches[-1])
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    indexes = {"offset": b"".join(entries[1:])}
    stored = remote_objects.stored_segment(
        b"".join(batches), indexes, chunk_size=CHUNK_BYTES, compressed=True, is_encrypted=True
    )
    path = tmp_path / NAME
    path.parent.mkdir(parents=True)
    for suffix, content in ((".log", stored.log), (".indexes", stored.indexes), (".rsm-manifest", stored.manifest)):
        Path(f"{path}{suffix}").write_bytes(content)
    state = Path(f"{path}.log").stat()
    beside = ((".index", index_path(f"{path}.log", SegmentPart.OFFSET_INDEX)),)
    return SegmentFile(0, f"{path}.log", position, state.st_mtime_ns // 1_000_000, state.st_ino, beside)


def chunks_for(offset: int, segment: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the chunks that are decrypted to read an offset."""
    read: list[int] = []
    real = chunked_segment.fill_from_chunk

    def counted(target: memoryview, stored: memoryview, chunk: Any, *rest: Any) -> None:
        read.append(chunk.number)
        real(target, stored, chunk, *rest)

    log = SourceLog(TopicPartition("orders", 0), "", DirectoryKind.LIVE, None, None, (segment,), None, 0)
    notes = Notes()
    with monkeypatch.context() as patched:
        patched.setattr(chunked_segment, "fill_from_chunk", counted)
        wanted = Wanted(("offset", "value"), ((offset, offset + 1),))
        rows = [
            row
            for shows in ChosenRecords(log, wanted, offset, offset + 1).segments(notes)
            for batch in columns_of(shows, notes)
            for row in batch.to_pylist()
        ]
    assert rows == [{"offset": offset, "value": b"%04d" % offset * (VALUE_BYTES // 4)}]
    assert notes.findings == []
    return read


def test_the_offset_index_of_a_segment_in_chunks_is_found(segment: SegmentFile) -> None:
    assert index_of(segment)[:8] == struct.pack(">ii", 1, len(handmade.simple_batch(0, [(b"k", bytes(VALUE_BYTES))])))
    assert len(index_of(segment)) == 8 * (BATCHES - 1)


def test_an_offset_costs_one_chunk_and_at_a_border_two(segment: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a chunk of 4 MiB, pieces of 2 MiB and a look at 64 KiB.
    monkeypatch.setattr(source_bytes, "PIECE", CHUNK_BYTES // 2)
    monkeypatch.setattr(shown_segments, "FIRST_BYTES", CHUNK_BYTES // 64)
    alone = 0
    for offset in range(1, BATCHES, 7):
        batch = segment.size // BATCHES
        read = chunks_for(offset, segment, monkeypatch)
        first, last = offset * batch // CHUNK_BYTES, ((offset + 1) * batch + CHUNK_BYTES // 32) // CHUNK_BYTES
        assert set(read) <= set(range(first, last + 1))
        alone += len(read) == 1
    assert alone >= 36  # of 43
