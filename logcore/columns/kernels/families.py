"""The list of kernels, in families that are compiled and cached together, and the kinds of work that need them.

A family is from one module. Its object code depends on that module and its imports. So after an edit only the families
that it can change are compiled again.
"""

from dataclasses import dataclass
from enum import Enum

PACKAGE = "logcore.columns.kernels"


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels that are compiled together.

    Attributes:
        name: Unique name of the family.
        module: Name below PACKAGE. Its function `kernels` returns the sources by name.
        kernels: Names of the kernels; unique among all families.
        seconds: CPU time of one compilation, for the messages. Measured on 2.1 GHz cores of a shared machine.
    """

    name: str
    module: str
    kernels: tuple[str, ...]
    seconds: float


WALK = Family("walk", "decoding.batches", ("walk", "hop"), 1.5)
INSPECT = Family("inspect", "decoding.records", ("inspect",), 1.5)
EMIT = Family("emit", "decoding.records", ("emit",), 2.2)
INFLATE = Family("inflate", "decoding.frames", ("inflate",), 1.0)
DEFLATE = Family("deflate", "decoding.deflate", ("validate_gzip",), 1.2)
MESSAGES = Family("messages", "decoding.messages", ("unfold", "emit_messages"), 1.5)
LINES = Family("lines", "decoding.lines", ("lines",), 1.2)
TEXT_LINES = Family("text_lines", "decoding.text_lines", ("text_lines",), 1.5)
CSV_LINES = Family("csv_lines", "decoding.csv_lines", ("csv_lines",), 1.5)
KEYS = Family("keys", "cleaning.keyed", ("hash_keys", "hash_bytes"), 2.0)
NEWEST = Family(
    "newest", "cleaning.newest", ("put_newest", "find_newest", "spread_part", "move_part", "take_part"), 1.0
)
SURVIVING = Family("surviving", "cleaning.surviving", ("mark_newest", "newest_rows"), 0.7)
REWRITE = Family("rewrite", "cleaning.cleaning", ("survivors", "rewrite", "index"), 2.2)
RECOVER = Family("recover", "recovering.recovering", ("recover",), 1.3)

FAMILIES = (
    WALK,
    INSPECT,
    EMIT,
    INFLATE,
    DEFLATE,
    MESSAGES,
    LINES,
    TEXT_LINES,
    CSV_LINES,
    KEYS,
    NEWEST,
    SURVIVING,
    REWRITE,
    RECOVER,
)

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
    WRITE_CSV = (*_RECORDS, CSV_LINES)
    """Records as lines of CSV."""
    CLEAN = (*_BATCHES, KEYS, NEWEST, SURVIVING, REWRITE)
    """Compaction by key."""
    RECOVER = (RECOVER,)
    """Recovery of segments and their indexes."""
    EVERYTHING = FAMILIES
