"""What the kernels and their callers share: the columns of the batch table and the slots of the call frames.

A kernel takes one argument, an array of int64 called its frame: numbers, addresses of buffers, and room for results.
The batch table has WIDTH int64 columns a row, one row a batch.
"""

from logcore.columns.kernels import codec_numbers

# Columns of the batch table.
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

# How a kernel ended.
DONE = 0
DOUBT = 1
"""At a batch that it does not accept. It used nothing of it, and the slow reader must validate it."""
FULL = 2
"""No room for more; call again with the same frame and fresh buffers."""
FOREIGN = 3
"""At a batch whose codec the kernel does not have."""

# Frame of `walk`.
WALK_SOURCE = 0
WALK_SIZE = 1
WALK_POSITION = 2
WALK_EXPECTED = 3
"""The lowest offset that the next batch may begin with."""
WALK_CEILING = 4
"""The highest offset that a batch may end with."""
WALK_MAX_BATCHES = 5
WALK_MAX_BYTES = 6
"""Stop after the batch that reaches this many bytes in all."""
WALK_TABLES = 7
WALK_TABLE = 8
WALK_STATUS = 9
WALK_COUNT = 10
WALK_KIND = 11
WALK_RECORDS = 12
"""Sum of the record counts."""
WALK_BODY_BYTES = 13
WALK_HAS_CONTROL = 14
"""Not 0: a control batch is among them."""
WALK_CODEC = 15
"""Codec of all batches; -1 if they have several. Markers between compressed batches do not count."""
WALK_MAX_COMPRESSED = 16
"""The same for compressed batches, which grow."""
WALK_CRC32 = 17
"""Address of a faster CRC-32 for messages, 0 if there is none."""
WALK_SLOTS = 20

# Frame of `hop`.
HOP_SOURCE = 0
HOP_SIZE = 1
HOP_POSITION = 2
HOP_TARGET = 3
HOP_NEXT_OFFSET = 4
HOP_SLOTS = 8

# Frame of `emit` and `inspect`.
SOURCE = 0
SOURCE_SIZE = 1
TABLE = 2
FIRST = 3
"""First row of the table to read, and where the next call continues."""
END = 4
ROW_CAPACITY = 5
STATUS = 6
RECORD = 7
"""Progress in a batch that did not fit: records read, position after them, offset of the last."""
AT = 8
PREVIOUS = 9
ROWS = 10
KEY_BYTES = 11
VALUE_BYTES = 12
HEADER_COUNT = 13
NAME_BYTES = 14
HEADER_VALUE_BYTES = 15
NULL_KEYS = 16
NULL_VALUES = 17
NULL_TIMESTAMPS = 18
NULL_HEADERS = 19
NULL_HEADER_VALUES = 20
NULL_EPOCHS = 21
FILTERED = 22
"""Not 0: apply RANGES, SINCE, UNTIL and the key."""
RANGES = 23
RANGE_COUNT = 24
SINCE = 25
UNTIL = 26
WANTED_KEY = 27
WANTED_KEY_SIZE = 28
"""-1: any key."""
WITH_CONTROL = 29
TO_OFFSETS = 30
TO_TIMESTAMPS = 31
TO_TIMESTAMP_VALIDITY = 32
TO_TIMESTAMPS_MS = 33
TO_TYPES = 34
TO_EPOCHS = 35
TO_EPOCH_VALIDITY = 36
TO_POSITIONS = 37
TO_KEY_ENDS = 38
TO_KEYS = 39
TO_KEY_VALIDITY = 40
TO_VALUE_ENDS = 41
TO_VALUES = 42
TO_VALUE_VALIDITY = 43
TO_HEADER_ENDS = 44
TO_HEADER_VALIDITY = 45
TO_NAME_ENDS = 46
TO_NAMES = 47
TO_HEADER_VALUE_ENDS = 48
TO_HEADER_VALUES = 49
TO_HEADER_VALUE_VALIDITY = 50
PREVIOUS_LAST = 51
"""Last offset before the first batch: an unfolded wrapper must begin after it."""
WRAPPED = 52
"""Not 0: the batches are wrappers, and their decompressed sets are read."""
CHECK_INNER = 53
"""Not 0: also check the checksums of the messages in a wrapper."""
CHECKSUM_TABLES = 54
POSITION_BASE = 55
"""Added to every position in the output."""
UNTIL_OPEN = 56
"""Not 0: no timestamp is too late."""
TO_CONTROL = 57
"""For each row: the type of a control record, -1 for any other."""
WANTED_NAME = 58
"""Only records with a record header of this name and content are wanted."""
WANTED_NAME_SIZE = 59
"""-1: any record."""
WANTED_CONTENT = 60
WANTED_CONTENT_SIZE = 61
"""-1: any content, or none."""
TAKES_ANY_NAME = 62
"""Not 0: names of record headers may be any bytes. 0: a name that is not UTF-8 is a doubt."""
EMITTED_NOT_UTF8 = 63
"""Record headers in the rows whose name is not UTF-8."""
SLOTS = 64

# Frame of `inflate`.
INFLATE_SOURCE = 0
INFLATE_TABLE = 1
INFLATE_FIRST = 2
INFLATE_END = 3
INFLATE_TARGET = 4
INFLATE_ROOM = 5
INFLATE_USED = 6
INFLATE_STATUS = 7
INFLATE_CAP = 8
"""Output bytes that one batch may give."""
INFLATE_NEEDED = 9
"""With FULL: room that the next batch may take."""
INFLATE_DECODERS = 10
"""A slot for each codec number: address of LZ4_decompress_safe or ZSTD_decompressDCtx, 0 if there is none."""
INFLATE_STATES = INFLATE_DECODERS + codec_numbers.NUMBERS
"""A slot for each codec number: address of the decoder's context, 0 if it needs none."""
INFLATE_SLOTS = INFLATE_STATES + codec_numbers.NUMBERS

# Frame of `lines`, `text_lines` and `csv_lines`.
LINE_EMITTED = 0
"""Address of the frame whose buffers are written out."""
LINE_FIRST = 1
LINE_TARGET = 2
LINE_ROOM = 3
LINE_USED = 4
LINE_PREFIX = 5
"""The text before the offset; at least 64 bytes may be read."""
LINE_PREFIX_SIZE = 6
LINE_FRAGMENTS = 7
LINE_DIGIT_PAIRS = 8
LINE_COUPLES = 9
LINE_END = 10
"""The row after the last one to write."""
LINE_AS_TEXT = 11
"""Not 0: keys and values that are UTF-8 are text."""
LINE_HEX_PAIRS = 12
LINE_PRINTABLE = 13
"""A bit for each code point: whether it is printable. 0: `text_lines` ends with FOREIGN where it needs them."""
LINE_STATUS = 14
LINE_SLOTS = 16

SLACK = 64
"""Extra bytes after the capacity of every output buffer: copies write 32 bytes at once."""

MIN_TIMESTAMP_MS = -62_135_596_800_000
MAX_TIMESTAMP_MS = 253_402_300_799_999
