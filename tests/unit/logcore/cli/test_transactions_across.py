"""`transactions` with `__transaction_state` among the paths: each transaction of a coordinator in all partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    state_key,
    state_value,
)

Captured = pytest.CaptureFixture[str]
NOON = 1_700_000_000_000
COMMIT, ABORT = handmade.COMMIT, handmade.ABORT
ALL = [text for state in ("complete", "ongoing", "hanging", "torn", "unknown") for text in ("--state", state)]
BOTH = {"orders": (0,), "payments": (0,)}


def states(*rows: tuple[int, int, dict[str, Any]], version: int = 2) -> bytes:
    """A log of the id `pay`, producer 7: status, epoch, more fields; one record a second."""
    content = b""
    for at, (status, epoch, fields) in enumerate(rows):
        fields = {"updated_ms": NOON + 1000 * at, "producer_id": 7, "version": version} | fields
        row = (state_key("pay"), state_value(status, epoch=epoch, **fields))
        content += handmade.simple_batch(at, [row], base_timestamp=NOON + 1000 * at)
    return content


def begun(epoch: int = 0, partitions: dict[str, tuple[int, ...]] = BOTH) -> list[tuple[int, int, dict[str, Any]]]:
    return [(EMPTY, epoch, {}), (ONGOING, epoch, {"partitions": partitions, "start_ms": NOON})]


def ended(prepare: int, epoch: int, complete: int | None) -> list[tuple[int, int, dict[str, Any]]]:
    rows = [(prepare, epoch, {"partitions": BOTH, "start_ms": NOON})]
    return rows if complete is None else [*rows, (complete, epoch, {"partitions": {}, "start_ms": NOON})]


def data(offset: int, epoch: int = 0, at_ms: int = NOON + 1500, producer_id: int = 7) -> bytes:
    return handmade.simple_batch(
        offset,
        [(b"k", b"v")],
        attributes=handmade.TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=offset,
        base_timestamp=at_ms,
    )


def marker(offset: int, kind: int, epoch: int) -> bytes:
    return handmade.marker(offset, kind, producer_id=7, producer_epoch=epoch, base_timestamp=NOON + 2500)


def plain(offset: int, at_ms: int) -> bytes:
    return handmade.simple_batch(offset, [(b"k", b"v")], base_timestamp=at_ms)


def write(root: Path, high_watermarks: dict[str, int] | None = None, **logs: bytes) -> str:
    """A log directory; high watermarks are the log ends if they are not stated."""
    ends = {}
    for name, content in logs.items():
        topic = name.removesuffix("_0")
        directory = root / f"{topic}-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020d}.log").write_bytes(content)
        at, end = 0, 0
        while at < len(content):
            end += 1
            at += handmade.size_of(content, at)
        ends[topic] = end
    ends |= high_watermarks or {}
    (root / "meta.properties").write_text("version=0\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nbroker.id=1\n")
    lines = ["0", str(len(ends)), *(f"{topic} 0 {end}" for topic, end in ends.items())]
    (root / "replication-offset-checkpoint").write_text("\n".join(lines) + "\n")
    return str(root)


def across(capsys: Captured, path: str, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The rows of transactions across partitions, of all states unless the arguments choose some."""
    chosen = () if "--state" in arguments else ALL
    found = main(["transactions", "--format", "jsonl", *chosen, *arguments, path])
    captured = capsys.readouterr()
    assert found == code, captured.err
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert set(rows[-1]) == {"summary"}
    listed = [row for row in rows if "partitions" in row]
    counted = {state: count for state, count in rows[-1]["summary"].items() if count}
    if chosen:
        assert counted == {state: sum(row["state"] == state for row in listed) for state in counted}
    return listed


def brief(row: dict[str, Any]) -> tuple[str, str | None, list[tuple[str, int, str]]]:
    parts = [(part["topic"], part["first_offset"], part["state"]) for part in row["partitions"]]
    return row["state"], row["coordinator_state"], parts


