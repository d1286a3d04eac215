"""`recover` and `reindex` take whole log directories: every chosen log, each from the copy that reaches furthest."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from logcore.cli.main import main
from logcore.cli.maintenance.recovered_logs import _Copy
from logcore.logs.recovery.losses import Loss
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.storage.discovery import discover
from tests import handmade
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.test_recover import AS_OF, name, planned

Captured = pytest.CaptureFixture[str]
OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBQ"


@pytest.fixture
def shop(root: Path) -> Path:
    """`orders-0`, of 8 offsets, and `payments-1`, of 3."""
    other = root / "payments-1"
    other.mkdir()
    (other / name(0)).write_bytes(made.FIRST)
    (other / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    (root / "replication-offset-checkpoint").write_text("0\n2\norders 0 8\npayments 1 3\n")
    return root


@pytest.fixture
def copy(shop: Path, tmp_path: Path) -> Path:
    """The same log directory a second time."""
    return Path(shutil.copytree(shop, tmp_path / "copy"))


def run(command: str, *arguments: object, code: int) -> None:
    assert main([command, *map(str, arguments), "--as-of", AS_OF]) == code


def tree(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def shorten(orders: Path, to: int = 7, high_watermark: int | None = None) -> None:
    """Take the last record of `orders-0` away."""
    (orders / name(5)).write_bytes(made.COMMITTED + made.COMMIT)
    text = f"0\n2\norders 0 {to if high_watermark is None else high_watermark}\npayments 1 3\n"
    (orders.parent / "replication-offset-checkpoint").write_text(text)


@pytest.mark.parametrize("command", ["recover", "reindex"])
def test_each_log_of_a_log_directory_becomes_what_it_becomes_by_itself(
    shop: Path, tmp_path: Path, command: str
) -> None:
    for log in ("orders-0", "payments-1"):
        run(command, shop / log, "--out", tmp_path / "alone" / log, code=0)
    before = tree(shop)
    run(command, shop, "--out", tmp_path / "new", code=0)
    assert tree(tmp_path / "new") == tree(tmp_path / "alone")
    assert tree(shop) == before


def test_the_file_that_a_broker_needs_beside_the_logs_is_named_with_its_command(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    for folder in (shop, copy):
        (folder / "meta.properties").unlink(missing_ok=True)
    run("recover", shop, "--out", tmp_path / "none", code=0)
    assert "meta.properties is in none of the directories" in capsys.readouterr().out
    for number, unusable in enumerate((b"", b"\xff\x00garbage", b"version=1\nnode.id=1\n")):
        (shop / "meta.properties").write_bytes(unusable)
        run("recover", shop, "--out", tmp_path / f"unusable {number}", code=1)
        assert "a meta.properties that can be used is in none of the directories: " in capsys.readouterr().out
    (shop / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    run("recover", shop, "--out", tmp_path / "new", "--checkpoints-out", tmp_path / "new", code=0)
    last = capsys.readouterr().out.splitlines()[-1]
    command = f"cp {shop}/meta.properties {tmp_path}/new/"
    assert last == f"before a broker starts on it: {command}"
    subprocess.run(["bash", "-c", command], check=True)
    assert (tmp_path / "new" / "meta.properties").read_text() == "version=1\ncluster.id=abc\nnode.id=1\n"
    (copy / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=2\n")
    run("recover", shop, copy, "--out", tmp_path / "both", code=0)
    said = capsys.readouterr().out
    commands = [f"  cp {folder}/meta.properties {tmp_path}/both/" for folder in sorted((copy, shop))]
    assert said.splitlines()[-3:] == ["before a broker starts on it, copy its own file by one of these:", *commands]


def test_what_a_recovery_cannot_know_without_its_checkpoints_is_said(
    shop: Path, tmp_path: Path, capsys: Captured
) -> None:
    """No high watermark, and deleteRecords up to an offset that only the leader epochs still show."""
    (shop / "replication-offset-checkpoint").unlink(missing_ok=True)
    (shop / "log-start-offset-checkpoint").unlink(missing_ok=True)
    epochs = shop / "orders-0" / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n3 3\n")
    os.utime(epochs, (1_700_000_000, 1_700_000_000))
    (shop / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 8\npayments 1 3\n")
    for source, new in ((shop, "all"), (shop / "orders-0", "one")):
        run("recover", source, "--out", tmp_path / new, code=1)
        said = capsys.readouterr().err
        assert said.count("warning no-high-watermark: ") == 1
        assert said.count("warning log-start-fell: ") == 1
        assert "`loglake recover " in said
    stated = ["--high-watermark", "8", "--log-start-offset", "3"]
    run("recover", shop / "orders-0", "--out", tmp_path / "stated", *stated, code=0)
    assert capsys.readouterr().err == ""


def test_the_copy_that_reaches_furthest_is_taken_and_named_and_why_the_other_loses(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    shorten(shop / "orders-0")
    run("recover", shop, copy, "--out", tmp_path / "new", code=0)
    assert (tmp_path / "new" / "orders-0" / name(5)).read_bytes() == made.ACTIVE
    out = capsys.readouterr().out.splitlines()
    assert f"orders-0: taken from {copy / 'orders-0'}, which ends at offset 8 (log end)" in out
    assert f"orders-0: not taken from {shop / 'orders-0'}: it ends at offset 7, not at 8; it lacks [7, 8)" in out
    assert f"payments-1: taken from {copy / 'payments-1'}, which ends at offset 3 (same history)" in out
    assert f"payments-1: not taken from {shop / 'payments-1'}: it has the same history" in out


def test_an_offset_that_a_recovery_loses_twice_counts_once(shop: Path) -> None:
    losses = tuple(
        Loss("missing", name(0), "", first_offset=first, last_offset=last) for first, last in ((0, 3), (1, 2), (6, 6))
    )
    plan, unused = RecoveryPlan({}, losses=losses, log_end_offset=8), cast("Any", None)
    assert _Copy(discover([str(shop)]).logs[0], unused, unused, plan).compared.holes == ((0, 4), (6, 7))


def test_of_two_that_reach_as_far_the_sound_one_is_taken(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    damaged = handmade.flip(made.SEALED, len(made.FIRST) + 70)
    (shop / "orders-0" / name(0)).write_bytes(damaged)
    run("recover", shop, copy, "--salvage", "--out", tmp_path / "new", code=0)
    assert (tmp_path / "new" / "orders-0" / name(0)).read_bytes() == made.SEALED
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "not taken" in each and "orders" in each]
    assert "it ends at the same offset, and more of it is lost (cut: offsets [3, 4), 1 record" in line


def test_of_two_that_are_sound_the_one_that_begins_lower_is_taken(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    (shop / "orders-0" / name(0)).unlink()
    run("recover", shop, copy, "--topic", "orders", "--out", tmp_path / "new", code=0)
    assert (tmp_path / "new" / "orders-0" / name(0)).is_file()
    assert "more of it is lost (missing: offsets [0, 5))" in capsys.readouterr().out


def test_reindex_takes_the_copy_that_reaches_furthest_too(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    shorten(shop / "orders-0")
    run("reindex", shop, copy, "--out", tmp_path / "new", code=0)
    assert (tmp_path / "new" / "orders-0" / name(5)).read_bytes() == made.ACTIVE
    assert "it ends at offset 7, not at 8" in capsys.readouterr().out


def test_logs_of_one_name_and_different_topic_ids_are_no_copies(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    (copy / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: DDDDDDDDDDDDDDDDDDDDDA")
    run("recover", shop, copy, "--out", tmp_path / "new", code=3)
    assert sorted(os.listdir(tmp_path / "new")) == ["payments-1"]
    assert "different topic ids" in capsys.readouterr().err


def test_a_log_that_cannot_be_recovered_ends_only_itself(shop: Path, tmp_path: Path, capsys: Captured) -> None:
    (shop / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\nfive 0\n")
    run("recover", shop, "--out", tmp_path / "new", code=3)
    assert sorted(os.listdir(tmp_path / "new")) == ["payments-1"]
    assert "error: orders-0 (" in capsys.readouterr().err


def test_the_exit_code_is_the_worst_of_all_logs(shop: Path, tmp_path: Path, capsys: Captured) -> None:
    (shop / "payments-1" / name(0)).write_bytes(handmade.flip(made.FIRST, 80))
    run("recover", shop, "--out", tmp_path / "new", code=2)
    assert f"error missing: payments-1/{name(0)}: offsets [0, 3)" in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path / "new")) == ["orders-0", "payments-1"]


def test_topic_and_partition_choose(shop: Path, tmp_path: Path) -> None:
    run("recover", shop, "--topic", "pay*", "--partition", 1, "--out", tmp_path / "new", code=0)
    assert os.listdir(tmp_path / "new") == ["payments-1"]


@pytest.mark.parametrize("source", ["", "orders-0"])
def test_a_choice_that_matches_nothing_names_the_nearest_and_writes_nothing(
    shop: Path, tmp_path: Path, capsys: Captured, source: str
) -> None:
    run("recover", shop / source, "--topic", "order", "--out", tmp_path / "new", code=3)
    assert "the nearest names are orders" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_checkpoints_hold_the_lines_of_all_logs_that_were_written(shop: Path, copy: Path, tmp_path: Path) -> None:
    (shop / "replication-offset-checkpoint").write_text("0\n3\norders 0 8\npayments 1 2\ngone 0 0\n")
    shutil.rmtree(shop / "orders-0")
    out = tmp_path / "new"
    run("recover", shop, copy, "--out", out, "--checkpoints-out", out, code=0)
    assert (out / "replication-offset-checkpoint").read_text() == "0\n2\norders 0 8\npayments 1 3\n"
    assert (out / "recovery-point-offset-checkpoint").read_text() == "0\n2\norders 0 0\npayments 1 0\n"
    assert not (out / "log-start-offset-checkpoint").exists()


def test_a_plan_of_several_logs_is_a_line_for_each_and_writes_nothing(
    shop: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    shorten(shop / "orders-0", high_watermark=8)
    run("recover", shop, copy, "--plan", code=0)
    orders, payments = map(json.loads, capsys.readouterr().out.splitlines())
    assert (orders["topic"], orders["source"], orders["log_end_offset"]) == ("orders", str(copy / "orders-0"), 8)
    assert orders["not_taken"] == [
        {"source": str(shop / "orders-0"), "why": "it ends at offset 7, not at 8; it lacks [7, 8)"}
    ]
    assert (payments["topic"], payments["partition"], payments["command"]) == ("payments", 1, "recover")


def test_nothing_is_written_into_a_log_directory_that_is_read(shop: Path, tmp_path: Path, capsys: Captured) -> None:
    before = tree(shop)
    run("recover", shop, "--out", shop / "new", code=3)
    run("recover", shop, "--out", tmp_path / "new", "--checkpoints-out", shop / "state", code=3)
    run("recover", shop, shop / "orders-0", "--out", shop / "payments-1" / "new", code=3)
    assert tree(shop) == before
    assert not (tmp_path / "new").exists()


def test_a_partition_that_is_there_already_is_not_touched_and_the_others_are_written(
    shop: Path, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "new" / "orders-0").mkdir(parents=True)
    run("recover", shop, "--out", tmp_path / "new", code=3)
    assert os.listdir(tmp_path / "new" / "orders-0") == []
    assert (tmp_path / "new" / "payments-1" / name(0)).is_file()
    assert "exists already" in capsys.readouterr().err


def test_a_recovery_that_is_repeated_completes_what_is_left(shop: Path, tmp_path: Path, capsys: Captured) -> None:
    new = tmp_path / "new"
    options = ["--out", new, "--checkpoints-out", new]
    run("recover", shop, *options, code=0)
    before = tree(new)
    shutil.rmtree(new / "payments-1")
    (new / "replication-offset-checkpoint").unlink()
    capsys.readouterr()
    run("recover", shop, *options, code=0)
    assert tree(new) == before
    assert f"orders-0: {new / 'orders-0'} is complete already" in capsys.readouterr().out
    for change in ("other", "longer", "gone", "more"):
        place = shutil.copytree(new, tmp_path / change) / "orders-0" / name(5)
        content = place.read_bytes()
        place.write_bytes({"other": b"x" + content[1:], "longer": content + b"x"}.get(change, content))
        if change == "gone":
            place.unlink()
        if change == "more":
            (place.parent / "more").touch()
        run("recover", shop, "--out", tmp_path / change, code=3)
        assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--recovery-point", "--log-start-offset", "--high-watermark"])
def test_an_option_that_belongs_to_one_log_is_wrong_usage_for_a_log_directory(
    shop: Path, tmp_path: Path, option: str
) -> None:
    run("recover", shop, option, 3, "--out", tmp_path / "new", code=64)


def test_a_log_directory_that_has_the_name_of_a_partition_is_one(shop: Path, tmp_path: Path) -> None:
    logs = shop.rename(tmp_path / "kafka-logs-1")
    run("recover", logs, "--out", tmp_path / "new", code=0)
    assert sorted(os.listdir(tmp_path / "new")) == ["orders-0", "payments-1"]


def test_a_path_without_a_log_is_reported(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "empty").mkdir()
    run("recover", tmp_path / "empty", "--out", tmp_path / "new", code=3)
    run("recover", tmp_path / "nowhere", "--out", tmp_path / "new", code=3)
    assert not (tmp_path / "new").exists()


def test_one_partition_directory_is_planned_as_before(shop: Path, capsys: Captured) -> None:
    plan = planned(shop, capsys)
    assert "not_taken" not in plan
    assert plan["topic"] == "orders"


def test_a_broken_root_file_is_one_error_for_all_its_logs(shop: Path, capsys: Captured) -> None:
    (shop / "replication-offset-checkpoint").write_bytes(bytes(40))
    run("recover", shop, "--plan", code=3)
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error"))
    assert error.startswith(f"error: orders-0 ({shop}/orders-0), payments-1 ({shop}/payments-1): A broker would not")
