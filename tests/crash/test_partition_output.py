"""Killed before any side effect of writing a partition directory, and run again: never a part under the final name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import deltalake  # noqa: F401 - so that no child loads it again
import pyarrow.parquet  # noqa: F401
import pytest

from logcore.logs.model.partition_directory import Cut, Keep, RootLines, Write
from logcore.segments.filenames import TopicPartition
from logcore.storage.partition_output import PartitionOutput, write_root_files
from tests.crash.side_effects import Happening, Order, SideEffects

pytestmark = pytest.mark.crash

FILES = {"kept": Keep("a"), "cut": Cut("a", 4, 1_000), "written": Write(b"new", 2_000)}
WHOLE = {"kept": (b"0123456789", 10**18 + 7), "cut": (b"0123", 10**9), "written": (b"new", 2 * 10**9)}
CHECKPOINTS = {"recovery-point-offset-checkpoint": "0\n2\norders 0 9\nother 0 1\n"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True)
    (path / "a").write_bytes(b"0123456789")
    os.utime(path / "a", ns=(10**18 + 7, 10**18 + 7))
    (path.parent / "recovery-point-offset-checkpoint").write_text("0\n2\nother 0 1\norders 0 3\n")
    return path


def ended(source: Path, target: Path, happening: Happening | None, journal: Path) -> int:
    """How a process ended that writes the directory and its root files: 0, or minus its signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            SideEffects(Order(str(target), happening, str(journal))).install()
            with PartitionOutput(str(source), str(target / "orders-0")) as output:
                output.put(FILES)
            lines = RootLines(recovery_point=9)
            write_root_files(str(source.parent), str(target), TopicPartition("orders", 0), lines)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(directory.iterdir())}


def is_whole_or_absent(target: Path) -> bool:
    whole = not (target / "orders-0").exists() or files(target / "orders-0") == WHOLE
    return whole and all(
        not (target / name).exists() or (target / name).read_text() == text for name, text in CHECKPOINTS.items()
    )


@pytest.mark.long
def test_a_kill_at_any_step_leaves_nothing_or_all_and_the_next_run_completes_it(source: Path, tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    assert ended(source, undisturbed, None, tmp_path / "journal") == 0
    effects = (tmp_path / "journal").read_text().splitlines()
    assert files(undisturbed / "orders-0") == WHOLE
    assert len([line for line in effects if line.startswith("fsync")]) >= len(FILES) + 2
    assert len(effects) > 15
    named = 0
    for number in range(1, len(effects) + 1):
        target = tmp_path / f"killed-{number}"
        target.mkdir()
        code = ended(source, target, Happening("kill", at=number), tmp_path / "journals")
        assert code == -signal.SIGKILL, effects[number - 1]
        assert is_whole_or_absent(target), effects[number - 1]
        if (target / "orders-0").exists():
            named += 1  # the directory is complete: the next run reports that it exists
            assert ended(source, target, None, tmp_path / "journals") == 1
            assert is_whole_or_absent(target)
            continue
        assert ended(source, target, None, tmp_path / "journals") == 0, effects[number - 1]
        assert sorted(path.name for path in target.iterdir()) == ["orders-0", *CHECKPOINTS]
        assert is_whole_or_absent(target)
    assert 0 < named < len(effects)
    assert files(source) == {"a": WHOLE["kept"]}


@pytest.mark.long
def test_a_full_disk_at_any_step_leaves_nothing_under_the_final_name(source: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert ended(source, whole, None, tmp_path / "journal") == 0
    for number in range(1, len((tmp_path / "journal").read_text().splitlines()) + 1):
        target = tmp_path / f"full-{number}"
        target.mkdir()
        assert ended(source, target, Happening("fail", at=number, forever=True), tmp_path / "journals") == 1
        assert is_whole_or_absent(target)
        assert not (target / "orders-0.unfinished").exists()
