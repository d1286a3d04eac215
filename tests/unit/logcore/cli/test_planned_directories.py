"""`retain --plan` and `compact --plan` of a whole log directory: a row a log with its order or the reason why not."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.metadata_log import MetadataLog, created, topic_id, topic_id_text

Captured = pytest.CaptureFixture[str]
T = 1_700_000_000_000
HOUR = 3_600_000


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    (path / "meta.properties").write_text("version=1\nnode.id=2\n")
    return path


def segment(base: int, time_ms: int, nbytes: int = 10, **fields: int) -> bytes:
    """One batch of ten records."""
    rows = [(b"k%d" % n, b"v" * nbytes) for n in range(10)]
    return handmade.simple_batch(base, rows, base_timestamp=time_ms, **fields)


def log(logs: Path, name: str, *segments: bytes, high_watermark: int | None = None, first_dirty: int = 0) -> Path:
    """A partition directory whose segments begin at 0, 10, 20, ...; all of it is committed unless said."""
    path = logs / name
    path.mkdir()
    for number, content in enumerate(segments):
        (path / f"{10 * number:020d}.log").write_bytes(content)
    topic, _, partition = name.partition(".")[0].rpartition("-")
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text(topic)}")
    if path.suffix:
        return path
    end = 10 * len(segments) if high_watermark is None else high_watermark
    for file, value in (("replication-offset-checkpoint", end), ("cleaner-offset-checkpoint", first_dirty)):
        lines = (logs / file).read_text().splitlines()[2:] if (logs / file).exists() else []
        lines.append(f"{topic} {partition} {value}")
        (logs / file).write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    return path


def rows_of(command: str, logs: Path, capsys: Captured, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert main([command, str(logs), "--plan", "--as-of", str(T), *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def reasons(rows: list[dict[str, Any]]) -> dict[str, tuple[int | None, str]]:
    return {row["topic"]: (row["order"], row["reason"]) for row in rows if "topic" in row}


def test_the_log_that_frees_most_bytes_is_first_and_each_other_log_has_its_reason(logs: Path, capsys: Captured) -> None:
    old, young = T - 9 * 24 * HOUR, T - HOUR
    log(logs, "small-0", segment(0, old), segment(10, young))
    log(logs, "large-0", segment(0, old, 100), segment(10, old, 100), segment(20, young))
    log(logs, "young-0", segment(0, young), segment(10, young))
    log(logs, "future-0", segment(0, T + HOUR), segment(10, old))
    log(logs, "lagging-0", segment(0, old), segment(10, old), high_watermark=5)
    log(logs, "empty-0")
    rows = rows_of("retain", logs, capsys, code=1)
    assert [row["topic"] for row in rows if row["order"]] == ["large", "small"]
    large = rows[0]
    assert (large["order"], large["partition"], large["directory"]) == (1, 0, str(logs / "large-0"))
    assert large["deleted_bytes"] == len(segment(0, old, 100)) + len(segment(10, old, 100))
    assert (large["segments"], large["log_start_offset"]) == ({"deleted": 2, "kept": 1}, {"before": 0, "after": 20})
    said = reasons(rows)
    assert said["large"][1].startswith("retention.ms: its latest record is 777600000 ms (9.0 days) old")
    assert said["young"] == (
        None,
        "its latest record is 3600000 ms (1.0 h) old, and retention.ms is 604800000 ms (7.0 days)",
    )
    assert said["future"] == (None, "its latest record is 3600000 ms (1.0 h) later than the clock")
    assert "the high watermark 5" in said["lagging"][1]
    assert said["empty"] == (None, "it has no segment")


def test_the_dirtiest_log_is_first_and_each_other_log_has_its_reason(logs: Path, capsys: Captured) -> None:
    old = T - 9 * 24 * HOUR
    parts = (segment(0, old), segment(10, old), segment(20, old), segment(30, old))
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "attributes": handmade.TRANSACTIONAL}
    log(logs, "two-thirds-0", *parts, first_dirty=10)
    log(logs, "whole-0", *parts)
    log(logs, "clean-0", *parts, first_dirty=20)
    log(logs, "active-0", parts[0])
    log(logs, "open-0", segment(0, old, **producer), *parts[1:])
    log(logs, "young-0", *parts, first_dirty=0)
    config = ("--config", "cleanup.policy=compact")
    rows = rows_of("compact", logs, capsys, *config)
    assert [(row["topic"], row["order"]) for row in rows if row["order"]] == [
        ("whole", 1),
        ("young", 2),
        ("two-thirds", 3),
    ]
    assert rows[0]["reason"] == "1.000 of its bytes are dirty"
    assert (rows[0]["dirty_ratio"], rows[0]["cleanable_bytes"], rows[0]["end_offset"]) == (1.0, 3 * len(parts[0]), 30)
    assert rows[2]["dirty_ratio"] == round(2 / 3, 6)
    said = reasons(rows)
    assert said["clean"] == (None, "0.333 of its bytes are dirty, min.cleanable.dirty.ratio is 0.5")
    assert said["active"][1].endswith("the active segment begins at 0")
    assert said["open"][1].endswith("the last stable offset is 0, a transaction is open there")
    lagging = reasons(rows_of("compact", logs, capsys, *config, "--config", f"min.compaction.lag.ms={10 * 24 * HOUR}"))
    assert lagging["whole"][1].endswith("the dirty part is younger than min.compaction.lag.ms")
    overdue = reasons(rows_of("compact", logs, capsys, *config, "--config", "max.compaction.lag.ms=1"))
    assert overdue["clean"] == (4, "0.333 of its bytes are dirty, and max.compaction.lag.ms has passed")
    deleting = reasons(rows_of("compact", logs, capsys))
    assert set(deleting.values()) == {(None, "cleanup.policy is delete")}


def test_a_log_that_a_broker_would_wipe_says_so(logs: Path, capsys: Captured) -> None:
    log(logs, "orders-0", segment(0, T), segment(10, T), high_watermark=40)
    (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    (row,) = rows_of("retain", logs, capsys, code=1)
    assert row["order"] is None
    assert row["reason"] == "its log start 40 lies after its log end 20: a broker's start drops all of it"


def test_a_log_that_cannot_be_planned_does_not_stop_the_others(logs: Path, capsys: Captured) -> None:
    log(logs, "orders-0", segment(0, T))
    broken = log(logs, "payments-0", segment(0, T))
    (broken / f"{7}.swap").mkdir()
    (broken / f"{10:020d}.log.swap").write_bytes(handmade.flip(segment(10, T), 80))
    rows = rows_of("retain", logs, capsys, code=3)
    said = reasons(rows)
    assert "an interrupted cleaning wrote it to replace other segments, and it is damaged" in said["payments"][1]
    assert "7.0 days" in said["orders"][1]


def assigned_to(topic: str, broker: int) -> tuple[None, bytes]:
    """By PartitionRecord 0: partition 0 with one replica."""
    one = b"\2" + struct.pack(">i", broker)
    ends = struct.pack(">iii", broker, 0, 0) + b"\0"
    return None, b"\1\3\0" + struct.pack(">i", 0) + topic_id(topic) + one + one + b"\1\1" + ends


def test_directories_that_were_set_aside_may_go_only_if_their_log_is_elsewhere_or_not_assigned(
    logs: Path, capsys: Captured
) -> None:
    suffix = "0123456789abcdef0123456789abcdef"
    log(logs, "orders-0", segment(0, T), segment(10, T))
    log(logs, f"gone-0.{suffix}-delete", segment(0, T))
    log(logs, f"orders-0.{suffix}-future", segment(0, T))
    log(logs, f"alone-0.{suffix}-future", segment(0, T))
    log(logs, f"mine-0.{suffix}-stray", segment(0, T))
    log(logs, f"other-0.{suffix}-stray", segment(0, T))
    log(logs, f"unknown-0.{suffix}-stray", segment(0, T))

    def removable(*arguments: str) -> dict[str, tuple[bool, str]]:
        rows = rows_of("retain", logs, capsys, *arguments)
        return {
            Path(r["directory"]).name.split("-")[0]: (r["removable"], r["reason"]) for r in rows if "order" not in r
        }

    said = removable()
    assert said["gone"][0]
    assert said["orders"] == (
        True,
        f"orders-0 was being moved between directories, and {logs / 'orders-0'} has all of it: a move begins again",
    )
    assert not said["alone"][0]
    assert [said[name][0] for name in ("mine", "other", "unknown")] == [False] * 3
    metadata = MetadataLog(logs)
    metadata.say(created("mine"), assigned_to("mine", 2), created("other"), assigned_to("other", 1))
    said = removable("--config-from", "none")
    assert said["mine"] == (False, "__cluster_metadata-0 assigns mine-0 to broker 2: move the directory back")
    assert said["other"] == (True, "__cluster_metadata-0 assigns other-0 to brokers [1], not to 2")
    assert not said["unknown"][0]  # the cluster may be a new one
    metadata.damage(2)
    assert not removable("--config-from", "none")["other"][0]


@pytest.mark.parametrize("lack", ["shorter", "damaged", "another topic", "wiped", "later"])
def test_a_future_directory_stays_if_the_log_beside_it_lacks_any_of_it(logs: Path, capsys: Captured, lack: str) -> None:
    future = log(logs, "orders-0.0123456789abcdef0123456789abcdef-future", segment(0, T) + segment(10, T))
    parts = {"shorter": [segment(0, T)], "damaged": [handmade.flip(segment(0, T), 80) + segment(10, T)]}
    live = log(logs, "orders-0", *parts.get(lack, [segment(0, T), segment(10, T)]))
    if lack == "another topic":
        (live / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text('orders', 3)}")
    if lack == "wiped":
        (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    if lack == "later":
        (live / f"{0:020d}.log").unlink()
    assert main(["retain", str(logs), "--plan", "--as-of", str(T)]) in (0, 1, 2, 3)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["removable"] for row in rows if row["directory"] == str(future)] == [False]


def test_a_deleted_directory_stays_if_the_metadata_still_assigns_its_log_here(logs: Path, capsys: Captured) -> None:
    log(logs, "orders-0.0123456789abcdef0123456789abcdef-delete", segment(0, T))
    MetadataLog(logs).say(created("orders"), assigned_to("orders", 2))
    (logs / "replication-offset-checkpoint").write_text("0\n0\n")
    rows = rows_of("retain", logs, capsys, "--config-from", "none")
    assert [row["removable"] for row in rows if "removable" in row] == [False]


def test_damage_that_the_plan_met_ends_with_two(logs: Path, capsys: Captured) -> None:
    log(logs, "orders-0", handmade.flip(segment(0, T), 80), segment(10, T), segment(20, T))
    rows_of("compact", logs, capsys, "--config", "cleanup.policy=compact", code=2)
    rows_of("retain", logs, capsys, code=2)


def test_a_log_directory_may_have_the_name_of_a_partition(tmp_path: Path, capsys: Captured) -> None:
    logs = tmp_path / "kafka-0"
    logs.mkdir()
    log(logs, "orders-0", segment(0, T))
    log(logs, "orders-1", segment(0, T))
    assert [row["partition"] for row in rows_of("retain", logs, capsys)] == [0, 1]


def test_a_whole_directory_is_only_planned_and_takes_no_option_of_one_log(logs: Path, capsys: Captured) -> None:
    log(logs, "orders-0", segment(0, T))
    for arguments in (["--out", str(logs.parent / "new")], ["--plan", "--log-start-offset", "3"]):
        assert main(["retain", str(logs), *arguments]) == 64
    assert main(["retain", str(logs / "orders-0"), "--plan", "--topic", "orders"]) == 64
    assert "name one log" in capsys.readouterr().err
    assert rows_of("retain", logs, capsys, "--topic", "none*", code=3) == []


ROOT_FILES = [
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
]


@pytest.mark.parametrize("name", ROOT_FILES)
@pytest.mark.parametrize("injury", ["zeroed", "cut"])
@pytest.mark.parametrize("command", ["retain", "compact"])
def test_a_plan_says_that_a_checkpoint_cannot_be_used(
    command: str, injury: str, name: str, logs: Path, capsys: Captured
) -> None:
    log(logs, "orders-0", segment(0, T), segment(10, T))
    content = f"0\n2\norders 0 {20 if name.startswith('rep') else 0}\nother 0 0\n".encode()
    (logs / name).write_bytes(bytes(len(content)) if injury == "zeroed" else content[:-10])
    assert main(["verify", str(logs)]) == 1
    capsys.readouterr()
    assert main([command, str(logs), "--plan", "--as-of", str(T)]) == 1
    assert "warning broken-root-file: " in capsys.readouterr().err


def lose(path: Path, what: str) -> None:
    """Damage a log of four segments of ten offsets as a person or a power cut does."""
    first, second, _, last = sorted(path.glob("*.log"))
    match what:
        case "first":
            first.unlink()
        case "middle":
            second.unlink()
        case "zeros":
            last.write_bytes(bytes(last.stat().st_size))
        case "cut":
            last.write_bytes(last.read_bytes()[:100])
        case "hole":
            second.write_bytes(handmade.simple_batch(15, [(b"k", b"v")] * 5, base_timestamp=T))


@pytest.mark.parametrize("what", ["first", "middle", "zeros", "cut", "hole"])
@pytest.mark.parametrize("command", ["retain", "compact"])
def test_maintenance_says_that_offsets_are_missing(
    command: str, what: str, logs: Path, capsys: Captured, tmp_path: Path
) -> None:
    orders = log(logs, "orders-0", *(segment(10 * number, T) for number in range(4)))
    (logs / "log-start-offset-checkpoint").write_text("0\n0\n")
    (logs / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    (orders / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    lose(orders, what)
    lost = "high-watermark-beyond-log-end" if what in ("zeros", "cut") else "missing-offsets"
    assert main(["verify", str(logs)]) == 2
    assert f"error {lost}: " in capsys.readouterr().out
    assert main([command, str(orders), "--out", str(tmp_path / "new" / "orders-0"), "--as-of", str(T)]) == 2
    assert capsys.readouterr().err.count(f"error {lost}: ") == 1
    if what != "hole":  # the plan of a whole log directory reads only the ends of segments
        assert main([command, str(logs), "--plan", "--as-of", str(T)]) == 2
        assert capsys.readouterr().err.count(f"error {lost}: ") == 1


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_gaps_that_cleaning_left_are_no_loss_for_maintenance(
    command: str, logs: Path, capsys: Captured, tmp_path: Path
) -> None:
    orders = log(logs, "orders-0", *(segment(10 * number, T) for number in range(4)), first_dirty=30)
    lose(orders, "hole")
    (logs / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    new = str(tmp_path / "new" / "orders-0")
    assert main([command, str(orders), "--out", new, "--as-of", str(T)]) == 0, capsys.readouterr().err
    (logs / "cleaner-offset-checkpoint").unlink()
    stated = ["--config", "cleanup.policy=compact", "--plan"]
    assert main([command, str(orders), "--as-of", str(T), *stated]) == 0, capsys.readouterr().err
    assert main([command, str(logs), "--as-of", str(T), *stated]) == 0, capsys.readouterr().err
