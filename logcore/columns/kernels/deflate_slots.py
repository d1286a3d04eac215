"""The frame of the kernel that deflates, and where its working space holds what."""

SOURCE = 0
SIZE = 1
TARGET = 2
ROOM = 3
"""Bytes that may be written to."""
USED = 4
"""Bytes of the stream, -1 where it might not have fitted."""
TABLES = 5
"""Address of TABLE_BYTES bytes."""
NUMBERS = 6
"""Address of NUMBER_COUNT int64. What is in both from before does not matter."""
RESULT = 7
ERROR = 8
"""What a kernel that is called by another one returns to."""
WIDTH = 10

BEHIND = 16
"""So many bytes behind the source must be readable, and mean nothing."""
WASTE = 8
"""So many bytes behind the end of the stream may be written to."""

# The tables.
HASHES = 32_768
WINDOW = 32_768
BLOCK_SYMBOLS = 16_383
NEWEST = 0
"""uint16: of each hash the newest place; 0 is none."""
EARLIER = NEWEST + 2 * HASHES
"""uint16: for each place, by its lowest 15 bits, the one before it with the same hash."""
SYMBOLS = EARLIER + 2 * WINDOW
"""uint32: the symbols of the block."""
TABLE_BYTES = SYMBOLS + 4 * (BLOCK_SYMBOLS + 1)

# The numbers: first of each symbol of the three alphabets its frequency, then the width of its code, then the code.
LITERALS, DISTANCES, LENGTHS = 0, 288, 320
"""Where the alphabets begin in each: literals and lengths of matches; distances; lengths of codes."""
ALPHABETS = 344
FREQUENCIES = 0
WIDTHS = FREQUENCIES + ALPHABETS
"""Bits of a symbol's code, 0 without one."""
CODES = WIDTHS + ALPHABETS
"""The first bit of a code is its lowest."""
NODES = 573
"""Of the largest alphabet's tree, and one."""
HEAP = CODES + ALPHABETS
"""From 1 on. Behind what it holds lie the nodes laid aside, the last one first."""
PARENTS = HEAP + NODES
DEPTHS = PARENTS + NODES
COUNTS = DEPTHS + NODES
"""Of each width how many codes."""
NEXT = COUNTS + 16
"""Of each width the next code."""
WAITING = NEXT + 16
"""Bits that are no whole byte yet, and how many."""
WAITING_COUNT = WAITING + 1
MATCHES = WAITING_COUNT + 1
"""How often each length of a match, minus 3, is in the block."""
ENTRIES = MATCHES + 256
"""For each of those its code with the bits behind it, and above the lowest 32 how many bits that is."""
RUNS = ENTRIES + 256
"""The widths of the codes, run by run: symbol, and above the lowest 8 what stands behind its code."""
NUMBER_COUNT = RUNS + 316
