"""`loglake run` publishes and then decodes: the step, its check, and nothing of it without a policy."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from logcore.logs.model.findings import Severity
from pipelines.run.chains import INTAKE
from pipelines.run.check_definitions import CheckAnswer
from pipelines.run.direct import FinishedSteps, run_steps
from pipelines.run.look import outcome_without_work
from pipelines.run.run_request import RunRequest
from pipelines.run.steps import Run
from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.delta.table import Table
from tests import handmade
from tests.crash import visible
from tests.in_process import InProcessExecutor, without_spark
from tests.jobs.decoded_lake import TEXT, Decoded
from tests.spark.cycle import AS_OF_MS

CHECK, SHARE = "decoded_rows_equal_records", "undecoded_share_steady"


class Jobs:
    """Starts real jobs, and knows which."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def run(self, config: JobConfig, *_: object) -> JobReport:
        self.begun.append(config.JOB)
        return launch.run(config)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Decoded:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return Decoded(tmp_path)


def run(lake: Decoded, as_of_ms: int = AS_OF_MS, jobs: Jobs | None = None) -> tuple[FinishedSteps, list[str]]:
    jobs, request = jobs or Jobs(), request_of(lake)
    policies = request.policies_of(lake.path)
    begun = Run("run", lake.path, as_of_ms, request, policies, jobs)
    done = run_steps(INTAKE, begun)
    assert done.error is None, done.error
    return done, jobs.begun


def test_policies_that_are_edited_during_a_run_count_from_the_next_run_on(lake: Decoded) -> None:
    class Edits(Jobs):
        def run(self, config: JobConfig, *_: object) -> JobReport:
            lake.policies.write_text("topics: {}")
            return super().run(config)

    lake.write((b"a", b"one"))
    assert run(lake, jobs=Edits())[1] == ["ingest", "validate", "publish", "decode", "expectations"]
    lake.write((b"b", b"two"))
    assert run(lake)[1] == ["ingest", "validate", "publish", "expectations"]


def run_at(lake: Decoded, as_of_ms: int) -> FinishedSteps:
    return run(lake, as_of_ms)[0]


def request_of(lake: Decoded) -> RunRequest:
    return RunRequest(sources=(str(lake.source.path),), policies=str(lake.policies))


def answer_of(listener: FinishedSteps, name: str) -> CheckAnswer:
    (answer,) = [each for each in listener.answers if each.name == name]
    return answer


def test_new_rows_are_published_and_decoded_in_one_run_and_the_check_counts_them(lake: Decoded) -> None:
    lake.write((b"a", b"one"), (b"b", b"\xff"), (b"c", None))
    listener, jobs = run(lake)
    assert jobs == ["ingest", "validate", "publish", "decode", "expectations"]
    (answer,) = [each for each in listener.answers if each.name == CHECK]
    assert answer.passed
    assert answer.notes == ("orders: could not be decoded in this run: 1 INVALID_UTF8",)
    assert (answer.metadata["decoded rows"], answer.metadata["undecoded rows"]) == (2, 1)
    assert [row["value"] for row in lake.rows()] == ["one", None]
    assert visible.rows(Path(lake.path), "undecoded/orders")[0]["reason"] == "INVALID_UTF8"
    looked = outcome_without_work(lake.path, request_of(lake), request_of(lake).policies_of(lake.path), AS_OF_MS)
    assert looked is not None
    assert {each.name: each.recorded for each in looked.answers} == {
        each.name: each.recorded for each in listener.answers
    }
    lake.write((b"d", b"two"))
    assert outcome_without_work(lake.path, request_of(lake), request_of(lake).policies_of(lake.path), AS_OF_MS) is None
    run(lake)
    assert [row["value"] for row in lake.rows()] == ["one", None, "two"]


def test_without_a_policy_that_decodes_no_table_is_opened_and_no_check_answers(lake: Decoded, monkeypatch) -> None:
    lake.policies.write_text("topics:\n  orders:\n    salvage: permissive\n")
    lake.write((b"a", b"one"))
    monkeypatch.setattr(Table, "open", None)  # a call would fail
    listener, jobs = run(lake)
    assert "decode" not in jobs
    assert CHECK not in {each.name for each in listener.answers}
    assert not (Path(lake.path) / "tables" / "decoded").exists()


def test_a_warning_names_a_topic_whose_newest_rows_fail_more_often_than_those_before(lake: Decoded) -> None:
    lake.write(*[(b"a", b"one")] * 99, (b"b", b"\xff"))
    answers = [answer_of(run_at(lake, AS_OF_MS), SHARE)]
    lake.write(*[(b"a", b"one")] * 98, *[(b"b", b"\xff")] * 2)
    answers.append(answer_of(run_at(lake, AS_OF_MS + 1), SHARE))
    lake.write(*[(b"a", b"one")] * 9, (b"b", b"\xff"))
    answers.append(answer_of(run_at(lake, AS_OF_MS + 2), SHARE))
    answers.append(answer_of(run_at(lake, AS_OF_MS + 3), SHARE))
    lake.write((b"a", b"one"))
    answers.append(answer_of(run_at(lake, AS_OF_MS + 4), SHARE))
    assert [each.passed for each in answers] == [True, True, False, False, True]
    expected = "orders: 1 of the 10 newest rows could not be decoded, before that 3 of 200"
    assert answers[2].description == answers[3].description == expected
    assert answers[2].severity is Severity.WARNING


