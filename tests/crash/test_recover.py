"""`recover` killed before any single side effect and run again: the log directories and tables of an undisturbed run.

One log is sound, one has damage that a start would cut off: both kinds of directories are written and reported.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import handmade, sampling
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.crash import visible
from tests.crash.forks import Ended, Forks, Turn
from tests.crash.sampling import kills
from tests.crash.side_effects import Happening, plain

pytestmark = pytest.mark.crash

NAMES = ("orders-0", "payments-0")
OF_PARTITIONS = {("out", name) for name in NAMES}


@dataclass(frozen=True)
class Place:
    """A lake, and beside it what is recovered from it."""

    folder: Path
    source: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def turn(self, **more: object) -> Turn:
        options = {"recover": {"out": str(self.out), "apply": True}}
        return Turn(str(self.lake), str(self.source), ("recover",), options=options, root=str(self.folder), **more)  # type: ignore[arg-type]


def left(place: Place, ended: Ended) -> dict[str, object]:
    """All that is there: new directories with their times, the archive, tables."""
    files = {p: p.relative_to(place.folder) for p in place.folder.rglob("*") if p.is_file()}
    kept = {str(name): path.read_bytes() for path, name in files.items() if name.parts[:2] != ("lake", "tables")}
    kept.pop("lake/lease.json", None)
    times = {str(name): path.stat().st_mtime_ns for path, name in files.items() if name.parts[:2] in OF_PARTITIONS}
    actions = visible.rows(place.lake, "log_actions")
    told = sorted(repr(sorted((k, v) for k, v in row.items() if k != "run_id")) for row in actions)
    return {"files": kept, "times": times, "tables": ended.tables, "log_actions": told}


@pytest.fixture(scope="module")
def before(forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("recover") / "before", tmp_path_factory.mktemp("source"))
    place.folder.mkdir()
    source = LogDirectory(place.source)
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    for log in (orders, payments):
        log.append(6)
        log.roll()
        log.append(6)
    damaged = payments.segments()[0]
    data = damaged.read_bytes()
    size = handmade.size_of(data, 0)
    damaged.write_bytes(handmade.flip(data[:size], 65) + data[size:])
    source.high_watermarks(orders_0=12, payments_0=12)
    assert forks[0].run(Turn(str(place.lake), str(place.source))).code == 0
    return place


@pytest.fixture
def copies(before: Place, tmp_path: Path) -> Callable[[str], Place]:
    def copy(name: str) -> Place:
        return Place(Path(shutil.copytree(before.folder, tmp_path / name)), before.source)

    return copy


@pytest.mark.long
def test_killed_before_any_side_effect_the_next_run_leaves_what_an_undisturbed_one_does(forks, copies, tmp_path):
    whole = copies("undisturbed")
    journal = tmp_path / "journal"
    ended = forks[0].run(whole.turn(journal=str(journal)))
    assert ended.code == 0, ended.said
    undisturbed = left(whole, ended)
    effects = [plain(line.partition("\t")[0]) for line in journal.read_text().splitlines()]
    assert {name for name in NAMES if (whole.out / name).is_dir()} == set(NAMES)
    assert len(undisturbed["log_actions"]) > len(NAMES), "what was cut off is told too"
    assert [name for name in effects if name.startswith("rename out/")]
    assert "committed lake/tables/log_actions" in effects

    places = kills(effects, "recover")

    def killed(server: Forks, number: int) -> str | None:
        place = copies(f"killed-{number}")
        where = f"killed before effect {number + 1}, {effects[number]}:"
        died = server.run(place.turn(happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        again = server.run(place.turn())
        if again.code != 0:
            return f"{where} ended with {again.code}: {again.said[-1500:]}"
        now = left(place, again)
        shutil.rmtree(place.folder)
        return next((f"{where} {name} differ" for name in undisturbed if now[name] != undisturbed[name]), None)

    def some(first: int) -> list[str]:
        said = (killed(forks[first], number) for number in places[first :: len(forks)])
        return [each for each in said if each is not None]

    with ThreadPoolExecutor(len(forks)) as pool:
        wrong = [each for group in pool.map(some, range(len(forks))) for each in group]
    print(f"killed before {len(places)} of {len(effects)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)
