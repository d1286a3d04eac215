"""`retain` writes a partition directory as a broker's retention leaves it, or says why it does not."""

import json
import os
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade

Captured = pytest.CaptureFixture[str]
T = 1_700_000_000_000
HOUR = 3_600_000


def batch(offset: int, timestamp: int, count: int = 10) -> bytes:
    return handmade.batch(
        [handmade.record(n, b"k", b"v") for n in range(count)],
        base_offset=offset,
        base_timestamp=timestamp,
        last_offset_delta=count - 1,
        leader_epoch=0,
    )


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """`orders-0`: segments at 0, 10 and 20 with ten records each, an hour apart; the last ones at T. High watermark
    30."""
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True)
    for number, base in enumerate((0, 10, 20)):
        timestamp = T - (2 - number) * HOUR
        name = f"{base:020d}"
        (path / f"{name}.log").write_bytes(batch(base, timestamp))
        (path / f"{name}.index").write_bytes(b"")
        (path / f"{name}.timeindex").write_bytes(struct.pack(">qi", timestamp, 9))
        if base:
            (path / f"{name}.snapshot").write_bytes(bytes.fromhex("000148674bc700000000"))
    (path / f"{30:020d}.snapshot").write_bytes(bytes.fromhex("000148674bc700000000"))
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (path / "partition.metadata").write_text("version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA")
    for number, file in enumerate(sorted(path.iterdir())):
        os.utime(file, ns=(10**18, 10**18 + number * 1_000_000_007))
    root = path.parent
    (root / "replication-offset-checkpoint").write_text("0\n2\nother 3 7\norders 0 30\n")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
    return path


def retained(orders: Path, out: Path, *arguments: str, code: int = 0) -> list[str]:
    assert main(["retain", str(orders), "--out", str(out), "--as-of", str(T), *arguments]) == code
    return sorted(path.name for path in out.iterdir())


def planned(orders: Path, capsys: Captured, *arguments: str, code: int = 0) -> dict:
    assert main(["retain", str(orders), "--plan", "--as-of", str(T), *arguments]) == code
    return json.loads(capsys.readouterr().out)


def of_base(names: list[str], base: int) -> list[str]:
    return [name.partition(".")[2] for name in names if name.startswith(f"{base:020d}")]


def test_a_segment_goes_with_its_indexes_and_snapshot_and_the_rest_is_kept_with_its_times(orders, tmp_path) -> None:
    out = tmp_path / "new" / "orders-0"
    out.parent.mkdir()
    names = retained(orders, out, "--config", f"retention.ms={HOUR}")
    assert of_base(names, 0) == []
    assert of_base(names, 10) == ["index", "log", "snapshot", "timeindex"]
    assert of_base(names, 20) == ["index", "log", "snapshot", "timeindex"]
    assert of_base(names, 30) == ["snapshot"]
    assert (out / "leader-epoch-checkpoint").read_text() == "0\n1\n0 10\n"
    for name in names:
        if name != "leader-epoch-checkpoint":
            assert (out / name).read_bytes() == (orders / name).read_bytes()
            assert (out / name).stat().st_mtime_ns == (orders / name).stat().st_mtime_ns
    assert len(list(orders.iterdir())) == 14


