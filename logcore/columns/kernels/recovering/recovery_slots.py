"""What the kernel `recover` and its caller share: the slots of the call frame, and the columns of an event.

An event reports a new leader epoch, a transaction marker, or data of a producer. Successive data batches of one
producer are one event if they have the same epoch, are all transactional or all not, and have no marker of the producer
between them. It is at the place of the first batch, with the fields of the last.
"""

SOURCE = 0
SIZE = 1
POSITION = 2
"""Where the next batch begins; updated."""
BASE_OFFSET = 3
INTERVAL = 4
LAST_OFFSET = 5
"""Last offset of the batch before; updated."""
LAST_ENTRY_AT = 6
GREATEST = 7
"""The greatest timestamp so far, and in the next slot its offset."""
GREATEST_OFFSET = 8
LAST_TIMED = 9
"""Timestamp of the time index's last entry."""
EPOCH = 10
"""The latest leader epoch; -1: none."""
REPLAYED_TO = 11
"""Offset after the last v2 batch; -1: none yet."""
TABLES = 12
CRC32 = 13
"""Address of a faster CRC-32 for messages, 0 if there is none."""
STATUS = 14
"""DONE, DOUBT or FULL of `slots`."""
OFFSETS = 15
"""Target of the offset index's entries, and how many fit there and in the index."""
OFFSET_ROOM = 16
OFFSET_COUNT = 17
TIMES = 18
TIME_ROOM = 19
TIME_COUNT = 20
EVENTS = 21
EVENT_ROOM = 22
EVENT_COUNT = 23
RUNS = 24
"""RUN_SLOTS numbers: the last event with data of a producer; -1: none."""
FRAME_SLOTS = 32

RUN_SLOTS = 1024

KIND = 0
PRODUCER_ID = 1
PRODUCER_EPOCH = 2
FIRST_BASE = 3
"""Base offset of the event's first batch."""
BASE = 4
LAST = 5
SEQUENCE = 6
TIMESTAMP = 7
"""Greatest timestamp of the batch; for a marker, the record's timestamp."""
FLAG = 8
"""Data: not 0 if transactional. Marker: not 0 if it is an ABORT."""
COORDINATOR_EPOCH = 9
FIRST_POSITION = 10
EVENT_WIDTH = 11

DATA = 0
MARKER = 1
NEW_EPOCH = 2
"""PRODUCER_EPOCH is the leader epoch, BASE where it begins."""
