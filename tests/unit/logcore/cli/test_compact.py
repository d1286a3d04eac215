"""`compact` writes a partition directory as one round of a broker's cleaner leaves it, or says why it does not."""

import json
import os
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.handmade import batch, record, simple_batch

Captured = pytest.CaptureFixture[str]
T = 1_700_000_000_000
NONE = bytes.fromhex("000148674bc700000000")


def rows(base: int, *keys: bytes, value: bytes | None = b"v") -> bytes:
    return simple_batch(base, [(key, value) for key in keys], base_timestamp=T - 1000)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """`orders-0`: segments at 0, 2, 4 and the active one at 5. Never cleaned; high watermark 6."""
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True)
    segments = {0: rows(0, b"a", b"b"), 2: rows(2, b"a", b"c"), 4: rows(4, b"d", value=None), 5: rows(5, b"e")}
    for base, content in segments.items():
        name = f"{base:020d}"
        (path / f"{name}.log").write_bytes(content)
        (path / f"{name}.index").write_bytes(b"")
        (path / f"{name}.timeindex").write_bytes(struct.pack(">qi", T - 1000, 0))
        if base:
            (path / f"{name}.snapshot").write_bytes(NONE)
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    for number, file in enumerate(sorted(path.iterdir())):
        os.utime(file, ns=(10**18, 10**18 + number * 1_000_000_007))
    root = path.parent
    (root / "replication-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nother 3 7\n")
    return path


def compacted(orders: Path, out: Path, *arguments: str, code: int = 0) -> list[str]:
    out.parent.mkdir(exist_ok=True)
    assert main(["compact", str(orders), "--out", str(out), "--as-of", str(T), *arguments]) == code
    return sorted(path.name for path in out.iterdir())


def test_the_new_directory_is_what_a_cleaner_leaves(orders: Path, tmp_path: Path, capsys: Captured):
    before = {path: path.read_bytes() for path in orders.parent.rglob("*") if path.is_file()}
    out = tmp_path / "new" / "orders-0"
    names = compacted(orders, out, "--checkpoints-out", str(out.parent))
    kept = batch([record(1, b"b", b"v")], last_offset_delta=1, base_timestamp=T - 1000)
    horizon = T + 86_400_000
    stamped = batch(
        [record(0, b"d", None, timestamp_delta=T - 1000 - horizon)],
        base_offset=4,
        attributes=handmade.DELETE_HORIZON,
        base_timestamp=horizon,
        max_timestamp=T - 1000,
    )
    assert (out / f"{0:020d}.log").read_bytes() == kept + rows(2, b"a", b"c") + stamped
    assert names == [
        *(f"{0:020d}.{suffix}" for suffix in ("index", "log", "timeindex")),
        *(f"{5:020d}.{suffix}" for suffix in ("index", "log", "snapshot", "timeindex")),
        "leader-epoch-checkpoint",
    ]
    last = (orders / f"{4:020d}.log").stat().st_mtime_ns // 1_000_000
    assert {(out / f"{0:020d}.{s}").stat().st_mtime_ns // 1_000_000 for s in ("log", "index", "timeindex")} == {last}
    assert (out / f"{5:020d}.log").stat().st_mtime_ns == (orders / f"{5:020d}.log").stat().st_mtime_ns
    assert (out.parent / "cleaner-offset-checkpoint").read_text() == "0\n2\norders 0 5\nother 3 7\n"
    assert "first dirty offset 0 -> 5" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in orders.parent.rglob("*") if path.is_file()}


@pytest.mark.parametrize("spare", [bytes(100), b"\x17" * 100], ids=["zeros", "rubbish"])
def test_bytes_after_the_last_offset_of_a_closed_segment_change_nothing(orders: Path, tmp_path: Path, spare: bytes):
    compacted(orders, tmp_path / "new" / "whole")
    first = orders / f"{0:020d}.log"
    first.write_bytes(first.read_bytes() + spare)
    compacted(orders, tmp_path / "new" / "spare")
    made = [
        {path.name: path.read_bytes() for path in (tmp_path / "new" / name).iterdir()} for name in ("whole", "spare")
    ]
    assert made[0] == made[1]


