"""The frames of the kernels that clean by key, and what a record is to them; `slots` has those of the others.

hash_keys   batches of the table → a row a record: hash of its key, offset, where it begins, flags
hash_bytes  byte strings → their hashes
put_newest  rows → the parts of a map of newest offsets
find_newest rows → of each the newest offset in the map
spread_part a part of a map, made longer, in place
move_part   a part of a map → another one
take_part   a part of a map → rows
mark_newest a map → a bit for each offset that it holds
newest_rows batches of the table, and those bits → a row a record that is the newest of its key, but for the hash
survivors   rows and what the map says of them → which stay, and of each batch how many
rewrite     batches of which some records stay → their new bytes
index       batches written → entries of the two indexes
"""

# Flags of a row.
NO_KEY = 1
NO_VALUE = 2
LEFT_OUT = 4
"""Not for the map: control records, and what the caller says."""
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
"""int64, a number for each batch of the table: its first row; behind the last batch the number of rows."""
NEWEST = 6
"""int64: newest offset of the key, -1 where the map has none."""

SOURCE = 8
SOURCE_SIZE = 9
TABLE = 10
FIRST = 11
"""First batch, or row, to read, and where the next call goes on."""
END = 12
STATUS = 13
ROWS = 14
"""How many there are so far."""
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
"""So many keys fill the map, whatever is put next; -1: none do."""
KEYS = 21
"""How many there are so far."""
PART = 22
"""With FULL: the part that has no room for the row's key."""
LAST_PUT = 23
"""Offset of the last row that was put; -1 before one was."""
PART_SHIFT = 7
"""63 less the number of bits that name the part of a hash."""

# Of `survivors`.
MODES = 24
"""int64, a number for each batch: what becomes of its records."""
NEEDS = 25
"""int64, a number for each batch: 1 where tombstones stay."""
LATEST = 26
"""Rows of higher offsets stay."""
FROZEN = 27
"""Rows from this offset on go only where the map has a newer offset."""
KEPT = 28
"""int64, for each batch: how many of its records stay, and behind it how many of those have no value."""

# Of `rewrite`.
CHOSEN = 32
"""int64: rows of the table to be written, from FIRST to END."""
HORIZONS = 33
"""int64, for each chosen batch: delete horizon, NONE without one."""
TARGET = 34
ROOM = 35
USED = 36
ENDS = 37
"""int64, for each chosen batch: where it ends in the target."""
SCRATCH = 38
SCRATCH_SIZE = 39
LZ4 = 40
"""Address of LZ4_compress_default, 0 where it is not at hand."""
ZSTD = 41
"""Address of ZSTD_compressStream2, 0 where it is not at hand."""
ZSTD_STATE = 42
ZSTD_RESET = 43
"""Address of ZSTD_CCtx_reset."""
CHECKSUM_TABLES = 44
STAMPS = 45
"""int64, for each chosen batch: its max timestamp."""
DEFLATE = 46
"""Address of zlib's deflate, 0 where it is not at hand; of deflateReset; and of a z_stream that is set up."""
DEFLATE_RESET = 47
DEFLATE_STATE = 48
SNAPPY = 49
"""Address of snappy-java's rawCompress, 0 where it is not at hand."""

# Of `mark_newest` and `newest_rows`.
BITS = 52
"""Address of a bit for each offset from BITS_FROM up to BITS_END, lowest first."""
BITS_FROM = 53
BITS_END = 54
SLOTS = 56

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
"""Slots at the beginning of a part whose content is laid aside while it is spread."""
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
"""Of the last time entry; -1 before one."""
INDEX_OFFSETS = 8
"""Where the entries go, and how many there are."""
INDEX_OFFSET_COUNT = 9
INDEX_TIMES = 10
INDEX_TIME_COUNT = 11
INDEX_WIDTH = 12
WRITTEN_WIDTH = 4
