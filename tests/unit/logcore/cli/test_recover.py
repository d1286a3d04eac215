"""`recover` writes what a broker's start would leave, and says what is lost by that; `--salvage` loses nothing good.

Every expectation is packed by hand.
"""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]
AS_OF = "1700000001000"


def name(base: int, suffix: str = ".log") -> str:
    return f"{base:020d}{suffix}"


def recovered(root: Path, out: Path, *arguments: str, code: int = 0) -> dict[str, bytes]:
    assert main(["recover", str(root / "orders-0"), "--out", str(out), "--as-of", AS_OF, *arguments]) == code
    return {path.name: path.read_bytes() for path in out.iterdir()}


def planned(root: Path, capsys: Captured, *arguments: str, code: int = 0) -> dict:
    assert main(["recover", str(root / "orders-0"), "--plan", "--as-of", AS_OF, *arguments]) == code
    return json.loads(capsys.readouterr().out)


def snapshot(*entries: tuple[int, int, int, int, int, int, int, int]) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


def test_a_whole_log_gets_all_its_side_files_and_keeps_its_segments(root: Path, tmp_path: Path) -> None:
    os.utime(root / "orders-0" / name(0), ns=(1, 1_600_000_000_123_456_789))
    files = recovered(root, tmp_path / "new" / "orders-0")
    aborted = (9, 0, 0, 3, 0, 1_700_000_000_200, 0, -1)
    assert files == {
        name(0): made.SEALED,
        name(0, ".index"): b"",
        name(0, ".timeindex"): struct.pack(">qi", 1_700_000_000_200, 4),
        name(0, ".txnindex"): struct.pack(">hqqqq", 0, 9, 3, 4, 5),
        name(5): made.ACTIVE,
        name(5, ".index"): b"",
        name(5, ".timeindex"): struct.pack(">qi", 1_700_000_000_500, 2),
        name(5, ".snapshot"): snapshot(aborted),
        name(8, ".snapshot"): snapshot((9, 0, 1, 5, 0, 1_700_000_000_400, 0, -1)),
        "leader-epoch-checkpoint": b"0\n1\n3 0\n",
        "partition.metadata": f"version: 0\ntopic_id: {made.TOPIC_ID}".encode(),
    }
    copied = tmp_path / "new" / "orders-0" / name(0)
    assert copied.stat().st_mtime_ns == 1_600_000_000_123_456_789


def test_the_same_without_any_file_but_segments(root: Path, tmp_path: Path) -> None:
    whole = recovered(root, tmp_path / "whole")
    for path in (root / "orders-0").iterdir():
        if not path.name.endswith(".log"):
            path.unlink()
    bare = recovered(root, tmp_path / "bare", code=1)
    assert {file: content for file, content in bare.items() if file in whole} == {
        file: content for file, content in whole.items() if file != "partition.metadata"
    }


def test_index_entries_follow_the_interval(root: Path, tmp_path: Path) -> None:
    files = recovered(root, tmp_path / "new", "--config", "index.interval.bytes=0")
    first, second = len(made.FIRST), len(made.FIRST) + len(made.ABORTED)
    assert files[name(0, ".index")] == struct.pack(">iiii", 3, first, 4, second)
    times = struct.pack(">qiqi", 1_700_000_000_100, 3, 1_700_000_000_200, 4)
    assert files[name(0, ".timeindex")] == times


def test_a_torn_tail_is_cut_with_a_warning(root: Path, tmp_path: Path, capsys: Captured) -> None:
    log = root / "orders-0" / name(5)
    log.write_bytes(made.ACTIVE + made.LAST[:40])
    files = recovered(root, tmp_path / "new", code=1)
    assert files[name(5)] == made.ACTIVE
    assert "warning torn-tail" in capsys.readouterr().out
    plan = planned(root, capsys, code=1)
    assert [plan[what] for what in ("command", "topic", "partition", "compat", "as_of_ms")] == [
        "recover",
        "orders",
        0,
        "4.4",
        int(AS_OF),
    ]
    assert plan["files"][name(5)] == {"cut": name(5), "size": len(made.ACTIVE), "modified_ms": int(AS_OF)}
    assert plan["losses"][0]["nbytes"] == 40


def flipped_in_first(root: Path) -> None:
    (root / "orders-0" / name(0)).write_bytes(handmade.flip(made.SEALED, len(made.FIRST) + 70))


