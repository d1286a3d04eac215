"""Parquet files of tables that cannot be written."""

from __future__ import annotations

import errno
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.lake.delta.files.parquet_files import TableFileWriter


class FullDisk(io.BytesIO):
    """A file on a disk that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, content: Any) -> int:
        if len(self.getbuffer()) + len(content) > self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


def write_twice(room: int) -> None:
    rows = pa.table({"a": [str(number) * 9 for number in range(5_000)]})
    footers: list[pq.FileMetaData] = []
    file = pa.PythonFile(FullDisk(room), mode="w")
    plain: dict[str, Any] = {"use_dictionary": False, "compression": "none", "metadata_collector": footers}
    with TableFileWriter(file, rows.schema, **plain) as writer:
        writer.write_table(rows)
        writer.write_table(rows)


@pytest.mark.parametrize("room", [0, 10, 5_000, 200_000, 350_000])
def test_a_disk_that_is_full_while_rows_or_the_footer_are_written_is_named(room: int) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        write_twice(room)
