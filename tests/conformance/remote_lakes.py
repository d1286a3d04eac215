"""Lakes of tiered cases: local and remote segments as one log, by copy and by reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobConfig, PublishConfig, ReplaceConfig, ValidateConfig
from tests import remote_objects
from tests.conformance.lakes import AS_OF_MS, EVERYTHING
from tests.conformance.snapshots import SNAPSHOTS

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


@contextmanager
def with_private_key(folder: Path) -> Iterator[None]:
    """Encrypted segments can be read, by a key in this folder."""
    (folder / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={folder / 'key.pem'}")
        yield


def stored_as(layout: str, files: Path, target: Path) -> Path:
    """Store the segments of a tiered case in a layout; returns the directory."""
    options = LAYOUTS[layout]
    if options is None:
        return files
    remote_objects.as_aiven_stores(files, target, **options)
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
        launch.run(config, engine=engine)
