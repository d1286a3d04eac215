"""A lake that an earlier version wrote goes on working: it is run, verified, grown and upgraded."""

from __future__ import annotations

import datetime
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

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


@pytest.mark.long
def test_it_is_verified_as_it_is_and_nothing_is_written(kept: Kept, unpacked: Place) -> None:
    before = contents(unpacked.lake)
    done = unpacked.verify()

    assert done.code == kept.verify_exit, done.said
    assert "Traceback" not in done.said
    assert contents(unpacked.lake) == before


@pytest.mark.long
def test_a_run_accepts_it_grows_it_and_no_row_is_there_twice(kept: Kept, unpacked: Place) -> None:
    first = unpacked.run()
    assert first.code == kept.run_exit, first.said
    assert unpacked.read() == unpacked.rows
    assert json.loads((unpacked.lake / "lake.json").read_text())["layout"] == LAYOUT_VERSION

    grow(unpacked.source)
    done = unpacked.run()
    assert done.code == kept.run_exit, done.said
    newest = max(visible.rows(unpacked.lake, "runs"), key=lambda row: row["started_ms"])
    assert newest["records"] == sum(map(len, kept.grown.values()))
    expected = {log: dict(found) | dict(kept.grown.get(log, {})) for log, found in kept.rows.items()}
    assert unpacked.read() == expected
    visible.check(unpacked.lake)
    again = unpacked.run()
    assert again.code == kept.run_exit, again.said
    assert again.out.rstrip().endswith("nothing new")
    known = unpacked.loglake("runs", unpacked.lake, "--format", "jsonl").out.splitlines()
    assert 1 <= len(known) <= 2, "the first run of this version may have had nothing to do, the third had nothing"
    verified = unpacked.verify()
    assert verified.code == kept.verify_exit, verified.said


@pytest.mark.long
def test_its_rows_keep_their_published_at_or_null_and_every_command_works_on_old_and_new(
    kept: Kept, unpacked: Place
) -> None:
    old = unpacked.column("published_at") if kept.has_published_at else {}
    grow(unpacked.source)
    assert unpacked.run("--as-of", "2033-05-18T03:33:20Z").code == kept.run_exit, unpacked.done[-1].said
    written = unpacked.column("published_at")
    at = datetime.datetime(2033, 5, 18, 3, 33, 20, tzinfo=datetime.UTC)
    grown = {(*log, offset) for log, rows in kept.grown.items() for offset in rows}
    assert grown
    assert written == dict.fromkeys(written) | old | dict.fromkeys(grown, at)
    assert (None in written.values()) != kept.has_published_at

    # Slices of its archive were merged: rows that name a merged slice are written again, with the clock of that run.
    replaced = unpacked.run("--replace", "..", "--as-of", "2034-01-01")
    assert replaced.code == kept.run_exit, replaced.said
    late = datetime.datetime(2034, 1, 1, tzinfo=datetime.UTC)
    before, written = written, unpacked.column("published_at")
    assert written.keys() == before.keys()
    assert {at for place, at in written.items() if at != before[place]} == {late}
    assert set(written.values()) > {at, late}, "other rows keep theirs"
    assert unpacked.run("--replace", "..", "--as-of", "2035-01-01").code == kept.run_exit, unpacked.done[-1].said
    assert unpacked.column("published_at") == written, "no row differs from the archive"
    for topic, partition, offset in (("orders", 0, 0), ("orders", 0, 64)):
        place = f"{topic}-{partition}:{offset}"
        done = unpacked.loglake("lineage", unpacked.table("records"), "--offset", place, "--format", "jsonl")
        assert done.code == 0, done.said
        assert json.loads(done.out)["in_table"]

    DeltaTable(unpacked.table("records")).delete("topic = 'orders' AND offset in (3, 63)")
    done = unpacked.loglake("withdraw", unpacked.lake, "--apply")
    assert done.code == 0, done.said
    assert unpacked.run().code == kept.run_exit, unpacked.done[-1].said
    left = {place: at for place, at in written.items() if place not in {("orders", 0, 3), ("orders", 0, 63)}}
    assert unpacked.column("published_at") == left
    assert unpacked.loglake("repair", unpacked.lake, "--frontiers").code == 0, unpacked.done[-1].said

    done = unpacked.run("--replace", "..", "--include-withdrawn", "--as-of", "2036-01-01")
    assert done.code == kept.run_exit, done.said
    again = unpacked.column("published_at")
    assert again[("orders", 0, 3)] == again[("orders", 0, 63)] == datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)
    assert again.keys() == written.keys()
    visible.check(unpacked.lake)
    assert unpacked.verify().code == kept.verify_exit, unpacked.done[-1].said


@pytest.mark.long
def test_its_tables_get_columns_and_comments_by_an_upgrade_and_nothing_else_changes(
    kept: Kept, unpacked: Place
) -> None:
    old = unpacked.column("published_at") if kept.has_published_at else {}
    before = visible.tables(unpacked.lake)
    versions = unpacked.versions()
    done = unpacked.loglake("upgrade", unpacked.lake)
    assert done.code == 0, done.said
    described = done.out.rpartition("new columns and comments in ")[2].split()
    moved = {name for name, version in versions.items() if DeltaTable(unpacked.table(name)).version() > version}
    assert moved == {name.removesuffix(",") for name in described}
    assert kept.has_published_at or moved == set(versions)
    for name, version in versions.items():
        table = DeltaTable(unpacked.table(name))
        assert table.metadata().description
        assert all(field.metadata["comment"] for field in table.schema().fields)
        for entry in table.history(table.version() - version):
            assert json.loads(entry["userMetadata"])["run_id"] == "tables"
    published = unpacked.column("published_at")
    assert published == (old or dict.fromkeys(published))
    after = visible.tables(unpacked.lake)
    assert {name: len(rows) for name, rows in after.items()} == {name: len(rows) for name, rows in before.items()}
    done = unpacked.run()
    assert "foreign-commit" not in {row["rule"] for row in visible.rows(unpacked.lake, "findings")}, done.said


@pytest.mark.long
def test_maintenance_goes_on_in_it(kept: Kept, unpacked: Place) -> None:
    assert unpacked.run().code == kept.run_exit, unpacked.done[-1].said
    done = unpacked.run("--policies", unpacked.folder / "policies.yaml", "--maintain", "--apply")
    assert done.code == kept.run_exit, done.said
    assert unpacked.read() == unpacked.rows
    visible.check(unpacked.lake)


@pytest.mark.long
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


@pytest.mark.long
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
