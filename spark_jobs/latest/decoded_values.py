"""Decoded keys and values for rows of ``records`` of one log, taken from ``decoded/<topic>``.

So a row of ``latest/<topic>`` has the values that the same offset has there, and nothing is decoded twice. Rows of both
tables are read side by side in the order of offsets: memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.errors import JobError
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, latest_spec, topic_table
from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.file_contents import of_log
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span
from spark_jobs.lake.repair_commands import topic_command

_BATCH_ROWS = 8192
_Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DecodedFiles:
    """The files of both tables of a topic, and the types of decoded keys and values."""

    columns: pa.Schema
    """``key`` and ``value`` as the decoded table has them."""
    decoded: tuple[LiveFile, ...]
    undecoded: tuple[LiveFile, ...]

    def of(self, span: Span) -> DecodedFiles:
        """Return those that may have rows of a span, in the order of offsets."""
        return DecodedFiles(self.columns, _of_span(self.decoded, span), _of_span(self.undecoded, span))


def _of_span(files: tuple[LiveFile, ...], span: Span) -> tuple[LiveFile, ...]:
    chosen = [file for file in files if file.may_have(span.log_id, span.partition, span.start, span.end)]
    return tuple(sorted(chosen, key=lambda file: (file.min_offset or 0, file.path)))


class DecodedValues:
    """Gives rows their decoded keys and values."""

    def __init__(self, lake: str, span: Span, files: DecodedFiles) -> None:
        """Read nothing of the values yet.

        Raises:
            TableUnreadable: A file is missing or damaged. All methods here raise it.
        """
        self._lake, self._span, self._files = lake, span, files
        self._schema = pa.schema([pa.field("offset", pa.int64()), *files.columns]).remove_metadata()
        self._spec = latest_spec(span.topic, files.columns)
        parts = [_offsets(batch) for batch in self._read(UNDECODED, pa.schema([self._schema.field("offset")]))]
        self._undecoded: _Offsets = np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))
        self._ahead = self._read(DECODED, self._schema)
        self._waiting: list[pa.RecordBatch] = []

    def added_to(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of a typed table.

        Args:
            rows: With the columns of the table of a topic that is not decoded.

        Raises:
            JobError: An offset is in neither table.
        """
        offsets = _offsets(rows)
        values = self._next(int(offsets.min()), int(offsets.max()))
        at, is_decoded = _places(values, offsets)
        if not self._are_undecoded(offsets[~is_decoded]):
            values = self._anywhere(offsets)  # another engine may have changed the order of rows in a table
            at, is_decoded = _places(values, offsets)
        if not self._are_undecoded(offsets[~is_decoded]):
            way = topic_command(self._lake, "decode", self._span.topic)
            raise JobError(
                f"rows of it are in neither of its tables of decoded and undecoded rows. To decode it again: `{way}`"
            )
        places: pa.Array[Any] = pa.array(at, pa.int64(), mask=~is_decoded)
        taken = values.take(places)  # null where there is no place
        decoded: dict[str, Any] = {name: taken[name].combine_chunks() for name in ("key", "value")}
        written: dict[str, Any] = {
            "key_bytes": rows["key"],
            "value_bytes": pc.if_else(pa.array(is_decoded), pa.scalar(None, pa.binary()), rows["value"]),
        }
        columns = {name: rows[name] for name in rows.schema.names} | decoded | written
        schema = self._spec.schema.remove_metadata()
        return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)

    def _are_undecoded(self, offsets: _Offsets) -> bool:
        return bool(np.isin(offsets, self._undecoded).all())

    def _next(self, first: int, last: int) -> pa.Table:
        """The decoded rows that follow, up to these offsets; none if the table's order is not that of offsets."""
        while not self._waiting or _offsets(self._waiting[-1])[-1] < last:
            batch = next(self._ahead, None)
            if batch is None:
                break
            self._waiting.append(batch)
        self._waiting = [batch for batch in self._waiting if _offsets(batch)[-1] >= first]
        found = pa.Table.from_batches(self._waiting, self._schema)
        if (np.diff(_offsets(found)) <= 0).any():
            self._ahead, self._waiting = iter(()), []
        return pa.Table.from_batches(self._waiting, self._schema)

    def _anywhere(self, offsets: _Offsets) -> pa.Table:
        """The decoded rows of these offsets, wherever they are in the table."""
        wanted = pa.array(offsets)
        batches = [batch.filter(pc.is_in(batch["offset"], wanted)) for batch in self._read(DECODED, self._schema)]
        return pa.Table.from_batches(batches, self._schema).sort_by("offset")

    def _read(self, kind: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of the log in a table; no batch is empty."""
        table, span = topic_table(self._lake, kind, self._span.topic), self._span
        columns = pa.schema([("log_id", pa.string()), ("partition", pa.int32()), *schema])
        for file in self._files.decoded if kind == DECODED else self._files.undecoded:
            for batch in table.batches(file, columns.names, _BATCH_ROWS):
                with table.reading(file.path):
                    rows = as_declared(batch, columns)
                kept = of_log(rows, (span.log_id, span.partition)).select(schema.names)
                if kept.num_rows:
                    yield kept


def _places(values: pa.Table, offsets: _Offsets) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return where each offset is in rows that are in the order of offsets, and which ones are there at all."""
    there = _offsets(values)
    at = np.searchsorted(there, offsets)
    is_there = at < len(there)
    is_there[is_there] = there[at[is_there]] == offsets[is_there]
    return at, is_there


def _offsets(rows: pa.RecordBatch | pa.Table) -> _Offsets:
    return np.asarray(rows["offset"])
