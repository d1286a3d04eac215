"""The row of an event of the kernel `recover`: WIDTH int64 columns.

An event reports a new leader epoch, a transaction marker, or data of a producer. Successive data batches of one
producer are one event if they have the same epoch, are all transactional or all not, and have no marker of the producer
between them. It is at the place of the first batch, with the fields of the last.
"""

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
WIDTH = 11

DATA = 0
MARKER = 1
NEW_EPOCH = 2
"""PRODUCER_EPOCH is the leader epoch, BASE where it begins."""
