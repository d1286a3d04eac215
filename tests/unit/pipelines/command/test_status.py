"""`loglake status`: what alerts and figures know, in one page, with the exit code of everything else."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.unit.pipelines.command.asked_status import Captured, Status

pytestmark = pytest.mark.usefixtures("history")


def test_a_sound_lake_is_in_order_and_a_damaged_one_names_its_damage_and_a_command(lakes: Path, status: Status) -> None:
    code, said = status(lakes / "sound")
    assert code == 0
    assert said.startswith("sound: in order\n")
    code, said = status(lakes / "damaged")
    assert code == 2
    assert "damage: orders-0 of lake damaged, offsets [10, 15)" in said
    assert re.search(rf"`loglake run \S+/damaged-source --lake {lakes / 'damaged'} --fill-from COPY`", said), said
    assert "failed checks: no_damage" in said
    assert said.count("What to do: If another copy") == 1
    assert status() == (2, status(lakes / "damaged")[1] + status(lakes / "sound")[1])


def test_reading_changes_nothing(lakes: Path, status: Status) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in lakes.rglob("*"))
    status()
    assert sorted((path, path.stat().st_mtime_ns) for path in lakes.rglob("*")) == before


@pytest.mark.parametrize("cause", ["transaction", "damage", "high watermark"])
def test_lag_says_what_it_waits_for_and_has_the_command_for_this_cause(
    cause: str, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.append(5)
    if cause == "transaction":
        orders.append(5, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0)
    orders.append(5)
    if cause == "damage":
        [segment] = orders.segments()
        content = segment.read_bytes()
        segment.write_bytes(handmade.flip(content, handmade.size_of(content, 0) + 70))
        orders.append(5)
    source.high_watermarks(orders_0=5 if cause == "high watermark" else orders.next_offset)
    (tmp_path / "policies.yaml").write_text("lake: {alerts.max.lag: 1}\n")
    with without_spark():
        main(["run", str(source.path), "--lake", lake, "--policies", str(tmp_path / "policies.yaml")])
    _, said = status(lake)
    [line] = [line for line in said.splitlines() if "offsets are ingested and not published" in line]
    waits, command = {
        "transaction": ("the transaction of producer 7", f"loglake transactions {orders.path} --state open"),
        "damage": ("offsets [5, 10) are corrupt", f"loglake lineage {lake} --offset orders-0:5"),
        "high watermark": ("the source's high watermark, 5", f"loglake offsets {orders.path} --at latest"),
    }[cause]
    assert waits in line
    assert line.endswith(f"`{command}`")
    capsys.readouterr()
    assert main(shlex.split(command)[1:]) in (0, 1, 2)
    assert capsys.readouterr().out


def test_a_file_system_that_does_not_say_its_size_is_not_full(
    lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = os.statvfs(lakes)
    unsaid = os.statvfs_result((*room[:2], 0, 0, 0, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: unsaid)
    code, said = status(lakes / "sound")
    assert (code, "disk" in said) == (0, False), said


@pytest.mark.parametrize("keeps", [True, False])
def test_a_full_disk_is_what_status_says_with_its_place_and_what_to_do(
    keeps: bool, lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A disk that has no byte left may keep no record of the failure either."""
    lake = str(lakes / "sound")
    source = LogDirectory(lakes / "source")
    source.partition("orders-0").append(20)
    source.high_watermarks(orders_0=20)
    registry.remember(lake, Intake((str(source.path),)))

    def full(*_: object, **__: object) -> None:
        raise OSError(f"Generic LocalFileSystem error: Unable to copy data: {os.strerror(28)} (os error 28)")

    run = ["run", str(source.path), "--lake", lake, "--move-source"]
    with without_spark(), monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", full)
        if not keeps:
            patch.setattr(registry, "put_in_home", full)
            room = os.statvfs(lake)
            empty = os.statvfs_result((*room[:3], 0, 0, *room[5:]))
            patch.setattr(os, "statvfs", lambda _: empty)
        assert main(run) == 3
        code, said = status(lake)
    assert code == 3
    [line] = [line for line in said.splitlines() if "Make room" in line]
    assert "disk" in line
    assert "full" in line
    assert f" bytes on that of {lake}" in line
    assert f"--lake {lake}`" in line
    assert f"look: `df -h {lake} " in said
    assert "CommitUnanswered" not in said
    with without_spark():
        assert (main(run), status(lake)[0]) == (0, 0)
