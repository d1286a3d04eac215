"""Lakes of tiered cases: local and remote segments as one log, by copy and by reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobConfig, PublishConfig, ReplaceConfig, ValidateConfig
from tests.conformance.lakes import AS_OF_MS, EVERYTHING
from tests.conformance.snapshots import SNAPSHOTS
from tests.remote_objects import as_aiven_stores

TIERED = [each for each in SNAPSHOTS if each.case.startswith("tiered-") and each.name == "logdir"]
MODES = ("copy", "reference")
LAYOUTS: Mapping[str, Mapping[str, bool] | None] = {
    "files": None,
    "chunks": {},
    "compressed": {"compressed": True},
    "encrypted": {"is_encrypted": True},
    "both": {"compressed": True, "is_encrypted": True},
}
"""How remote segments are stored: as LocalTieredStorage does, or as Aiven's plugin with these options."""


def stored_as(layout: str, files: Path, target: Path) -> Path:
    """Store the segments of a tiered case in a layout; returns the directory."""
    options = LAYOUTS[layout]
    if options is None:
        return files
    as_aiven_stores(files, target, **options)
    return target


def run_all(lake: str, source: str, run_id: str, *remote: str, mode: str = "copy", engine: str | None = None) -> None:
    """All jobs of a run: everything is published, at both isolation levels, and what came late too."""
    configs: list[JobConfig] = [
        IngestConfig(lake, (source,), run_id, AS_OF_MS, mode=mode, remote=remote),
        ValidateConfig(lake, run_id, AS_OF_MS),
        PublishConfig(lake, run_id, AS_OF_MS, **EVERYTHING),
        ReplaceConfig(lake, run_id, AS_OF_MS),
        PublishConfig(lake, run_id, AS_OF_MS, **EVERYTHING),
    ]
    for config in configs:
        launch.run(config.JOB, config, engine=engine)
