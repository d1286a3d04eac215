"""A column of keys or values that several schemas wrote becomes one typed column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.column import DecodedColumn, FailedRow, decode_column, decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.evolution.merged_type import fits
from logcore.values.evolution.topic_writers import KnownWriter, RefusedWriter, TopicWriters
from logcore.values.form import ITEMS, UNION, Form, ValueColumn
from logcore.values.prefix import SchemaId, split_row
from logcore.values.split_column import WriterRows, split_column, split_column_plainly
from logcore.values.undecodable import Reason, Undecodable


def aligned(values: Any, form: Form, column: ValueColumn, format: str) -> Any:
    """Return the same rows as another type.

    Args:
        values: Of one schema.
        form: Of the same schema's column.
        column: What `merged_column` made of this schema's column without a conflict.
        format: Of the schema.

    Raises:
        pa.ArrowInvalid: A whole number is beyond those that a double holds exactly.
    """
    kind: Any = column.kind
    maps: Any = pa.MapArray
    if values.type == kind:
        return values
    if values.null_count == len(values):
        return pa.nulls(len(values), kind)
    if column.is_union and not ValueColumn(values.type, form).is_union:
        name = _branch(ValueColumn(values.type, form), column, format)
        fields = [pa.field(name, values.type)]
        values = pa.StructArray.from_arrays([values], fields=fields, mask=values.is_null())
        form = Form(UNION, "", {name: form})
    if pa.types.is_struct(kind):
        return _struct(values, form, column, format)
    items = column.items
    if items is None:
        return (values.cast(pa.int16()) if pa.types.is_boolean(values.type) else values).cast(kind)
    if not pa.types.is_list(values.type) and not pa.types.is_map(values.type):  # one value becomes a list of one
        one = aligned(values.drop_null(), form, items, format)
        return pa.ListArray.from_arrays(_offsets(np.asarray(values.is_valid())), one, type=kind)
    if isinstance(kind, pa.MapType):
        own: Any = values.type
        listed = values.cast(pa.list_(pa.struct([own.key_field, own.item_field])))
        keys, inner = listed.flatten().flatten()
        inner = aligned(inner, form.of(ITEMS), items, format)
        offsets = _offsets(pc.list_value_length(listed).fill_null(0))
        return maps.from_arrays(offsets, keys.cast(kind.key_type), inner, type=kind, mask=values.is_null())
    inner = aligned(values.flatten(), form.of(ITEMS), items, format)
    offsets = _offsets(pc.list_value_length(values).fill_null(0))
    return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=values.is_null())


def _struct(values: Any, form: Form, column: ValueColumn, format: str) -> Any:
    there = ValueColumn(values.type).parts  # none of a record without fields: its values are text
    kind: Any = column.kind
    columns = [
        aligned(values.field(name) if name in there else pa.nulls(len(values)), form.of(name), part, format)
        for name, part in column.parts.items()
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=values.is_null())


def _branch(column: ValueColumn, union: ValueColumn, format: str) -> str:
    """The field of a union that takes the values of a column, that of its name before others."""
    for name, part in sorted(union.parts.items(), key=lambda each: each[0] != column.form.branch):
        if fits(part, column, format):
            return name
    raise pa.ArrowInvalid("no type of the union takes the values")


def _offsets(lengths: Any) -> Any:
    found = np.cumsum(np.asarray(lengths), dtype=np.int32)
    return pa.array(np.concatenate([np.zeros(1, np.int32), found]))


_PROTOBUF = "protobuf"
_TOO_LARGE = Undecodable(Reason.OUT_OF_RANGE, "", "a whole number beyond those that the column's double holds exactly")
_MOST_DECODERS = 1000
"""Decoders that are kept: a topic may name very many schemas."""


class WrittenColumnDecoder:
    """Decodes columns whose rows name their schemas.

    Args:
        writers: With a type of the column.
    """

    def __init__(self, writers: TopicWriters) -> None:
        self._writers = writers
        self._decoders: dict[SchemaId, ValueDecoder] = {}

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the column."""
        assert self._writers.kind is not None
        return self._writers.kind

    @property
    def form(self) -> Form:
        """What marks the column and its fields."""
        return self._writers.form

    @property
    def comments(self) -> Mapping[str, str]:
        """What the schemas say about a field, by its path."""
        return self._writers.comments

    def decode(
        self, bodies: pa.Array[Any], headers: pa.Array[Any] | None = None, *, is_plain: bool = False
    ) -> DecodedColumn:
        """Decode a column; null where the bytes were null and where a row failed.

        Args:
            bodies: `binary` or `large_binary`, as they are in the log.
            headers: What `header_column` returns.
            is_plain: Whether to split and decode row by row, without native code: the specification of the fast way.
        """
        naming, kind = self._writers.naming, self.arrow_type
        split_by = split_column_plainly if is_plain else split_column
        split = split_by(bodies, naming.framing, headers, naming.format == _PROTOBUF)
        failed = list(split.failed)
        parts: list[pa.Array[Any]] = [pa.array([], kind)]
        places = np.full(len(bodies), -1, np.int64)
        decoded = 0
        for group in split.groups:
            try:
                decoder = self._decoder(group)
            except Undecodable as failure:
                failed += [FailedRow(row, failure, group.writer.schema) for row in group.rows]
                continue
            way = decode_column_plainly if is_plain else decode_column
            column = way(decoder, group.bodies)
            failed += [FailedRow(group.rows[each.row], each.failure, group.writer.schema) for each in column.failed]
            values, too_large = _fitted(column.values, partial(self._aligned, decoder))
            failed += [FailedRow(group.rows[row], _TOO_LARGE, group.writer.schema) for row in too_large]
            parts.append(values)
            places[list(group.rows)] = np.arange(decoded, decoded + len(group.rows))
            decoded += len(group.rows)
        failed.sort(key=lambda each: each.row)
        if len(parts) == 2 and decoded == len(bodies):
            return DecodedColumn(parts[1], tuple(failed))
        every: pa.Array[Any] = pa.concat_arrays(parts)
        rows: Any = pa.array(places, mask=places < 0)
        return DecodedColumn(every.take(rows), tuple(failed))

    def schema_of(self, body: bytes, header: bytes | None) -> SchemaId | None:
        """Return the schema that one key or value names, without decoding it; None if that can't be read.

        Args:
            header: The row of what `header_column` returns.
        """
        naming = self._writers.naming
        try:
            return split_row(body, header, naming.framing, naming.format == _PROTOBUF).writer.schema
        except Undecodable:
            return None

    def needs_wider(self, schema: SchemaId | None) -> bool:
        """Return whether rows of a schema only wait for a wider column of the table."""
        known = None if schema is None else self._writers.known.get(schema)
        return isinstance(known, RefusedWriter) and known.is_wider

    def _aligned(self, decoder: ValueDecoder, values: pa.Array[Any]) -> pa.Array[Any]:
        column = ValueColumn(self.arrow_type, self._writers.form)
        fitting: pa.Array[Any] = aligned(values, decoder.form, column, self._writers.naming.format)
        return fitting

    def _decoder(self, group: WriterRows) -> ValueDecoder:
        schema, message = group.writer.schema, group.writer.message
        writer: KnownWriter = self._writers.writer(schema)
        if message != writer.message:
            raise Undecodable(
                Reason.INCOMPATIBLE_SCHEMA, "", f"schema {schema}: message {message}, the table has {writer.message}"
            )
        assert schema is not None
        if schema not in self._decoders:
            if len(self._decoders) >= _MOST_DECODERS:
                self._decoders.clear()
            self._decoders[schema] = writer.decoder(ValueColumn(self.arrow_type, self._writers.form))
        return self._decoders[schema]


def _fitted(
    values: pa.Array[Any], align: Callable[[pa.Array[Any]], pa.Array[Any]]
) -> tuple[pa.Array[Any], tuple[int, ...]]:
    """The aligned rows, null where one does not fit, and the numbers of these."""
    try:
        return align(values), ()
    except pa.ArrowInvalid:
        if len(values) == 1:
            return align(pa.nulls(1, values.type)), (0,)
    middle = len(values) // 2
    (left, before), (right, after) = (_fitted(each, align) for each in (values[:middle], values[middle:]))
    return pa.concat_arrays([left, right]), (*before, *(middle + row for row in after))
