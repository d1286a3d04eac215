"""The ids of columns in Parquet files and in a table's schema. Readers by id find a column whatever its name is.

    column          its place among the declared columns, from 1 on: so columns are only ever appended
    inside columns  a digest of the path: field of a struct, items of a list, keys and values of a map

So the same path has the same id in every file of a table, whichever process of ours wrote it, and also after the table
was written again with other columns. A column that a user added has no id of ours, nor has a file of another engine.

Arrow calls the id ``PARQUET:field_id``, and writes it into files. A table keeps it in the metadata of the column, under
a key of our own. Under Delta's key ``parquet.field.id``, Spark takes it for column mapping: it hides it, and refuses to
turn column mapping on.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"
"""Key of the id in the metadata of an Arrow field."""
KEPT = b"loglake.field_id"
"""The same in a table's schema, of columns and fields of structs. What is in lists and maps follows from the path."""
FIRST_INSIDE, INSIDE = 1_000_000, 2_000_000_000
"""Least id inside a column, and how many there are. The greatest is below the ids that Iceberg keeps for itself."""


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the id of each column and of everything inside it; other metadata stays."""
    used: set[int] = set()
    return pa.schema([_with_id(_inside(field, (), used), at) for at, field in enumerate(schema, 1)])


def as_in_table(schema: pa.Schema) -> pa.Schema:
    """Return columns of :func:`with_field_ids` as a table keeps them."""
    return pa.schema([_kept(field) for field in schema])


def as_in_files(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table with the ids for files, where the table states one."""
    used: set[int] = set()
    stated = [(field, (field.metadata or {}).get(KEPT)) for field in schema]
    return pa.schema(
        [field if at is None else _with_id(_inside(field, (), used), int(at)) for field, at in stated],
    )


def _kept(field: pa.Field[Any], *, has_name: bool = True) -> pa.Field[Any]:
    entries: dict[bytes | str, bytes | str] = dict((field.metadata or {}).items())
    number = entries.pop(FIELD_ID, None)
    if has_name and number is not None:
        entries[KEPT] = number
    return field.with_type(_kept_type(field.type)).with_metadata(entries)


def _kept_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_kept(each) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_kept(kind.value_field, has_name=False))
    if pa.types.is_map(kind):
        parts: list[Any] = [_kept(each, has_name=False) for each in (kind.key_field, kind.item_field)]
        made: pa.DataType = pa.map_(*parts)
        return made
    return kind


def with_entry(field: pa.Field[Any], key: bytes, text: str) -> pa.Field[Any]:
    """Return the field with an entry in its metadata; others stay."""
    entries: dict[bytes | str, bytes | str] = dict((field.metadata or {}).items())
    return field.with_metadata(entries | {key: text.encode()})


def _with_id(field: pa.Field[Any], number: int) -> pa.Field[Any]:
    return with_entry(field, FIELD_ID, str(number))


def _numbered(field: pa.Field[Any], name: str, above: tuple[str, ...], used: set[int]) -> pa.Field[Any]:
    """A field inside a column. In the rare case that another one has its id, it takes the next that is free."""
    digest = hashlib.sha256("\0".join((*above, name)).encode()).digest()
    number = FIRST_INSIDE + int.from_bytes(digest[:8], "big") % INSIDE
    while number in used:
        number = FIRST_INSIDE + (number + 1 - FIRST_INSIDE) % INSIDE
    used.add(number)
    return _with_id(_inside(field, above, used, name), number)


def _inside(field: pa.Field[Any], above: tuple[str, ...], used: set[int], name: str | None = None) -> pa.Field[Any]:
    """The field with ids in its type."""
    path, kind = (*above, field.name if name is None else name), field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_numbered(each, each.name, path, used) for each in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_numbered(kind.value_field, "element", path, used)))
    if pa.types.is_map(kind):
        key, item = (
            _numbered(each, name, path, used) for each, name in ((kind.key_field, "key"), (kind.item_field, "value"))
        )
        return field.with_type(pa.map_(key, item))
    return field
