"""`loglake verify LAKE` says the same in this process, in worker processes and on Spark, also when a worker dies."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import VerifyConfig
from spark_jobs.engine import local_executor
from spark_jobs.engine.executor import TaskFailed, WorkerDied
from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, SPARK_FROM_VARIABLE
from spark_jobs.engine.shuffle import Shuffle, _in_passes
from spark_jobs.errors import JobError, StorageError
from spark_jobs.lake_verification import ledger, whole_lake
from spark_jobs.lake_verification.verified_thing import Thing, ThingResult
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Turn
from tests.in_process import InProcessExecutor, without_spark
from tests.spark.cycle import AS_OF_MS, Lake
from tests.spark.event_logs import shuffled_bytes

pytestmark = pytest.mark.spark

Said = tuple[int, str, str]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Offsets 0-59 of orders-0 in three segments and files, and an aborted transaction of payments-0."""
    folder = tmp_path_factory.mktemp("verified")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    payments.append(8, per_batch=8, base_sequence=0, producer_id=9, producer_epoch=0, attributes=handmade.TRANSACTIONAL)
    payments.marker(9, 0)
    with without_spark():
        for end in (20, 40, 60):
            orders.append(20)
            orders.roll()
            source.high_watermarks(orders_0=end, payments_0=9)
            lake.turn(source.path)
    return folder / "lake"


@pytest.fixture
def damaged(made_once: Path, tmp_path: Path) -> Path:
    """The lake with a flipped byte, without one file, and with rows that no digest proves and that differ."""
    lake = Path(shutil.copytree(made_once, tmp_path / "lake"))
    segment = sorted((lake / "archive").rglob("*.log"))[0]
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    DeltaTable(lake / "tables" / "records").update(updates={"value": "'other'"}, predicate="offset BETWEEN 30 AND 35")
    next((lake / "tables" / "transactions").rglob("*.parquet")).unlink()
    return lake


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Runs the command by an engine: exit code, stdout, stderr."""

    def run(lake: Path, engine: str | None, *options: str) -> Said:
        if engine is None:
            monkeypatch.delenv(JOB_ENGINE_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(JOB_ENGINE_VARIABLE, engine)
        capsys.readouterr()
        code = main(["verify", str(lake), "--format", "jsonl", *options])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every local worker that is started."""
    started: list[Any] = []
    start = local_executor._Worker.start

    def counted() -> Any:
        started.append(start())
        return started[-1]

    monkeypatch.setattr(local_executor._Worker, "start", counted)
    return started


def test_a_damaged_lake_has_the_same_report_in_process_in_workers_and_on_spark(damaged, said, workers):
    here = said(damaged, None)
    assert here[0] == 2
    assert not workers, "a small lake starts no worker"
    for rule in ("archive-file-changed", "rows-differ-from-archive", "table-file-missing"):
        assert rule in here[1]
    assert said(damaged, "local")[:2] == here[:2]
    assert local_executor.get_local_executor()._idle
    assert said(damaged, "spark")[:2] == here[:2]


@pytest.fixture
def harmed_rows(made_once: Path, tmp_path: Path) -> Path:
    """The lake without some rows, with some twice, and with rows of offsets that the log does not have."""
    lake = Path(shutil.copytree(made_once, tmp_path / "lake"))
    table = DeltaTable(lake / "tables" / "records")
    rows = pq.read_table(sorted(path for path in table.file_uris() if "orders" in path)[0])
    again = rows.slice(3, 9).append_column("topic", pa.array(["orders"] * 9))
    at = again.schema.names.index("offset")
    beyond = again.set_column(at, again.schema.field(at), pa.array(range(500, 509), pa.int64()))
    for more in (again, beyond):
        write_deltalake(table, more.select([field.name for field in table.schema().fields]), mode="append")
    DeltaTable(lake / "tables" / "records").delete("topic = 'orders' AND offset BETWEEN 18 AND 22")
    return lake


@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_rows_compared_through_the_shuffle_have_the_report_of_one_process(harmed_rows, said, monkeypatch, rows):
    """However few rows a task compares."""
    monkeypatch.setattr(ledger, "PART_ROWS", rows)
    here = said(harmed_rows, None)
    for text in ("more than once", "published records of offsets [18, 23) are not in", "offsets [500, 509), which are"):
        assert text in here[1]
    assert said(harmed_rows, "spark")[:2] == here[:2]


def test_files_send_their_offsets_to_tasks_for_ranges_of_a_log(made_once, said, monkeypatch):
    """A log is not one task, and offsets do not pass through the driver."""
    seen: list[Shuffle] = []

    class Shuffling(InProcessExecutor):
        def shuffle(self, shuffle: Shuffle) -> list[Any]:
            seen.append(shuffle)
            return _in_passes(InProcessExecutor(), shuffle)

    monkeypatch.setattr(ledger, "PART_ROWS", 20)
    monkeypatch.setattr(launch, "start_executor", lambda *_: Shuffling())
    assert said(made_once, "spark")[0] == 0
    [shuffle] = seen
    assert len(shuffle.tasks) == 3, "files with rows"
    assert len(shuffle.last) > 2, "ranges of orders-0"


