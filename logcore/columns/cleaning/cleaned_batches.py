"""The bytes of a chunk's batches after cleaning: copied unchanged, or rewritten by one kernel call.

The kernel compresses them with the libraries' own functions, called by address, with the same result as `compress`.
If a library is not available, `compress` itself does it, one batch at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logcore.columns.cleaning.keyed_batches import KeyedChunk
from logcore.columns.cleaning.offset_map import Offsets
from logcore.columns.decoding.arena import GzipEncoder, ZstdEncoder, lz4_encoder
from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import SLACK, address_of
from logcore.columns.kernels.cleaning.cleaning_frames import WRITTEN_WIDTH, RewriteFrame
from logcore.columns.kernels.library import library
from logcore.records.batch import ATTRIBUTES_AT, HEADER_SIZE, LOG_OVERHEAD, castagnoli
from logcore.records.compression import Codec, compress
from logcore.records.model import CODEC_MASK
from logcore.records.snappy_encoder import jvm_encoder
from logcore.records.varint import Buffer

_CRC_AT, _LENGTH_AT = 17, 8
_LIBRARY_ROOM = 64
"""Bytes before the scratch space for the libraries' own structures."""

Flags = npt.NDArray[np.bool_]
Rebuild = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes for the log in `pieces`, and for each batch in them: position (not set), size, last offset, max
    timestamp.
    """

    pieces: list[memoryview]
    batches: Offsets


class BatchWriter:
    """Writes the remaining records of successive chunks; its buffers are used again."""

    def __init__(self) -> None:
        self._library = library()
        self._frame = RewriteFrame()
        self._target = self._scratch = np.empty(0, np.uint8)
        zstd, gzip = ZstdEncoder(), GzipEncoder()
        weakref.finalize(self, zstd.close)
        weakref.finalize(self, gzip.close)
        frame = self._frame
        frame.checksum_tables = self._library.tables_address
        frame.encoders[Codec.LZ4] = lz4_encoder()
        frame.encoders[Codec.SNAPPY] = jvm_encoder()
        for codec, its in ((Codec.ZSTD, zstd), (Codec.GZIP, gzip)):
            frame.encoders[codec] = its.function
            frame.states[codec], frame.resets[codec] = its.state, its.reset
        self._native = [int(codec) for codec in Codec if codec is Codec.NONE or frame.encoders[codec]]

    def write(
        self,
        content: Buffer,
        chunk: KeyedChunk,
        kept: Offsets,
        copied: Flags,
        chosen: Offsets,
        horizons: Offsets,
        odd: Flags,
        rebuild: Rebuild,
    ) -> Written:
        """Write the batches that are `copied`, and those `chosen` with the rows that stay.

        Args:
            content: The segment's bytes.
            chunk: The batches and their rows.
            kept: For each batch how many rows stay, and how many of them have no value.
            copied: Which batches are copied unchanged.
            chosen: Numbers of the batches to rewrite.
            horizons: For each chosen batch its delete horizon, or `batch_row.NONE`.
            odd: Which chosen batches `rebuild` makes.
            rebuild: Makes a batch slowly; also used for batches that the kernel does not accept.
        """
        table = chunk.table
        ends, stamps, apart = self._rewritten(chunk, kept, chosen, horizons, odd, rebuild)
        sizes, last_stamps = table[:, batch_row.SIZE].copy(), table[:, batch_row.MAX_TIMESTAMP].copy()
        begins = np.append(0, ends[:-1])
        sizes[chosen], last_stamps[chosen] = ends - begins, stamps
        for batch, made in apart.items():
            sizes[batch] = len(made)
            last_stamps[batch] = int.from_bytes(made[35:43], "big", signed=True)
        goes_on = copied.copy()
        goes_on[chosen] = True
        order = np.flatnonzero(goes_on)
        batches = np.empty((len(order), WRITTEN_WIDTH), np.int64)
        batches[:, 1], batches[:, 2] = sizes[order], table[order, batch_row.LAST_OFFSET]
        batches[:, 3] = last_stamps[order]
        # Where each batch's bytes are: in the segment, in the target, or separate.
        places = table[:, batch_row.POSITION].copy()
        places[chosen] = begins
        return Written(self._pieces(content, order, places[order], sizes[order], copied[order], apart), batches)

    def _pieces(
        self, content: Buffer, order: Offsets, places: Offsets, sizes: Offsets, copied: Flags, apart: dict[int, bytes]
    ) -> list[memoryview]:
        if not len(order):
            return []
        kinds = np.where(copied, 0, 1)
        for number, batch in enumerate(order.tolist() if apart else ()):
            if batch in apart:
                kinds[number] = 2
        goes_on = (kinds[1:] == kinds[:-1]) & (places[1:] == (places + sizes)[:-1]) & (kinds[1:] != 2)
        starts = np.append(0, np.flatnonzero(~goes_on) + 1)
        lasts = np.append(starts[1:], len(order)) - 1
        source, target = memoryview(content), self._target.data
        pieces = []
        for kind, start, end, first in zip(
            kinds[starts].tolist(),
            places[starts].tolist(),
            (places + sizes)[lasts].tolist(),
            order[starts].tolist(),
            strict=True,
        ):
            if kind == 2:
                pieces.append(memoryview(apart[first]))
            else:
                pieces.append((source if kind == 0 else target)[start:end])
        return pieces

    def _rewritten(
        self, chunk: KeyedChunk, kept: Offsets, chosen: Offsets, horizons: Offsets, odd: Flags, rebuild: Rebuild
    ) -> tuple[Offsets, Offsets, dict[int, bytes]]:
        """Return for each chosen batch its end in the target and its max timestamp, and the bytes of separate ones."""
        count = len(chosen)
        ends, stamps, apart = np.zeros(count, np.int64), np.zeros(count, np.int64), dict[int, bytes]()
        if not count:
            return ends, stamps, apart
        self._make_room(chunk.table[chosen], kept[chosen, 0])
        frame = self._frame
        frame.source, frame.source_size = chunk.source
        frame.table = address_of(chunk.table)
        frame.starts, frame.flags = address_of(chunk.starts), address_of(chunk.flags)
        frame.first_rows = address_of(chunk.first_rows)
        frame.kept = address_of(kept)
        chosen, horizons = np.ascontiguousarray(chosen, np.int64), np.ascontiguousarray(horizons, np.int64)
        frame.chosen, frame.horizons = address_of(chosen), address_of(horizons)
        frame.ends, frame.stamps = address_of(ends), address_of(stamps)
        frame.used = 0
        done = 0
        for stop in [*np.flatnonzero(odd).tolist(), count]:
            while done < stop:
                frame.first, frame.end = done, stop
                self._library.call("rewrite", frame)
                done = frame.first
                if done < stop:
                    apart[int(chosen[done])] = rebuild(int(chosen[done]))
                    ends[done] = frame.used
                    done += 1
            if done < count:
                apart[int(chosen[done])] = rebuild(int(chosen[done]))
                ends[done] = frame.used
                done += 1
        self._compress_foreign(chunk.table, kept, chosen, ends, apart)
        return ends, stamps, apart

    def _make_room(self, table: Table, kept: Offsets) -> None:
        most = table[:, batch_row.BODY_END] - table[:, batch_row.BODY] + 11 * kept
        # A snappy encoder needs room for its worst case.
        is_snappy = table[:, batch_row.ATTRIBUTES] & CODEC_MASK == Codec.SNAPPY
        room = int((HEADER_SIZE + most + np.where(is_snappy, most // 5, most >> 6) + 64).sum()) + 4096
        if room > len(self._target):
            self._target = np.empty(room * 5 // 4, np.uint8)
        scratch = _LIBRARY_ROOM + int(most.max()) + SLACK
        if scratch > len(self._scratch):
            self._scratch = np.empty(scratch * 5 // 4, np.uint8)
        frame = self._frame
        frame.target, frame.room = address_of(self._target), len(self._target)
        frame.scratch, frame.scratch_size = address_of(self._scratch), len(self._scratch)

    def _compress_foreign(
        self, table: Table, kept: Offsets, chosen: Offsets, ends: Offsets, apart: dict[int, bytes]
    ) -> None:
        """Compress the sections that the kernel left uncompressed because it has no encoder for their codec."""
        codecs = table[chosen, batch_row.ATTRIBUTES] & CODEC_MASK
        for number in np.flatnonzero(~np.isin(codecs, self._native) & (kept[chosen, 0] > 0)).tolist():
            batch = int(chosen[number])
            if batch not in apart:
                begin = int(ends[number - 1]) if number else 0
                apart[batch] = _compressed(int(codecs[number]), self._target[begin : int(ends[number])].tobytes())


def _compressed(codec: int, batch: bytes) -> bytes:
    """Compress the records of a batch, and set the length and the checksum in its header."""
    stored = compress(codec, batch[HEADER_SIZE:])
    header = bytearray(batch[:HEADER_SIZE])
    header[_LENGTH_AT : _LENGTH_AT + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(stored)).to_bytes(4, "big")
    covered = bytes(header[ATTRIBUTES_AT:]) + stored
    header[_CRC_AT : _CRC_AT + 4] = castagnoli(covered).to_bytes(4, "big")
    return bytes(header[:ATTRIBUTES_AT]) + covered