def test_a_plan_is_printed_and_nothing_is_written(orders: Path, tmp_path: Path, capsys: Captured):
    size = len(rows(0, b"a", b"b"))
    assert main(["compact", str(orders), "--plan", "--as-of", str(T), "--config", f"segment.bytes={2 * size}"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [group["segments"] for group in plan["groups"]] == [[0, 2], [4]]
    assert (plan["a_broker_would"], plan["high_watermark"], plan["upper_bound_offset"]) == ("clean", 6, 5)
    assert list(tmp_path.iterdir()) == [orders.parent]


def test_options_take_precedence_over_the_checkpoints_at_the_root(orders: Path, capsys: Captured):
    options = ["--first-dirty-offset", "2", "--high-watermark", "5", "--cleaner-upper-bound", "4", "--compat", "3.9"]
    assert main(["compact", str(orders), "--plan", "--as-of", str(T), *options]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["first_dirty_offset"]["before"] == 2
    assert (plan["high_watermark"], plan["upper_bound_offset"], plan["compat"]) == (5, 4, "3.9")


def test_nothing_to_clean_is_a_sentence_and_a_copy(orders: Path, tmp_path: Path, capsys: Captured):
    out = tmp_path / "new" / "orders-0"
    names = compacted(orders, out, "--first-dirty-offset", "5")
    assert names == sorted(path.name for path in orders.iterdir())
    assert "no whole segment can be cleaned at or above the first dirty offset 5" in capsys.readouterr().out
    assert main(["compact", str(orders), "--plan", "--first-dirty-offset", "5"]) == 0
    assert json.loads(capsys.readouterr().out)["refused"] == "nothing-cleanable"


def test_a_damaged_segment_is_copied_as_it_is_and_the_command_ends_in_2(orders: Path, tmp_path: Path, capsys: Captured):
    broken = handmade.flip(rows(2, b"a", b"c"), 70)
    (orders / f"{2:020d}.log").write_bytes(broken)
    out = tmp_path / "new" / "orders-0"
    options = ["--config", "segment.bytes=14", "--checkpoints-out", str(out.parent)]
    compacted(orders, out, *options, code=2)
    assert (out / f"{2:020d}.log").read_bytes() == broken
    assert (out / f"{0:020d}.log").read_bytes() == rows(0, b"a", b"b")
    assert (out.parent / "cleaner-offset-checkpoint").read_text() == "0\n2\norders 0 2\nother 3 7\n"
    assert f"{2:020d}.log: {len(broken)} bytes at position 0, offset 2, cannot be trusted" in capsys.readouterr().err


def test_what_no_broker_can_clean_is_refused_and_leaves_nothing(orders: Path, tmp_path: Path, capsys: Captured):
    (orders / f"{4:020d}.log").write_bytes(handmade.message_v1(4, T, None, b"x"))
    out = tmp_path / "new" / "orders-0"
    out.parent.mkdir()
    assert main(["compact", str(orders), "--out", str(out), "--compat", "3.9", "--as-of", str(T)]) == 3
    assert list(out.parent.iterdir()) == []
    assert "that format has no empty batches" in capsys.readouterr().err


def test_wrong_usage_is_reported(orders: Path, capsys: Captured):
    assert main(["compact", str(orders)]) == 64
    assert main(["compact", str(orders), "--plan", "--config", "no.such=1"]) == 64
    assert main(["compact", str(orders), "--plan", "--compat", "2.8"]) == 64
    capsys.readouterr()


def test_where_nothing_can_be_cleaned_damage_is_still_reported(orders: Path, tmp_path: Path, capsys: Captured):
    damaged = orders / f"{2:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    out = tmp_path / "new" / "orders-0"
    arguments = ("--cleaner-upper-bound", "1")
    compacted(orders, out, *arguments, code=2)
    assert "cannot be trusted" in capsys.readouterr().err
    assert main(["compact", str(orders), "--plan", "--as-of", str(T), *arguments]) == 2
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert finding["rule"] == "corrupt-bytes"


def test_where_nothing_can_be_cleaned_an_interrupted_cleaning_is_ended_as_a_start_ends_it(orders: Path, tmp_path: Path):
    swapped = f"{0:020d}.log.swap"
    (orders / swapped).write_bytes(rows(0, b"a", b"b") + rows(2, b"c", b"d"))
    (orders / f"{9:020d}.log.deleted").write_bytes(b"x")
    out = tmp_path / "new" / "orders-0"
    names = compacted(orders, out, "--cleaner-upper-bound", "1")
    assert [name for name in names if ".log" in name] == [f"{base:020d}.log" for base in (0, 4, 5)]
    assert (out / f"{0:020d}.log").read_bytes() == (orders / swapped).read_bytes()


@pytest.mark.parametrize("command", ["compact", "retain"])
def test_a_damaged_segment_never_takes_the_place_of_those_it_was_made_of(
    orders: Path, tmp_path: Path, capsys: Captured, command: str
):
    content = bytearray(rows(0, b"a", b"b") + rows(2, b"c", b"d"))
    content[-1] ^= 1
    (orders / f"{0:020d}.log.swap").write_bytes(content)
    out = tmp_path / "orders-0"
    assert main([command, str(orders), "--out", str(out), "--as-of", str(T)]) == 3
    assert "it is damaged" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", ["compact", "retain", "recover", "reindex"])
@pytest.mark.parametrize("place", ["source", "log directory", "broken"])
def test_checkpoints_that_cannot_be_written_are_refused_before_anything_is(
    orders: Path, tmp_path: Path, capsys: Captured, command: str, place: str
):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "cleaner-offset-checkpoint").write_text("junk")
    into = {"source": orders, "log directory": orders.parent, "broken": broken}[place]
    before = {path: path.read_bytes() for path in orders.parent.rglob("*") if path.is_file()}
    out = tmp_path / "orders-0"
    arguments = ["--as-of", str(T), "--checkpoints-out", str(into)]
    assert main([command, str(orders), "--out", str(out), *arguments]) == 3
    assert capsys.readouterr().err.startswith("error: ")
    assert not out.exists()
    assert {path: path.read_bytes() for path in orders.parent.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["compact", "retain"])
def test_a_name_that_only_looks_like_a_cleanings_output_is_not_carried_over(
    orders: Path, tmp_path: Path, capsys: Captured, command: str
):
    (orders / "5.log.swap").write_bytes(rows(5, b"z"))
    assert main([command, str(orders), "--out", str(tmp_path / "orders-0"), "--as-of", str(T)]) == 3
    assert "file 5.log.swap" in capsys.readouterr().err
