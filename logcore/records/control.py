"""Control records, which the broker writes into the log between the records of producers.

    key     int16 version (0) · int16 type
    value   of ABORT and COMMIT: int16 version (0) · int32 coordinatorEpoch

    type 0 ABORT · 1 COMMIT · 2 LEADER_CHANGE · 3 SNAPSHOT_HEADER · 4 SNAPSHOT_FOOTER · 5 KRAFT_VERSION · 6 KRAFT_VOTERS

They take up offsets, and a consumer never gets them. A type of a later release is UNKNOWN and must be tolerated: it
ends no transaction. Versions above 0 are read with this layout, as Kafka guarantees.

Source: org.apache.kafka.common.record.internal.{ControlRecordType, EndTransactionMarker}. Belongs here: the types of
control records. `logcore.logs.model.transactions` has the effect of a marker on a transaction.
"""

import struct
from enum import StrEnum

from logcore.errors import CorruptionReason, CorruptRecordError

_KEY = struct.Struct(">hh")
_END_MARKER = struct.Struct(">hi")


class ControlType(StrEnum):
    """The types of control record, by the names that Kafka prints."""

    ABORT = "ABORT"
    COMMIT = "COMMIT"
    LEADER_CHANGE = "LEADER_CHANGE"
    SNAPSHOT_HEADER = "SNAPSHOT_HEADER"
    SNAPSHOT_FOOTER = "SNAPSHOT_FOOTER"
    KRAFT_VERSION = "KRAFT_VERSION"
    KRAFT_VOTERS = "KRAFT_VOTERS"
    UNKNOWN = "UNKNOWN"


_BY_NUMBER = dict(enumerate(kind for kind in ControlType if kind is not ControlType.UNKNOWN))


def control_type(key: bytes | None) -> ControlType:
    """Read the type of a control record from its key.

    Raises:
        CorruptRecordError: CONTROL if the key is null, shorter than 4 bytes, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        size = "no key" if key is None else f"a key of {len(key)} bytes"
        raise CorruptRecordError(CorruptionReason.CONTROL, f"a control record with {size}; {_KEY.size} are needed")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(CorruptionReason.CONTROL, f"a control record key of version {version}")
    return _BY_NUMBER.get(number, ControlType.UNKNOWN)


def coordinator_epoch(value: bytes | None) -> int:
    """Read the epoch of the transaction coordinator from the value of an ABORT or COMMIT marker.

    Raises:
        CorruptRecordError: CONTROL if the value is null, shorter than 6 bytes, or of a negative version.
    """
    if value is None or len(value) < _END_MARKER.size:
        raise CorruptRecordError(CorruptionReason.CONTROL, "a transaction marker with an incomplete value")
    version, epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(CorruptionReason.CONTROL, f"a transaction marker value of version {version}")
    return int(epoch)
