"""The frames of the kernels that clean by key, and the rows of records; `decoding_frames` has the frames of the others.

hash_keys   batches of the table → a row for each record: hash of its key, offset, beginning, flags
hash_bytes  byte strings → their hashes
put_newest  rows → the parts of a map of newest offsets
find_newest rows → the newest offset of each key in the map
spread_part a part of a map → the same part with more slots, in place
move_part   a part of a map → another one
take_part   a part of a map → rows
mark_newest a map → a bit for each of its offsets
newest_rows batches of the table, and those bits → rows, without hashes, of the newest records of their keys
survivors   rows and their newest offsets → which rows stay, and how many of each batch
rewrite     batches of which some records stay → their new bytes
index       batches written → entries of the two indexes

Rows are arrays:

    high, low    uint64: both halves of the hash of the key; undefined without a key
    offsets      int64
    starts       int64: where the record begins in the bytes that the record kernels read
    flags        uint8
    newest       int64: newest offset of the key, -1 if the map has none
    first_rows   int64, a number for each batch of the table: its first row; after the last batch the number of rows
"""

from logcore.columns.kernels.call_frames import Address, AddressOfEachCodec, CallFrame, Unsigned, layout

# Flags of a row.
NO_KEY = 1
NO_VALUE = 2
LEFT_OUT = 4
"""Not for the map: control records, and rows that the caller marked."""
STAYS = 8
"""Set by `survivors`."""


@layout
class RowsFrame(CallFrame):
    """The frame of `hash_keys` and `newest_rows`."""

    __slots__ = ()

    source: Address
    source_size: int
    table: Address
    first: int
    """First batch to read, and where the next call continues."""
    end: int
    status: int
    key_0: Unsigned
    key_1: Unsigned
    bits: Address
    """A bit for each offset from `bits_from` on, lowest first."""
    bits_from: int
    rows: int
    """Number of rows so far."""
    capacity: int
    high: Address
    low: Address
    offsets: Address
    starts: Address
    flags: Address
    first_rows: Address


@layout
class HashFrame(CallFrame):
    """The frame of `hash_bytes`."""

    __slots__ = ()

    source: Address
    source_size: int
    starts: Address
    """int64: byte string n begins at number n, and ends at number n + 1."""
    count: int
    key_0: Unsigned
    key_1: Unsigned
    high: Address
    low: Address


@layout
class MapFrame(CallFrame):
    """The frame of `put_newest`, `find_newest` and `mark_newest`."""

    __slots__ = ()

    parts: Address
    """PART_WIDTH numbers for each part."""
    part_shift: int
    """63 less the number of bits that name the part of a hash."""
    most_keys: int
    """With this many keys the map is full; -1: no limit."""
    keys: int
    """Number of keys so far."""
    last_put: int
    """Offset of the last row that was put; -1 before the first one."""
    status: int
    part: int
    """With FULL: the part that has no room for the row's key."""
    first: int
    """First row to read, and where the next call continues."""
    end: int
    high: Address
    low: Address
    offsets: Address
    flags: Address
    newest: Address
    since: int
    """Rows of lower offsets are not for the map."""
    bits: Address
    """A bit for each offset from `bits_from` up to `bits_end`, lowest first."""
    bits_from: int
    bits_end: int


STOPPED = 4
"""How `put_newest` ends at a row that a full map (`most_keys`) has no room for."""

# The columns of a part.
PART_ADDRESS = 0
PART_SLOTS = 1
PART_USED = 2
PART_MOST = 3
PART_WIDTH = 4
SLOT_BYTES = 24
"""Both halves of the hash, and the offset plus one: 0 marks an empty slot."""


@layout
class PartFrame(CallFrame):
    """The frame of `spread_part`, `move_part` and `take_part`."""

    __slots__ = ()

    source: Address
    source_slots: int
    target: Address
    """Of `spread_part`: MOST_ASIDE slots for what is set aside."""
    target_slots: int
    high: Address
    low: Address
    offsets: Address
    count: int
    """Rows so far, or slots that were set aside."""
    status: int


ALWAYS_ASIDE = 1024
"""Slots at the beginning of a part whose content is set aside while it is spread."""
MOST_ASIDE = 4096


@layout
class SurvivorsFrame(CallFrame):
    """The frame of `survivors`."""

    __slots__ = ()

    end: int
    """Number of batches."""
    first_rows: Address
    offsets: Address
    flags: Address
    newest: Address
    modes: Address
    """int64, a number for each batch: the treatment of its records."""
    needs: Address
    """int64, a number for each batch: 1 if tombstones stay."""
    latest: int
    """Rows of higher offsets stay."""
    frozen: int
    """Rows from this offset on are removed only if the map has a newer offset."""
    kept: Address
    """int64, for each batch: how many of its records stay, then how many of those have no value."""


# Treatments of a batch's records.
ALL_GO = 0
ALL_STAY = 1
BY_KEY = 2


@layout
class RewriteFrame(CallFrame):
    """The frame of `rewrite`."""

    __slots__ = ()

    source: Address
    source_size: int
    table: Address
    starts: Address
    flags: Address
    first_rows: Address
    kept: Address
    """As in `SurvivorsFrame`."""
    chosen: Address
    """int64: rows of the table to write, from `first` to `end`."""
    horizons: Address
    """int64, for each chosen batch: delete horizon, NONE without one."""
    first: int
    """First chosen batch to write, and where the next call continues."""
    end: int
    status: int
    target: Address
    room: int
    used: int
    ends: Address
    """int64, for each chosen batch: where it ends in the target."""
    stamps: Address
    """int64, for each chosen batch: its max timestamp."""
    scratch: Address
    scratch_size: int
    checksum_tables: Address
    encoders: AddressOfEachCodec
    """zlib's deflate, snappy-java's rawCompress, LZ4_compress_default or ZSTD_compressStream2; 0: none."""
    states: AddressOfEachCodec
    """A z_stream or ZSTD_CCtx that is set up, 0 for an encoder that needs none."""
    resets: AddressOfEachCodec
    """deflateReset or ZSTD_CCtx_reset, 0 for an encoder without a state."""


@layout
class IndexFrame(CallFrame):
    """The frame of `index`."""

    __slots__ = ()

    positions: Address
    """int64, for each batch written: its position, size, last offset and max timestamp."""
    count: int
    interval: int
    base: int
    since: int
    """Bytes since the last entry."""
    stamp: int
    """Greatest timestamp so far."""
    stamp_offset: int
    """The last offset of the first batch that reached it."""
    last_stamp: int
    """Timestamp of the last time entry; -1 before the first one."""
    offsets: Address
    """Target of the entries, and their number."""
    offset_count: int
    times: Address
    time_count: int


WRITTEN_WIDTH = 4
"""Numbers for each batch in `IndexFrame.positions`."""