def test_a_topic_that_waits_and_one_with_a_missing_row_are_failures_with_what_to_do(lake: Decoded) -> None:
    lake.write((b"a", b"one"), (b"b", b"two"))
    run(lake)
    lake.policies.write_text(TEXT.replace("decode.key: string", "decode.key: uuid"))
    listener, _ = run(lake)
    (answer,) = [each for each in listener.answers if each.name == CHECK]
    assert not answer.passed
    assert "waits: its policy or a schema differs" in answer.description
    assert f"loglake decode {lake.path} --replace" in answer.what_to_do
    lake.policies.write_text(TEXT)
    DeltaTable(str(Path(lake.path) / "tables" / "decoded" / "orders")).delete('"offset" = 1')
    listener, _ = run(lake)
    (answer,) = [each for each in listener.answers if each.name == CHECK]
    assert "orders-0 of lake lake, offsets [0, 2): 2 rows of records, 1 decoded and 0 undecoded" in answer.description


def test_a_run_lists_the_tables_of_topics_and_says_how_many_are_left_out(
    lake: Decoded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write((b"a", b"one"))
    command = ["run", str(lake.source.path), "--lake", lake.path, "--policies", str(lake.policies)]
    assert main(command) == 0
    tables = capsys.readouterr().out.partition("tables:\n")[2].splitlines()
    assert f"  {'decoded/orders':<20}{Path(lake.path, 'tables', 'decoded', 'orders')}" in tables
    monkeypatch.setattr("pipelines.command.summary.LISTED_TABLES", 2)
    assert main(command) == 0
    *_, last, more, verdict = capsys.readouterr().out.splitlines()
    assert last.split()[0] == "offset_ledger"
    assert more == f"  and {len(tables) - 3} more; `loglake query {lake.path}` lists all"
    assert verdict == "nothing new"


def test_everything_that_wrote_has_a_row_in_runs(lake: Decoded) -> None:
    def rows() -> list[tuple[str, str]]:
        found = DeltaTable(f"{lake.path}/tables/runs").to_pyarrow_table().sort_by("started_ms").to_pylist()
        return [(row["job"], row["outcome"]) for row in found]

    lake.write((b"a", b"one"))
    command = ["run", str(lake.source.path), "--lake", lake.path]
    assert main(command) == 0
    lake.policies.write_text(TEXT + "    latest: delete\n")
    assert main([*command, "--policies", str(lake.policies)]) == 0
    assert rows() == [("intake", "succeeded")] * 2, "the second run wrote only tables of topics"
    assert main([*command, "--policies", str(lake.policies)]) == 0
    assert main(["decode", lake.path]) == 0
    assert len(rows()) == 2, "there was nothing to do"
    for again in (["decode", lake.path, "--replace", "orders"], ["latest", lake.path, "--replace", "orders"]):
        assert main(again) == 0
    DeltaTable(f"{lake.path}/tables/records").delete("offset = 0")
    assert main(["withdraw", lake.path]) == 1
    assert len(rows()) == 4, "a plan has no row"
    assert main(["withdraw", lake.path, "--apply"]) == 0
    assert [job for job, outcome in rows()[2:] if outcome == "succeeded"] == ["decode", "latest", "withdraw"]


def test_a_lake_whose_tables_need_policies_is_not_published_half_from_another_home(
    lake: Decoded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.write((b"a", b"one"))
    command = ["run", str(lake.source.path), "--lake", lake.path]
    assert main([*command, "--policies", str(lake.policies)]) == 0
    lake.write((b"b", b"two"))
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "other"))
    capsys.readouterr()
    for refused in (command, ["watch", *command[1:]], ["decode", lake.path], ["latest", lake.path]):
        assert main(refused) == 64
        said = capsys.readouterr().err
        for part in ("decoded/orders", f"the home {tmp_path / 'other'}", "Nothing was made or changed", "--policies"):
            assert part in said
    assert DeltaTable(f"{lake.path}/tables/records").to_pyarrow_table().num_rows == len(lake.rows()) == 1
    assert main([*command, "--policies", str(lake.policies)]) == 0
    assert main(command) == 0
    assert [row["value"] for row in lake.rows()] == ["one", "two"]


@pytest.mark.parametrize(("old", "new", "code"), [(b"\xff", b"v", 0), (b"v", b"\xff", 1)])
def test_where_rows_expire_in_a_run_the_share_is_that_of_the_rows_that_stay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: bytes,
    new: bytes,
    code: int,
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    now = int(time.time() * 1000)
    kept_ms = 365 * 24 * 3_600_000
    most = 0.6 if code else 0.1  # half of all rows cannot be decoded, and all or none of those that are left
    rules = f"decode.value: string, decode.undecoded.max: {most}, records.retention.ms: {kept_ms}"
    lake = Decoded(tmp_path, f'topics: {{"*": {{{rules}}}}}')
    lake.orders.roll()
    for value, at_ms in ((old, now - 2 * kept_ms), (new, now)):
        rows = [(b"k", value), (b"l", value)]
        lake.orders.write(handmade.simple_batch(lake.orders.next_offset, rows, base_timestamp=at_ms, leader_epoch=0))
        lake.orders.next_offset += 2
    lake.source.high_watermarks(orders_0=4)
    words = ["run", str(lake.source.path), "--lake", lake.path, "--policies", str(lake.policies)]
    with without_spark():
        assert main([*words, "--maintain", "--apply"]) == code, capsys.readouterr().out
        said = capsys.readouterr().out
        assert "expired 2 rows" in said
        assert (SHARE in said) == bool(code), said
        for command in (["status", lake.path], words):
            assert main(command) == code, command
            assert (SHARE in capsys.readouterr().out) == bool(code)
