"""The lockstep lane: groups of some megabytes of batches, decoded with NumPy alone.

walk        headers and checksums of the batches of a group, all v2 or all older
source      where their records are: the segment itself, or the arena, if one of them is compressed
records     a cursor a batch, all advanced together; then the parts of all records at once
columns     what is wanted of them

Whatever is not plainly good ends the lane in front of its batch, with nothing of it given out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from logcore.columns.arena import Arena
from logcore.columns.lockstep_columns import as_strings, gathered, header_lists, numbers, timestamps
from logcore.columns.lockstep_numbers import SLACK, Source
from logcore.columns.lockstep_records import Records, read_batches, read_messages
from logcore.columns.lockstep_walk import (
    UNKNOWN,
    Batches,
    Mask,
    Numbers,
    expected_offsets,
    first_false,
    unchallenged,
    walk,
)
from logcore.columns.schema import HEADER_TYPE
from logcore.columns.wanted import MAX_INT64, Place, Wanted
from logcore.errors import CorruptRecordError
from logcore.records.compression import Codec, decompress
from logcore.records.model import CODEC_MASK, CONTROL_BIT, TIMESTAMP_TYPE_BIT, Limits
from logcore.records.varint import Buffer

GROUP_BYTES = 8 << 20
"""Of one walk, and of what is decompressed at once. More batches make longer arrays; fewer stay in the cache."""
SHY_BYTES = 64 << 10
"""Of the walk behind a batch that was in doubt: another one may be near, and work behind it is done for nothing."""
PATIENCE = 3
"""Calls in a row that came to nothing, from which on more and more of the next ones are not even tried."""
LONGEST_REST = 64
MOST_RECORDS = 1 << 20
"""A batch of more is left to the slow reader: arrays over all records of a batch are held at once."""
ROW_LIMIT = 1 << 18
"""Rows of one Arrow batch."""

_LARGEST_SOURCE = (1 << 31) - 64
"""Positions in a source fit 32 bits."""
_CONTROL_KEY = 4
"""Bytes of a control record's key, at least."""
_COMPARED_BYTES = 1 << 20
"""Bytes of keys that are compared at once."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Batches whose records are at hand. begin, end: where these lie in the source. whole: each is one message."""

    batches: Batches
    source: Source
    begin: Numbers
    end: Numbers
    whole: bool


