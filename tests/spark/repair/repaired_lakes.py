"""A lake to spoil, and the command that repairs it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import PublishConfig
from spark_jobs.lake_commands.repair import repair_command
from tests.broker_directory import LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake


class Made:
    """A source of which a part is published, and copies of both that a test may change."""

    def __init__(self, folder: Path) -> None:
        self.source, self.lake = LogDirectory(folder / "source"), Lake(folder / "lake")
        self.folder = folder

    def table(self, name: str = "records") -> str:
        return str(self.lake.path / "tables" / name)

    def grow(self) -> None:
        """What was above the high watermark is below it now."""
        self.source.high_watermarks(orders_0=40, payments_0=16, hurt_0=15)
        self.lake.turns += 1
        self.lake.turn(self.source.path)

    def offsets(self, topic: str = "orders") -> set[int]:
        return set(self.lake.published(topic))


def command(made: Made, *options: str) -> int:
    return called(repair_command, made, *options)


def called(which: Any, made: Made, *options: str) -> int:
    parser = argparse.ArgumentParser()
    which(parser)
    chosen = parser.parse_args([str(made.lake.path), *options])
    chosen.now_ms = AS_OF_MS
    code: int = chosen.func(chosen)
    return code


def ids(made: Made, name: str) -> list[str]:
    prefix = {"segments": "segments", "findings": "expectations"}.get(name, name)
    return [f"{prefix}/{row['log']}" for row in made.lake.rows("logs")]


def recorded(made: Made, name: str = "records") -> dict[str, int | None]:
    table = DeltaTable(made.table(name))
    logs = {row["topic"]: row["log"] for row in made.lake.rows("logs")}
    return {topic: table.transaction_version(f"{name}/{logs[topic]}") for topic in ("orders", "payments")}


def publish(made: Made, **options: Any) -> Any:
    return launch.run(PublishConfig(str(made.lake.path), "publish", AS_OF_MS, **options))
