"""`loglake run` publishes and then keeps the latest rows: the step, its check, and nothing of it without a policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.logs.model.findings import Severity
from pipelines.run.look import outcome_without_work
from spark_jobs import launch
from spark_jobs.engine import job_engine
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded
from tests.jobs.test_decode_in_a_run import answer_of, request_of, run
from tests.spark.cycle import AS_OF_MS

CHECK = "latest_follows_records"
POLICY = "topics: {orders: {latest: delete, decode.value: string}}"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Decoded:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return Decoded(tmp_path, POLICY)


def rows(lake: Decoded) -> dict[bytes, str]:
    table = DeltaTable(str(Path(lake.path) / "tables" / "latest" / "orders")).to_pyarrow_table()
    return {row["key"]: row["value"] for row in table.to_pylist()}


@pytest.mark.parametrize("in_process_bytes", [0, 1 << 20])
def test_a_run_publishes_decodes_and_keeps_the_latest_rows(lake: Decoded, monkeypatch, in_process_bytes: int) -> None:
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", dict.fromkeys(("decode", "latest"), in_process_bytes))
    lake.write((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    listener, jobs = run(lake)
    assert jobs == ["ingest", "validate", "publish", "decode", "latest", "expectations"]
    answer = answer_of(listener, CHECK)
    assert answer.passed
    assert answer.description == "2 rows in 1 topic"
    assert rows(lake) == {b"a": "3", b"b": "2"}
    lake.write((b"b", None), (b"c", b"4"))
    assert answer_of(run(lake)[0], CHECK).passed
    assert rows(lake) == {b"a": "3", b"c": "4"}
    looked = outcome_without_work(lake.path, request_of(lake), request_of(lake).policies_of(lake.path), AS_OF_MS)
    assert looked is not None
    assert next(each for each in looked.answers if each.name == CHECK).passed


def test_a_lake_without_such_a_policy_has_neither_step_nor_check(lake: Decoded) -> None:
    lake.policies.write_text("topics: {orders: {decode.value: string}}")
    lake.write((b"a", b"1"))
    listener, jobs = run(lake)
    assert "latest" not in jobs
    assert CHECK not in [each.name for each in listener.answers]


def test_a_topic_that_waits_is_a_warning_of_the_check(lake: Decoded) -> None:
    lake.write((b"a", b"1"))
    run(lake)
    lake.policies.write_text("topics: {orders: {latest: soft-delete}}")
    lake.write((b"a", b"2"))
    answer = answer_of(run(lake)[0], CHECK)
    assert not answer.passed
    assert answer.severity is Severity.WARNING
    assert "the table latest/orders waits: its policy `latest` differs" in answer.description
