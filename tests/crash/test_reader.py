"""A reader during compaction and maintenance sees one round or the next, with all its files for the allowed time.

Before and after every Delta commit, and before every removal, the jobs wait until the reader has looked again. So the
reader sees every visible state.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker_directory import LogDirectory
from tests.crash.forks import AS_OF_MS, Forks, Turn
from tests.crash.reader import Reader, Snapshot, snapshot
from tests.crash.side_effects import Happening
from tests.crash.test_compaction import write_logs

pytestmark = pytest.mark.crash

THIRD_TOPIC_ID = "gAAAAAAAAAAAAAAAAAAAAQ"
POLICIES = """
topics:
  customers: {cleanup.policy: compact, segment.bytes: 2000, compaction.spread.bytes: 0, file.delete.delay.ms: 0}
  accounts: {cleanup.policy: compact, segment.bytes: 2000, compaction.spread.bytes: 1000000, file.delete.delay.ms: 0}
  orders: {cleanup.policy: delete, file.delete.delay.ms: 0}
"""
A_MONTH_MS = 30 * 86_400_000


@dataclass(frozen=True)
class Rounds:
    """A lake before compaction, and what it shows before, after compaction, and after maintenance."""

    forks: Sequence[Forks]
    source: str
    scratch: Path
    policies: Path
    before: Snapshot
    cleaned: Snapshot
    merged: Snapshot

    def lake(self, name: str) -> Path:
        return Path(shutil.copytree(self.scratch / "lake", self.scratch / name))

    def do(self, lake: Path, job: str, signals: Path | None = None, **more: object) -> dict[str, int]:
        """A job to its end; its metrics. signals: where the reader counts its looks."""
        told = {"policies": str(self.policies), "apply": True}
        if job == "tidy_archive":
            told |= {"as_of_ms": AS_OF_MS + A_MONTH_MS}
        looking = None if signals is None else Happening("linger", named="", signals=str(signals))
        ended = self.forks[0].run(Turn(str(lake), self.source, (job,), options={job: told | more}, happening=looking))
        assert ended.code == 0, ended.said
        return ended.reports[0]["metrics"]


@pytest.fixture(scope="module")
def rounds(forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    scratch = tmp_path_factory.mktemp("reader")
    source, lake = LogDirectory(scratch / "source"), scratch / "lake"
    write_logs(source)
    orders = source.partition("orders-0", THIRD_TOPIC_ID)
    for _ in range(3):
        orders.append(7)
        source.high_watermarks(customers_0=10_000, accounts_0=10_000, orders_0=orders.next_offset)
        ended = forks[0].run(Turn(str(lake), str(source.path)))
        assert ended.code == 0, ended.said
    policies = scratch / "policies.yaml"
    policies.write_text(POLICIES)
    undisturbed = Rounds(forks, str(source.path), scratch, policies, *[snapshot(lake)[0]] * 3)
    copy = undisturbed.lake("undisturbed")
    assert undisturbed.do(copy, "compaction")["cleaned_logs"] == 2
    cleaned = snapshot(copy)[0]
    assert undisturbed.do(copy, "tidy_archive")["written_segments"] >= 1
    merged = snapshot(copy)[0]
    return Rounds(forks, str(source.path), scratch, policies, undisturbed.before, cleaned, merged)


def test_compaction_of_many_logs_and_merging_change_what_is_live(rounds: Rounds):
    seen = [rounds.before, rounds.cleaned, rounds.merged]
    assert len({each.live for each in seen}) == 3
    gone = {log for log, _, _ in set(rounds.before.live) - set(rounds.cleaned.live)}
    assert len(gone) == 2
    assert all(sum(numbers[0] for numbers in each.records.values()) > 50 for each in seen)


@pytest.mark.long
def test_a_reader_sees_one_round_or_the_next_and_can_read_its_files_to_the_end(rounds: Rounds):
    lake, signals = rounds.lake("read"), rounds.scratch / "signals"
    reader = Reader(lake, signals)
    rounds.do(lake, "compaction", signals)
    done = rounds.do(lake, "tidy_archive", signals)
    seen, wrong = reader.end()
    assert wrong == []
    assert seen == [rounds.before, rounds.cleaned, rounds.merged]
    assert (done["deleted_segments"], done["deleted_files"]) == (0, 0), "who began before the round may be reading yet"


@pytest.mark.long
def test_files_that_no_reader_can_use_are_removed_and_readers_of_live_files_miss_nothing(rounds: Rounds):
    lake, signals = rounds.lake("read-later"), rounds.scratch / "signals-later"
    rounds.do(lake, "compaction")
    rounds.do(lake, "tidy_archive")
    reader = Reader(lake, signals)
    done = rounds.do(lake, "tidy_archive", signals, longest_run_ms=1)
    seen, wrong = reader.end()
    assert wrong == []
    assert seen == [rounds.merged]
    assert done["deleted_files"] >= 3


@pytest.mark.long
def test_a_reader_loses_files_if_the_option_says_that_there_is_none(rounds: Rounds):
    lake, signals = rounds.lake("read-alone"), rounds.scratch / "signals-alone"
    reader = Reader(lake, signals)
    rounds.do(lake, "compaction")
    rounds.do(lake, "tidy_archive", signals, force=True)
    _, wrong = reader.end()
    assert [each for each in wrong if each.startswith("snapshot 0: archive/") and each.endswith("is not there")]
    assert not [each for each in wrong if each.startswith("snapshot 1")]