class LockstepLane:
    """The fast lane over one segment; see `logcore.columns.engines`."""

    def __init__(self, buf: Buffer, ceiling: int, wanted: Wanted, limits: Limits, place: Place) -> None:
        self._view = memoryview(buf)
        self._bytes = np.frombuffer(buf, np.uint8)
        self._ceiling, self._wanted, self._limits, self._place = ceiling, wanted, limits, place
        self._schema = wanted.schema
        self._with_names = bool({"headers", "header_keys_raw"} & set(self._schema.names))
        self._ranges = np.array(wanted.visible or (), np.int64).reshape(-1, 2)
        self._constants = {
            "topic": pa.scalar(place.topic, pa.string()),
            "partition": pa.scalar(place.partition, pa.int32()),
            "log_id": pa.scalar(place.log_id, pa.string()),
            "segment_id": pa.scalar(place.segment_id, pa.string()),
            "header_keys_raw": pa.scalar(None, pa.list_(pa.binary())),
        }
        self._repeated: dict[str, pa.Array] = {}
        self._arena = Arena()
        self._group_bytes = GROUP_BYTES
        self._vain = self._resting = 0
        self.position = self.next_offset = 0
        self.stop = len(buf)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of batches from `position` on, for as long as all is beyond doubt and no further than `stop`; moves
        `position` behind them."""
        if self._resting:
            self._resting -= 1
            return
        begun = self.position
        while self.position < self.stop:
            most = min(self._group_bytes, self.stop - self.position)
            left = walk(self._view, self._bytes, self.position, self.next_offset, self._ceiling, most)
            in_doubt = not len(left)
            while len(left):
                part = self._part(left)
                if part is None:
                    in_doubt = True
                    break
                batches, records, names, held = self._decoded(part)
                yield from self._columns(part.source, batches, records, names)
                number = len(batches)
                if number:
                    self.position = int(batches.position[-1] + batches.size[-1])
                    self.next_offset = int(batches.last[-1]) + 1
                    left = left[number:]
                if number < len(part.batches):
                    in_doubt = not held
                    break
            if in_doubt:
                self._group_bytes = SHY_BYTES
                self._vain = 0 if self.position > begun else self._vain + 1
                if self._vain > PATIENCE:
                    self._resting = min(1 << (self._vain - PATIENCE), LONGEST_REST)
                return
            self._group_bytes = min(4 * self._group_bytes, GROUP_BYTES)

    def _part(self, batches: Batches) -> _Part | None:
        """As many batches as are decompressed at once, from the first on; None if that one is in doubt."""
        batches = batches[: first_false(batches.count <= MOST_RECORDS)]
        if not len(batches):
            return None
        looked_into = np.ones(len(batches), np.bool_) if batches.are_messages else self._may_hold(batches)
        batches = replace(batches, count=np.where(looked_into, batches.count, 0))
        ends = batches.position + batches.size
        begins = np.where(looked_into, batches.position if batches.are_messages else batches.body, ends)
        if (batches.compressed & looked_into).any():
            return self._decompressed(batches, looked_into)
        start, stop = int(batches.position[0]), int(ends[-1])
        data = self._bytes[start : stop + SLACK]
        if len(data) < stop + SLACK - start:
            data = np.append(data, np.zeros(SLACK, np.uint8))
        return _Part(batches, Source(data, stop - start), begins - start, ends - start, batches.are_messages)

    def _decompressed(self, batches: Batches, looked_into: Mask) -> _Part | None:
        """All of their records in the arena, those that were not compressed too."""
        arena = self._arena
        arena.empty()
        bounds = [0]
        ends = batches.position + batches.size
        columns = (batches.position, batches.body, ends, batches.attributes & CODEC_MASK, batches.magic, looked_into)
        for position, body, end, codec, magic, wanted in zip(*(each.tolist() for each in columns), strict=True):
            if arena.used >= GROUP_BYTES or (wanted and not self._add(position, body, end, codec, magic)):
                break
            if arena.used > _LARGEST_SOURCE:
                break
            bounds.append(arena.used)
        number = len(bounds) - 1
        if not number or not arena.add(Codec.NONE, memoryview(bytes(SLACK)), SLACK, 2):
            return None
        source = Source(arena.bytes[: bounds[-1] + SLACK], bounds[-1])
        return _Part(batches[:number], source, np.array(bounds[:-1]), np.array(bounds[1:]), False)

    def _add(self, position: int, body: int, end: int, codec: int, magic: int) -> bool:
        """Put the records of a batch, or the message or its set, behind what the arena holds."""
        start = body
        if magic < 2:
            start = position
            if codec:
                # A wrapper's key is null, and its value the rest of it.
                start = body + 8
                if self._view[body:start] != b"\xff\xff\xff\xff" + (end - start).to_bytes(4, "big", signed=True):
                    return False
        elif codec and start == end:
            return True
        stored, limit = self._view[start:end], self._limits.decoded_batch_bytes
        if codec == Codec.GZIP:
            # The arena's own way takes streams that zlib does not, so its word is not beyond doubt.
            try:
                return self._arena.add(Codec.NONE, memoryview(decompress(codec, stored, limit)), limit, magic)
            except CorruptRecordError:
                return False
        return self._arena.add(codec, stored, limit, magic)

    def _decoded(self, part: _Part) -> tuple[Batches, Records, pa.Array, bool]:
        """(The good batches from the first on, what is wanted of their records, all their headers' names, whether the
        batch behind them is not to be judged yet)."""
        batches, source, held = part.batches, part.source, False
        if batches.are_messages:
            records = read_messages(source, part.begin, part.end, batches.magic, part.whole)
            batches, records, held = self._unfolded(batches, records)
        else:
            span, most = batches.last - batches.base, self._limits.headers_per_record
            records = read_batches(
                source, part.begin, part.end, batches.count, batches.base, span, batches.base_stamp, most
            )
            batches = batches[: len(records.count)]
            number = first_false(self._good_controls(source, batches, records))
            batches, records = batches[:number], records.of_first(number)
        appended = (batches.attributes & TIMESTAMP_TYPE_BIT != 0) & (batches.magic > 0)
        if appended.any():
            stamp = np.where(
                np.repeat(appended, records.count), np.repeat(batches.max_stamp, records.count), records.stamp
            )
            records = replace(records, stamp=stamp)
        if self._wanted.is_filtered:
            records = records.chosen(np.flatnonzero(self._chosen(source, records)))
        names = None
        if self._with_names and len(records.name_at):
            names, good = as_strings(gathered(source, records.name_at, records.name_size))
            if good < len(records.name_at):
                row = int(np.searchsorted(np.cumsum(records.headers), good, side="right"))
                number = int(np.searchsorted(np.cumsum(records.count), row, side="right"))
                batches, records = batches[:number], records.of_first(number)
        return batches, records, names, held

    def _unfolded(self, batches: Batches, records: Records) -> tuple[Batches, Records, bool]:
        """Messages with their true offsets, and the batches with their true base offsets."""
        number = len(records.count)
        if not number:
            return batches[:0], records, False
        complete, batches = number == len(batches), batches[:number]
        first = np.cumsum(records.count) - records.count
        inner_first, inner_last = records.offset[first], records.offset[first + records.count - 1]
        outer = batches.last
        # Offsets inside a v1 wrapper count from any base; where its own is 0, they must be true as they stand.
        shift = np.where(batches.compressed & (batches.magic == 1), outer - inner_last, 0)
        base = inner_first + shift
        next_base = np.append(base[1:], batches.next_base[-1])
        batches = replace(batches, base=base, next_base=next_base)
        due = expected_offsets(outer, self.next_offset)
        # The wrapper's offset is its last message's; in v1 the inner ones may count from another base.
        good = (inner_last == outer) | ((inner_last < outer) & (batches.magic == 1))
        good &= base >= due
        calm = unchallenged(batches, due)
        held = bool(complete and number > 1 and next_base[-1] == UNKNOWN and good.all() and calm[:-1].all())
        number = first_false(good & calm)
        records = replace(records, offset=records.offset + np.repeat(shift, records.count))
        return batches[:number], records.of_first(number), held

    def _may_hold(self, batches: Batches) -> Mask:
        """`Wanted.may_hold` for each v2 batch."""
        mask = np.ones(len(batches), np.bool_)
        if not self._wanted.control:
            mask &= (batches.attributes & CONTROL_BIT) == 0
        if self._wanted.visible is not None:
            mask &= self._range_ends_behind(batches.base) <= batches.last
        return mask

    def _range_ends_behind(self, offset: Numbers) -> Numbers:
        """For each offset the start of the first visible range that ends behind it."""
        at = np.searchsorted(self._ranges[:, 1], offset, side="right")
        return np.append(self._ranges[:, 0], MAX_INT64)[at]

    def _good_controls(self, source: Source, batches: Batches, records: Records) -> Mask:
        """Whether the records of control batches have keys that say what they are."""
        good = np.ones(len(batches), np.bool_)
        control = (batches.attributes & CONTROL_BIT) != 0
        if control.any():
            lane = records.lane
            bad = control[lane] & (records.key_size < _CONTROL_KEY)
            bad |= control[lane] & (source.data[records.key_at] > 0x7F)
            good[lane[bad]] = False
        return good

    def _chosen(self, source: Source, records: Records) -> Mask:
        """`Wanted.holds` for each record."""
        wanted = self._wanted
        mask = np.ones(len(records.offset), np.bool_)
        if wanted.visible is not None:
            mask &= self._range_ends_behind(records.offset) <= records.offset
        if wanted.since is not None:
            mask &= records.stamp >= wanted.since
        if wanted.until is not None:
            mask &= records.stamp < wanted.until
        if wanted.key is not None:
            mask &= records.key_size == len(wanted.key)
            key = np.frombuffer(wanted.key, np.uint8)
            done, left = 0, np.flatnonzero(mask)
            while done < len(key) and left.size:
                piece = key[done : done + max(1, _COMPARED_BYTES // left.size)]
                places = records.key_at[left, None] + np.arange(done, done + len(piece))
                same = (source.data[places] == piece).all(axis=1)
                mask[left[~same]] = False
                done, left = done + len(piece), left[same]
        return mask

    def _columns(
        self, source: Source, batches: Batches, records: Records, names: pa.Array | None
    ) -> Iterator[pa.RecordBatch]:
        """Arrow batches of these records."""
        header_ends = np.append(0, np.cumsum(records.headers))
        for start in range(0, len(records.offset), ROW_LIMIT):
            stop = min(start + ROW_LIMIT, len(records.offset))
            pairs = slice(int(header_ends[start]), int(header_ends[stop]))
            columns = [
                self._column(name, source, batches, records, slice(start, stop), pairs, names)
                for name in self._schema.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(
        self,
        name: str,
        source: Source,
        batches: Batches,
        records: Records,
        rows: slice,
        pairs: slice,
        names: pa.Array | None,
    ) -> pa.Array:
        if name == "offset":
            return numbers(records.offset[rows], pa.int64())
        if name == "timestamp_ms":
            return numbers(records.stamp[rows], pa.int64())
        if name == "timestamp":
            return timestamps(records.stamp[rows])
        if name == "key":
            return gathered(source, records.key_at[rows], records.key_size[rows])
        if name == "value":
            return gathered(source, records.value_at[rows], records.value_size[rows])
        if name == "headers":
            if names is None or pairs.start == pairs.stop:
                return pa.nulls(rows.stop - rows.start, pa.list_(HEADER_TYPE))
            contents = gathered(source, records.content_at[pairs], records.content_size[pairs])
            return header_lists(names.slice(pairs.start, len(contents)), contents, records.headers[rows])
        if name == "timestampType":
            kind = np.where(batches.magic == 0, -1, (batches.attributes & TIMESTAMP_TYPE_BIT) // TIMESTAMP_TYPE_BIT)
            return numbers(np.repeat(kind.astype(np.int32), records.count)[rows], pa.int32())
        if name == "leader_epoch":
            epoch = np.repeat(batches.epoch.astype(np.int32), records.count)[rows]
            return numbers(epoch, pa.int32(), epoch >= 0)
        if name == "position":
            position = np.repeat(batches.position + self._place.position_base, records.count)[rows]
            return numbers(position, pa.int64())
        held = self._repeated.get(name)
        count = rows.stop - rows.start
        if held is None or len(held) < count:
            held = self._repeated[name] = pa.repeat(self._constants[name], max(count, 1 << 14))
        return held.slice(0, count)
