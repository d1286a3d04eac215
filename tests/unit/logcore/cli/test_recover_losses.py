"""What `recover` says is lost: offsets, records and bytes, what a salvage keeps of them, and offsets that no file has.

Logs are packed by hand, or are those of the damaged sample, whose damage its case.json states.
"""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import logcore
from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.test_recover import name, planned

Captured = pytest.CaptureFixture[str]
COUNTS = ("kind", "first_offset", "last_offset", "records", "nbytes", "sound_batches")


def counted(plan: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(loss[what] for what in COUNTS) for loss in plan["losses"]]


def plan_of(source: Path, capsys: Captured, *arguments: str, code: int) -> dict[str, Any]:
    assert main(["recover", str(source), "--plan", *arguments]) == code
    return json.loads(capsys.readouterr().out)


def five(root: Path, *, damaged: int | None = None) -> list[bytes]:
    """`orders-0` as one segment of five batches of two records each, one of them with a flipped bit in its values."""
    batches = [handmade.simple_batch(2 * n, [(b"k", b"value"), (b"k", b"value")]) for n in range(5)]
    if damaged is not None:
        batches[damaged] = handmade.flip(batches[damaged], len(batches[damaged]) - 4)
    orders = root / "orders-0"
    for path in orders.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    (orders / name(0)).write_bytes(b"".join(batches))
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=10)
    return batches


def test_a_cut_is_counted_in_offsets_records_and_bytes_and_says_what_a_salvage_keeps(
    sample: Any, tmp_path: Path, capsys: Captured
) -> None:
    source = sample("damaged").logdir / "d-flip-crc-0"
    assert main(["recover", str(source), "--out", str(tmp_path / "new")]) == 2
    lost = "offsets [33, 39), 6 records, 432 bytes; 1 sound batch kept by --salvage"
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("error cut"))
    assert line.startswith(f"error cut: d-flip-crc-0/{name(27)}, position 326: {lost}")
    plan = plan_of(source, capsys, code=2)
    assert counted(plan) == [("cut", 33, 38, 6, 432, 1)]
    assert plan["losses"][0]["offset"] == 33


def test_a_salvage_of_it_loses_the_damaged_batch_alone(sample: Any, capsys: Captured) -> None:
    plan = plan_of(sample("damaged").logdir / "d-flip-crc-0", capsys, "--salvage", code=2)
    assert counted(plan) == [("cut", 33, 34, 2, 178, 0)]


def test_a_segment_that_goes_with_a_cut_is_counted_too(root: Path, capsys: Captured) -> None:
    damaged = handmade.flip(made.SEALED, len(made.FIRST) + 70)
    (root / "orders-0" / name(0)).write_bytes(damaged)
    plan = planned(root, capsys, code=2)
    assert counted(plan) == [
        ("cut", 3, 4, 2, len(made.ABORTED + made.ABORT), 1),
        ("dropped-segment", 5, 7, 3, len(made.ACTIVE), 3),
    ]


@pytest.mark.parametrize("salvage", [False, True])
def test_the_offset_of_a_loss_comes_from_the_batch_before_where_the_damaged_header_has_none(
    root: Path, capsys: Captured, salvage: bool
) -> None:
    batches = five(root)
    batches[2] = b"\xff" * 21 + batches[2][21:]  # base offset, length, epoch, magic and checksum are gone
    (root / "orders-0" / name(0)).write_bytes(b"".join(batches))
    plan = planned(root, capsys, *(["--salvage"] if salvage else []), code=2)
    behind = sum(map(len, batches[3:]))
    size = len(batches[2])
    expected = ("cut", 4, 5, None, size, 0) if salvage else ("cut", 4, 9, None, size + behind, 2)
    assert counted(plan) == [expected]
    assert plan["losses"][0]["offset"] == 4


def test_neighbouring_damaged_batches_share_their_offsets_as_their_headers_say_it(root: Path, capsys: Captured) -> None:
    batches = five(root)
    broken = [handmade.flip(batch, len(batch) - 4) if n in (1, 2) else batch for n, batch in enumerate(batches)]
    (root / "orders-0" / name(0)).write_bytes(b"".join(broken))
    plan = planned(root, capsys, "--salvage", code=2)
    lost = [(loss["first_offset"], loss["last_offset"], loss["nbytes"]) for loss in plan["losses"]]
    assert lost == [(2, 3, len(batches[1])), (4, 5, len(batches[2]))]


def test_a_last_batch_that_is_damaged_is_counted_up_to_the_high_watermark(root: Path, capsys: Captured) -> None:
    batches = five(root)
    torn = b"".join(batches[:4]) + handmade.patch(batches[4], 16, b"\x07")  # a magic that none has
    (root / "orders-0" / name(0)).write_bytes(torn)
    (loss,) = planned(root, capsys, "--salvage", code=2)["losses"]
    assert (loss["kind"], loss["first_offset"], loss["last_offset"]) == ("cut", 8, 9)


