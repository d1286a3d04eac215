"""The frames of the kernels that decode values, and the layout of the program that a schema becomes."""

from enum import IntEnum

from logcore.columns.kernels.call_frames import Address, CallFrame, layout


class NodeKind(IntEnum):
    """What a node of the program expects."""

    STRUCT = 0
    LIST = 1
    INTEGER = 2
    NUMBER = 3
    """A decimal number of JSON: its digits, and the power of ten in the size."""
    TRUTH = 4
    TEXT = 5
    DATE = 6
    MOMENT = 7
    """In microseconds."""
    INT32 = 8
    FLOAT32 = 9
    FLOAT64 = 10
    BYTES = 11
    FIXED = 12
    SYMBOL = 13
    """The number of a symbol."""
    MILLIS = 14
    """A moment that is written in milliseconds."""
    UNSIGNED64 = 15
    DECIMAL = 16
    """A big-endian number with a sign, in bytes: its lower 64 bits, and its upper ones in the size."""
    FIXED_DECIMAL = 17
    UNION = 18
    """One of several types: a struct with one of its fields."""


class NumberForm(IntEnum):
    """How Protobuf writes a number."""

    VARINT64 = 0
    VARINT32 = 1
    UNSIGNED32 = 2
    ZIGZAG32 = 3
    ZIGZAG64 = 4
    TRUTH = 5
    FIXED32 = 6
    SIGNED_FIXED32 = 7
    FIXED64 = 8


NODE = 13
"""Numbers of a node in the program."""
KIND, NULLABLE, VALUES, SIZES, VALID, FIRST, COUNT, REQUIRED, SCOPE, CLOSED, BOUND_HIGH, BOUND_LOW, AFTER = range(NODE)
"""Their places. FIRST: of a struct its first field, of a list its item. COUNT: of a struct its fields. REQUIRED: a bit
for each field that must be there. SCOPE: of a list the scope of its items. CLOSED: a struct may have no other keys.
BOUND_HIGH and BOUND_LOW: of a decimal 10 to the power of its digits, in two words. AFTER: the node after this one and
all that is below it in its scope."""
LIMIT = REQUIRED
"""Of a node of Avro: the size of a fixed, the number of symbols, the null of a UNION or -1. Of a number of Protobuf:
its form."""
KEYED = CLOSED
"""Of a struct of Avro and Protobuf: it is an entry of a map, and its key is its first field. Of a list of JSON: it is a
map, an object with any keys. Its items are entries, structs of key and value."""
NULL_FIRST, NULL_SECOND = 1, 2
"""NULLABLE of a node of Avro: which type of the union is null. 0: there is no union."""
FIELD = 3
FIELD_NAME, FIELD_SIZE, FIELD_NODE = range(FIELD)
FIELD_TAG, FIELD_OTHERS = FIELD_NAME, FIELD_SIZE
"""Of a field of Protobuf: the tag before a value that is not packed, and a bit for each other member of its oneof."""
SCOPE_SIZE = 4
SCOPE_COUNT, SCOPE_ROOM, SCOPE_FIRST, SCOPE_END = range(SCOPE_SIZE)
"""A scope is the rows, or the items of one list; its nodes have one value for each. SCOPE_COUNT is their number,
SCOPE_ROOM the room for them; SCOPE_FIRST and SCOPE_END are the nodes of the scope."""
LEVEL = 5
LEVEL_NODE, LEVEL_INDEX, LEVEL_SEEN, LEVEL_NEXT, LEVEL_OPENED = range(LEVEL)
LEVEL_END = LEVEL_NEXT
"""Of a message of Protobuf: where its bytes end. A level is a message around the one that is read."""
"""An open struct or list: its node, the index of its value, the fields that were seen, and the one that may be next.
LEVEL_OPENED: how many structs and lists of the row were opened before it."""
EXTRA = 3
EXTRA_OPENED, EXTRA_START, EXTRA_SIZE = range(EXTRA)
"""A key that the schema lacks: LEVEL_OPENED of its struct, and its bytes."""
MOST_EXTRAS = 16
"""Such keys of a row. Rows with more are doubted: each is compared with all others."""
MOST_ENTRIES = 256
"""Entries of a map. Rows with more are doubted: each key is compared with all before it."""
MOST_FIELDS = 62
"""Fields of a struct: one bit each, and no sign."""
ESCAPED = 1 << 62
"""In the size of a text: it has escapes."""


@layout
class ValuesFrame(CallFrame):
    """The frame of a kernel that decodes rows."""

    __slots__ = ()

    source: Address
    starts: Address
    ends: Address
    """Positions of the rows in the source; an end of -1 for a row without a value."""
    rows: int
    longest: int
    """Rows of more bytes are doubted."""
    nodes: Address
    fields: Address
    names: Address
    scopes: Address
    scope_count: int
    saved: Address
    """Room for a number for each scope."""
    stack: Address
    """Room for a level for each struct and list."""
    extras: Address
    """Room for MOST_EXTRAS keys, for JSON."""
    doubts: Address
    """Room for a number for each row: the rows that the kernel doubts, in order. They count as null."""
    doubt_count: int
    status: int
    full_scope: int
    """The scope that has no room left."""


@layout
class TextFrame(CallFrame):
    """The frame of `gather_text`."""

    __slots__ = ()

    source: Address
    starts: Address
    sizes: Address
    valid: Address
    count: int
    offsets: Address
    """Room for an int32 for each text and one more."""
    target: Address
    """Room for the sum of the sizes."""
