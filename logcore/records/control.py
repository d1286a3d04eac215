"""Control records: what the log itself notes down between the records of its users.

    key     int16 version (0) · int16 type
    value   of ABORT and COMMIT: int16 version (0) · int32 coordinatorEpoch

    type 0 ABORT · 1 COMMIT · 2 LEADER_CHANGE · 3 SNAPSHOT_HEADER · 4 SNAPSHOT_FOOTER · 5 KRAFT_VERSION · 6 KRAFT_VOTERS

They take up offsets and are never given to a consumer. A type from the future is UNKNOWN and must be tolerated: it
ends no transaction. Versions above 0 are read with this layout, which is what Kafka promises.

Source: org.apache.kafka.common.record.internal.{ControlRecordType, EndTransactionMarker}. Belongs here: telling control
records apart. What a marker does to a transaction is in `logcore.logs.model.transactions`.
"""

import struct
from enum import StrEnum

from logcore.errors import CorruptionReason, CorruptRecordError

_KEY = struct.Struct(">hh")
_END_MARKER = struct.Struct(">hi")


class ControlType(StrEnum):
    """The kinds of control record, by the names Kafka prints."""

    ABORT = "ABORT"
    COMMIT = "COMMIT"
    LEADER_CHANGE = "LEADER_CHANGE"
    SNAPSHOT_HEADER = "SNAPSHOT_HEADER"
    SNAPSHOT_FOOTER = "SNAPSHOT_FOOTER"
    KRAFT_VERSION = "KRAFT_VERSION"
    KRAFT_VOTERS = "KRAFT_VOTERS"
    UNKNOWN = "UNKNOWN"


_BY_NUMBER = dict(enumerate(kind for kind in ControlType if kind is not ControlType.UNKNOWN))
_NUMBERS = {kind: number for number, kind in _BY_NUMBER.items()}


def control_type(key: bytes | None) -> ControlType:
    """What kind of control record has this key.

    Raises CorruptRecordError CONTROL if the key is null, shorter than 4 bytes, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        size = "no key" if key is None else f"a key of {len(key)} bytes"
        raise CorruptRecordError(CorruptionReason.CONTROL, f"a control record with {size}; {_KEY.size} are needed")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(CorruptionReason.CONTROL, f"a control record key of version {version}")
    return _BY_NUMBER.get(number, ControlType.UNKNOWN)


def control_key(kind: ControlType) -> bytes:
    """The key of a control record of this kind. ValueError for UNKNOWN."""
    if kind not in _NUMBERS:
        raise ValueError(f"{kind} has no number")
    return _KEY.pack(0, _NUMBERS[kind])


def coordinator_epoch(value: bytes | None) -> int:
    """The epoch of the transaction coordinator that wrote an ABORT or COMMIT marker with this value.

    Raises CorruptRecordError CONTROL if the value is null, shorter than 6 bytes, or of a negative version.
    """
    if value is None or len(value) < _END_MARKER.size:
        raise CorruptRecordError(CorruptionReason.CONTROL, "a transaction marker without a whole value")
    version, epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(CorruptionReason.CONTROL, f"a transaction marker value of version {version}")
    return int(epoch)


def end_marker_value(epoch: int) -> bytes:
    """The value of an ABORT or COMMIT marker."""
    return _END_MARKER.pack(0, epoch)