def test_segments_that_are_gone_are_a_loss(sample: Any, tmp_path: Path, capsys: Captured) -> None:
    source = sample("damaged").logdir / "d-seg-gone-0"
    assert counted(plan_of(source, capsys, code=2)) == [("missing", 16, 28, None, None, 0)]
    assert counted(plan_of(source, capsys, "--salvage", code=2)) == [("missing", 16, 28, None, None, 0)]
    assert main(["recover", str(source), "--out", str(tmp_path / "new")]) == 2
    assert f"error missing: d-seg-gone-0/{name(29)}: offsets [16, 29)" in capsys.readouterr().out
    assert (tmp_path / "new" / name(29)).read_bytes() == (source / name(29)).read_bytes()


@pytest.mark.parametrize("explanation", [("--config", "cleanup.policy=compact"), ("--first-dirty-offset", "29")])
def test_a_gap_that_cleaning_explains_is_no_loss(sample: Any, capsys: Captured, explanation: tuple[str, str]) -> None:
    plan = plan_of(sample("damaged").logdir / "d-seg-gone-0", capsys, *explanation, code=0)
    assert plan["losses"] == []


@pytest.mark.parametrize("options", [(), ("--salvage",)])
@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_gap_inside_a_segment_is_a_loss_unless_cleaning_explains_it(
    root: Path, capsys: Captured, options: tuple[str, ...], number: int
) -> None:
    """As for `verify`. A flipped bit in a base offset, which no checksum covers, makes such a gap."""
    batches = five(root)
    missing = (2 * number, 2 * number + 1)
    if number == 4:
        batches[4] = handmade.flip(batches[4], 6, 2)  # 8 becomes 1032
        missing = (8, 1031)
    else:
        del batches[number]
    (root / "orders-0" / name(0)).write_bytes(b"".join(batches))
    assert counted(planned(root, capsys, *options, code=2)) == [("missing", *missing, None, None, 0)]
    assert planned(root, capsys, *options, "--config", "cleanup.policy=compact")["losses"] == []


@pytest.mark.parametrize("high_watermark", [30, 10])
@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_salvage_keeps_what_verify_accepts_after_a_byte_too_many_and_before_a_cut_batch(
    root: Path, capsys: Captured, cut: int, high_watermark: int
) -> None:
    """Whatever the shifted length field claims, and whatever the high watermark is."""
    five(root)
    batches = [handmade.simple_batch(number, [(b"k", b"value")]) for number in range(30)]
    injured = batches[10][:9] + b"\x01" + batches[10][9:]
    content = b"".join((*batches[:10], injured, *batches[11:]))[:-cut]
    (root / "orders-0" / name(0)).write_bytes(content)
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=high_watermark)
    plan = planned(root, capsys, "--salvage", code=2)
    assert plan["log_end_offset"] == 29
    assert counted(plan)[0][:4] == ("cut", 10, 10, None)
    ledger = logcore.open_partition(root / "orders-0", high_watermark="log-end").ledger(on_finding=str)
    states = [(each.start_offset, each.end_offset, str(each.state)) for each in ledger]
    assert states == [(0, 10, "present"), (10, 11, "corrupt"), (11, 29, "present")]


@pytest.mark.parametrize("bit", [2**32, 2**40, 2**62])
def test_a_last_batch_with_one_flipped_bit_in_its_base_offset_is_cut_out_and_named(
    root: Path, capsys: Captured, bit: int
) -> None:
    batches = five(root)
    (root / "orders-0" / name(0)).write_bytes(b"".join(batches[:4]) + (8 | bit).to_bytes(8, "big") + batches[4][8:])
    plan = planned(root, capsys, "--salvage", code=2)
    assert counted(plan)[0] == ("cut", 8, 9, 2, len(batches[4]), 0)
    assert plan["log_end_offset"] == 8


@pytest.mark.parametrize("options", [(), ("--salvage",)])
def test_offsets_below_the_high_watermark_that_no_file_has_are_a_loss(
    root: Path, capsys: Captured, options: tuple[str, ...]
) -> None:
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=12)
    plan = planned(root, capsys, *options, code=2)
    assert counted(plan) == [("missing", 8, 11, None, None, 0)]
    said = "below its high watermark 12; replication-offset-checkpoint was written at 20"
    assert said in plan["losses"][0]["message"], "and when, as it may be a copy taken while the broker ran"
    (loss,) = planned(root, capsys, *options, "--high-watermark", "10", code=2)["losses"]
    assert loss["message"] == "the log ends at offset 8, below its high watermark 10"
    assert planned(root, capsys, *options, "--high-watermark", "8")["losses"] == []


def test_a_torn_tail_below_the_high_watermark_is_more_than_a_write_under_way(root: Path, capsys: Captured) -> None:
    batches = five(root)
    (root / "orders-0" / name(0)).write_bytes(b"".join(batches)[:-10])
    for options in ((), ("--salvage",)):
        plan = planned(root, capsys, *options, code=2)
        assert counted(plan) == [
            ("torn-tail", 8, None, None, len(batches[4]) - 10, 0),
            ("missing", 8, 9, None, None, 0),
        ]


