"""A run warns of a column that is null more often than before, and of keys that became another kind of bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from logcore.logs.model.findings import Severity
from pipelines.run.look import outcome_without_work
from spark_jobs.expectations import row_history
from spark_jobs.lake.view.lake_state import read_state
from tests.jobs.decoded_lake import Decoded
from tests.jobs.test_decode_in_a_run import answer_of, lake, run, run_at, settings_of  # noqa: F401 - fixture
from tests.spark.cycle import AS_OF_MS

NULLS, KEYS, MET = "null_share_steady", "key_type_steady", "expectations_met"
POLICIES = "topics:\n  orders: {decode.key: bytes, decode.value: json, decode.value.schema: order.json}\n"
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "price": {"type": "number"}}}
WHOLE, WITHOUT = b'{"id":7,"price":1.5}', b'{"id":7}'
FIRST = "orders: first rows: there are none before them to compare with"
Rows = Sequence[tuple[bytes | None, bytes | None]]


@pytest.fixture
def orders(lake: Decoded, tmp_path: Path) -> Decoded:  # noqa: F811
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    lake.policies.write_text(POLICIES)
    return lake


def numbers(count: int, value: bytes | None = WHOLE) -> Rows:
    return [(struct.pack(">i", number), value) for number in range(count)]


def findings(orders: Decoded) -> list[tuple[str, str, int, int, str]]:
    return [
        (row["rule"], row["log"][-2:], row["start_offset"], row["end_offset"], row["message"])
        for row in orders.lake.rows("findings")
    ]


def open_rules(orders: Decoded) -> set[str]:
    return {placed.finding.rule for log in read_state(orders.path).logs for placed in log.findings}


def test_a_column_that_is_null_in_half_of_the_newest_rows_is_a_warning_at_its_first_null(orders: Decoded) -> None:
    orders.write(*numbers(100))
    first = run_at(orders, AS_OF_MS)
    orders.write(*numbers(5), *numbers(5, WITHOUT))
    second = run_at(orders, AS_OF_MS + 1)
    answers = [answer_of(each, NULLS) for each in (first, second)]
    assert [each.is_unanswered for each in answers] == [True, False]
    assert answers[0].description == FIRST
    of_first = next(each for each in first.reports if each.job == "expectations")
    assert of_first.metrics["failed"] == 0
    page = Path(of_first.plan["data_docs"]).read_text()
    assert (page.count(">not compared<"), page.count(">not met<")) == (2, 0)
    observed = "value.price is null in 5 of 10 newest rows, before that in 0 of 100"
    assert (answers[1].passed, answers[1].severity) == (False, Severity.WARNING)
    assert answers[1].description == f"orders-0 of lake lake: {observed}; first at partition 0, offset 105"
    message = f"orders-0: {observed}. The first such row is at offset 105."
    assert findings(orders) == [("null-share-departs", "/0", 105, 106, message)]
    assert answer_of(second, KEYS).passed
    assert answer_of(second, MET).passed
    report = next(each for each in second.reports if each.job == "expectations")
    told = {each["name"]: each for each in report.plan["expectations"]}
    assert told["null_share_steady of orders"]["success"] is False
    assert told["key_type_steady of orders"]["success"] is True
    assert "are null in the newest rows as often as in the rows before" in Path(report.plan["data_docs"]).read_text()


def test_a_departure_counts_in_a_run_without_work_and_until_the_newest_rows_are_as_before(orders: Decoded) -> None:
    orders.write(*numbers(100))
    run_at(orders, AS_OF_MS)
    orders.write(*numbers(10, WITHOUT))
    second = run_at(orders, AS_OF_MS + 1)
    looked = outcome_without_work(orders.path, settings_of(orders), AS_OF_MS + 2)
    assert looked is not None
    assert [each.recorded for each in looked.answers] == [each.recorded for each in second.answers]
    assert not answer_of(second, NULLS).passed
    assert open_rules(orders) == {"null-share-departs"}
    orders.write(*numbers(10))
    assert answer_of(run_at(orders, AS_OF_MS + 3), NULLS).passed
    assert open_rules(orders) == set()


def test_keys_that_were_numbers_and_are_text_are_a_warning_at_the_first_text(orders: Decoded) -> None:
    orders.write(*numbers(100))
    run_at(orders, AS_OF_MS)
    orders.write(*numbers(2), *[(b"customer-%d" % number, WHOLE) for number in range(8)])
    listener = run_at(orders, AS_OF_MS + 1)
    answer = answer_of(listener, KEYS)
    observed = "8 of 10 newest keys are text, before that 0 of 100, and most were 4 bytes"
    assert answer.description == f"orders-0 of lake lake: {observed}; first at partition 0, offset 102"
    assert (answer.passed, answer.severity, answer.is_unanswered) == (False, Severity.WARNING, False)
    message = f"orders-0: {observed}. The first such row is at offset 102."
    assert findings(orders) == [("key-type-changed", "/0", 102, 103, message)]
    assert answer_of(listener, NULLS).passed
    assert "customer" not in json.dumps([finding[-1] for finding in findings(orders)])


def test_keys_that_were_null_and_are_set_changed_type_and_their_column_departs(orders: Decoded) -> None:
    orders.write(*[(None, WHOLE)] * 50)
    run_at(orders, AS_OF_MS)
    orders.write(*numbers(10))
    listener = run_at(orders, AS_OF_MS + 1)
    assert "10 of 10 newest keys are 4 bytes, before that 0 of 50, and most were no key" in (
        answer_of(listener, KEYS).description
    )
    assert "key is null in 0 of 10 newest rows, before that in 50 of 50" in answer_of(listener, NULLS).description
    assert {finding[:4] for finding in findings(orders)} == {
        ("key-type-changed", "/0", 50, 51),
        ("null-share-departs", "/0", 50, 51),
    }


def test_a_table_without_a_decoded_row_was_not_checked(orders: Decoded) -> None:
    orders.write(*numbers(5, b"{"))
    answer = answer_of(run_at(orders, AS_OF_MS), NULLS)
    assert (answer.passed, answer.is_unanswered) == (False, True)
    assert answer.description == "orders: nothing was looked at: the table has no row with a time of publication"


def test_a_file_that_cannot_be_read_is_a_failure_and_no_pass(orders: Decoded, monkeypatch) -> None:
    orders.write(*numbers(5))
    run_at(orders, AS_OF_MS)
    orders.write(*numbers(5))
    monkeypatch.setattr(row_history, "opened", _lost)
    answer = answer_of(run_at(orders, AS_OF_MS + 1), KEYS)
    assert (answer.passed, answer.is_unanswered) == (False, False)
    assert "could not be checked: " in answer.description
    assert "the disk is gone" in answer.description


def _lost(*_: object, **__: object) -> None:
    raise OSError("the disk is gone")


def test_without_a_policy_that_decodes_neither_check_answers(lake: Decoded) -> None:  # noqa: F811
    lake.policies.write_text("topics:\n  orders:\n    salvage: permissive\n")
    lake.write((b"a", b"one"))
    listener, _ = run(lake)
    assert not {NULLS, KEYS} & {each.name for each in listener.answers}