def test_logs_are_compared_one_by_one_if_a_worker_of_the_shuffle_dies(harmed_rows, said, monkeypatch):
    class DyingShuffle(InProcessExecutor):
        def shuffle(self, shuffle: Shuffle) -> list[Any]:
            raise JobError("Spark could not finish the job's tasks: a worker was ended by SIGKILL")

    here = said(harmed_rows, None)
    monkeypatch.setattr(launch, "start_executor", lambda *_: DyingShuffle())
    assert "published records of offsets [18, 23) are not in" in here[1]
    assert said(harmed_rows, "spark") == here


def test_a_log_that_kills_each_worker_is_named_and_other_logs_are_compared(made_once, said, monkeypatch, tmp_path):
    class DyingOfOrders(InProcessExecutor):
        def run(self, work: Any, tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
            names = [task.name for task in tasks if task.name.startswith("log/")]
            if names and self.first in (None, *names):
                self.first = self.first or names[0]
                raise JobError("a worker was ended by SIGKILL")
            return super().run(work, tasks, sizes)

        def shuffle(self, shuffle: Shuffle) -> list[Any]:
            raise JobError("a worker was ended by SIGKILL")

        first: str | None = None

    executor, progress = DyingOfOrders(), tmp_path / "progress"
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
    code, _, err = said(made_once, "spark", "--resume", str(progress))
    assert code == 3
    assert f"the worker of {executor.first} did not finish (a worker was ended by SIGKILL)" in err
    assert len([line for line in progress.read_text().splitlines() if '"log/' in line]) == 1


def test_an_exception_of_the_shuffle_is_not_hidden(made_once, said, monkeypatch):
    class Failing(InProcessExecutor):
        def shuffle(self, shuffle: Shuffle) -> list[Any]:
            raise TaskFailed("a task failed")

    monkeypatch.setattr(launch, "start_executor", lambda *_: Failing())
    assert said(made_once, "spark") == (3, "", "error: a task failed\n")


@pytest.mark.long
def test_the_event_log_of_verify_has_bytes_of_the_shuffle(harmed_rows, tmp_path):
    events = tmp_path / "events"
    events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    constants = {"spark_jobs.lake_verification.ledger.PART_ROWS": 10}
    turn = Turn(str(harmed_rows), "", ("verify",), options={"verify": {"part": 1, "parts": 1}}, constants=constants)
    [ended] = finish(start(tmp_path, [Step(turn)], "local[2]", conf))
    assert ended.code == 0, ended.said
    written = shuffled_bytes(events, "verify")
    assert len([size for size in written if size]) >= 3, "tasks, offsets of files, and parts"


def test_the_size_of_a_lake_chooses_the_engine(made_once, said, monkeypatch):
    asked: list[tuple[str | None, str]] = []

    def start(_lake: str, engine: str | None, job: str) -> InProcessExecutor:
        asked.append((engine, job))
        return InProcessExecutor()

    monkeypatch.setattr(launch, "start_executor", start)
    monkeypatch.setattr(whole_lake, "SMALL_BYTES", 0)
    for least in ("inf", "1e-9"):
        monkeypatch.setenv(SPARK_FROM_VARIABLE, least)
        assert said(made_once, None)[0] == 0
    assert asked == [("local", "verify"), ("spark", "verify")]


def test_the_size_of_its_part_chooses_the_engine_of_the_nightly_job(made_once, monkeypatch):
    def start(_lake: str, engine: str | None, _job: str) -> InProcessExecutor:
        engines.append(engine)
        return InProcessExecutor()

    engines: list[str | None] = []
    monkeypatch.setattr(launch, "start_executor", start)
    monkeypatch.setattr(whole_lake, "SMALL_BYTES", 0)
    monkeypatch.delenv(JOB_ENGINE_VARIABLE, raising=False)
    config = [VerifyConfig(str(made_once), "run", AS_OF_MS, part=part, parts=3) for part in (1, 2, 3)]
    of_parts = [launch.plan(each).task_bytes or 0 for each in config]
    tables = [DeltaTable(path.parent) for path in made_once.glob("tables/*/_delta_log")]
    stored = [*(made_once / "archive").rglob("*.log"), *(Path(uri) for each in tables for uri in each.file_uris())]
    assert sum(of_parts) == sum(path.stat().st_size for path in stored)
    for least, expected in ((of_parts[0] + 1, "local"), (of_parts[0], "spark")):
        monkeypatch.setenv(SPARK_FROM_VARIABLE, str(least / (1 << 30)))
        assert launch.run(config[0]).engine.startswith(expected)
    assert engines == ["local", "spark"]


def test_the_nightly_job_starts_no_engine_for_a_small_part(damaged, monkeypatch):
    def start(*_: object) -> InProcessExecutor:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(launch, "start_executor", start)
    monkeypatch.delenv(JOB_ENGINE_VARIABLE, raising=False)
    config = VerifyConfig(str(damaged), "run", AS_OF_MS, part=1, parts=1)
    report = launch.run(config, engine="spark: Dagster started the run", by_dagster=True)
    assert "archive-file-changed" in {each.finding.rule for each in report.findings}


def test_decoded_tables_count_for_the_size_of_a_part(made_once, monkeypatch):
    """Else the process of the job would verify large ones alone."""
    decoded = Thing("table/decoded", "identity", 1 << 30, lambda: ThingResult())
    monkeypatch.setattr(whole_lake, "decoded_things", lambda *_: [decoded])
    monkeypatch.delenv(JOB_ENGINE_VARIABLE, raising=False)
    config = [VerifyConfig(str(made_once), "run", AS_OF_MS, part=part, parts=3) for part in (1, 2, 3)]
    [large] = [made.task_bytes for made in map(launch.plan, config) if made.task_bytes is not None]
    assert large >= 1 << 30


def test_parts_and_a_resumed_verification_say_the_same_in_workers(damaged, said, tmp_path):
    of_parts = [said(damaged, None, "--sample", f"{number}/3")[1] for number in (1, 2, 3)]
    assert not any("are not in the table" in each for each in of_parts), "files outside of a part have rows too"
    for number in ("1/3", "2/3"):
        assert said(damaged, "local", "--sample", number)[:2] == said(damaged, None, "--sample", number)[:2]
    code, out, _ = said(damaged, "local", "--resume", str(tmp_path / "progress"))
    again = said(damaged, "local", "--resume", str(tmp_path / "progress"))
    assert again[0] == code
    assert sorted(again[1].splitlines()[:-1]) == sorted(out.splitlines()[:-1])


def test_the_nightly_job_reports_what_the_command_does(damaged, said, monkeypatch):
    code, out, _ = said(damaged, "local")
    report = launch.run(VerifyConfig(str(damaged), "run", AS_OF_MS, part=1, parts=1))
    assert code == 2
    assert len(report.findings) == len(out.splitlines()) - 1
    assert report.engine.startswith("local")


def test_a_worker_that_is_killed_once_changes_nothing(made_once, said):
    executor = local_executor.get_local_executor()
    executor.start()
    executor._idle[-1].process.kill()
    executor._idle[-1].process.wait()
    assert said(made_once, "local")[:2] == said(made_once, None)[:2]
    assert said(made_once, "local")[0] == 0


class Dying:
    """Dies of the first thing, and says so as worker processes do."""

    first = ""

    def run(self, work: Any, tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
        self.first = self.first or tasks[0].name
        died = {at: "was ended by SIGKILL" for at, task in enumerate(tasks) if task.name == self.first}
        results = {at: work(task) for at, task in enumerate(tasks) if at not in died}
        if died:
            raise self.error(died, results)
        return list(results.values())

    def error(self, died: dict[int, str], results: dict[int, Any]) -> JobError:
        return WorkerDied("The worker died.", died, results)


class DyingOnSpark(Dying):
    def error(self, died: dict[int, str], results: dict[int, Any]) -> JobError:
        return JobError("Spark could not finish the job's tasks: a worker was ended by SIGKILL")


@pytest.mark.parametrize("dying", [Dying, DyingOnSpark])
def test_a_worker_that_always_dies_is_one_clear_line_and_nothing_has_passed(
    made_once, said, monkeypatch, tmp_path, dying
):
    executor = dying()
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
    code, out, err = said(made_once, "local", "--resume", str(tmp_path / "progress"))
    assert (code, out) == (3, "")
    assert err.startswith(f"error: Not everything was verified: the worker of {executor.first} ")
    assert "was ended by SIGKILL" in err
    assert err.count("\n") == 1
    monkeypatch.undo()
    left = said(made_once, None, "--resume", str(tmp_path / "progress"))
    assert left[0] == 0
    assert '"resume": 0' not in left[1], "what the others verified is kept"


def test_an_error_of_one_thing_does_not_discard_the_findings_of_others(damaged, said, monkeypatch, tmp_path):
    class Unanswered(InProcessExecutor):
        def run(self, work: Any, tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
            return [ThingResult(error=StorageError("The store does not answer.")), *super().run(work, tasks[1:])]

    monkeypatch.setattr(launch, "start_executor", lambda *_: Unanswered())
    code, out, err = said(damaged, "local", "--resume", str(tmp_path / "progress"))
    assert (code, err) == (3, "error: The store does not answer.\n")
    for rule in ("archive-file-changed", "rows-differ-from-archive"):
        assert rule in out
    monkeypatch.undo()
    assert '"resume": 0' not in said(damaged, None, "--resume", str(tmp_path / "progress"))[1]
