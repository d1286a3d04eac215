"""The digest of the rows of a data file: it depends on the values alone, not on how they are stored.

Each column contributes independent streams: validity and, for lists and text, lengths and data. Chunk sizes, slices
with an offset, dictionary encoding, and bytes under null values do not change the digest. A column that is null in
every row contributes nothing, so a nullable column that a table gains later keeps the digests of old files.

Columns that a user added to a table are not part of the digest, nor are those that say which run wrote a row. Pass the
content schema of the table.

The digest finds damage, not forgery: a program that can write a file of a table can write any digest into it. So XXH3
with 128 bits is enough. SHA-256 took a fifth of the CPU time of publishing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from xxhash import xxh3_128

from spark_jobs.lake.store import storage

FOOTER_KEY = "loglake.rows"
"""Key of the digest in the metadata of a Parquet footer."""
VERSION = 1
"""Version of the rules that turn rows into a digest."""
_READ_BYTES = 4 << 20


class RowDigest:
    """XXH3 with 128 bits over rows in their order, updated batch by batch."""

    def __init__(self, schema: pa.Schema) -> None:
        """Start with no rows.

        Args:
            schema: The columns to digest; a column that a batch lacks counts as null.
        """
        self._fields = {field.name: field for field in schema}
        self._columns = {field.name: _top_stream(field.type) for field in schema}
        self.rows = 0
        """Number of rows so far."""
        self._result: str | None = None

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the next rows."""
        self._result = None
        present = set(batch.schema.names)
        for name, field in self._fields.items():
            if name in present:
                self._columns[name].update(_as_type(batch.column(name), field.type))
            else:
                self._columns[name].skip(batch.num_rows)
        self.rows += batch.num_rows

    def hexdigest(self) -> str:
        """Return the digest of all rows so far; more rows may follow."""
        if self._result is None:
            self._result = self._digest()
        return self._result

    def _digest(self) -> str:
        whole = xxh3_128(f"{VERSION}:{self.rows}".encode())
        for name in sorted(self._columns):  # by name: the order of columns belongs to the storage
            column = self._columns[name]
            if column.has_values:
                whole.update(f"\n{json.dumps(name)}:{_type_name(self._fields[name].type)}:".encode())
                whole.update(column.digest())
        return whole.hexdigest()

    def footer(self) -> dict[str, str]:
        """Return the digest as key-value metadata of a Parquet footer."""
        return {FOOTER_KEY: json.dumps({"v": VERSION, "xxh3_128": self.hexdigest(), "rows": self.rows})}


def of_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> str:
    """Return the digest of rows in their order.

    Args:
        schema: The columns to digest, as ``TableSpec.content_schema`` lists them.
    """
    digest = RowDigest(schema)
    for batch in batches:
        digest.update(batch)
    return digest.hexdigest()


def of_file(path: str) -> str | None:
    """Return the digest in the footer of a Parquet file; None if there is none of this version.

    Raises:
        OSError: The file can't be read.
        pyarrow.ArrowInvalid: It is not a Parquet file.
    """
    root, name = storage.directory_of(path), path.rpartition("/")[2]
    with storage.arrow_filesystem(root).open_input_file(name) as content:
        return recorded(pq.read_metadata(content))


def of_bytes(path: str) -> str:
    """Return the digest of a file's bytes: of its rows and of all metadata.

    Raises:
        OSError: The file can't be read.
    """
    digest = xxh3_128()
    root, name = storage.directory_of(path), path.rpartition("/")[2]
    with storage.arrow_filesystem(root).open_input_stream(name) as content:
        while chunk := content.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def are_recorded(root: str, paths: Iterable[str]) -> bool:
    """Return whether every one of these files has a row digest, which means that Loglake wrote it.

    A job that copies such rows, and reads them with page checksums, has the rows that were written.

    Args:
        root: Directory of the Delta table.

    Raises:
        OSError: A file can't be read.
        pyarrow.ArrowInvalid: One is not a Parquet file.
    """
    return all(of_file(storage.join(root, path)) is not None for path in paths)


def recorded(metadata: pq.FileMetaData) -> str | None:
    """Return the digest in a footer that was already read; None if there is none of this version."""
    try:
        entry = json.loads((metadata.metadata or {})[FOOTER_KEY.encode()])
        return str(entry["xxh3_128"]) if entry["v"] == VERSION and entry["rows"] == metadata.num_rows else None
    except (KeyError, TypeError, ValueError):
        return None


