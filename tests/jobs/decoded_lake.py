"""A lake with one topic and a policy that decodes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, JobReport
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

TEXT = 'topics:\n  "*":\n    decode.value: string\n    decode.key: string\n'
KINDS = ("decoded", "undecoded")


class Decoded:
    """The lake, its source and its policies."""

    def __init__(self, tmp_path: Path, policies: str = TEXT) -> None:
        self.source, self.lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
        self.orders = self.source.partition("orders-0")
        self.marks: dict[str, int] = {}
        self.policies = tmp_path / "policies.yaml"
        self.policies.write_text(policies)

    @property
    def path(self) -> str:
        return str(self.lake.path)

    def append(self, *rows: tuple[bytes | None, bytes | None]) -> None:
        """Write one batch, and publish it."""
        self.write(*rows)
        self.lake.turn(self.source.path)

    def write(self, *rows: tuple[bytes | None, bytes | None]) -> None:
        """Write one batch at the source."""
        if not self.orders.segments():
            self.orders.roll()
        self.orders.write(
            handmade.simple_batch(self.orders.next_offset, list(rows), base_timestamp=1_700_000_000_000, leader_epoch=0)
        )
        self.orders.next_offset += len(rows)
        self.marks["orders_0"] = self.orders.next_offset
        self.source.high_watermarks(**self.marks)

    def append_elsewhere(self, name: str, rows: int, *more: str) -> None:
        """Write rows into another log. They are published with the next batch."""
        partition = self.source.partition(name, *more)
        partition.append(rows)
        self.marks[name.replace("-", "_")] = partition.next_offset

    def publish(self) -> None:
        self.source.high_watermarks(**self.marks)
        self.lake.turn(self.source.path)

    def decode(self, **options: Any) -> JobReport:
        config = DecodeConfig(self.path, "decode", AS_OF_MS, read_policies(str(self.policies)), **options)
        return launch.run(config)

    def table(self, kind: str = "decoded") -> DeltaTable:
        return DeltaTable(str(self.lake.path / "tables" / kind / "orders"))

    def rows(self, kind: str = "decoded") -> list[dict[str, Any]]:
        if not (self.lake.path / "tables" / kind / "orders" / "_delta_log").is_dir():
            return []
        return sorted(self.table(kind).to_pyarrow_table().to_pylist(), key=lambda row: row["offset"])

    def versions(self) -> list[int]:
        return [self.table(kind).version() for kind in KINDS]
