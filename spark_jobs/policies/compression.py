"""How bytes in the Parquet files of a table are compressed.

A file names its own codec, column by column. So readers need no setting, and files of several codecs are one table.
"""

from __future__ import annotations

from dataclasses import dataclass

ZSTD = "zstd"
CODECS = (ZSTD, "lz4", "snappy", "none")
"""As pyarrow names them; ``lz4`` is LZ4_RAW in the file."""
LEAST_LEVEL, GREATEST_LEVEL = -7, 22
"""Of zstd. Other codecs have no level here."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec, and its level if it is zstd."""

    codec: str = ZSTD
    level: int = 1

    @property
    def writer_level(self) -> int | None:
        """The level for a writer; None where the codec has none."""
        return self.level if self.codec == ZSTD else None


DEFAULT = Compression()
"""Of state tables, and of topics without a policy. docs/deploy.md has the measurements."""