COMMITTED = [*begun(), *ended(PREPARE_COMMIT, 1, COMPLETE_COMMIT)]


def test_a_transaction_with_its_marker_in_every_partition_is_complete(tmp_path: Path, capsys: Captured) -> None:
    both = data(0) + marker(1, COMMIT, 1)
    path = write(tmp_path / "logs", __transaction_state_0=states(*COMMITTED), orders_0=both, payments_0=both)
    (row,) = across(capsys, path)
    assert brief(row) == ("complete", "CompleteCommit", [("orders", 0, "committed"), ("payments", 0, "committed")])
    assert row == {
        "transactional_id": "pay",
        "producer_id": 7,
        "producer_epoch": 0,
        "state": "complete",
        "reason": "it is CompleteCommit for its coordinator",
        "coordinator_state": "CompleteCommit",
        "start_time": NOON,
        "update_time": NOON + 3000,
        "timeout_ms": 60_000,
        "partitions": [
            {
                "topic": topic,
                "partition": 0,
                "directory": f"{path}/{topic}-0",
                "first_offset": 0,
                "last_offset": 0,
                "marker_offset": 1,
                "state": "committed",
            }
            for topic in ("orders", "payments")
        ],
    }


@pytest.mark.parametrize(
    ("payments", "state"),
    [(data(0), "open"), (data(0) + marker(1, ABORT, 1), "aborted")],
    ids=["a lost marker", "another outcome"],
)
def test_partitions_that_contradict_the_coordinator_are_torn(
    payments: bytes, state: str, tmp_path: Path, capsys: Captured
) -> None:
    orders = data(0) + marker(1, COMMIT, 1)
    path = write(tmp_path / "logs", __transaction_state_0=states(*COMMITTED), orders_0=orders, payments_0=payments)
    (row,) = across(capsys, path, "--state", "torn", code=2)
    assert brief(row) == ("torn", "CompleteCommit", [("orders", 0, "committed"), ("payments", 0, state)])
    assert across(capsys, path, "--state", "complete", code=2) == []
    assert main(["transactions", path]) == 2
    captured = capsys.readouterr()
    assert "pay  producer 7 epoch 0  torn: " in captured.out
    assert "error transaction-torn: The transaction of producer 7, epoch 0, pay, is torn: " in captured.err
    assert f"payments-0 [0, 1) {state}." in captured.err


def test_partitions_that_contradict_each_other_are_torn_though_the_coordinator_has_forgotten_them(
    tmp_path: Path, capsys: Captured
) -> None:
    """Only transaction version 2 commits with a newer epoch than the data has."""
    cleaned = states((COMPLETE_COMMIT, 5, {"partitions": {}, "start_ms": NOON}))
    for at, payments in enumerate((data(0), data(0) + marker(1, ABORT, 1))):
        orders = data(0) + marker(1, COMMIT, 1)
        path = write(tmp_path / str(at), __transaction_state_0=cleaned, orders_0=orders, payments_0=payments)
        (row,) = across(capsys, path, "--state", "torn", code=2)
        assert (row["transactional_id"], len(row["partitions"])) == ("pay", 2)


def test_a_prepared_transaction_is_torn_when_its_time_out_is_over_by_the_newest_time_at_the_source(
    tmp_path: Path, capsys: Captured
) -> None:
    prepared = states(*begun(), *ended(PREPARE_COMMIT, 1, None))  # at 2 s, for 60 s
    logs = {"__transaction_state_0": prepared, "orders_0": data(0) + marker(1, COMMIT, 1)}
    for newest_ms, state, code in ((NOON + 62_000, "ongoing", 0), (NOON + 62_001, "torn", 2)):
        path = write(tmp_path / state, **logs, payments_0=data(0) + plain(1, newest_ms))
        (row,) = across(capsys, path, code=code)
        assert brief(row)[:2] == (state, "PrepareCommit")


