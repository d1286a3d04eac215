"""Hanging transactions: the printed commands read and accept them."""

from __future__ import annotations

import re
import shlex
import shutil
import struct
import time
from pathlib import Path

import pytest

from pipelines.run.checks import no_hanging_transaction
from spark_jobs.lake.view.alarms import problems_of
from spark_jobs.lake.view.lake_state import read_state
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID
from tests.jobs.advice.advised_lake import (
    TRANSACTIONAL,
    Lake,
    pasted,
    said,
)
from tests.pasted_advice import commands_in


def test_a_hanging_transaction_of_a_dead_cluster_is_read_with_the_printed_command(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    code, printed = lake.run()
    assert code == 1
    assert lake.offsets() == {*range(30)}
    assert pasted(lake.capsys, printed, "--isolation.level read_uncommitted") == 0
    assert {*range(30, 40)} <= lake.offsets("records_uncommitted")
    assert lake.run()[0] == 0
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "nothing ends it" in printed, commands_in(printed)) == (0, True, []), printed
    assert no_hanging_transaction(read_state(str(lake.path)), time.time_ns() // 1_000_000).passed


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_hanging_transaction_of_an_internal_topic_ends_with_the_printed_command(lake: Lake, is_gone: bool) -> None:
    lake.source.partition("__consumer_offsets-0", OTHER_TOPIC_ID).append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=30, __consumer_offsets_0=5)
    assert lake.run()[0] == 1
    if is_gone:
        shutil.rmtree(lake.source.path)
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == (3 if is_gone else 1)
    assert pasted(lake.capsys, printed, "--isolation.level read_uncommitted") == 0
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "__consumer_offsets-0" in printed) == (3 if is_gone else 0, True), printed


def test_a_lake_that_always_has_uncommitted_rows_is_still_warned_of_a_hanging_transaction(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    for _ in range(2):
        assert lake.run("--isolation.level", "read_uncommitted")[0] == 1
    assert said(lake.capsys, "status", lake.path)[0] == 1


def test_each_hanging_transaction_of_a_log_has_to_be_accepted(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5, **TRANSACTIONAL | {"producer_id": 8})
    lake.source.high_watermarks(orders_0=40)
    _, printed = lake.run()
    assert pasted(lake.capsys, printed, "isolation") == 0
    lake.log.marker(7, handmade.ABORT)
    lake.source.high_watermarks(orders_0=41)
    code, printed = lake.run()
    assert (code, "warning: orders-0 of lake lake: the transaction of producer 8" in printed) == (1, True), printed


def test_a_log_that_stops_before_committed_records_is_read_with_the_printed_commands(lake: Lake, here: Path) -> None:
    last = lake.log.path / f"{20:020d}.log"
    at = last.stat().st_size
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=35)
    data = bytearray(last.read_bytes())
    data[at + 8 : at + 12] = struct.pack(">i", len(data) - at - 12 + 1)  # the length field of the batch
    last.write_bytes(data)
    code, printed = lake.run()
    assert (code, lake.offsets()) == (2, {*range(30)})
    assert "end the active segment and are no ordinary tail" in printed
    [header] = [line for line in printed.splitlines() if line.startswith("topic partition")]
    [row] = [line for line in printed.splitlines() if line.startswith("orders-0 ")]
    assert re.split(" {2,}", header)[-2:] == ["not read", "published to"]
    assert row.split()[-2:] == ["5", "30"]
    _, by_verify = said(lake.capsys, "verify", lake.log.path)
    [command] = [line for line in commands_in(by_verify) if "--salvage" in line]
    assert command in commands_in(printed), "two commands for one harm"
    assert pasted(lake.capsys, printed, "--salvage") == 1
    assert pasted(lake.capsys, printed, "run new/") == 0
    assert lake.offsets() == {*range(35)}


