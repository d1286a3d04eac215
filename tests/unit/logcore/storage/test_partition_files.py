"""A directory shows the log that its broker's next start would have, whenever the broker was stopped."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.logs.model.findings import exit_code
from logcore.logs.model.sources import Discovery, SourceLog
from logcore.storage.discovery import discover, read_file
from tests import handmade

OLD_LOW = handmade.simple_batch(0, [(b"a", b"1"), (b"b", b"1")]) + handmade.simple_batch(2, [(b"a", b"2")])
OLD_HIGH = handmade.simple_batch(3, [(b"b", b"2"), (b"a", b"3")])
CLEANED = handmade.batch([handmade.record(0, b"b", b"2"), handmade.record(1, b"a", b"3")], base_offset=3)
ACTIVE = handmade.simple_batch(5, [(b"c", b"1")])


def write(directory: Path, base: int, content: bytes, suffix: str = "") -> None:
    (directory / f"{base:020d}.log{suffix}").write_bytes(content)
    (directory / f"{base:020d}.index{suffix}").write_bytes(b"")
    (directory / f"{base:020d}.timeindex{suffix}").write_bytes(b"\0" * 11 + bytes([len(suffix)]))


def rename(directory: Path, pattern: str, before: str, after: str) -> None:
    for path in sorted(directory.glob(pattern)):
        path.rename(path.with_name(path.name.removesuffix(before) + after))


def remove_deleted(directory: Path) -> None:
    for path in directory.glob("*.deleted"):
        path.unlink()


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Two segments that a cleaning put into one, and the active one; the cleaning has just written its output."""
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True)
    write(path, 0, OLD_LOW)
    write(path, 3, OLD_HIGH)
    write(path, 5, ACTIVE)
    write(path, 0, CLEANED, ".cleaned")
    (path.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    return path


def found_log(path: Path) -> tuple[SourceLog, Discovery]:
    discovery = discover([str(path)])
    (log,) = discovery.logs
    return log, discovery


def content(log: SourceLog) -> list[tuple[int, bytes]]:
    return [(segment.base_offset, read_file(segment.path)) for segment in log.segments]


OLD = [(0, OLD_LOW), (3, OLD_HIGH), (5, ACTIVE)]
NEW = [(0, CLEANED), (5, ACTIVE)]

STEPS: list[tuple[str, Callable[[Path], None], list[tuple[int, bytes]]]] = [
    ("output written", lambda _: None, OLD),
    ("log renamed", lambda path: rename(path, "*.log.cleaned", ".cleaned", ".swap"), OLD),
    ("index renamed", lambda path: rename(path, "*.index.cleaned", ".cleaned", ".swap"), OLD),
    ("all renamed", lambda path: rename(path, "*.cleaned", ".cleaned", ".swap"), NEW),
    ("first old log renamed", lambda path: rename(path, f"{0:020d}.log", "", ".deleted"), NEW),
    ("first old segment renamed", lambda path: rename(path, f"{0:020d}.*index", "", ".deleted"), NEW),
    ("second old log renamed", lambda path: rename(path, f"{3:020d}.log", "", ".deleted"), NEW),
    ("second old segment renamed", lambda path: rename(path, f"{3:020d}.*index", "", ".deleted"), NEW),
    ("log in place", lambda path: rename(path, "*.log.swap", ".swap", ""), NEW),
    ("index in place", lambda path: rename(path, "*.index.swap", ".swap", ""), NEW),
    ("all in place", lambda path: rename(path, "*.swap", ".swap", ""), NEW),
    ("old files gone", remove_deleted, NEW),
]


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1), ids=[name for name, _, _ in STEPS])
def test_every_step_of_a_swap_shows_the_old_log_or_the_new_one(orders: Path, steps: int) -> None:
    for _, step, _ in STEPS[:steps]:
        step(orders)
    before = sorted(os.listdir(orders))
    log, discovery = found_log(orders.parent)
    assert content(log) == STEPS[steps - 1][2]
    assert exit_code(discovery.findings) == 0
    assert sorted(os.listdir(orders)) == before, "a source is only looked at"


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1), ids=[name for name, _, _ in STEPS])
def test_every_step_of_a_swap_finds_the_indexes_that_belong_to_the_segments(orders: Path, steps: int) -> None:
    for _, step, _ in STEPS[:steps]:
        step(orders)
    log, _ = found_log(orders)
    path = log.segments[0].side_file(".timeindex")
    assert path is not None
    is_new = STEPS[steps - 1][2] is NEW
    assert read_file(path)[-1] == (len(".cleaned") if is_new else 0)