class _Validity:
    """Which rows are null, as the lengths of alternating runs, valid rows first."""

    def __init__(self) -> None:
        self._hash = xxh3_128()
        self._is_valid = True
        self._count = 0
        self.has_values = False

    def update(self, values: pa.Array[Any]) -> None:
        rows = len(values)
        if not rows:
            return
        if values.null_count == 0:
            self._extend(True, rows)
        elif values.null_count == rows:
            self._extend(False, rows)
        else:
            valid = np.asarray(values.is_valid())
            starts = np.concatenate(([0], np.flatnonzero(valid[1:] != valid[:-1]) + 1, [rows]))
            lengths = np.diff(starts)
            self._extend(bool(valid[0]), int(lengths[0]))
            self._hash.update(int(self._count).to_bytes(8, "little"))
            self._hash.update(lengths[1:-1].astype("<i8").tobytes())
            self._is_valid, self._count = bool(valid[-1]), int(lengths[-1])
            self.has_values = True

    def skip(self, rows: int) -> None:
        if rows:
            self._extend(False, rows)

    def _extend(self, is_valid: bool, rows: int) -> None:
        if is_valid != self._is_valid:
            self._hash.update(self._count.to_bytes(8, "little"))
            self._is_valid, self._count = is_valid, 0
        self._count += rows
        self.has_values |= is_valid

    def digest(self) -> bytes:
        ended = self._hash.copy()
        ended.update(self._count.to_bytes(8, "little"))
        return ended.digest()


class _Values:
    """The values of a column of one kind, one after the other; nulls belong to the validity."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._validity = _Validity()
        self._data = xxh3_128()
        self._lengths = xxh3_128()
        self._children = [_Values(child) for child in _children(kind)]

    @property
    def has_values(self) -> bool:
        return self._validity.has_values

    def skip(self, rows: int) -> None:
        """Add rows that are null."""
        self._validity.skip(rows)

    def update(self, values: pa.Array[Any]) -> None:
        self._validity.update(values)
        if values.null_count == len(values):
            return
        kind = self._kind
        if pa.types.is_struct(kind):
            valid = values.drop_null() if values.null_count else values
            for child, part in zip(self._children, valid.flatten(), strict=True):  # type: ignore[attr-defined]
                child.update(part)
        elif _is_list(kind):
            valid = values.drop_null() if values.null_count else values
            self._lengths.update(_bytes_of(pc.list_value_length(valid)))
            self._children[0].update(valid.flatten())  # type: ignore[attr-defined]
        elif _is_text(kind):
            self._update_text(values)
        elif pa.types.is_boolean(kind):
            self._data.update(_bytes_of(values.drop_null().cast(pa.uint8())))
        else:
            self._data.update(_bytes_of(values.drop_null() if values.null_count else values))

    def _update_text(self, values: pa.Array[Any]) -> None:
        wide = pa.types.is_large_binary(self._kind) or pa.types.is_large_string(self._kind)
        kind = np.dtype("<i8") if wide else np.dtype("<i4")
        offsets = _offsets(values, kind)
        lengths = np.diff(offsets)
        if values.null_count:
            valid = np.asarray(values.is_valid())
            if lengths[~valid].any():  # bytes that belong to no value
                values = values.drop_null()
                offsets = _offsets(values, kind)
                lengths = np.diff(offsets)
            else:
                lengths = lengths[valid]
        self._lengths.update(lengths.tobytes())
        data = values.buffers()[2]
        if data is not None:
            self._data.update(memoryview(data)[int(offsets[0]) : int(offsets[-1])])

    def digest(self) -> bytes:
        whole = xxh3_128(self._validity.digest())
        whole.update(self._lengths.digest())
        whole.update(self._data.digest())
        for child in self._children:
            whole.update(child.digest())
        return whole.digest()


class _Runs:
    """A column with many equal values: each run of equal values counts once, with its length."""

    def __init__(self, kind: pa.DataType) -> None:
        self._values = _Values(kind)
        self._lengths = xxh3_128()
        self._last: pa.Array[Any] | None = None
        """The value of the run that may continue, as an array of one."""
        self._count = 0
        self.has_values = False
        self._kind = kind

    def skip(self, rows: int) -> None:
        """Add rows that are null."""
        if rows:
            self._extend(pa.nulls(1, self._kind), rows)  # type: ignore[call-overload]

    def update(self, values: pa.Array[Any]) -> None:
        rows = len(values)
        if not rows:
            return
        if isinstance(values, pa.DictionaryArray):
            words = values.dictionary
            if not words.null_count and (len(words) == 1 or pc.count_distinct(words).as_py() == len(words)):
                self.has_values |= values.null_count < rows
                ends, codes = _runs(values.indices)
                self._take(words.take(codes), ends)
                return
            values = values.dictionary_decode()
        self.has_values |= values.null_count < rows
        ends, found = _encoded(values) if _is_text(self._kind) else _runs(values)
        self._take(found, ends)

    def _take(self, values: pa.Array[Any], ends: npt.NDArray[np.int64]) -> None:
        """Add runs: their values, and the row after each."""
        lengths = np.diff(ends, prepend=0).astype("<i8")
        self._extend(values.slice(0, 1), int(lengths[0]))
        if len(values) > 1:
            self._end_run()
            self._values.update(values.slice(1, len(values) - 2))
            self._lengths.update(lengths[1:-1].tobytes())
            self._last, self._count = values.slice(len(values) - 1), int(lengths[-1])

    def _extend(self, value: pa.Array[Any], rows: int) -> None:
        if self._last is None:
            self._last = value
        elif not self._last.equals(value):
            self._end_run()
            self._last = value
        self._count += rows

    def _end_run(self) -> None:
        self._values.update(self._last)  # type: ignore[arg-type]
        self._lengths.update(self._count.to_bytes(8, "little"))
        self._last, self._count = None, 0

    def digest(self) -> bytes:
        # The last run may continue, so it is added to a copy: more rows may follow.
        last = _Values(self._kind)
        if self._last is not None:
            last.update(self._last)
        whole = xxh3_128(self._values.digest())
        whole.update(self._lengths.digest())
        whole.update(last.digest())
        whole.update(self._count.to_bytes(8, "little"))
        return whole.digest()


def _top_stream(kind: pa.DataType) -> _Values | _Runs:
    """Choose the stream of a column: runs for values that often repeat, plain values for others."""
    repeated = pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_boolean(kind)
    return _Runs(kind) if repeated else _Values(kind)


def _as_type(values: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Convert to the declared type; a dictionary stays one if runs are made of it."""
    if values.type == kind:
        return values
    if isinstance(values, pa.DictionaryArray):
        if values.type.value_type == kind and pa.types.is_string(kind):
            return values
        values = values.dictionary_decode()
    return values if values.type == kind else values.cast(kind)