def test_a_time_after_the_clock_makes_nothing_late(tmp_path: Path, capsys: Captured) -> None:
    """The clock of a producer may be wrong by years."""
    prepared = states(*begun(), *ended(PREPARE_COMMIT, 1, None))
    orders = data(0) + marker(1, COMMIT, 1)
    late = data(0) + plain(1, NOON + 400_000_000)
    path = write(tmp_path / "logs", __transaction_state_0=prepared, orders_0=orders, payments_0=late)
    (row,) = across(capsys, path, "--as-of", "2023-11-15T00:00:00Z")
    assert row["state"] == "ongoing"


def test_a_marker_above_the_high_watermark_is_no_lost_one(tmp_path: Path, capsys: Captured) -> None:
    both = data(0) + marker(1, COMMIT, 1)
    path = write(
        tmp_path / "logs",
        {"payments": 1},
        __transaction_state_0=states(*COMMITTED),
        orders_0=both,
        payments_0=both,
    )
    (row,) = across(capsys, path)
    assert brief(row) == ("complete", "CompleteCommit", [("orders", 0, "committed"), ("payments", 0, "open")])


def test_an_ongoing_transaction_is_hanging_when_its_coordinator_should_have_aborted_it(
    tmp_path: Path, capsys: Captured
) -> None:
    """It looks every ten seconds."""
    for newest_ms, state, code in ((NOON + 70_000, "ongoing", 0), (NOON + 70_001, "hanging", 2)):
        logs = {"orders_0": data(0), "payments_0": plain(0, newest_ms)}
        (row,) = across(capsys, write(tmp_path / state, __transaction_state_0=states(*begun()), **logs), code=code)
        assert brief(row) == (state, "Ongoing", [("orders", 0, "open")])


def test_data_that_came_after_its_marker_hangs(tmp_path: Path, capsys: Captured) -> None:
    """Before version 2 nothing refuses it (KIP-890)."""
    coordinator = states(*begun(), *ended(PREPARE_COMMIT, 0, COMPLETE_COMMIT), version=1)
    both = data(0) + marker(1, COMMIT, 0)
    logs = {"orders_0": both, "payments_0": both + data(2)}
    path = write(tmp_path / "logs", __transaction_state_0=coordinator, **logs)
    rows = across(capsys, path, code=2)
    assert [brief(row) for row in rows if row["state"] == "hanging"] == [("hanging", None, [("payments", 2, "open")])]
    assert main(["transactions", path, "--state", "hanging"]) == 2
    assert "error transaction-hanging: " in capsys.readouterr().err


def test_data_newer_than_the_coordinators_last_record_may_belong_to_a_transaction_that_it_lacks(
    tmp_path: Path, capsys: Captured
) -> None:
    coordinator = states(*begun(), *ended(PREPARE_COMMIT, 0, COMPLETE_COMMIT), version=1)
    both = data(0) + marker(1, COMMIT, 0)
    logs = {"orders_0": both, "payments_0": both + data(2, at_ms=NOON + 9000)}
    rows = across(capsys, write(tmp_path / "logs", __transaction_state_0=coordinator, **logs))
    assert [(row["coordinator_state"], row["state"], len(row["partitions"])) for row in rows] == [
        ("CompleteCommit", "complete", 2),
        (None, "ongoing", 1),
    ]


def test_before_version_2_transactions_of_one_epoch_are_unknown_once_the_coordinators_log_was_cleaned(
    tmp_path: Path, capsys: Captured
) -> None:
    orders = data(0) + marker(1, COMMIT, 0)
    payments = data(0) + marker(1, ABORT, 0)
    cleaned = states((COMPLETE_ABORT, 0, {"partitions": {}, "start_ms": NOON}), version=1)
    path = write(tmp_path / "logs", __transaction_state_0=cleaned, orders_0=orders, payments_0=payments)
    rows = across(capsys, path)
    assert [(row["transactional_id"], row["state"], len(row["partitions"])) for row in rows] == [
        ("pay", "complete", 0),
        ("pay", "unknown", 1),
        ("pay", "unknown", 1),
    ]
    whole = states(*begun(), *ended(PREPARE_COMMIT, 0, COMPLETE_COMMIT), version=1)
    path = write(tmp_path / "whole", __transaction_state_0=whole, orders_0=orders, payments_0=payments)
    assert [row["state"] for row in across(capsys, path, code=2)] == ["torn"]


