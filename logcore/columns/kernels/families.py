"""The list of kernels, in families that are compiled and cached together, and the kinds of work that need them.

A family is from one module. Its object code depends on that module and its imports. So after an edit only the families
that it can change are compiled again.
"""

from dataclasses import dataclass
from enum import Enum

from logcore.columns.kernels.call_frames import CallFrame
from logcore.columns.kernels.cleaning.cleaning_frames import (
    HashFrame,
    IndexFrame,
    MapFrame,
    PartFrame,
    RewriteFrame,
    RowsFrame,
    SurvivorsFrame,
)
from logcore.columns.kernels.decoding.decoding_frames import HopFrame, InflateFrame, LinesFrame, RecordsFrame, WalkFrame
from logcore.columns.kernels.parsing.parsing_frames import TextFrame, ValuesFrame
from logcore.columns.kernels.recovering.recovery_frame import RecoveryFrame

PACKAGE = "logcore.columns.kernels"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its unique name, and the frame that it takes."""

    name: str
    frame: type[CallFrame]


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels that are compiled together.

    Attributes:
        name: Unique name of the family.
        module: Name below PACKAGE. Its function `kernels` returns the sources by name.
        kernels: The kernels; their names are unique among all families.
        seconds: Of one compilation, for the messages: what passed on a machine of two cores with other work.
    """

    name: str
    module: str
    kernels: tuple[Kernel, ...]
    seconds: float


_PUT, _FIND = Kernel("put_newest", MapFrame), Kernel("find_newest", MapFrame)
_PARTS = tuple(Kernel(name, PartFrame) for name in ("spread_part", "move_part", "take_part"))
_MARK, _NEWEST_ROWS = Kernel("mark_newest", MapFrame), Kernel("newest_rows", RowsFrame)
_HASH_KEYS, _HASH_BYTES = Kernel("hash_keys", RowsFrame), Kernel("hash_bytes", HashFrame)
_SURVIVORS, _REWRITE = Kernel("survivors", SurvivorsFrame), Kernel("rewrite", RewriteFrame)
_UNFOLD, _EMIT_MESSAGES = Kernel("unfold", RecordsFrame), Kernel("emit_messages", RecordsFrame)

WALK = Family("walk", "decoding.batches", (Kernel("walk", WalkFrame), Kernel("hop", HopFrame)), 3.3)
INSPECT = Family("inspect", "decoding.records", (Kernel("inspect", RecordsFrame),), 2.5)
EMIT = Family("emit", "decoding.records", (Kernel("emit", RecordsFrame),), 4.0)
INFLATE = Family("inflate", "decoding.frames", (Kernel("inflate", InflateFrame),), 2.0)
DEFLATE = Family("deflate", "decoding.deflate", (Kernel("validate_gzip", InflateFrame),), 2.4)
MESSAGES = Family("messages", "decoding.messages", (_UNFOLD, _EMIT_MESSAGES), 4.8)
LINES = Family("lines", "decoding.lines", (Kernel("lines", LinesFrame),), 3.1)
TEXT_LINES = Family("text_lines", "decoding.text_lines", (Kernel("text_lines", LinesFrame),), 2.0)
COMMIT_LINES = Family("commit_lines", "decoding.commit_lines", (Kernel("commit_lines", LinesFrame),), 2.6)
KEYS = Family("keys", "cleaning.keyed", (_HASH_KEYS, _HASH_BYTES), 3.3)
NEWEST = Family("newest", "cleaning.newest", (_PUT, _FIND, *_PARTS), 1.4)
SURVIVING = Family("surviving", "cleaning.surviving", (_MARK, _NEWEST_ROWS), 0.6)
REWRITE = Family("rewrite", "cleaning.cleaning", (_SURVIVORS, _REWRITE, Kernel("index", IndexFrame)), 2.5)
JSON_ROWS = Family("json_rows", "parsing.json_rows", (Kernel("json_rows", ValuesFrame),), 9.7)
AVRO_ROWS = Family("avro_rows", "parsing.avro_rows", (Kernel("avro_rows", ValuesFrame),), 3.9)
PROTOBUF_ROWS = Family("protobuf_rows", "parsing.protobuf_rows", (Kernel("protobuf_rows", ValuesFrame),), 5.3)
GATHER = Family("gather", "parsing.texts", (Kernel("gather_text", TextFrame),), 1.1)
RECOVER = Family("recover", "recovering.recovering", (Kernel("recover", RecoveryFrame),), 3.9)

_BATCHES = (WALK, INFLATE, DEFLATE, MESSAGES)
_RECORDS = (*_BATCHES, INSPECT, EMIT)


class Work(Enum):
    """A use of kernels; the value is the families that it may need."""

    WALK = _BATCHES
    """Find batches, and decompress what is needed for that."""
    CHECK = (*_BATCHES, INSPECT)
    """Check every record."""
    DECODE = _RECORDS
    """Records as Arrow columns."""
    WRITE_LINES = (*_RECORDS, LINES)
    """Records as lines of JSON."""
    WRITE_TEXT = (*_RECORDS, TEXT_LINES)
    """Records as lines for people."""
    WRITE_COMMITS = (*_RECORDS, COMMIT_LINES)
    """Commits of offsets as decoded lines."""
    CLEAN = (*_BATCHES, KEYS, NEWEST, SURVIVING, REWRITE)
    """Compaction by key."""
    DECODE_JSON = (JSON_ROWS, GATHER)
    """Values in JSON as columns."""
    DECODE_AVRO = (AVRO_ROWS, GATHER)
    """Values in Avro as columns."""
    DECODE_PROTOBUF = (PROTOBUF_ROWS, GATHER)
    """Values in Protobuf as columns."""
    RECOVER = (RECOVER,)
    """Recovery of segments and their indexes."""


FAMILIES = tuple(dict.fromkeys(family for work in Work for family in work.value))
"""Every family."""
