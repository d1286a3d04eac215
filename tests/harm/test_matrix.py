"""What other engines, operators and disks do to a lake, and who says so: the next run, its checks, ``verify LAKE``.

For each harm the table below states what each of them answers, and the kind of command that repairs it
(docs/shared-tables.md). The command itself is pasted as it was printed. After it the run exits with 0, the proof is
clean, and the rows are exactly those of the undisturbed lake, unless they were withdrawn.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.commands import Commands, Done
from tests.harm import harms
from tests.harm.harms import Harm
from tests.harm.place import Log, Original, Place
from tests.harm.sampling import sampled
from tests.pasted_advice import commands_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REPLACE = ("run", "SOURCE", "--lake", "LAKE", "--replace", "..")
RUN = ("run", "SOURCE", "--lake", "LAKE")
PUT_BACK = ("repair", "LAKE", "--archive", "--apply")
WITHDRAW = ("withdraw", "LAKE", "--apply")
REBUILD = ("repair", "LAKE", "--rebuild", "records", "--apply")
FRONTIERS = ("repair", "LAKE", "--frontiers", "--apply")

UNCHANGED = "size and time of the file are unchanged; only `verify LAKE` reads the bytes (docs/shared-tables.md)"


@dataclass(frozen=True)
class Expected:
    """One line of the table, written by hand."""

    harm: Harm
    run: int
    """Exit code of the next ``loglake run``."""
    words: tuple[str, ...]
    """What the run says, each a regular expression."""
    checks: frozenset[str]
    """Checks of that run that fail."""
    verify: int
    """Exit code of ``verify LAKE``."""
    rules: frozenset[str]
    """Rules of findings of which ``verify LAKE`` names at least one."""
    repair: tuple[str, ...] | None
    """The kind of the documented command; None where nothing has to be mended."""
    then: tuple[str, ...] | None = None
    """A second command, where the case is two harms in one."""
    withdrawn: dict[Log, frozenset[int]] = field(default_factory=dict)
    """Offsets that are gone on purpose afterwards."""
    silent_in_run: str | None = None
    """Why the run cannot say anything, where it does not."""


def _line(
    harm: Harm,
    *,
    run: int,
    verify: int,
    repair: tuple[str, ...] | None,
    words: Sequence[str] = (),
    checks: Sequence[str] = (),
    rules: Sequence[str] = (),
    **more: object,
) -> Expected:
    return Expected(harm, run, tuple(words), frozenset(checks), verify, frozenset(rules), repair, **more)  # type: ignore[arg-type]


SAMPLE = (
    "RESTORE to version 0 by delta-rs",
    "deletion vectors, rows deleted",
    "a Parquet file lost",
    "the last commit of records lost",
    "an archived segment zeroed, its times kept",
    "frontiers erased",
)
"""One harm of each kind: rows, features, files, commits, archive, markers. `make test-long` does all."""

ROWS = ("rows-differ-from-ledger", "rows-differ-from-archive")
TABLE: dict[str, Expected] = {
    "RESTORE to version 0 by delta-rs": _line(
        harms.restored_by_delta_rs,
        run=2,
        words=["rows_equal_ledger", "orders-0", "--replace"],
        checks=["rows_equal_ledger"],
        verify=2,
        rules=ROWS,
        repair=REPLACE,
    ),
    "RESTORE to version 0 by Spark": _line(
        harms.restored_by_spark,
        run=2,
        words=["rows_equal_ledger", "orders-0", "--replace"],
        checks=["rows_equal_ledger"],
        verify=2,
        rules=ROWS,
        repair=REPLACE,
    ),
    "rows deleted by Spark": _line(
        harms.deleted_by_spark,
        run=2,
        words=["rows_equal_ledger", "orders-0", "--replace"],
        checks=["rows_equal_ledger"],
        verify=2,
        rules=ROWS,
        repair=REPLACE,
    ),
    "rows deleted by delta-rs": _line(
        harms.deleted_by_delta_rs,
        run=2,
        words=["rows_equal_ledger", "orders-1", "--replace"],
        checks=["rows_equal_ledger"],
        verify=2,
        rules=ROWS,
        repair=REPLACE,
    ),
    "rows deleted by Spark on purpose": _line(
        harms.deleted_by_spark,
        run=2,
        words=["rows_equal_ledger", "withdraw"],
        checks=["rows_equal_ledger"],
        verify=2,
        rules=ROWS,
        repair=WITHDRAW,
        withdrawn={("orders", 0): frozenset({3, 4}), ("orders", 1): frozenset({3, 4})},
    ),
    "a value changed by Spark": _line(
        harms.updated_by_spark,
        run=2,
        words=["rows-differ-from-archive", "orders-[01]", "--replace"],
        verify=2,
        rules=["rows-differ-from-archive"],
        repair=REPLACE,
    ),
    "a value changed by delta-rs": _line(
        harms.updated_by_delta_rs,
        run=2,
        words=["rows-differ-from-archive", "payments-0", "--replace"],
        verify=2,
        rules=["rows-differ-from-archive"],
        repair=REPLACE,
    ),
    "rows appended again": _line(
        harms.appended_twice,
        run=2,
        words=["rows_equal_ledger", "--replace"],
        checks=["rows_equal_ledger"],
        verify=2,
        rules=ROWS,
        repair=REPLACE,
    ),
    "OPTIMIZE by Spark": _line(
        harms.optimized_by_spark, run=0, words=["OPTIMIZE"], verify=0, rules=["foreign-commit"], repair=None
    ),
    "compacted by delta-rs": _line(
        harms.compacted_by_delta_rs, run=0, words=["OPTIMIZE"], verify=0, rules=["foreign-commit"], repair=None
    ),
    "deletion vectors, rows deleted": _line(
        harms.deletion_vectors,
        run=3,
        words=["[Dd]eletion ?[Vv]ectors", "records", "repair|ALTER TABLE"],
        verify=3,
        repair=REBUILD,
        then=REPLACE,  # the rows are another harm: rebuilding leaves out what was deleted
    ),
    "column mapping": _line(
        harms.column_mapping,
        run=3,
        words=["[Cc]olumn ?[Mm]apping", "records", "repair|ALTER TABLE"],
        verify=3,
        repair=REBUILD,
    ),
    "a column added and filled by Spark": _line(
        harms.column_added_and_filled, run=0, words=["UPDATE"], verify=0, rules=["foreign-commit"], repair=None
    ),
    "VACUUM without retention behind OPTIMIZE": _line(
        harms.vacuumed_at_once, run=0, words=["OPTIMIZE"], verify=0, rules=["foreign-commit"], repair=None
    ),
    "a Parquet file lost": _line(
        harms.lost_file,
        run=2,
        words=["table-file-missing", "--replace"],
        verify=2,
        rules=["table-file-missing"],
        repair=REPLACE,
    ),
    "a Parquet file cut": _line(
        harms.cut_file,
        run=2,
        words=["table-file-size", "--replace"],
        verify=2,
        rules=["table-file-size"],
        repair=REPLACE,
    ),
    "a byte of a page flipped": _line(
        harms.flipped_page,
        run=0,
        verify=2,
        rules=["page-checksum-differs"],
        repair=REPLACE,
        silent_in_run=UNCHANGED,
    ),
    "an archived segment zeroed, its times kept": _line(
        harms.zeroed_archive,
        run=0,
        verify=2,
        rules=["archive-file-changed"],
        repair=PUT_BACK,
        silent_in_run=UNCHANGED,
    ),
    "every archived segment zeroed": _line(
        harms.zeroed_archive_later,
        run=2,
        words=["archive-file-changed", "--archive"],
        verify=2,
        rules=["archive-file-changed"],
        repair=PUT_BACK,
    ),
    "an archived segment lost": _line(
        harms.lost_archive_file,
        run=2,
        words=["archive-file-missing", "--archive"],
        verify=2,
        rules=["archive-file-missing"],
        repair=PUT_BACK,
    ),
    "the last commit of records lost": _line(
        harms.lost_commit,
        run=2,
        words=["table-went-back", "records"],
        verify=2,
        rules=["table-went-back", "commit-file-damaged"],
        repair=REPLACE,
    ),
    "frontiers erased": _line(
        harms.erased_frontiers,
        run=2,
        words=["frontier", "repair"],
        verify=2,
        rules=["frontier-missing"],
        repair=FRONTIERS,
    ),
    "the ledger's table lost": _line(
        harms.lost_state_table,
        run=2,
        words=["table-missing", "offset_ledger"],
        verify=2,
        rules=["table-missing"],
        repair=("repair", "LAKE", "--rebuild", "offset_ledger", "--apply"),
    ),
}


CHOSEN = sampled(TABLE, *SAMPLE)


@dataclass
class Seen:
    """What was seen of one harm, in order."""

    place: Place
    verified: Done
    """Before anything else looks: nothing may depend on what a run has noted."""
    ran: Done
    failed_checks: dict[str, str]
    """Failed checks of that run with what they say."""
    repaired: Done | None = None
    repaired_then: Done | None = None
    after: Done | None = None
    clean: Done | None = None


def paste(place: Place, wanted: Sequence[str], said: str) -> Done:
    """Run each printed command of the wanted kind, as a person would paste it; returns the worst outcome."""
    printed = [shlex.split(line) for line in commands_in(said)]
    kind = kind_of(wanted)
    of_kind = [words for words in printed if kind_of(words[1:]) == kind and not {"SOURCE", "LAKE"} & {*words}]
    assert of_kind, f"no command of the kind {' '.join(wanted)} in:\n{said}"
    done = [place.loglake(*words[1:], *(place.moved if words[1] == "run" else ())) for words in of_kind]
    return max(done, key=lambda each: each.code)


def kind_of(words: Sequence[str]) -> tuple[str, frozenset[str]]:
    """The name of a command and its options, without those that choose logs."""
    options = {word for word in words if word.startswith("--")} - {"--topic", "--partition"}
    table = words[words.index("--rebuild") + 1] if "--rebuild" in words else ""
    return words[0], frozenset({*options, table} - {""})


def observe(place: Place, expected: Expected) -> Seen:
    """Verify, run, repair, run, verify."""
    verified, ran = place.verify(), place.run()
    seen = Seen(place, verified, ran, place.failed_checks())
    if expected.repair is not None:
        seen.repaired = paste(place, expected.repair, f"{verified.said}\n{ran.said}")
        if expected.then is not None:
            seen.repaired_then = paste(place, expected.then, place.run().said)
    seen.after, seen.clean = place.run(), place.verify()
    return seen


@pytest.fixture(scope="module")
def seen(
    request: pytest.FixtureRequest,
    original: Original,
    commands: Commands,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Seen]]:
    """What was seen of a harm; two at a time, each with a server of its own, and one Spark session for both.

    Only harms that a chosen test asks for are done.
    """
    chosen = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    folder = tmp_path_factory.mktemp("matrix")
    second = Commands(folder / "server")
    pool = ThreadPoolExecutor(2)
    servers = [commands, second]

    def done(name: str, place: Place) -> Seen:
        TABLE[name].harm(place, spark)
        place.commands = servers.pop()
        try:
            return observe(place, TABLE[name])
        finally:
            servers.append(place.commands)

    outcomes: dict[str, Future[Seen]] = {}
    for number, name in enumerate(name for name in TABLE if name in chosen):
        place, _ = original.case(folder / f"case-{number}")
        outcomes[name] = pool.submit(done, name, place)
    yield lambda name: outcomes[name].result()
    pool.shutdown(cancel_futures=True)
    second.close()


@pytest.mark.long
def test_the_undisturbed_lake_is_clean(place: Place) -> None:
    assert place.verify().code == 0, place.done[-1].said
    done = place.run()
    assert done.code == 0, done.said
    assert done.out.rstrip().endswith("nothing new")
    assert place.failed_checks() == {}


@pytest.mark.long
@pytest.mark.parametrize("name", CHOSEN)
def test_the_next_run_says_it(name: str, seen: Callable[[str], Seen]) -> None:
    expected, found = TABLE[name], seen(name)
    assert found.ran.code == expected.run, found.ran.said
    assert "Traceback" not in found.ran.said
    assert "mistake in Loglake" not in found.ran.said
    missing = [words for words in expected.words if not re.search(words, found.ran.said)]
    assert not missing, f"not said: {missing}\n{found.ran.said}"
    assert expected.words or expected.silent_in_run


@pytest.mark.parametrize("name", CHOSEN)
def test_its_checks_say_it(name: str, seen: Callable[[str], Seen]) -> None:
    expected, found = TABLE[name], seen(name)
    assert expected.checks <= set(found.failed_checks), found.failed_checks
    if expected.run == 2:
        assert found.failed_checks, "the run exits with 2 and no check is red"
    elif expected.run == 0:
        assert not found.failed_checks


@pytest.mark.parametrize("name", CHOSEN)
def test_the_proof_of_the_lake_says_it(name: str, seen: Callable[[str], Seen]) -> None:
    expected, found = TABLE[name], seen(name)
    assert found.verified.code == expected.verify, found.verified.said
    assert "Traceback" not in found.verified.said
    if expected.rules:
        assert any(rule in found.verified.said for rule in expected.rules), found.verified.said


@pytest.mark.parametrize("name", CHOSEN)
def test_the_documented_command_repairs_it(name: str, seen: Callable[[str], Seen]) -> None:
    expected, found = TABLE[name], seen(name)
    for repaired in (found.repaired, found.repaired_then):
        assert repaired is None or repaired.code == 0, repaired.said
    assert found.after is not None
    assert found.after.code == 0, found.after.said
    assert found.clean is not None
    assert found.clean.code == 0, found.clean.said
    rows = {
        log: {offset: row for offset, row in rows.items() if offset not in expected.withdrawn.get(log, ())}
        for log, rows in found.place.rows.items()
    }
    assert found.place.read() == rows


def test_no_harm_is_silent() -> None:
    for name, expected in TABLE.items():
        assert expected.run or expected.words or expected.silent_in_run, name
        assert expected.verify or expected.rules, name
