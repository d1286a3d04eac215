"""Runs of a lake whose log is partly in remote storage."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ReplaceConfig
from spark_jobs.lake.segments import archive
from tests.broker_directory import LogDirectory
from tests.remote_storage import RemoteStorage
from tests.spark.cycle import AS_OF_MS, Lake

MODES = ("copy", "reference")


def turn(lake: Lake, source: LogDirectory, *storages: RemoteStorage, **ingest: Any) -> dict[str, Any]:
    """A run with these storages, with what was filled late published too."""
    reports = lake.turn(source.path, remote=tuple(str(each.path) for each in storages), **ingest)
    run_id = f"run-{lake.turns}"
    return reports | {"replace": launch.run(ReplaceConfig(str(lake.path), run_id, AS_OF_MS))}


def killed_before_rows(lake: Lake, source: LogDirectory, *storages: RemoteStorage) -> None:
    """A run that is killed before it writes the rows of its logs."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archive, "commit_logs", die)
        with pytest.raises(KeyboardInterrupt):
            lake.turn(source.path, remote=tuple(str(each.path) for each in storages))


def once(lake: Lake, storage: RemoteStorage) -> None:
    """Every offset of the partition is published, and archived once."""
    spans = sorted((row["base_offset"], row["next_offset"]) for row in lake.rows("segments"))
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), spans
    assert lake.published("orders") == storage.partition.rows
    assert {state for _, _, state in lake.ledger("orders")} == {"present"}