def test_an_interrupted_swap_is_reported_with_what_is_read_instead(orders: Path) -> None:
    rename(orders, "*.cleaned", ".cleaned", ".swap")
    log, discovery = found_log(orders)
    (finding,) = [finding for finding in discovery.findings if finding.rule == "interrupted-swap"]
    assert "00000000000000000000.log.swap instead of 6 files" in finding.message
    assert log.segments[0].path.endswith("00000000000000000000.log.swap")
    assert log.is_sealed(log.segments[0])


def test_an_index_that_was_replaced_belongs_to_no_segment(orders: Path) -> None:
    (orders / f"{0:020d}.txnindex").write_bytes(bytes(34))
    assert found_log(orders)[0].segments[0].side_file(".txnindex") is not None
    rename(orders, "*.cleaned", ".cleaned", ".swap")
    assert found_log(orders)[0].segments[0].side_file(".txnindex") is None


def test_a_named_file_is_that_file_whatever_a_start_would_make_of_it(orders: Path) -> None:
    rename(orders, "*.cleaned", ".cleaned", ".swap")
    log, _ = found_log(orders / f"{0:020d}.log")
    assert content(log) == [(0, OLD_LOW)]
    assert log.unnamed == (3, 5)
    assert log.segments[0].side_file(".index") == str(orders / f"{0:020d}.index")


def test_a_swap_that_cannot_be_read_leaves_a_hole_that_is_known(orders: Path) -> None:
    rename(orders, "*.cleaned", ".cleaned", ".swap")
    (orders / f"{0:020d}.log.swap").unlink()
    (orders / f"{0:020d}.log.swap").mkdir()
    log, discovery = found_log(orders)
    assert log.unreadable == (0,)
    assert "not-a-segment" in [finding.rule for finding in discovery.findings]


def test_a_file_that_takes_its_name_while_it_is_looked_at_is_looked_for_again(
    orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename(orders, "*.cleaned", ".cleaned", ".swap")
    real = os.open

    def open_late(path: str, *arguments: int, **options: int) -> int:
        if str(path).endswith(f"{5:020d}.log") and (orders / f"{0:020d}.log.swap").exists():
            rename(orders, "*.swap", ".swap", "")  # the broker is done with it now
            os.unlink(orders / f"{3:020d}.log")
            write(orders, 5, ACTIVE)
            for each in list(orders.glob(f"{5:020d}.*")):
                each.rename(each.with_name(f"{6:020d}{each.suffix}"))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", open_late)
    log, discovery = found_log(orders)
    assert content(log) == [(0, CLEANED), (6, ACTIVE)]
    assert "unreadable" not in [finding.rule for finding in discovery.findings]


def test_a_file_that_is_always_gone_is_reported_in_the_end(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def gone(path: str, *arguments: int, **options: int) -> int:
        if str(path).endswith(f"{3:020d}.log"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", gone)
    log, discovery = found_log(orders)
    assert log.unreadable == (3,)
    assert [finding.rule for finding in discovery.findings].count("unreadable") == 1


def test_producer_snapshots_are_listed_by_where_they_end(orders: Path) -> None:
    for end in (0, 3, 4, 5, 6):
        (orders / f"{end:020d}.snapshot").touch()
    log, _ = found_log(orders)
    assert log.snapshots == tuple((end, str(orders / f"{end:020d}.snapshot")) for end in (0, 3, 5, 6))
    assert log.segments[1].side_file(".snapshot") == str(orders / f"{3:020d}.snapshot")


def test_a_clean_stop_and_the_recovery_point_are_seen(orders: Path) -> None:
    log, _ = found_log(orders)
    assert (log.is_clean, log.recovery_point) == (False, None)
    (orders.parent / ".kafka_cleanshutdown").touch()
    (orders.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    log, _ = found_log(orders)
    assert (log.is_clean, log.recovery_point) == (True, 5)


def test_a_broker_directory_without_any_partition_is_one(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.checkpoint").touch()
    assert discover([str(tmp_path)]).findings == ()


def test_a_metadata_directory_with_a_vote_and_nothing_else_is_a_partition(tmp_path: Path) -> None:
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    (path / "quorum-state").touch()
    discovery = discover([str(path)])
    assert [str(log.topic_partition) for log in discovery.logs] == ["__cluster_metadata-0"]
