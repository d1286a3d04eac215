"""What a failed check says on the command line, and the exit code that it comes to."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from logcore.logs.model.findings import RULES, Severity
from pipelines.command.summary import check_lines, checks_code, plan_lines
from pipelines.run.chains import INTAKE
from pipelines.run.check_definitions import (
    NO_FILE_WAITS_FOR_DELETION,
    RECORDS,
    RETENTION_CARRIED_OUT,
    CheckAnswer,
    CheckDefinition,
    Failure,
    explained_names,
)
from pipelines.run.outcome import RunOutcome
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.view.lake_state import LakeState, read_state
from tests.dagster.conftest import Execute, check_of
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster

FIRST, SECOND = "orders@x.0/0", "orders@x.0/1"


def outcome(*failures: Failure, is_unanswered: bool = False) -> RunOutcome:
    """A run with one check that failed so."""
    answer = CheckAnswer(
        "rows_equal_ledger", RECORDS, False, "a sentence", failures, "run --replace.", is_unanswered=is_unanswered
    )
    return RunOutcome("run", {}, answers=(answer,))


def failure(log: str | None, severity: Severity = Severity.ERROR) -> Failure:
    return Failure("5 rows, the ledger counts 6", log, "orders-0", "[3, 9)", severity)


@pytest.mark.parametrize(
    ("failures", "chosen", "code"),
    [
        ([failure(FIRST)], None, 2),
        ([failure(FIRST, Severity.WARNING)], None, 1),
        ([failure(FIRST, Severity.WARNING), failure(SECOND)], None, 2),
        ([failure(FIRST, Severity.WARNING), failure(SECOND)], {FIRST}, 1),
        ([failure(FIRST)], {SECOND}, 0),
        ([failure(None)], {SECOND}, 2),
    ],
)
def test_the_worst_failure_of_the_chosen_logs_decides(failures: list[Failure], chosen: set | None, code: int) -> None:
    assert checks_code(outcome(*failures), chosen) == code
    assert bool(check_lines(outcome(*failures), chosen)) == bool(code)


def test_a_check_of_another_topic_does_not_change_the_exit_code() -> None:
    of_users = Failure("most rows could not be decoded", severity=Severity.WARNING, topic="users")
    assert checks_code(outcome(of_users), {"T/0", "orders"}) == 0
    assert checks_code(outcome(of_users), {"U/0", "users"}) == 1
    assert checks_code(outcome(of_users), None) == 1


def test_a_failed_check_is_one_paragraph_with_check_log_offsets_and_what_to_do() -> None:
    (line,) = check_lines(outcome(failure(FIRST)), None)
    assert line == (
        "failed check rows_equal_ledger (error): orders-0, offsets [3, 9): 5 rows, the ledger counts 6. "
        "What to do: run --replace."
    )


def test_a_failure_that_is_a_sentence_has_one_full_stop() -> None:
    (line,) = check_lines(outcome(Failure("it was there and is gone. It is only a memory.", FIRST)), None)
    assert "memory. What to do: run --replace." in line


def test_a_failed_check_whose_advice_was_said_refers_to_it() -> None:
    of_damage = Failure("no_crc_failures_in_log (1 of 1 ranges fail)", FIRST, "orders-0 of lake shop")
    damage = ["damage: orders-0 of lake shop, offsets [3, 9): corrupt", "  What to do: take them from a copy."]
    for failed, said in ((of_damage, damage), (failure(FIRST), ["  What to do: run --replace."])):
        (line,) = check_lines(outcome(failed), None, said=said)
        assert line.endswith(". What to do: the same as above.")
        (line,) = check_lines(outcome(failed), None, said=["damage: orders-1 of lake shop, offsets [3, 9): corrupt"])
        assert line.endswith(". What to do: run --replace.")


def test_nothing_to_look_at_yet_is_not_printed_and_changes_nothing() -> None:
    unanswered = outcome(failure(None), is_unanswered=True)
    assert checks_code(unanswered, None) == 0
    assert check_lines(unanswered, None) == []


@pytest.mark.parametrize(("is_of_plan", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("definition", [RETENTION_CARRIED_OUT, NO_FILE_WAITS_FOR_DELETION], ids=lambda each: each.name)
def test_what_a_requested_plan_finds_due_changes_no_exit_code(
    definition: CheckDefinition, is_of_plan: bool, code: int
) -> None:
    failing = [failure(FIRST, Severity.WARNING)]
    planned = definition.answer("lake", failing, "all is done", {}, is_of_plan=is_of_plan)
    assert checks_code(RunOutcome("maintenance", {}, answers=(planned,)), None) == code
    assert len(check_lines(RunOutcome("maintenance", {}, answers=(planned,)), None)) == 1


def test_maintenance_that_wrote_files_of_tables_alone_does_not_say_that_nothing_is_due() -> None:
    state = LakeState("/lake", ())
    assert plan_lines(RunOutcome("maintenance", {}), state)[-1] == "  nothing is due"
    merged = RunOutcome("maintenance", {}, written={"merged {} table file{s}": 2})
    assert plan_lines(merged, state)[-1] == "  merged 2 table files"


def test_every_check_says_what_to_do() -> None:
    assert all(definition.what_to_do.endswith(".") for step in INTAKE for definition in step.checks)


def test_rows_that_another_engine_deleted_are_a_finding_until_they_are_back(
    execute: Execute, world: World, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10, "orders-1": 10}
    lake = str(tmp_path / "lake")
    assert execute(lake=lake).success
    records = DeltaTable(str(Path(lake, "tables", "records")))
    whole = records.version()
    records.delete("partition = 0 AND offset >= 3 AND offset < 5")

    red = execute(lake=lake)
    again = execute(lake=lake)

    for result in (red, again):
        check = check_of(result, "rows_equal_ledger")
        assert not check.passed
        assert [each["log"] for each in check.metadata["failing"].value] == [log_of("orders-0")]
        assert "--replace" in check.metadata["what to do"].value
    (found,) = read_rows(lake, "findings").to_pylist()
    assert (found["rule"], found["severity"], found["log"]) == ("rows-differ-from-ledger", "error", log_of("orders-0"))
    assert found["start_offset"] <= 3
    assert found["end_offset"] >= 5
    assert read_state(lake).exit_code([], 0) == 2
    records.restore(whole)
    mended = execute(lake=lake)
    assert check_of(mended, "rows_equal_ledger").passed
    assert read_state(lake).exit_code([], 0) == 0
    assert [log.findings for log in read_state(lake).logs] == [(), ()]


def test_answers_count_no_more_once_another_engine_wrote_to_the_table(
    execute: Execute, world: World, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10, "orders-1": 10}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    world.asked.clear()
    execute(lake=lake)
    assert world.of("expectations") == []

    DeltaTable(str(Path(lake, "tables", "records"))).update(updates={"timestamp_ms": "7"}, predicate="offset = 3")
    execute(lake=lake)
    execute(lake=lake)

    (evaluated,) = world.of("expectations")
    assert evaluated.ranges == {log_of("orders-0"): (0, 10), log_of("orders-1"): (0, 10)}


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"version": 1}', "[" * 100_000])
def test_answers_that_cannot_be_understood_are_made_again(
    content: str, execute: Execute, world: World, home: Path, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    (kept,) = (home / "expectations").iterdir()
    kept.write_text(content)
    Path(lake, "expectations.json").write_text("{")
    world.asked.clear()

    result = execute(lake=lake)

    assert check_of(result, "expectations_met").passed
    assert [config.ranges for config in world.of("expectations")] == [{log_of("orders-0"): (0, 10)}]


def test_green_answers_that_lie_in_a_received_lake_count_for_nothing(
    execute: Execute, world: World, home: Path, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    (kept,) = (home / "expectations").iterdir()
    Path(lake, "expectations.json").write_bytes(kept.read_bytes())
    kept.unlink()
    world.unmet = {"orders-0"}

    assert not check_of(execute(lake=lake), "expectations_met").passed


def test_an_expectation_that_failed_is_evaluated_from_the_beginning_when_its_log_grows(
    execute: Execute, world: World, tmp_path: Path
) -> None:
    world.ends, world.unmet = {"orders-0": 10, "orders-1": 10}, {"orders-1"}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    world.ends = {"orders-0": 12, "orders-1": 12}
    world.asked.clear()

    execute(lake=lake)

    (config,) = world.of("expectations")
    assert config.ranges == {log_of("orders-0"): (10, 12), log_of("orders-1"): (0, 12)}


def test_rules_of_differences_and_holes_are_errors() -> None:
    assert {RULES[rule].severity for rule in ("rows-differ-from-ledger", "ledger-has-a-hole")} == {Severity.ERROR}


def test_records_of_a_log_are_those_that_the_ledger_counts(execute: Execute, world: World, tmp_path: Path) -> None:
    world.ends, world.corrupt = {"orders-0": 10}, {"orders-0": (4, 6)}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    (log,) = read_state(lake).logs

    assert log.records == 8


def test_harm_to_files_is_red_with_its_log_until_it_is_repaired(execute: Execute, world: World, tmp_path: Path) -> None:
    world.ends = {"orders-0": 10, "orders-1": 10}
    lake = str(tmp_path / "lake")
    assert check_of(execute(lake=lake), "tables_unharmed").passed
    (first, *_) = sorted(Path(lake, "archive").rglob("*.log"))
    whole = first.read_bytes()
    times = first.stat()
    first.write_bytes(whole[:-1])

    red, again = execute(lake=lake), execute(lake=lake)
    first.write_bytes(whole)
    os.utime(first, ns=(times.st_atime_ns, times.st_mtime_ns))
    mended = execute(lake=lake)

    for result in (red, again):
        check = check_of(result, "tables_unharmed")
        assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
        (failing,) = check.metadata["failing"].value
        assert failing["what"].startswith("archive-file-changed")
        assert failing["log"] in (log_of("orders-0"), log_of("orders-1"))
    assert check_of(mended, "tables_unharmed").passed
    assert read_state(lake).exit_code([], 0) == 0


def test_a_table_that_lost_its_last_commit_is_red_once_and_a_finding_for_ever(
    execute: Execute, world: World, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    execute(lake=lake)
    (*_, newest) = sorted(Path(lake, "tables", "validations", "_delta_log").glob("*.json"))
    newest.unlink()

    red, after = execute(lake=lake), execute(lake=lake)

    assert "table-went-back" in (check_of(red, "tables_unharmed").description or "")
    assert check_of(after, "tables_unharmed").passed
    assert "table-went-back" in read_rows(lake, "findings")["rule"].to_pylist()


def edited(lake: str, value: int) -> str:
    """Another engine edits the row of offset 3; the path of the file that it wrote."""
    table = DeltaTable(str(Path(lake, "tables", "records")))
    table.update(updates={"timestamp_ms": str(value)}, predicate="offset = 3")
    (path,) = table.file_uris()
    return Path(path).relative_to(Path(lake, "tables", "records")).as_posix()


@pytest.mark.long
def test_rows_of_other_engines_are_compared_once_and_the_answer_stays_as_long_as_their_file(
    execute: Execute, world: World, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    lake = str(tmp_path / "lake")
    execute(lake=lake)
    assert world.of("check_foreign_rows") == []

    world.answers = {edited(lake, 7): "equal"}
    passed = check_of(execute(lake=lake), "tables_unharmed")
    world.answers = {edited(lake, 8): [[log_of("orders-0"), 3, 4, "another timestamp"]]}
    red, still = (check_of(execute(lake=lake), "tables_unharmed") for _ in range(2))
    world.answers = {edited(lake, 9): "not provable: the archive holds it no more"}
    doubtful = check_of(execute(lake=lake), "tables_unharmed")

    assert passed.passed
    (note,) = passed.metadata["notes"].value
    assert "table records" in note
    assert "UPDATE" in note
    for check in (red, still):
        (failing,) = check.metadata["failing"].value
        assert (failing["log"], failing["offsets"], failing["severity"]) == (log_of("orders-0"), "[3, 4)", "error")
    assert (doubtful.passed, doubtful.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert len(world.of("check_foreign_rows")) == 3


def test_help_of_a_check_of_tables_of_topics_names_the_command_that_writes_them_again() -> None:
    texts = dict(explained_names())
    for name in ("undecoded_share_steady", "decoded_rows_equal_records", "schemas_of_own_subject"):
        assert "`loglake decode LAKE --replace TOPIC`" in texts[name]
    assert "`loglake latest LAKE --replace TOPIC`" in texts["latest_follows_records"]