def test_a_producer_that_no_coordinator_names_is_unknown_while_partitions_of_the_topic_may_lack(
    tmp_path: Path, capsys: Captured
) -> None:
    logs = {"orders_0": data(0, producer_id=99)}
    path = write(tmp_path / "logs", __transaction_state_0=states(*COMMITTED), **logs)
    states_of = {row["producer_id"]: (row["transactional_id"], row["state"]) for row in across(capsys, path)}
    assert states_of == {7: ("pay", "complete"), 99: (None, "unknown")}


def test_rows_of_logs_stay_and_name_the_transactional_id(tmp_path: Path, capsys: Captured) -> None:
    both = data(0) + marker(1, COMMIT, 1)
    path = write(tmp_path / "logs", __transaction_state_0=states(*COMMITTED), orders_0=both)
    for paths, name in ((path, "pay"), (f"{path}/orders-0", None)):
        assert main(["transactions", "--format", "jsonl", "--state", "committed", paths]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (row,) = [row for row in rows if "summary" not in row]
        assert (row["topic"], row["first_offset"], row["state"], row["transactional_id"]) == (
            "orders",
            0,
            "committed",
            name,
        )


def test_without_a_chosen_state_only_what_is_wrong_across_partitions_is_added(tmp_path: Path, capsys: Captured) -> None:
    both = data(0) + marker(1, COMMIT, 1)
    for payments, code, added in ((both, 0, []), (data(0), 2, ["torn"])):
        logs = {"orders_0": both, "payments_0": payments}
        path = write(tmp_path / str(code), __transaction_state_0=states(*COMMITTED), **logs)
        assert main(["transactions", "--format", "jsonl", path]) == code
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["state"] for row in rows if "topic" not in row] == added


def test_a_state_across_partitions_needs_the_coordinators_log(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path / "logs", orders_0=data(0))
    assert main(["transactions", "--state", "torn", path]) == 1
    assert (
        "no-internal-topic: None of the 1 chosen logs is of the topic __transaction_state." in capsys.readouterr().err
    )


def test_a_lagging_copy_of_a_partition_tears_nothing(tmp_path: Path, capsys: Captured) -> None:
    """Of several copies the one with the longer history counts."""
    both = data(0) + marker(1, COMMIT, 1)
    first = write(tmp_path / "first", __transaction_state_0=states(*COMMITTED), orders_0=data(0))
    second = write(tmp_path / "second", orders_0=both)
    assert main(["transactions", "--format", "jsonl", *ALL, first, second]) == 1  # there are several copies
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (row,) = [row for row in rows if "partitions" in row]
    assert [(part["directory"], part["state"]) for part in row["partitions"]] == [(f"{second}/orders-0", "committed")]


def test_a_damaged_log_of_the_coordinator_leaves_no_order_of_an_epoch_certain(tmp_path: Path, capsys: Captured) -> None:
    whole = states(*begun(), *ended(PREPARE_COMMIT, 0, COMPLETE_COMMIT), version=1)
    broken = handmade.flip(whole, 70)
    orders, payments = data(0) + marker(1, COMMIT, 0), data(0) + marker(1, ABORT, 0)
    path = write(tmp_path / "logs", __transaction_state_0=broken, orders_0=orders, payments_0=payments)
    rows = across(capsys, path, code=2)  # the corrupt bytes
    assert [row["state"] for row in rows if row["partitions"]] == ["unknown", "unknown"]
