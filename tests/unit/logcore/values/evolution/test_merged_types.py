"""The common type of two schemas, and rows of one as that type; expectations are written here."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logcore.values.evolution.merged_type import merged_type
from logcore.values.evolution.written_column import aligned
from logcore.values.form import PLAIN, ValueColumn

INNER = pa.struct([("x", pa.int32())])
NINE, TWELVE, TWELVE_3 = pa.decimal128(9, 3), pa.decimal128(12, 4), pa.decimal128(12, 3)
WIDER = pa.struct([("y", pa.string()), ("x", pa.int64())])


def struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


@pytest.mark.parametrize(
    ("known", "other", "kind", "added", "widened", "conflicts"),
    [
        (pa.int64(), pa.int64(), pa.int64(), (), (), ()),
        (pa.int64(), pa.int32(), pa.int64(), (), (), ()),
        (pa.float64(), pa.float32(), pa.float64(), (), (), ()),
        (pa.int32(), pa.int64(), pa.int64(), (), ("value: int32 → int64",), ()),
        (pa.int64(), pa.float64(), pa.float64(), (), ("value: int64 → double",), ()),
        (pa.int32(), pa.float32(), pa.float64(), (), ("value: int32 → float",), ()),
        (pa.string(), pa.binary(), pa.binary(), (), ("value: string → binary",), ()),
        (pa.binary(), pa.string(), pa.binary(), (), (), ()),
        (NINE, TWELVE, TWELVE, (), ("value: decimal128(9, 3) → decimal128(12, 4)",), ()),
        (TWELVE, NINE, TWELVE, (), (), ()),
        (pa.decimal128(9, 0), NINE, TWELVE_3, (), ("value: decimal128(9, 0) → decimal128(9, 3)",), ()),
        (pa.decimal128(38, 0), pa.decimal128(38, 1), None, (), (), ("value: decimal128(38, 0) → decimal128(38, 1)",)),
        (pa.int64(), pa.decimal128(20, 0), pa.decimal128(20, 0), (), ("value: int64 → decimal128(20, 0)",), ()),
        (pa.int64(), pa.string(), None, (), (), ("value: int64 → string",)),
        (pa.date32(), pa.timestamp("us"), None, (), (), ("value: date32[day] → timestamp[us]",)),
        (struct(a=pa.string()), pa.string(), None, (), (), ("value: struct of 1 fields → string",)),
        (struct(a=pa.string()), pa.list_(pa.string()), None, (), (), ("value: struct of 1 fields → list",)),
        (
            struct(a=pa.string(), b=pa.int64()),
            struct(c=pa.int32(), b=pa.int64()),
            struct(a=pa.string(), b=pa.int64(), c=pa.int32()),
            ("+ value.c: int32",),
            (),
            (),
        ),
        (struct(a=pa.string()), struct(A=pa.string()), None, (), (), ("value.a and value.A differ by case only",)),
        (
            struct(list=pa.list_(INNER), map=pa.map_(pa.string(), INNER)),
            struct(list=pa.list_(WIDER), map=pa.map_(pa.string(), WIDER)),
            struct(
                list=pa.list_(struct(x=pa.int64(), y=pa.string())),
                map=pa.map_(pa.string(), struct(x=pa.int64(), y=pa.string())),
            ),
            ("+ value.list[].y: string", "+ value.map{}.y: string"),
            ("value.list[].x: int32 → int64", "value.map{}.x: int32 → int64"),
            (),
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.int64(), pa.int64()),
            None,
            (),
            (),
            ("value: map → map",),
        ),
    ],
)  # fmt: skip
def test_types_are_merged_or_named_as_conflicts(known, other, kind, added, widened, conflicts):
    merged = merged_type(known, other)
    assert (merged.added, merged.widened, merged.conflicts) == (added, widened, conflicts)
    if kind is not None:
        assert merged.kind == kind


ROWS = [None, {"l": [{"x": 1}, None], "m": [("k", {"x": 2})]}, {"l": None, "m": None}, {"l": [], "m": []}]


@pytest.mark.parametrize("start", range(5))
def test_rows_are_aligned_by_name_and_nothing_else_changes(start):
    own = struct(l=pa.list_(INNER), m=pa.map_(pa.string(), INNER))
    other = struct(n=pa.string(), m=pa.map_(pa.string(), WIDER), l=pa.list_(WIDER))
    kind = merged_type(own, other).kind
    wanted = [
        None,
        {"l": [{"x": 1, "y": None}, None], "m": [("k", {"x": 2, "y": None})], "n": None},
        {"l": None, "m": None, "n": None},
        {"l": [], "m": [], "n": None},
    ]
    found = aligned(pa.array(ROWS, own).slice(start), PLAIN, ValueColumn(kind), "")
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == wanted[start:]


def test_content_of_a_null_struct_stays_hidden():
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([False, True]))
    assert aligned(hidden, PLAIN, ValueColumn(struct(x=pa.int64(), y=pa.string())), "").to_pylist() == [
        {"x": 1, "y": None},
        None,
    ]
