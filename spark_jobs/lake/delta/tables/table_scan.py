"""Rows of a table's files that match a condition, in files of any engine.

delta-rs writes strings as views and records that in the Arrow schema of the Parquet file. Arrow has no comparisons of
strings with views: a condition on such a file raises ArrowNotImplementedError. So these files are first read with the
table's types and all columns, and the condition is applied afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.lake.store.written_file import is_own_file


def scan(
    dataset: ds.Dataset, columns: Sequence[str], condition: ds.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield chosen columns of the rows that match the condition, in the order of files within each of two groups."""
    plain: list[ds.Fragment] = []
    viewed: list[ds.Fragment] = []
    for fragment in dataset.get_fragments(filter=condition):
        (viewed if condition is not None and _has_views(fragment) else plain).append(fragment)
    if plain:
        files = ds.FileSystemDataset(plain, dataset.schema, plain[0].format, plain[0].filesystem)  # type: ignore[attr-defined]
        yield from files.scanner(columns=list(columns), filter=condition).to_batches()
    for fragment in viewed:
        yield from scan_file(dataset, fragment, columns, condition)  # type: ignore[arg-type]


def scan_file(
    dataset: ds.Dataset, fragment: ds.Fragment, columns: Sequence[str], condition: ds.Expression
) -> Iterator[pa.RecordBatch]:
    """Scan one file of the table in the same way."""
    if not _has_views(fragment):
        yield from fragment.scanner(schema=dataset.schema, columns=list(columns), filter=condition).to_batches()
        return
    whole = fragment.scanner(schema=dataset.schema).to_reader()
    yield from ds.Scanner.from_batches(whole, columns=list(columns), filter=condition).to_batches()


def _has_views(fragment: ds.Fragment) -> bool:
    if is_own_file(fragment.path):  # type: ignore[attr-defined]
        return False
    types = fragment.physical_schema.types
    return any(pa.types.is_string_view(each) or pa.types.is_binary_view(each) for each in types)
