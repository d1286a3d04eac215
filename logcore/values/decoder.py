"""What every format of keys and values implements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from logcore.values.form import Form


class ValueDecoder(Protocol):
    """Decodes bytes that one schema describes, without the prefix that names the schema."""

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the decoded column: a struct for records, objects and messages, else the type of the one value."""
        ...

    @property
    def form(self) -> Form:
        """What marks the column and its fields."""
        ...

    @property
    def comments(self) -> Mapping[str, str]:
        """What the schema says about a field, by its path such as `items.price`; the empty path is the whole."""
        ...

    def decode(self, body: bytes) -> object:
        """Return one value, fit for `pa.array([value], type=self.arrow_type)`.

        Raises:
            Undecodable: The bytes are not exactly one value of this schema.
        """
        ...
