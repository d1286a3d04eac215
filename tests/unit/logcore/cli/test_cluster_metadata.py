"""KRaft's metadata log: committed up to the end of its latest snapshot, tentative after it. Snapshots are checked."""

import csv
import io
import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4
COMMITTED, LOG_END = 4, 6


def control(base_offset: int, kind: int) -> bytes:
    return handmade.control_batch(base_offset, struct.pack(">hh", 0, kind), b"\0\0\0\0", leader_epoch=1)


SNAPSHOT = control(0, SNAPSHOT_HEADER) + handmade.simple_batch(1, [(None, b"m")] * 3, leader_epoch=1)
WHOLE = SNAPSHOT + control(4, SNAPSHOT_FOOTER)


@pytest.fixture
def controller(tmp_path: Path) -> Path:
    """A dedicated controller's directory: offsets 0 to 5, the newest snapshot ends at offset 4."""
    root = tmp_path / "metadata"
    log = root / "__cluster_metadata-0"
    log.mkdir(parents=True)
    batches = [handmade.simple_batch(at, [(None, b"m")] * 2, leader_epoch=1) for at in (0, 2, 4)]
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    (log / f"{0:020d}.index").touch()
    (log / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    (log / f"{0:020d}-{0:010d}.checkpoint").write_bytes(WHOLE)
    (log / f"{COMMITTED:020d}-{1:010d}.checkpoint").write_bytes(WHOLE)
    (root / "bootstrap.checkpoint").write_bytes(WHOLE)
    (root / "meta.properties").write_text("version=1\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nnode.id=1\n")
    return root


def snapshot(controller: Path) -> Path:
    return controller / "__cluster_metadata-0" / f"{COMMITTED:020d}-{1:010d}.checkpoint"


def lines(capsys: Captured, *arguments: str, code: int = 0) -> list[dict]:
    assert main([*arguments, "--format", "jsonl"]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return [json.loads(line) for line in captured.out.splitlines()]


def test_a_healthy_controller_is_clean_and_its_snapshots_are_checked_like_segments(
    controller: Path, capsys: Captured
) -> None:
    *findings, last = lines(capsys, "verify", str(controller))
    assert findings == []
    size = sum(path.stat().st_size for path in [*controller.rglob("*.log"), *controller.rglob("*.checkpoint")])
    summary = last["summary"]
    assert (summary["files"], summary["bytes"], summary["valid_bytes"]) == (4, size, size)


@pytest.mark.parametrize("name", ["snapshot", "bootstrap"])
def test_damage_in_a_snapshot_is_an_error(controller: Path, capsys: Captured, name: str) -> None:
    path = snapshot(controller) if name == "snapshot" else controller / "bootstrap.checkpoint"
    path.write_bytes(handmade.flip(WHOLE, 100))
    *findings, last = lines(capsys, "verify", str(controller), code=2)
    assert [(f["rule"], f["file"]) for f in findings] == [("corrupt-bytes", str(path))]
    assert last["summary"]["quarantined_bytes"] > 0


@pytest.mark.parametrize("content", [SNAPSHOT, b"", WHOLE[len(control(0, SNAPSHOT_HEADER)) :]])
def test_a_snapshot_without_its_header_or_footer_is_not_whole(
    controller: Path, capsys: Captured, content: bytes
) -> None:
    snapshot(controller).write_bytes(content)
    *findings, _ = lines(capsys, "verify", str(controller), code=2)
    assert [(f["rule"], f["file"]) for f in findings] == [("snapshot-not-whole", str(snapshot(controller)))]


def test_a_snapshot_cut_in_the_middle_is_damaged_and_not_whole(controller: Path, capsys: Captured) -> None:
    snapshot(controller).write_bytes(WHOLE[:-20])
    *findings, last = lines(capsys, "verify", str(controller), code=2)
    assert [f["rule"] for f in findings] == ["corrupt-bytes", "snapshot-not-whole"]
    assert last["summary"]["bytes"] == last["summary"]["valid_bytes"] + last["summary"]["quarantined_bytes"]


def test_a_snapshot_that_cannot_be_read_is_reported_and_the_rest_continues(controller: Path, capsys: Captured) -> None:
    snapshot(controller).unlink()
    snapshot(controller).symlink_to("nowhere")
    *findings, last = lines(capsys, "verify", str(controller), code=3)
    assert [f["rule"] for f in findings] == ["unreadable"]
    assert last["summary"]["files"] == 3


def test_the_ledger_says_of_each_range_whether_it_is_committed(controller: Path, capsys: Captured) -> None:
    reported = lines(capsys, "ledger", str(controller))
    assert [(t["start_offset"], t["end_offset"], t["state"], t["committed"]) for t in reported] == [
        (0, 4, "present", True),
        (4, 6, "open", False),
    ]
    assert main(["ledger", str(controller)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[0].endswith("  committed")
    assert text[1].endswith("  tentative")


@pytest.mark.parametrize("engine_path", [[], ["--control"]])
def test_dump_shows_both_and_each_line_says_which(controller: Path, capsys: Captured, engine_path: list[str]) -> None:
    reported = lines(capsys, "dump", str(controller), *engine_path)
    assert [(t["offset"], t["committed"]) for t in reported] == [(at, at < COMMITTED) for at in range(LOG_END)]
    assert main(["dump", str(controller)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in text] == ["committed"] * 4 + ["tentative"] * 2


def test_each_batch_says_which_it_is(controller: Path, capsys: Captured) -> None:
    reported = lines(capsys, "dump", "--batches", str(controller))
    assert [(t["base_offset"], t["committed"]) for t in reported] == [(0, True), (2, True), (4, False)]
    assert main(["dump", "--batches", str(controller)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in text] == ["committed", "committed", "tentative"]


def test_dump_in_columns_and_csv_has_a_column_for_it(controller: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["dump", str(controller), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["committed"] for row in rows] == ["true"] * 4 + ["false"] * 2
    for more in ([], ["--limit", "9"]):
        out = tmp_path / f"out{len(more)}.arrow"
        assert main(["dump", str(controller), "--format", "arrow", "-o", str(out), *more]) == 0
        table = pa.ipc.open_stream(out).read_all()
        assert table["committed"].to_pylist() == [True] * 4 + [False] * 2


def test_logs_beside_it_are_dumped_as_ever_and_in_order(root: Path, controller: Path, capsys: Captured) -> None:
    reported = lines(capsys, "dump", str(root), str(controller))
    assert [t["topic"] for t in reported] == ["__cluster_metadata"] * 6 + ["orders"] * 6
    assert all("committed" not in t for t in reported if t["topic"] == "orders")
    assert main(["dump", str(root), str(controller), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["committed"] for row in rows if row["topic"] == "orders"} == {""}


def test_the_latest_offset_is_reported_once_committed_and_once_tentative(controller: Path, capsys: Captured) -> None:
    reported = lines(capsys, "offsets", "--at", "latest", str(controller))
    assert [(t["offset"], t["committed"]) for t in reported] == [(4, True), (6, False)]
    (found,) = lines(capsys, "offsets", "--at", "max-timestamp", str(controller))
    assert found["committed"] == (found["offset"] < COMMITTED)
    (first,) = lines(capsys, "offsets", "--at", "earliest", str(controller))
    assert (first["offset"], first["committed"]) == (0, True)
    assert main(["offsets", "--at", "latest", str(controller)]) == 0
    assert [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()] == ["committed", "tentative"]


def test_without_a_snapshot_everything_is_tentative_and_shown(controller: Path, capsys: Captured) -> None:
    for path in (controller / "__cluster_metadata-0").glob("*.checkpoint"):
        path.unlink()
    reported = lines(capsys, "dump", str(controller))
    assert [t["committed"] for t in reported] == [False] * LOG_END
    reported = lines(capsys, "offsets", "--at", "latest", str(controller))
    assert [(t["offset"], t["committed"]) for t in reported] == [(0, True), (6, False)]


def test_a_chosen_high_watermark_counts_here_too(controller: Path, capsys: Captured) -> None:
    assert [t["offset"] for t in lines(capsys, "dump", str(controller), "--high-watermark", "2")] == [0, 1]
    reported = lines(capsys, "offsets", "--at", "latest", str(controller), "--high-watermark", "log-end")
    assert [(t["offset"], t["committed"]) for t in reported] == [(6, True)]


def test_a_directory_with_other_logs_still_needs_its_high_watermarks(controller: Path, capsys: Captured) -> None:
    other = controller / "orders-0"
    other.mkdir()
    (other / f"{0:020d}.log").write_bytes(made.FIRST)
    *findings, _ = lines(capsys, "verify", str(controller), code=1)
    assert "no-high-watermark" in [f["rule"] for f in findings]


def test_snapshots_are_left_out_where_other_topics_are_chosen(root: Path, controller: Path, capsys: Captured) -> None:
    snapshot(controller).write_bytes(b"x" * 100)
    assert main(["verify", "--topic", "orders", str(root), str(controller)]) in (0, 1)
    assert "checkpoint" not in capsys.readouterr().out


def test_a_snapshot_that_ends_after_the_log_is_no_loss(controller: Path, capsys: Captured) -> None:
    # A replica that fetched a snapshot and stopped: it drops its log at the next start and goes on from the snapshot.
    snapshot(controller).rename(controller / "__cluster_metadata-0" / f"{80:020d}-{1:010d}.checkpoint")
    *findings, _ = lines(capsys, "verify", str(controller))
    assert [finding["rule"] for finding in findings if finding["severity"] != "info"] == []
