"""Field ids as other programs find them: in Parquet files, and in the schema of a Delta table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable


def ids_of_file(path: str) -> dict[str, int]:
    """Id of each part of a Parquet file by its path, such as `headers.element.key`; -1: it has none."""
    return ids_of_schema(pq.read_schema(path))


def ids_of_schema(schema: pa.Schema) -> dict[str, int]:
    """The same of columns in memory."""
    return {at: number for field in schema for at, number in _inside(field, "")}


def ids_of_table(table: DeltaTable) -> dict[str, int]:
    """The same of columns and fields of structs in the schema of a table, as its log has them."""
    found: dict[str, int] = {}
    for field in json.loads(table.schema().to_json())["fields"]:
        _add(field, "", found)
    return found


def _inside(field: pa.Field[Any], above: str) -> list[tuple[str, int]]:
    at, kind = f"{above}.{field.name}".lstrip("."), field.type
    children = [kind.field(number) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        children = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    if pa.types.is_list(kind):
        children = [kind.value_field.with_name("element")]
    own = (at, int((field.metadata or {}).get(b"PARQUET:field_id", b"-1")))
    return [own, *(each for child in children for each in _inside(child, at))]


def _add(field: dict[str, Any], above: str, found: dict[str, int]) -> None:
    at = f"{above}.{field['name']}".lstrip(".")
    if "loglake.field_id" in field["metadata"]:
        found[at] = int(field["metadata"]["loglake.field_id"])
    assert not {each for each in field["metadata"] if each.startswith(("parquet.", "delta."))}
    _add_type(field["type"], at, found)


def _add_type(kind: Any, at: str, found: dict[str, int]) -> None:
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        _add(field, at, found)
    for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        _add_type(kind.get(part), f"{at}.{name}", found)