def test_a_directory_of_which_everything_goes_begins_again_at_its_end(orders, tmp_path) -> None:
    out = tmp_path / "new" / "orders-0"
    names = retained(orders, out, "--config", "retention.bytes=0", "--checkpoints-out", str(out.parent))
    assert [name for name in names if name[0] == "0"] == [
        f"{30:020d}.{suffix}" for suffix in ("index", "log", "snapshot", "timeindex")
    ]
    assert {suffix: (out / f"{30:020d}.{suffix}").stat().st_size for suffix in ("index", "log", "timeindex")} == {
        "index": 0,
        "log": 0,
        "timeindex": 0,
    }
    assert (out / f"{30:020d}.log").stat().st_mtime_ns == T * 1_000_000
    assert (out / "leader-epoch-checkpoint").read_text() == "0\n1\n0 30\n"
    assert (out.parent / "replication-offset-checkpoint").read_text() == "0\n2\norders 0 30\nother 3 7\n"
    assert (out.parent / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 30\n"
    assert not (out.parent / "log-start-offset-checkpoint").exists()


def test_the_plan_says_of_each_segment_what_becomes_of_it_and_why_and_nothing_is_written(
    orders, tmp_path, capsys
) -> None:
    before = sorted(tmp_path.rglob("*"))
    plan = planned(orders, capsys, "--config", f"retention.ms={HOUR}", "--compat", "4.0")
    assert sorted(tmp_path.rglob("*")) == before
    assert [(s["base_offset"], s["action"], s["rule"]) for s in plan["segments"]] == [
        (0, "delete", "retention.ms"),
        (10, "keep", None),
        (20, "keep", None),
    ]
    assert plan["segments"][0]["why"] == [
        "its latest record is 7200000 ms (2.0 h) old, and retention.ms is 3600000 ms (1.0 h)"
    ]
    assert plan["segments"][1]["why"][-1] == (
        "its latest record is 3600000 ms (1.0 h) old, and retention.ms is 3600000 ms (1.0 h)"
    )
    assert plan["segments"][2]["why"] == ["the segment of base offset 10 stays, and so do all after it"]
    assert plan["log_start_offset"] == {"before": 0, "after": 10}
    assert (plan["compat"], plan["as_of_ms"], plan["high_watermark"]) == ("4.0", T, 30)
    assert plan["removed"] == {
        f"{0:020d}.{suffix}": "its segment is deleted by retention.ms" for suffix in ("index", "log", "timeindex")
    }


def test_delete_records_moves_the_log_start_offset_also_into_a_segment(orders, tmp_path, capsys) -> None:
    out = tmp_path / "new" / "orders-0"
    arguments = ("--config", "retention.ms=-1", "--delete-records-before", "14", "--checkpoints-out", str(out.parent))
    names = retained(orders, out, *arguments)
    assert of_base(names, 0) == []
    assert of_base(names, 10) == ["index", "log", "snapshot", "timeindex"]
    assert (out.parent / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 14\n"
    assert (out / "leader-epoch-checkpoint").read_text() == "0\n1\n0 14\n"
    capsys.readouterr()
    plan = planned(orders, capsys, "--config", "retention.ms=-1", "--delete-records-before", "-1")
    assert plan["log_start_offset"] == {"before": 0, "after": 30}
    assert [s["base_offset"] for s in plan["segments"] if s["action"] == "keep"] == [20]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--delete-records-before", "31"),
        ("--delete-records-before", "21", "--high-watermark", "20"),
        ("--delete-records-before", "10", "--config", "cleanup.policy=compact"),
        ("--log-start-offset", "31"),
    ],
)
def test_what_a_broker_refuses_is_refused_and_nothing_is_written(orders, tmp_path, capsys, arguments) -> None:
    out = tmp_path / "new-0"
    assert main(["retain", str(orders), "--out", str(out), "--as-of", str(T), *arguments]) == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.out == ""
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--plan", "--config", "retention.ms=soon"),
        ("--plan", "--config", "retention=1"),
        ("--plan", "--delete-records-before", "-2"),
        ("--plan", "--compat", "2.8"),
    ],
)
def test_wrong_usage_is_64(orders, arguments) -> None:
    assert main(["retain", str(orders), *arguments]) == 64


def test_an_override_is_stronger_than_the_root_files(orders, capsys) -> None:
    everything = ("--config", "retention.bytes=0")
    plan = planned(orders, capsys, *everything, "--high-watermark", "20")
    assert [s["action"] for s in plan["segments"]] == ["delete", "delete", "keep"]
    plan = planned(orders, capsys, "--config", "retention.ms=-1", "--log-start-offset", "20")
    assert [s["action"] for s in plan["segments"]] == ["delete", "delete", "keep"]


def test_without_a_high_watermark_the_log_end_is_used_with_a_warning(orders, capsys) -> None:
    (orders.parent / "replication-offset-checkpoint").unlink()
    plan = planned(orders, capsys, "--config", "retention.bytes=0", code=1)
    assert (plan["high_watermark"], plan["high_watermark_is_assumed"]) == (30, True)
    assert plan["checkpoints"]["replication-offset-checkpoint"] is None
    planned(orders, capsys, "--config", "retention.bytes=0", "--high-watermark", "30", code=0)


def test_a_time_index_that_misleads_a_broker_is_a_warning_that_says_what_it_would_do(orders, capsys) -> None:
    (orders / f"{10:020d}.timeindex").write_bytes(bytes(24))
    assert main(["retain", str(orders), "--plan", "--as-of", str(T), "--config", f"retention.ms={HOUR}"]) == 1
    captured = capsys.readouterr()
    assert f"its latest record is {T} ms ({T / 86_400_000:,.1f} days) old, and would delete it" in captured.err
    assert [s["action"] for s in json.loads(captured.out)["segments"]] == ["delete", "keep", "keep"]


def test_damage_is_answered_with_2_and_keeps_what_it_hides(orders, tmp_path, capsys) -> None:
    path = orders / f"{0:020d}.log"
    path.write_bytes(handmade.flip(path.read_bytes(), 70))
    (orders / f"{0:020d}.timeindex").unlink()
    out = tmp_path / "new" / "orders-0"
    out.parent.mkdir()
    names = retained(orders, out, "--config", f"retention.ms={HOUR}", code=2)
    assert of_base(names, 0) == ["index", "log"]
    assert "offset 0, cannot be trusted (CRC)" in capsys.readouterr().err


def test_a_directory_that_is_there_already_is_left_alone(orders, tmp_path, capsys) -> None:
    out = tmp_path / "there-0"
    out.mkdir()
    (out / "mine").touch()
    assert main(["retain", str(orders), "--out", str(out), "--as-of", str(T)]) == 3
    assert [path.name for path in out.iterdir()] == ["mine"]
    assert "exists already" in capsys.readouterr().err
