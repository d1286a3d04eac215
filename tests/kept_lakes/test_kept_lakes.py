"""A lake that an earlier version wrote goes on working: it is run, verified, grown and upgraded."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.lake.setup.identity import LAYOUT_VERSION
from tests.commands import Commands, Done
from tests.crash import visible
from tests.crash.side_effects import Happening, Order
from tests.harm.place import Place
from tests.kept_lakes.kept import KEPT, Kept, grow

pytestmark = [pytest.mark.spark, pytest.mark.crash]

MOST_EFFECTS = 400


@pytest.fixture(params=KEPT, ids=lambda kept: kept.name)
def kept(request: pytest.FixtureRequest) -> Kept:
    return request.param


@pytest.fixture
def unpacked(kept: Kept, commands: Commands, tmp_path: Path) -> Place:
    folder = kept.unpack(tmp_path / "kept")
    rows = {log: dict(found) for log, found in kept.rows.items()}
    return Place(folder, commands, folder / "source", rows, moved=("--move-source",))


def test_its_rows_are_those_that_its_script_appended(kept: Kept, unpacked: Place) -> None:
    assert json.loads((unpacked.lake / "lake.json").read_text())["layout"] == kept.layout
    assert unpacked.read() == unpacked.rows


def test_it_is_verified_as_it_is_and_nothing_is_written(kept: Kept, unpacked: Place) -> None:
    before = contents(unpacked.lake)
    done = unpacked.verify()

    assert done.code == kept.verify_exit, done.said
    assert "Traceback" not in done.said
    assert contents(unpacked.lake) == before


def test_a_run_accepts_it_grows_it_and_no_row_is_there_twice(kept: Kept, unpacked: Place) -> None:
    first = unpacked.run()
    assert first.code == kept.run_exit, first.said
    assert unpacked.read() == unpacked.rows
    assert json.loads((unpacked.lake / "lake.json").read_text())["layout"] == LAYOUT_VERSION

    grow(unpacked.source)
    done = unpacked.run()
    assert done.code == kept.run_exit, done.said
    expected = {log: dict(found) | dict(kept.grown.get(log, {})) for log, found in kept.rows.items()}
    assert unpacked.read() == expected
    visible.check(unpacked.lake)
    again = unpacked.run()
    assert again.code == kept.run_exit, again.said
    assert again.out.rstrip().endswith("nothing new")
    verified = unpacked.verify()
    assert verified.code == kept.verify_exit, verified.said


def test_maintenance_goes_on_in_it(kept: Kept, unpacked: Place) -> None:
    assert unpacked.run().code == kept.run_exit, unpacked.done[-1].said
    done = unpacked.run("--policies", unpacked.folder / "policies.yaml", "--maintain", "--apply")
    assert done.code == kept.run_exit, done.said
    assert unpacked.read() == unpacked.rows
    visible.check(unpacked.lake)


def test_an_upgrade_that_is_killed_at_any_moment_and_run_again_leaves_the_same(
    kept: Kept, unpacked: Place, tmp_path: Path
) -> None:
    def upgraded(place: Place, order: Order | None = None) -> Done:
        return place.commands.loglake("upgrade", place.lake, home=place.home, order=order)

    def copy(name: str) -> Place:
        folder = tmp_path / name
        shutil.copytree(unpacked.lake, folder / "lake")
        return Place(folder, unpacked.commands, unpacked.source, unpacked.rows)

    undisturbed = copy("undisturbed")
    done = upgraded(undisturbed)
    assert done.code == 0, done.said
    wanted = state(undisturbed)
    assert wanted["lake.json"]["layout"] == LAYOUT_VERSION
    assert undisturbed.read() == undisturbed.rows
    assert upgraded(undisturbed).code == 0
    assert state(undisturbed) == wanted  # once more changes nothing

    killed = 0
    for at in range(1, MOST_EFFECTS):
        place = copy(f"killed-{at}")
        died = upgraded(place, Order(str(place.lake), Happening("kill", at=at)))
        if died.code != -signal.SIGKILL:
            assert died.code == 0, died.said
            break
        killed += 1
        visible.check(place.lake)
        assert place.read() == place.rows
        done = upgraded(place)
        assert done.code == 0, f"killed before effect {at}: {done.said}"
        assert state(place) == wanted, f"killed before effect {at}"
        shutil.rmtree(place.folder)
    else:
        raise AssertionError(f"more than {MOST_EFFECTS} side effects")
    print(f"{kept.name}: upgrade was killed before each of {killed} side effects")
    assert killed >= 2


def test_an_upgraded_lake_is_run_and_verified_like_one_that_was_not(kept: Kept, unpacked: Place) -> None:
    done = unpacked.loglake("upgrade", unpacked.lake)
    assert done.code == 0, done.said
    assert unpacked.verify().code == kept.verify_exit, unpacked.done[-1].said
    assert unpacked.run().code == kept.run_exit, unpacked.done[-1].said
    assert unpacked.read() == unpacked.rows


def state(place: Place) -> dict[str, object]:
    """Rows of every table and the description of the lake: what an upgrade has to leave."""
    tables: dict[str, object] = dict(visible.tables(place.lake))
    return tables | {"lake.json": json.loads((place.lake / "lake.json").read_text())}


def contents(lake: Path, left_out: Callable[[str], bool] = lambda name: name.startswith("lease")) -> dict[str, bytes]:
    """Every file of a lake but the lease."""
    files = {str(path.relative_to(lake)): path for path in lake.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not left_out(name)}
