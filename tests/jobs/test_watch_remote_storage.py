"""A watch of a tiered topic: what remote storage alone has is read as soon as it can be, also if no source changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.command import watch as watching
from pipelines.command.watch import Watch
from pipelines.run.run_request import RunRequest
from tests.broker_directory import LogDirectory
from tests.jobs.tiered_lake import once
from tests.remote_storage import RemoteStorage, tiered
from tests.spark.cycle import AS_OF_MS, Lake

LATER_MS = 60 * watching.MINUTE_MS
"""Also if a round was slow."""


class Watched:
    """A watch with a clock of its own, over a log with offsets 0 to 29 in remote storage and 30 to 49 local."""

    def __init__(self, source: LogDirectory, lake: Lake, storage: RemoteStorage, policies: str | None = None) -> None:
        self.lake, self.storage = lake, storage
        self.now_ms = AS_OF_MS
        self.complaints: list[str] = []
        remote = () if policies else (str(storage.path),)
        request = RunRequest(sources=(str(source.path),), remote=remote, policies=policies)
        self.watch = Watch(str(lake.path), request, lambda: self.now_ms, lambda _: None, self.complaints.append)

    def look(self) -> int | None:
        """Records that a look published; None: it made no round."""
        made = self.watch.look()
        return None if made is None else made.records

    def later(self) -> int | None:
        """A look after the time between two tries."""
        self.now_ms += LATER_MS
        return self.look()


@pytest.fixture
def storage(source: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteStorage:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return tiered(source, tmp_path / "remote")


@pytest.mark.parametrize("is_policy", [False, True], ids=["option", "policy"])
def test_remote_storage_that_appears_later_is_read_without_growth_of_a_source(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path, is_policy: bool
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("lake: {remote: remote}\n")
    away = storage.path.rename(tmp_path / "away")
    watched = Watched(source, lake, storage, str(policies) if is_policy else None)
    watched.look()
    assert set(lake.published("orders")) == set(range(30, 50))
    away.rename(storage.path)
    watched.later()
    once(lake, storage)
    assert watched.later() is None


def test_a_segment_that_is_copied_to_remote_storage_late_is_read_without_growth_of_a_source(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    late = storage.logs()[1]
    parts = list(late.parent.glob(f"{late.stem}.*"))
    for part in parts:
        part.rename(tmp_path / part.name)
    watched = Watched(source, lake, storage)
    watched.look()
    assert set(lake.published("orders")) == {*range(20, 50)}
    assert watched.look() is None
    assert watched.later() == 0
    for part in parts:
        (tmp_path / part.name).rename(part)
    watched.later()
    once(lake, storage)
    assert watched.later() is None


def test_remote_segments_that_could_not_be_copied_at_first_are_tried_again(
    source: LogDirectory, lake: Lake, storage: RemoteStorage
) -> None:
    good = {log: log.read_bytes() for log in storage.logs()}
    for log in good:
        log.unlink()
        log.symlink_to(log)
    watched = Watched(source, lake, storage)
    watched.look()
    for log, content in good.items():
        log.unlink()
        log.write_bytes(content)
    watched.later()
    once(lake, storage)
    assert watched.later() is None


def test_without_remote_storage_offsets_that_only_it_has_cause_no_rounds(
    source: LogDirectory, lake: Lake, storage: RemoteStorage
) -> None:
    watched = Watched(source, lake, storage)
    watched.watch.request = RunRequest(sources=(str(source.path),))
    assert watched.look() == 20
    assert watched.later() is None
