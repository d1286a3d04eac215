"""The row of a batch in the batch table: WIDTH int64 columns. Kernels and their callers share the table.

In a kernel the table is one array, and `table[row + BODY]` is a column of the row that begins at number `row`.
"""

POSITION = 0
"""Position of the batch in the segment's bytes."""
SIZE = 1
BASE_OFFSET = 2
LAST_OFFSET = 3
RECORD_COUNT = 4
ATTRIBUTES = 5
"""16 bits unsigned; 8 bits for a v0 or v1 message."""
BASE_TIMESTAMP = 6
MAX_TIMESTAMP = 7
PRODUCER_ID = 8
PRODUCER_EPOCH = 9
BASE_SEQUENCE = 10
LEADER_EPOCH = 11
CRC = 12
MAGIC = 13
BODY = 14
"""Where its records begin in the bytes that the record kernels read: the segment's, or decompressed ones."""
BODY_END = 15
UNWANTED = -1
"""In BODY: the records of the batch are not read."""
LEAST_TIMESTAMP = 16
"""Least timestamp of its records that is not negative; NONE without one."""
GREATEST_TIMESTAMP = 17
"""Greatest timestamp of its records; NONE without records."""
OUT_OF_RANGE = 18
"""Records with a timestamp that is not -1 and outside of the years 1 to 9999."""
CONTROL_TYPE = 19
"""0 ABORT, 1 COMMIT, -1 not a control batch, or one without records."""
HEADERS = 20
"""Record headers in all of its records."""
NEGATIVE = 21
"""Records with a timestamp below -1."""
SOUND = 22
"""1: a gzip member that a fast decoder may take; see `deflate`. Until its records are checked."""
NAMES_NOT_UTF8 = SOUND
"""Record headers in all of its records whose name is not UTF-8. After its records are checked."""
BEFORE_WRAPPER = 23
"""1: a compressed v0 or v1 message follows; its header does not contain its first offset."""
WIDTH = 24
"""A row fills three cache lines."""

NONE = -(1 << 63)

# What kind of batches a walk returned; all of one call are of one kind. Only markers may be among compressed batches.
PLAIN = 0
COMPRESSED = 1
PLAIN_MESSAGES = 2
COMPRESSED_MESSAGES = 3

MIN_TIMESTAMP_MS = -62_135_596_800_000
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The years 1 to 9999."""
