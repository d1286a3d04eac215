"""Compaction killed before any single side effect and run again: the tables and files of an undisturbed one.

Both ways of cleaning: one task a log, and one log spread over many tasks.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import handmade, sampling
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.crash import visible
from tests.crash.forks import Ended, Forks, Turn
from tests.crash.sampling import DOUBLE_CRASHES, kills
from tests.crash.side_effects import Happening, plain
from tests.long_runs import Kind, record

pytestmark = pytest.mark.crash

POLICY = "{{cleanup.policy: compact, segment.bytes: 2000, compaction.spread.bytes: {spread}}}"
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}


def write_logs(source: LogDirectory) -> None:
    """Two logs of segments that become fewer: keys that come again, and a transaction that was aborted."""
    customers, accounts = source.partition("customers-0"), source.partition("accounts-0", OTHER_TOPIC_ID)
    for _ in range(2):
        customers.roll()
        customers.append(12, per_batch=4)
    for log in (customers, accounts):
        log.roll()
        log.append(5, **TRANSACTIONAL, base_sequence=0)
        log.marker(7, handmade.ABORT)
        log.roll()
        log.append(6)
    source.high_watermarks(customers_0=customers.next_offset, accounts_0=accounts.next_offset)


def archive_files(lake: Path) -> dict[str, bytes]:
    """What lies under final names."""
    found = {str(path.relative_to(lake)): path.read_bytes() for path in (lake / "archive").rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if not name.endswith(".writing")}


@dataclass(frozen=True)
class Cleaning:
    """A lake before compaction, and after one that nothing disturbed."""

    forks: Sequence[Forks]
    source: LogDirectory
    scratch: Path
    options: dict[str, dict[str, object]]
    effects: list[str]
    undisturbed: dict[str, list[str]]
    files: dict[str, bytes]
    is_spread: bool

    def turn(self, lake: Path, **more: object) -> Turn:
        return Turn(str(lake), str(self.source.path), ("compaction",), options=self.options, **more)  # type: ignore[arg-type]

    def lake(self, name: str) -> Path:
        return Path(shutil.copytree(self.scratch / "before", self.scratch / name))

    def each(self, work: Callable[[Forks, int], str | None], count: int) -> list[str]:
        def some(first: int) -> list[str | None]:
            return [work(self.forks[first], number) for number in range(first, count, len(self.forks))]

        with ThreadPoolExecutor(len(self.forks)) as pool:
            return [said for group in pool.map(some, range(len(self.forks))) for said in group if said]

    def difference(self, ended: Ended, lake: Path) -> str | None:
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.said[-1500:]}"
        for name, rows in self.undisturbed.items():
            if everything(ended, lake)[name] != rows:
                return f"{name} differs: {sorted(set(everything(ended, lake)[name]) ^ set(rows))[:2]}"
        there = archive_files(lake)
        if there != self.files:
            return f"files differ: {sorted(there.keys() ^ self.files.keys()) or 'in their bytes'}"
        return None


def everything(ended: Ended, lake: Path) -> dict[str, list[str]]:
    """All tables, also the one that only maintenance writes."""
    actions = visible.rows(lake, "log_actions")
    told = sorted(repr(sorted((k, v) for k, v in row.items() if k != "run_id")) for row in actions)
    return ended.tables | {"log_actions": told}


@pytest.fixture(scope="session", params=["one task", "spread"])
def cleaning(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Cleaning:
    scratch = tmp_path_factory.mktemp("cleaning")
    source = LogDirectory(scratch / "source")
    write_logs(source)
    before = scratch / "before"
    ended = forks[0].run(Turn(str(before), str(source.path)))
    assert ended.code == 0, ended.said
    policies = scratch / "policies.yaml"
    spread = "0" if request.param == "spread" else "1000000"
    names = "c*" if request.param == "spread" else "*"
    policies.write_text(f'topics: {{"{names}": {POLICY.format(spread=spread)}}}')
    options: dict[str, dict[str, object]] = {"compaction": {"policies": str(policies), "apply": True}}
    made = Cleaning(forks, source, scratch, options, [], {}, {}, request.param == "spread")
    lake = made.lake("undisturbed")
    journal = scratch / "journal"
    ended = forks[0].run(made.turn(lake, journal=str(journal)))
    assert ended.code == 0, ended.said
    effects = [plain(line.partition("\t")[0]) for line in journal.read_text().splitlines()]
    return Cleaning(
        forks, source, scratch, options, effects, everything(ended, lake), archive_files(lake), made.is_spread
    )


def test_the_side_effects_of_compaction_are_among_those_found(cleaning):
    for table in ("validations", "segments", "offset_ledger", "log_actions"):
        assert f"commit tables/{table}" in cleaning.effects
        assert f"committed tables/{table}" in cleaning.effects
    for suffix in (".log", ".index", ".timeindex"):
        assert [name for name in cleaning.effects if name.startswith("rename archive/") and name.endswith(suffix)]
    retired = [row for row in cleaning.undisturbed["segments"] if "('retired_ms', None)" not in row]
    assert len(retired) >= 3
    print(f"{len(cleaning.effects)} side effects")


@pytest.mark.long
def test_killed_before_any_side_effect_the_next_run_leaves_what_an_undisturbed_one_does(cleaning):
    source = cleaning.source.fingerprint()

    def killed(forks: Forks, number: int) -> str | None:
        lake = cleaning.lake(f"killed-{number}")
        where = f"killed before effect {number + 1}, {cleaning.effects[number]}:"
        died = forks.run(cleaning.turn(lake, happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        said = cleaning.difference(forks.run(cleaning.turn(lake, look_first=True)), lake)
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    chosen = kills(cleaning.effects, f"compaction {cleaning.is_spread}")
    wrong = cleaning.each(lambda forks, number: killed(forks, chosen[number]), len(chosen))
    print(f"killed before {len(chosen)} of {len(cleaning.effects)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)
    assert cleaning.source.fingerprint() == source


@pytest.mark.long
def test_killed_twice_at_random_the_third_run_leaves_what_an_undisturbed_one_does(cleaning):
    chance = sampling.chance(f"compaction {cleaning.is_spread} twice")
    total = len(cleaning.effects)
    places = [(chance.randint(1, total), chance.randint(1, total)) for _ in range(DOUBLE_CRASHES)]

    def killed_twice(forks: Forks, number: int) -> str | None:
        lake = cleaning.lake(f"twice-{number}")
        for at in places[number]:  # the second run may have less to do and live
            forks.run(cleaning.turn(lake, look_first=True, happening=Happening("kill", at=at)))
        said = cleaning.difference(forks.run(cleaning.turn(lake, look_first=True)), lake)
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"seed {sampling.SEED}, killed at {places[number]}: {said}"

    wrong = cleaning.each(killed_twice, len(places))
    assert not wrong, "\n".join(wrong)
    record(
        Kind.DOUBLE_CRASHES, f"compaction, {'spread' if cleaning.is_spread else 'whole'}", len(places), sampling.SEED
    )


def test_tasks_in_any_order_leave_the_same(cleaning):
    for seed in (1, 2):
        lake = cleaning.lake(f"shuffled-{seed}")
        said = cleaning.difference(cleaning.forks[0].run(cleaning.turn(lake, shuffled=seed)), lake)
        assert said is None, f"seed {seed}: {said}"


def test_run_again_it_changes_nothing(cleaning):
    lake = cleaning.lake("again")
    cleaning.forks[0].run(cleaning.turn(lake))
    again = cleaning.forks[0].run(cleaning.turn(lake, journal=str(cleaning.scratch / "again-journal")))
    assert cleaning.difference(again, lake) is None
    done = (cleaning.scratch / "again-journal").read_text()
    assert "commit tables/" not in done
    assert "rename archive/" not in done
