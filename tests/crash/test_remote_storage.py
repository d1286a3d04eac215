"""Killed while remote segments are read: with the first run of a lake, and where the storage is given later."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import sampling
from tests.broker_directory import LogDirectory
from tests.crash.forks import Ended, Forks, Turn
from tests.crash.sampling import kills
from tests.crash.scene import Scene
from tests.crash.side_effects import Happening, plain
from tests.remote_storage import RemoteStorage, tiered

pytestmark = pytest.mark.crash

JOBS = ("ingest", "validate", "publish", "replace")
KINDS = [(when, mode) for when in ("at-once", "later") for mode in ("copy", "reference")]


@dataclass
class RemoteScene:
    """A tiered log, a lake before each job of a run that reads its remote storage, and what the run makes of it."""

    name: str
    forks: Sequence[Forks]
    source: LogDirectory
    storage: RemoteStorage
    options: dict[str, dict[str, Any]]
    scratch: Path
    before: dict[str, Path] = field(default_factory=dict)
    effects: dict[str, list[str]] = field(default_factory=dict)
    undisturbed: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_late(self) -> bool:
        """Whether the lake was made without the storage. Then decided offsets below the frontier wait for `replace`."""
        return self.name.startswith("later")

    def turn(self, lake: Path, jobs: tuple[str, ...] = JOBS, **more: Any) -> Turn:
        """A run with the storage."""
        return Turn(str(lake), str(self.source.path), jobs, options=self.options, **more)

    def difference(self, ended: Ended) -> str | None:
        """What is not as it is undisturbed."""
        return Scene.difference(self, ended)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def scene(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> RemoteScene:
    when, mode = request.param
    scratch = tmp_path_factory.mktemp(f"{when}-{mode}")
    source = LogDirectory(scratch / "source")
    storage = tiered(source, scratch / "remote", layout="files" if mode == "copy" else "chunks")
    options = {"ingest": {"remote": [str(storage.path)], "mode": mode}}
    scene = RemoteScene(f"{when} {mode}", forks, source, storage, options, scratch)
    lake = scratch / "lake"
    if when == "later":
        assert forks[0].run(Turn(str(lake), str(source.path))).code == 0
    for job in JOBS:
        scene.before[job] = scratch / f"before-{job}"
        if lake.is_dir():
            shutil.copytree(lake, scene.before[job])
        journal = scratch / f"journal-{job}"
        ended = forks[0].run(scene.turn(lake, (job,), journal=str(journal)))
        assert ended.code == 0, ended.said
        lines = journal.read_text().splitlines() if journal.exists() else []
        scene.effects[job] = [plain(line.partition("\t")[0]) for line in lines]
        scene.undisturbed = ended.tables
    return scene


def test_the_run_reads_every_offset(scene: RemoteScene) -> None:
    assert len(scene.undisturbed["records"]) == 50
    assert len([row for row in scene.undisturbed["segments"] if "('retired_ms', None)" in row]) == 5
    assert not [row for row in scene.undisturbed["offset_ledger"] if "('state', 'remote')" in row]
    assert any(name.startswith("commit tables/segments") for name in scene.effects["ingest"])
    replaced = any(name.startswith("commit tables/records") for name in scene.effects["replace"])
    assert replaced == scene.is_late


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_killed_before_any_side_effect_the_next_run_makes_the_tables_of_an_undisturbed_one(
    scene: RemoteScene, job: str
) -> None:
    known = scene.effects[job]
    places = kills(known, f"{scene.name} {job}", only_table_changes=True)

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = scene.scratch / f"killed-{job}-{number}"
        if scene.before[job].is_dir():
            shutil.copytree(scene.before[job], lake)
        where = f"killed before effect {number + 1} of {job}, {known[number]}:"
        died = forks.run(scene.turn(lake, (job,), happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        said = scene.difference(forks.run(scene.turn(lake, look_first=not scene.is_late)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = Scene.each(scene, killed, len(places))  # type: ignore[arg-type]
    print(f"{scene.name}: {job} was killed before {len(places)} of {len(known)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)
