"""A column decoded by a kernel, and row by row: both must agree."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from logcore.values.column import BlockDecoder, decode_column, decode_column_plainly
from logcore.values.decoder import ValueDecoder

ROWS = int(os.environ.get("LOGLAKE_TEST_VALUES", "10000"))
"""Values of each kind; `make test-long` takes a million."""


def check_same(decoder: ValueDecoder, bodies: list[bytes | None]) -> int:
    """Compare values, failed rows and reasons; return the number of rows that the kernel decided itself.

    It is skipped where there is no Numba. Where there is, a kernel that cannot be compiled fails the test.
    """
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    assert isinstance(decoder, BlockDecoder)
    column = pa.array(bodies, pa.binary())
    block = decoder.decode_block(column)
    assert block is not None, "the kernel does not work, or does not know the schema"
    fast, plain = decode_column(decoder, column), decode_column_plainly(decoder, column)
    fast.values.validate(full=True)
    # repr distinguishes -0.0 and 0.0
    assert repr(fast.values.to_pylist()) == repr(plain.values.to_pylist())
    assert [(each.row, repr(each.failure)) for each in fast.failed] == [
        (each.row, repr(each.failure)) for each in plain.failed
    ]
    return len(column) - len(block.doubts)