def _runs(values: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], pa.Array[Any]]:
    """Return runs of equal numbers: the row after each, and their values."""
    if values.null_count or pa.types.is_boolean(values.type):
        return _encoded(values)
    numbers = values.to_numpy()
    starts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    if not len(starts):
        return np.array([len(numbers)], dtype=np.int64), values.slice(0, 1)
    found = numbers[np.concatenate(([0], starts))]
    return np.append(starts, len(numbers)), pa.array(found, values.type)


def _encoded(values: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], pa.Array[Any]]:
    """Return runs of equal values by Arrow: the row after each, and their values."""
    encoded = pc.run_end_encode(values, run_end_type=pa.int64())  # type: ignore[attr-defined]
    ends, found = np.asarray(encoded.run_ends), encoded.values
    if found.null_count > 1:  # Arrow also ends a run of nulls where the bytes under them change
        is_null = np.asarray(found.is_null())
        is_last = np.append(~(is_null[:-1] & is_null[1:]), True)
        if not is_last.all():
            return ends[is_last], found.filter(pa.array(is_last))
    return ends, found


def _offsets(values: pa.Array[Any], kind: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the start of each value in the data, and the end of the last one."""
    return np.frombuffer(values.buffers()[1], kind, len(values) + 1, values.offset * kind.itemsize)  # type: ignore[call-overload, no-any-return]


def _bytes_of(values: pa.Array[Any]) -> memoryview:
    """Return the data of numbers without nulls."""
    width = values.type.bit_width // 8
    data = memoryview(values.buffers()[1])  # type: ignore[arg-type]
    return data[values.offset * width : (values.offset + len(values)) * width]


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    return [kind.value_type] if _is_list(kind) else []  # type: ignore[attr-defined]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _type_name(kind: pa.DataType) -> str:
    """Return a name of a type that does not change between releases of Arrow."""
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{json.dumps(f.name)}:{_type_name(f.type)}" for f in kind) + ">"
    if _is_list(kind):
        return f"list<{_type_name(kind.value_type)}>"  # type: ignore[attr-defined]
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit},{kind.tz}]"
    return str(kind)