def test_everything_after_damage_is_dropped_and_reported(root: Path, tmp_path: Path, capsys: Captured) -> None:
    flipped_in_first(root)
    files = recovered(root, tmp_path / "new", code=2)
    assert sorted(file for file in files if file.endswith(".log")) == [name(0)]
    assert files[name(0)] == made.FIRST
    out = capsys.readouterr().out
    assert "error cut" in out
    assert "error dropped-segment" in out
    plan = planned(root, capsys, code=2)
    assert plan["log_end_offset"] == 3
    assert name(5) in plan["dropped"]


def test_salvage_keeps_good_batches_after_the_damage(root: Path, tmp_path: Path, capsys: Captured) -> None:
    flipped_in_first(root)
    files = recovered(root, tmp_path / "new", "--salvage", code=2)
    assert files[name(0)] == made.FIRST + made.ABORT
    assert files[name(5)] == made.ACTIVE
    assert name(0, ".txnindex") not in files, "the data of the transaction is lost: nothing was aborted"
    assert files[name(8, ".snapshot")] == snapshot((9, 0, 1, 5, 0, 1_700_000_000_400, 0, -1))
    assert f"position {len(made.FIRST)}" in capsys.readouterr().out


def test_below_the_recovery_point_damage_stays_and_is_reported(root: Path, tmp_path: Path, capsys: Captured) -> None:
    orders = root / "orders-0"
    (orders / name(0)).write_bytes(handmade.flip(made.SEALED, 80))
    (orders / name(5, ".index")).touch()
    plan = planned(root, capsys, "--recovery-point", "6", code=2)
    assert plan["files"][name(0)] == {"keep": name(0)}
    assert [loss["kind"] for loss in plan["losses"]].count("damage-kept") == 1
    assert plan["root"]["recovery_point"] == 6


def test_what_a_broker_does_not_start_with_is_refused(root: Path, tmp_path: Path, capsys: Captured) -> None:
    (root / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\nfive 0\n")
    out = tmp_path / "new"
    assert main(["recover", str(root / "orders-0"), "--out", str(out)]) == 3
    captured = capsys.readouterr()
    assert "would not start" in captured.err
    assert "leader-epoch-checkpoint" in captured.err
    assert not out.exists()
    files = recovered(root, out, "--salvage", code=1)
    assert files["leader-epoch-checkpoint"] == b"0\n1\n3 0\n"


def test_a_checkpoint_that_cannot_be_read_is_refused_unless_its_line_is_given(
    root: Path, tmp_path: Path, capsys: Captured
) -> None:
    (root / "recovery-point-offset-checkpoint").write_text("junk")
    assert main(["recover", str(root / "orders-0"), "--out", str(tmp_path / "new")]) == 3
    assert "recovery-point-offset-checkpoint" in capsys.readouterr().err
    assert len(recovered(root, tmp_path / "new", "--recovery-point", "0", code=1)) == 11


def test_root_files_are_written_when_requested(root: Path, tmp_path: Path) -> None:
    """And have no line of a log that is not there."""
    (root / "replication-offset-checkpoint").write_text("0\n2\norders 0 8\nother 3 7\n")
    recovered(root, tmp_path / "new" / "orders-0", "--recovery-point", "99", "--checkpoints-out", str(tmp_path / "new"))
    assert (tmp_path / "new" / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 8\n"
    assert (tmp_path / "new" / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 8\n"


def test_without_out_or_plan_the_usage_is_wrong(root: Path) -> None:
    assert main(["recover", str(root / "orders-0")]) == 64


@pytest.mark.parametrize("is_last", [True, False])
def test_salvage_gives_a_compressed_message_that_says_offset_0_the_offset_of_its_last_message(
    root: Path, tmp_path: Path, is_last: bool, capsys: Captured
) -> None:
    # Its own offset is not under the checksum; those of the messages inside are.
    sound = handmade.wrapper_v0([5, 6])
    behind = b"" if is_last else handmade.message_v0(7, b"k", b"v")
    (root / "orders-0" / name(5)).write_bytes(bytes(8) + sound[8:] + behind)
    end = str(7 if is_last else 8)
    files = recovered(root, tmp_path / "new", "--salvage", "--high-watermark", end, code=1)
    assert files[name(5)] == sound + behind
    assert "warning offset-repaired" in capsys.readouterr().out


def test_salvage_of_the_sample_with_a_wrong_length_field_loses_no_offset(
    sample: Any, tmp_path: Path, capsys: Captured
) -> None:
    source = sample("damaged").logdir / "d-flip-len-0"
    assert main(["recover", str(source), "--salvage", "--out", str(tmp_path / "new")]) == 1
    assert "warning length-repaired" in capsys.readouterr().out
    content = (source / name(29)).read_bytes()
    length = struct.pack(">i", 78 - 12)
    assert (tmp_path / "new" / name(29)).read_bytes() == content[:476] + length + content[480:]
