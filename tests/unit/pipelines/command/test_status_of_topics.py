"""`loglake status` about transactions and undecodable rows of a topic."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade, pasted_advice
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.spark.cycle import Lake
from tests.unit.pipelines.command.asked_status import Captured, Status

pytestmark = pytest.mark.usefixtures("history")


def test_a_hanging_transaction_is_a_warning_with_its_command(tmp_path: Path, status: Status) -> None:
    source = LogDirectory(tmp_path / "source")
    orders = source.partition("orders-0")
    orders.append(5, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0)
    source.high_watermarks(orders_0=orders.next_offset)
    with without_spark():
        Lake(tmp_path / "lake").turn(source.path)
    code, said = status(tmp_path / "lake")
    assert code == 1
    assert "warning: orders-0 of lake lake: the transaction of producer 7 epoch 0 from offset 0 on" in said
    assert f"--lake {tmp_path / 'lake'} --maintain --isolation.level read_uncommitted`" in said


@pytest.mark.parametrize(("good", "bad", "code"), [(0, 6, 1), (2, 4, 1), (3, 3, 0), (6, 0, 0), (5, 1, 0)])
def test_a_topic_of_which_most_of_the_first_rows_do_not_decode_is_a_warning_with_its_command(
    good: int, bad: int, code: int, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source = LogDirectory(tmp_path / "source")
    orders = source.partition("orders-0")
    values = [b"text"] * good + [b"\xff"] * bad
    orders.roll()
    orders.write(handmade.simple_batch(0, [(b"k", value) for value in values], leader_epoch=0))
    source.high_watermarks(orders_0=6)
    (tmp_path / "policies.yaml").write_text("topics:\n  orders:\n    decode.value: string\n")
    lake = tmp_path / "lake"
    with without_spark():
        words = ["run", str(source.path), "--lake", str(lake), "--policies", str(tmp_path / "policies.yaml")]
        assert main(words) == code
    assert ("failed check undecoded_share_steady (warning)" in capsys.readouterr().out) == bool(code)
    found, said = status(lake)
    assert found == code, said
    assert (f"orders: {bad} of the 6 newest rows could not be decoded, before that 0 of 0" in said) == bool(code)
    assert (f"loglake decode {lake} --infer orders" in said) == bool(code)


def test_the_share_in_advice_is_in_no_name(tmp_path: Path, status: Status) -> None:
    source = LogDirectory(tmp_path / "source")
    holders = source.partition("SHAREHOLDERS-0")
    holders.roll()
    holders.write(handmade.simple_batch(0, [(b"k", b"\xff")], leader_epoch=0))
    source.high_watermarks(SHAREHOLDERS_0=1)
    policies, lake = tmp_path / "policies.yaml", tmp_path / "SHARED" / "lake"
    policies.write_text("topics:\n  SHAREHOLDERS:\n    decode.value: string\n")
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(lake), "--policies", str(policies)]) == 1
    _, said = status(lake)
    assert f"`loglake decode {lake} --infer SHAREHOLDERS`" in said
    assert f"`loglake config set {policies} SHAREHOLDERS decode.undecoded.max=1 && " in said


def test_the_undecodable_rows_of_a_topic_that_is_known_are_accepted_with_the_printed_command(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.roll()
    orders.write(handmade.simple_batch(0, [(b"k", b"text")] + [(b"k", b"\xff")] * 5, leader_epoch=0))
    source.high_watermarks(orders_0=6)
    (tmp_path / "policies.yaml").write_text("topics:\n  orders:\n    decode.value: string\n")
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main([*run, "--policies", str(tmp_path / "policies.yaml")]) == main(run) == 1
        code, said = status(lake)
        assert code == 1
        [accept] = [line for line in pasted_advice.commands_in(said) if "decode.undecoded.max=0.84" in line]
        assert main(shlex.split(accept)[1:]) == 0
        assert (main(run), status(lake)[0]) == (0, 0)
        orders.write(handmade.simple_batch(6, [(b"k", b"\xff")] * 5, leader_epoch=0))
        source.high_watermarks(orders_0=11)
        assert main(run) == 1, "it is more than what was accepted"
