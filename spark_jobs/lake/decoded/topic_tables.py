"""The tables ``decoded/<topic>``, ``undecoded/<topic>``, ``latest/<topic>``: which there are and were, their columns.

Each topic has its own columns, so these tables are not among ``TABLES``.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from logcore.columns.records_columns import HEADER_TYPE
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY
from spark_jobs.lake.field_ids import with_field_ids
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_spec import TableSpec

DECODED, UNDECODED, LATEST = "decoded", "undecoded", "latest"
_STATISTICS = ("log_id", "partition", "offset", "timestamp", "published_at")
_TIME = pa.timestamp("us", tz="UTC")
_COORDINATES = (
    ("log_id", pa.string(), "topic id and incarnation; offsets are unique within a log only"),
    ("partition", pa.int32(), "partition number"),
    ("offset", pa.int64(), "offset in the log"),
    ("timestamp", _TIME, "record time in UTC, as in `records`"),
    ("headers", pa.list_(HEADER_TYPE), "record headers in their order; null where there are none"),
    ("published_at", _TIME, "clock of the run that published the row to `records`"),
)
_REASONS = (
    ("key", pa.binary(), "key as written"),
    ("value", pa.binary(), "value as written"),
    ("part", pa.string(), "`key` or `value`: the first part that could not be decoded"),
    ("schema_id", pa.int64(), "schema id before the bytes; null where there is none"),
    ("reason", pa.string(), "why it could not be decoded, one of a fixed list"),
    ("place", pa.string(), "place in the key or value; empty for the whole"),
    ("detail", pa.string(), "the reason as a phrase, without content of the record"),
)
_BYTES = _REASONS[:2]
KEY_BYTES, VALUE_BYTES = "key_bytes", "value_bytes"
_AS_WRITTEN = (
    (KEY_BYTES, pa.binary(), "key as written: two keys may be decoded to the same"),
    (VALUE_BYTES, pa.binary(), "value as written, where key or value could not be decoded; otherwise null"),
)


def decoded_spec(topic: str, key: pa.Field[Any], value: pa.Field[Any]) -> TableSpec:
    """Return the columns of a topic's decoded table.

    Args:
        key: Field with the type of decoded keys; its metadata may have a comment.
        value: The same of values.
    """
    columns = (
        *_COORDINATES,
        ("key", key.type, _comment(key, "decoded key; null where the record has none")),
        ("value", value.type, _comment(value, "decoded value; null for a tombstone")),
        ("is_tombstone", pa.bool_(), "whether the record has no value"),
    )
    fields = pa.schema([key.with_name("key"), value.with_name("value")])
    one_row = f"A record of the topic {topic} whose key and value were decoded."
    return _spec(f"{DECODED}/{topic}", one_row, columns, fields)


def undecoded_spec(topic: str) -> TableSpec:
    """Return the columns of the table of rows that could not be decoded."""
    one_row = f"A record of the topic {topic} whose key or value could not be decoded."
    return _spec(f"{UNDECODED}/{topic}", one_row, (*_COORDINATES, *_REASONS), pa.schema([]))


def latest_spec(topic: str, decoded: pa.Schema | None = None) -> TableSpec:
    """Return the columns of the table of the newest row of each key.

    Args:
        decoded: ``key`` and ``value`` as the topic's decoded table has them; None: the topic is not decoded.
    """
    pair = _BYTES if decoded is None else tuple((each.name, each.type, _said_of(each)) for each in decoded)
    columns = (
        *_COORDINATES,
        *pair,
        ("is_deleted", pa.bool_(), "whether the newest record of the key has no value"),
        *(() if decoded is None else _AS_WRITTEN),
    )
    one_row = f"The newest record of a key of the topic {topic}, in one log."
    return _spec(f"{LATEST}/{topic}", one_row, columns, pa.schema([]) if decoded is None else decoded)


def written_key(spec: TableSpec) -> str:
    """Return the column of a table of the newest rows that has keys as they were written."""
    return KEY_BYTES if KEY_BYTES in spec.schema.names else "key"


def _said_of(field: pa.Field[Any]) -> str:
    return (field.metadata or {}).get(b"comment", b"").decode()


def _comment(field: pa.Field[Any], usual: str) -> str:
    said_of_it = _said_of(field)
    return f"{usual}; {said_of_it}" if said_of_it else usual


def _spec(name: str, one_row: str, columns: Sequence[tuple[str, pa.DataType, str]], fields: pa.Schema) -> TableSpec:
    schema = pa.schema(
        [
            pa.field(column, kind, metadata=(fields.field(column).metadata or {}) | {b"comment": meaning.encode()})
            if column in fields.names
            else pa.field(column, kind, metadata={"comment": meaning})
            for column, kind, meaning in columns
        ]
    )
    meanings = tuple((column, meaning) for column, _, meaning in columns)
    return TableSpec(
        name, with_field_ids(schema), _STATISTICS, (), ("log_id", "partition", "offset"), one_row, meanings
    )


def topic_table(lake: str, kind: str, topic: str) -> Table:
    """Return the table of a topic.

    Args:
        kind: ``decoded``, ``undecoded`` or ``latest``.
    """
    return Table(lake, f"{kind}/{topic}")


def existing(lake: str, kinds: Sequence[str] = (DECODED, UNDECODED)) -> list[str]:
    """Return folder names of topics that have a table of one of these kinds."""
    found = set()
    for kind in kinds:
        root = storage.join(lake, "tables", kind)
        if storage.is_remote(lake):
            paths = (storage.relative(file.path, root) for file in storage.files_below(root))
            found |= {path.split("/", 1)[0] for path in paths}
        else:
            with contextlib.suppress(FileNotFoundError):
                found |= set(os.listdir(root))
    return sorted(found)


def topics_with_tables(lake: str, kinds: Sequence[str]) -> list[str]:
    """Return topics that have a table of one of these kinds, by the names of the folders: for a lake without `logs`."""
    return [folder.removeprefix("~") for folder in existing(lake, kinds) if not storage.is_shortened(folder)]


def written_spec(name: str) -> TableSpec:
    """Return how files of a table that exists are written, without its columns."""
    return TableSpec(name, pa.schema([]), _STATISTICS, (), ("log_id", "partition", "offset"), name, ())


def tables_of(lake: str, topics: Iterable[str]) -> list[Table]:
    """Return the decoded and undecoded tables of topics, where the topic has one of them."""
    folders = set(existing(lake))
    return [
        table
        for topic in sorted(set(topics))
        for table in (topic_table(lake, DECODED, topic), topic_table(lake, UNDECODED, topic))
        if posixpath.basename(table.folder) in folders
    ]


REMEMBERED_FILE = "topic_tables.json"
"""The tables that there were. It is only a memory: without it, a table that is gone with its directory leaves no trace.
"""
_VERSION = 1


def remembered_tables(lake: str) -> frozenset[str]:
    """Return the directories of tables that there were, such as ``decoded/orders``.

    Raises:
        StorageError: The object store failed.
    """
    try:
        content = json.loads(storage.read(storage.join(lake, REMEMBERED_FILE)))
        return frozenset(map(str, content["tables"])) if content["version"] == _VERSION else frozenset()
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return frozenset()


def lost_tables(lake: str, topics: Iterable[str]) -> list[Table]:
    """Return the tables of topics that there were and that are gone.

    Raises:
        StorageError: The object store failed.
    """
    known = remembered_tables(lake)
    places = (topic_table(lake, kind, topic) for topic in topics for kind in (DECODED, UNDECODED, LATEST) if known)
    there = (each for each in places if each.folder in known)
    return [each for each in there if not storage.has_files(storage.join(each.uri, LOG_DIRECTORY))]


def accepts_loss(lake: str) -> str:
    """Say what to do about a lost table that nobody misses."""
    return f"If it was removed on purpose, delete {storage.join(lake, REMEMBERED_FILE)}: it is only a memory."


def remember_tables(lake: str, tables: Iterable[Table]) -> None:
    """Record that there are these tables. Call it with the lease of the lake.

    Raises:
        StorageError: The object store failed.
        OSError: The file can't be written.
    """
    before = remembered_tables(lake)
    now = before | {table.folder for table in tables}
    if now != before:
        content = {"version": _VERSION, "tables": sorted(now)}
        storage.put(storage.join(lake, REMEMBERED_FILE), json.dumps(content, indent=1).encode())
