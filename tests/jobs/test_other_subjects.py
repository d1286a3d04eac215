"""A run warns of newest rows that name a schema which belongs to another subject."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.logs.model.findings import Severity
from pipelines.run.look import outcome_without_work
from spark_jobs import launch
from tests.in_process import InProcessExecutor
from tests.jobs.registered_schemas import Registered, avro, named, zigzag
from tests.jobs.test_decode_in_a_run import answer_of, request_of, run_at
from tests.spark.cycle import AS_OF_MS

CHECK = "schemas_of_own_subject"
ID = {"name": "id", "type": "long"}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    lake = Registered(tmp_path)
    lake.register(1, avro(ID))
    lake.register(3, avro(ID).replace("Order", "Other"), "refunds-value")
    return lake


def own(number: int) -> tuple[bytes, bytes]:
    return b"k", named(1, zigzag(number))


OTHER = b"k", named(3, zigzag(1))


def test_newest_rows_with_a_schema_of_another_subject_are_a_warning_at_the_first(lake: Registered) -> None:
    lake.write(*[own(number) for number in range(300)])
    assert answer_of(run_at(lake, AS_OF_MS), CHECK).passed
    lake.write(*[own(number) for number in range(300)], OTHER, own(1), OTHER)
    second = run_at(lake, AS_OF_MS + 1)
    answer = answer_of(second, CHECK)
    assert (answer.passed, answer.severity) == (False, Severity.WARNING)
    assert answer.description == (
        "orders-0 of lake lake, offset 600: 2 newest rows with a schema of another subject (schema id 3)"
    )
    assert answer_of(second, "undecoded_share_steady").passed, "two in 302 are too few for the other check"
    looked = outcome_without_work(lake.path, request_of(lake), request_of(lake).policies_of(lake.path), AS_OF_MS + 2)
    assert looked is not None
    assert answer.recorded in [each.recorded for each in looked.answers]


def test_rows_of_earlier_runs_are_no_warning_any_more(lake: Registered) -> None:
    lake.write(OTHER)
    assert not answer_of(run_at(lake, AS_OF_MS), CHECK).passed
    lake.write(own(7))
    assert answer_of(run_at(lake, AS_OF_MS + 1), CHECK).passed


def test_rows_that_fail_for_another_reason_are_no_warning(lake: Registered) -> None:
    lake.write(own(7), (b"k", named(9, b"")), (b"k", b"\x05"), (b"k", named(1, b"")))
    listener = run_at(lake, AS_OF_MS)
    assert answer_of(listener, CHECK).passed
    assert DeltaTable(str(Path(lake.path) / "tables" / "undecoded" / "orders")).to_pyarrow_table().num_rows == 3