def test_offsets_below_the_log_start_are_not_missed(root: Path, capsys: Captured) -> None:
    orders = root / "orders-0"
    (orders / name(5)).rename(orders / name(7))
    (orders / name(7)).write_bytes(made.LAST)
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=6)
    assert counted(planned(root, capsys, code=2)) == [("missing", 6, 6, None, None, 0)]


def test_an_error_names_its_log(root: Path, tmp_path: Path, capsys: Captured) -> None:
    (root / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\nfive 0\n")
    assert main(["recover", str(root / "orders-0"), "--out", str(tmp_path / "new")]) == 3
    assert "error: orders-0: A broker would not start" in capsys.readouterr().err


def test_damage_above_the_high_watermark_has_an_unknown_end_offset(root: Path, capsys: Captured) -> None:
    batches = five(root)
    (root / "orders-0" / name(0)).write_bytes(b"".join(batches[:4]) + handmade.patch(batches[4], 16, b"\x07"))
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=8)
    # A recovery does not read the magic byte: the batch stays, but no reader can decode it.
    for options, kind in (((), "damage-kept"), (("--salvage",), "cut")):
        plan = planned(root, capsys, *options, code=2)
        assert counted(plan) == [(kind, 8, None, None, len(batches[4]), 0)]


def test_a_batch_that_claims_offsets_of_the_next_segment_is_damage_that_stays(root: Path, capsys: Captured) -> None:
    far = handmade.patch(made.ABORT, 0, b"\0" * 7 + b"\x09")  # its base offset, which no checksum covers
    (root / "orders-0" / name(0)).write_bytes(made.FIRST + made.ABORTED + far)
    plan = planned(root, capsys, code=2)
    assert counted(plan) == [("damage-kept", 4, 4, 1, len(made.ABORT), 0)]


@pytest.mark.parametrize("options", [(), ("--salvage",)])
def test_a_first_segment_without_a_byte_is_a_loss(root: Path, capsys: Captured, options: tuple[str, ...]) -> None:
    (root / "orders-0" / name(0)).write_bytes(b"")
    plan = planned(root, capsys, *options, code=2)
    assert counted(plan) == [("missing", 0, 4, None, None, 0)]


@pytest.mark.parametrize("salvage", [False, True])
@pytest.mark.parametrize("is_one", [False, True])
def test_a_packed_last_segment_is_a_loss_with_the_command_that_unpacks_it(
    tmp_path: Path, capsys: Captured, is_one: bool, salvage: bool
) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    for _ in range(2):
        orders.roll()
        orders.append(10)
    root.high_watermarks(orders_0=20)
    last = orders.segments()[-1]
    last.write_bytes(gzip.compress(last.read_bytes()))
    command = ["recover", *(["--salvage"] if salvage else []), str(orders.path if is_one else root.path), "--out"]
    assert main([*command, str(tmp_path / "new")]) == 2
    said = capsys.readouterr()
    assert "offsets [10, 20)" in said.out
    assert "the file is a gzip file" in said.out
    [unpack] = re.findall(r"What to do about packed-segment of orders-0: unpack it: `(.*)`, and recover", said.err)
    subprocess.run(unpack, shell=True, check=True)
    assert main([*command, str(tmp_path / "again")]) in (0, 1)
    assert "offsets" not in capsys.readouterr().out.replace("log end offset 20", "")


@pytest.mark.parametrize("salvage", [[], ["--salvage"]])
def test_a_missing_partition_metadata_is_a_warning_of_both_ways(
    root: Path, capsys: Captured, salvage: list[str]
) -> None:
    assert plan_of(root / "orders-0", capsys, *salvage, code=0)["losses"] == []
    (root / "orders-0" / "partition.metadata").unlink()
    (loss,) = plan_of(root / "orders-0", capsys, *salvage, code=1)["losses"]
    assert (loss["kind"], loss["severity"]) == ("metadata-missing", "warning")


@pytest.mark.parametrize("salvage", [[], ["--salvage"]])
def test_a_batch_that_only_cleaning_leaves_explains_the_gaps_before_it(
    root: Path, capsys: Captured, salvage: list[str]
) -> None:
    orders = root / "orders-0"
    five(root)
    plain, thin = handmade.simple_batch(12, [(b"k", b"v")]), [handmade.record(0), handmade.record(3)]
    (orders / name(12)).write_bytes(plain + handmade.batch(thin, base_offset=14, last_offset_delta=3))
    (orders / name(20)).write_bytes(handmade.simple_batch(20, [(b"k", b"v")]))
    plan = plan_of(orders, capsys, *salvage, code=2)
    assert counted(plan) == [("missing", 18, 19, None, None, 0)]
