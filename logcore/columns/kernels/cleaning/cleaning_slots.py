"""The frames of the kernels that clean by key, and the rows of records; `slots` has the frames of the others.

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
"""

from logcore.columns.kernels import codec_numbers

# Flags of a row.
NO_KEY = 1
NO_VALUE = 2
LEFT_OUT = 4
"""Not for the map: control records, and rows that the caller marked."""
STAYS = 8
"""Set by `survivors`."""

# Rows, as addresses of arrays in the frame of every kernel that reads or writes them.
HIGH = 0
"""uint64: first half of the hash of the key; undefined without a key."""
LOW = 1
OFFSETS = 2
STARTS = 3
"""int64: where the record begins in the bytes that the record kernels read."""
FLAGS = 4
"""uint8."""
FIRST_ROWS = 5
"""int64, a number for each batch of the table: its first row; after the last batch the number of rows."""
NEWEST = 6
"""int64: newest offset of the key, -1 if the map has none."""

SOURCE = 8
SOURCE_SIZE = 9
TABLE = 10
FIRST = 11
"""First batch, or row, to read, and where the next call continues."""
END = 12
STATUS = 13
ROWS = 14
"""Number of rows so far."""
CAPACITY = 15

# Of `hash_keys`.
KEY_0 = 16
KEY_1 = 17

# Of the map's kernels.
PARTS = 18
"""Address of PART_WIDTH numbers for each part."""
SINCE = 19
"""Rows of lower offsets are not for the map."""
MOST_KEYS = 20
"""With this many keys the map is full; -1: no limit."""
KEYS = 21
"""Number of keys so far."""
PART = 22
"""With FULL: the part that has no room for the row's key."""
LAST_PUT = 23
"""Offset of the last row that was put; -1 before the first one."""
PART_SHIFT = 7
"""63 less the number of bits that name the part of a hash."""

# Of `survivors`.
MODES = 24
"""int64, a number for each batch: the treatment of its records."""
NEEDS = 25
"""int64, a number for each batch: 1 if tombstones stay."""
LATEST = 26
"""Rows of higher offsets stay."""
FROZEN = 27
"""Rows from this offset on are removed only if the map has a newer offset."""
KEPT = 28
"""int64, for each batch: how many of its records stay, then how many of those have no value."""

# Of `rewrite`.
CHOSEN = 32
"""int64: rows of the table to write, from FIRST to END."""
HORIZONS = 33
"""int64, for each chosen batch: delete horizon, NONE without one."""
TARGET = 34
ROOM = 35
USED = 36
ENDS = 37
"""int64, for each chosen batch: where it ends in the target."""
SCRATCH = 38
SCRATCH_SIZE = 39
CHECKSUM_TABLES = 40
STAMPS = 41
"""int64, for each chosen batch: its max timestamp."""

# Of `mark_newest` and `newest_rows`.
BITS = 42
"""Address of a bit for each offset from BITS_FROM up to BITS_END, lowest first."""
BITS_FROM = 43
BITS_END = 44

# Of `rewrite`, a slot for each codec number.
ENCODERS = 46
"""Address of zlib's deflate, snappy-java's rawCompress, LZ4_compress_default or ZSTD_compressStream2; 0: none."""
ENCODER_STATES = ENCODERS + codec_numbers.NUMBERS
"""Address of a z_stream or ZSTD_CCtx that is set up, 0 for an encoder that needs none."""
ENCODER_RESETS = ENCODER_STATES + codec_numbers.NUMBERS
"""Address of deflateReset or ZSTD_CCtx_reset, 0 for an encoder without a state."""
SLOTS = ENCODER_RESETS + codec_numbers.NUMBERS

ALL_GO = 0
ALL_STAY = 1
BY_KEY = 2

STOPPED = 4
"""How `put_newest` ends at a row that a full map (MOST_KEYS) has no room for."""

PART_ADDRESS = 0
PART_SLOTS = 1
PART_USED = 2
PART_MOST = 3
PART_WIDTH = 4
SLOT_BYTES = 24
"""Both halves of the hash, and the offset plus one: 0 marks an empty slot."""

# Frame of `spread_part`, `move_part` and `take_part`.
MOVE_FROM = 0
MOVE_SLOTS = 1
MOVE_TO = 2
MOVE_TO_SLOTS = 3
MOVE_HIGH = 4
MOVE_LOW = 5
MOVE_OFFSETS = 6
MOVE_COUNT = 7
MOVE_STATUS = 8
MOVE_WIDTH = 10
ALWAYS_ASIDE = 1024
"""Slots at the beginning of a part whose content is set aside while it is spread."""
MOST_ASIDE = 4096

# Frame of `index`.
INDEX_POSITIONS = 0
"""int64, for each batch written: its position, size, last offset and max timestamp."""
INDEX_COUNT = 1
INDEX_INTERVAL = 2
INDEX_BASE = 3
INDEX_SINCE = 4
"""Bytes since the last entry."""
INDEX_STAMP = 5
"""Greatest timestamp so far, and the last offset of the first batch that reached it."""
INDEX_STAMP_OFFSET = 6
INDEX_LAST_STAMP = 7
"""Timestamp of the last time entry; -1 before the first one."""
INDEX_OFFSETS = 8
"""Target of the entries, and their number."""
INDEX_OFFSET_COUNT = 9
INDEX_TIMES = 10
INDEX_TIME_COUNT = 11
INDEX_WIDTH = 12
WRITTEN_WIDTH = 4