def test_a_transaction_that_may_end_where_the_log_was_not_read_is_not_called_hanging(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.roll()
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    (lake.log.path / f"{35:020d}.log").unlink()
    (lake.log.path / f"{35:020d}.log").symlink_to(f"{35:020d}.log")  # a loop, which cannot be read
    for shown in (lake.run()[1], said(lake.capsys, "status", lake.path)[1]):
        assert "The rest of the log was not read, because it has stopped: unreadable" in shown
        assert "abort it on the cluster" not in shown
        assert "no_hanging_transaction" not in shown


def test_a_transaction_that_hung_at_the_high_watermark_hangs_after_its_source_is_deleted(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    assert lake.run()[0] == 1
    for is_deleted in (False, True):
        if is_deleted:
            shutil.rmtree(lake.source.path)
        code, printed = said(lake.capsys, "status", lake.path)
        assert code == (3 if is_deleted else 1)
        assert "warning: orders-0 of lake lake: the transaction of " in printed
        assert "abort it on the cluster" in printed
        assert (f"Its source {lake.log.path} is gone" in printed) == is_deleted
        assert not no_hanging_transaction(read_state(str(lake.path)), time.time_ns() // 1_000_000).passed


def test_a_transaction_whose_source_is_gone_is_accepted_with_the_printed_command(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    assert lake.run()[0] == 1
    shutil.rmtree(lake.source.path)
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == 3
    assert pasted(lake.capsys, printed, "--forget-source") == 1
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == 1
    assert pasted(lake.capsys, printed, "isolation") == 0
    assert lake.offsets("records_uncommitted") == {*range(40)}
    assert lake.offsets() == {*range(30)}
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "isolation" in printed) == (0, False), printed
    assert no_hanging_transaction(read_state(str(lake.path)), time.time_ns() // 1_000_000).passed


WITHOUT_PATH = ("--maintain", "--isolation.level", "read_uncommitted")


def test_a_transaction_whose_source_grew_after_its_records_were_written_is_not_yet_accepted(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    assert lake.run()[0] == 1
    assert said(lake.capsys, "run", "--lake", lake.path, *WITHOUT_PATH)[0] == 0
    lake.log.append(10)
    lake.source.high_watermarks(orders_0=50)
    assert lake.run("--isolation.level", "read_committed")[0] == 1
    assert lake.offsets("records_uncommitted") == {*range(40)}
    shutil.rmtree(lake.source.path)
    assert said(lake.capsys, "run", "--lake", lake.path, "--forget-source", lake.source.path)[0] == 1
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "nothing ends it" in printed) == (1, False), printed
    assert pasted(lake.capsys, printed, "isolation") == 0
    assert lake.offsets("records_uncommitted") == {*range(50)}
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "nothing ends it" in printed) == (0, True), printed


def test_the_records_of_a_transaction_that_the_printed_command_wrote_say_later_how_it_ended(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    code, printed = lake.run()
    assert code == 1
    assert pasted(lake.capsys, printed, "isolation") == 0
    assert lake.uncommitted() == dict.fromkeys(range(30), "committed") | dict.fromkeys(range(30, 35), "open")
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    assert lake.run()[0] == 0
    assert lake.uncommitted() == dict.fromkeys(range(30), "committed") | dict.fromkeys(range(30, 40), "open")
    lake.log.marker(7, handmade.ABORT)
    lake.log.append(4)
    lake.source.high_watermarks(orders_0=45)
    assert lake.run()[0] == 0
    committed = dict.fromkeys([*range(30), *range(35, 40), *range(41, 45)], "committed")
    assert lake.uncommitted() == committed | dict.fromkeys(range(30, 35), "aborted")
    assert lake.offsets() == committed.keys()


def test_the_command_that_an_alert_about_a_transaction_names_works_without_the_source(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    assert lake.run()[0] == 1
    for is_gone, code in ((False, 0), (True, 3)):
        if is_gone:
            shutil.rmtree(lake.source.path)
        problems = problems_of(read_state(str(lake.path)), time.time_ns() // 1_000_000, 0)
        commands = {each.command for each in problems if "transaction" in f"{each.kind} {each.what}"}
        assert [said(lake.capsys, *shlex.split(command)[1:])[0] for command in commands] == [code], commands
