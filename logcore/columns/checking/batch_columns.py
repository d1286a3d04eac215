"""The batches of a table as Arrow columns, with the names and types of the fields of
`logcore.logs.checks.validation.BatchVerdict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.logs.model.batch_facts import VERDICT_OK
from logcore.records.compression import Codec
from logcore.records.control import ControlType
from logcore.records.model import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    TimestampType,
)

_CODECS = [codec.kafka_name for codec in Codec]
_TIMESTAMP_TYPES = [kind.kafka_name for kind in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)] + [
    TimestampType.NO_TIMESTAMP_TYPE.kafka_name
]
_CONTROL_TYPES = [str(ControlType.ABORT), str(ControlType.COMMIT)]

_NUMBERS = {
    "position": batch_row.POSITION,
    "size": batch_row.SIZE,
    "base_offset": batch_row.BASE_OFFSET,
    "last_offset": batch_row.LAST_OFFSET,
    "leader_epoch": batch_row.LEADER_EPOCH,
    "magic": batch_row.MAGIC,
    "crc": batch_row.CRC,
    "base_timestamp": batch_row.BASE_TIMESTAMP,
    "max_timestamp": batch_row.MAX_TIMESTAMP,
    "producer_id": batch_row.PRODUCER_ID,
    "producer_epoch": batch_row.PRODUCER_EPOCH,
    "base_sequence": batch_row.BASE_SEQUENCE,
    "record_count": batch_row.RECORD_COUNT,
}


def batch_columns(table: Table) -> dict[str, pa.Array[Any]]:
    """Return a column for each field of BatchVerdict, by its name. Numbers are int64; the caller casts them."""
    magic, attributes = table[:, batch_row.MAGIC], table[:, batch_row.ATTRIBUTES]
    modern = magic >= MAGIC_V2
    bits = np.where(modern, 15, 7)
    columns: dict[str, pa.Array[Any]] = {
        name: pa.array(np.ascontiguousarray(table[:, slot])) for name, slot in _NUMBERS.items()
    }
    # Signed, as on disk.
    columns["attributes"] = pa.array(np.where(attributes >> bits != 0, attributes - (2 << bits), attributes))
    columns["codec"] = _named(_CODECS, attributes & CODEC_MASK)
    columns["timestamp_type"] = _named(_TIMESTAMP_TYPES, np.where(magic == 0, 2, attributes >> 3 & 1))
    horizon = modern & (attributes & DELETE_HORIZON_BIT != 0)
    columns["delete_horizon_ms"] = pa.array(table[:, batch_row.BASE_TIMESTAMP], mask=~horizon)
    columns["is_transactional"] = pa.array(modern & (attributes & TRANSACTIONAL_BIT != 0))
    columns["is_control"] = pa.array(modern & (attributes & CONTROL_BIT != 0))
    columns["control_type"] = _named(_CONTROL_TYPES, table[:, batch_row.CONTROL_TYPE])
    columns["verdict"] = pa.repeat(pa.scalar(VERDICT_OK), len(table))
    return columns


def _named(names: Sequence[str], numbers: npt.NDArray[np.int64]) -> pa.Array[Any]:
    """Return the name for each number; null for negative ones."""
    return pa.array(list(names)).take(pa.array(numbers, pa.int64(), mask=numbers < 0))
