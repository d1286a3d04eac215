"""What a schema says of a column beside its Arrow type: whether text is JSON, whether a struct is a union.

Tables keep the marks as metadata of their fields. There, the mark of a list or map is that of its items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

JSON, NULL, EMPTY, UNION, NAMES = "json", "null", "empty", "union", "names"
"""JSON text; text that is always null; `{}` of a record without fields; one of several types; names of an enum."""
ITEMS = "[]"
"""Name of the items of a list, and of the values of a map, in the parts of a form."""
METADATA = b"loglake.form"


@dataclass(frozen=True, slots=True)
class Form:
    """The mark of a column, or of a field of a struct."""

    mark: str = ""
    """One of the five, or none."""
    branch: str = ""
    """What a union calls a value of this type. Tables do not keep it."""
    parts: Mapping[str, Form] = field(default_factory=dict)
    """Of a struct, by the names of its fields; of a list or map by :data:`ITEMS`."""

    def of(self, name: str) -> Form:
        """Return the form of a field."""
        return self.parts.get(name, PLAIN)


PLAIN = Form()


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """Type and form of a column that several schemas share."""

    kind: pa.DataType
    form: Form = PLAIN

    @property
    def is_union(self) -> bool:
        """Whether it has a field for each type of a union."""
        return self.form.mark == UNION and pa.types.is_struct(self.kind)

    @property
    def is_logical(self) -> bool:
        """Whether it has dates, timestamps or decimals."""
        return pa.types.is_temporal(self.kind) or pa.types.is_decimal(self.kind)

    @property
    def items(self) -> ValueColumn | None:
        """The items of a list or the values of a map."""
        if pa.types.is_list(self.kind):
            return ValueColumn(self.kind.value_type, self.form.of(ITEMS))
        return ValueColumn(self.kind.item_type, self.form.of(ITEMS)) if pa.types.is_map(self.kind) else None

    @property
    def parts(self) -> dict[str, ValueColumn]:
        """The fields of a struct by name; none if it is another type."""
        kind = self.kind
        fields = [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        return {each.name: ValueColumn(each.type, self.form.of(each.name)) for each in fields}


def struct_of(parts: Mapping[str, ValueColumn], mark: str, branch: str = "") -> ValueColumn:
    """Return a struct of columns."""
    kind = pa.struct([pa.field(name, each.kind) for name, each in parts.items()])
    return ValueColumn(kind, Form(mark, branch, {name: each.form for name, each in parts.items()}))


def column_of(field: pa.Field[Any]) -> ValueColumn:
    """Return the column of a table's field; its metadata and that of its fields have the marks."""
    return ValueColumn(field.type, _form(field.type, (field.metadata or {}).get(METADATA, b"").decode()))


def _form(kind: pa.DataType, mark: str) -> Form:
    items = ValueColumn(kind).items
    if items is not None:
        return Form(parts={ITEMS: _form(items.kind, mark)})
    fields = kind if pa.types.is_struct(kind) else ()
    return Form(mark, parts={each.name: column_of(each).form for each in fields})


def mark_of(form: Form) -> str:
    """Return the mark that a table keeps of a column."""
    while ITEMS in form.parts:
        form = form.of(ITEMS)
    return form.mark
