"""`retain`, `compact`, `recover` and `reindex` take settings that are not typed from the metadata beside the source."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.metadata_log import MetadataLog, created, removed, setting, topic_id_text

Captured = pytest.CaptureFixture[str]
T = 1_700_000_000_000
HOUR = 3_600_000


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """`orders-0`: segments at 0, 10 and 20 with ten records of three keys each, an hour apart; the last ones at T."""
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True)
    for number, base in enumerate((0, 10, 20)):
        rows = [(b"k%d" % (n % 3), b"v" * 50) for n in range(10)]
        batches = handmade.simple_batch(base, rows[:5], base_timestamp=T - (2 - number) * HOUR)
        batches += handmade.simple_batch(base + 5, rows[5:], base_timestamp=T - (2 - number) * HOUR)
        (path / f"{base:020d}.log").write_bytes(batches)
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text('orders')}")
    (path.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    return path


@pytest.fixture
def metadata(orders: Path) -> MetadataLog:
    log = MetadataLog(orders.parent)
    log.say(created("orders"), created("other"), time_ms=T - 10 * HOUR)
    return log


def planned(command: str, orders: Path, capsys: Captured, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([command, str(orders), "--plan", "--as-of", str(T), *arguments]) == code
    return json.loads(capsys.readouterr().out)


def gone(orders: Path, out: Path, *arguments: str, code: int = 0) -> set[int]:
    """Base offsets of the segments that `retain` leaves out."""
    assert main(["retain", str(orders), "--out", str(out), "--as-of", str(T), *arguments]) == code
    left = {int(path.stem) for path in out.glob("*.log")}
    return {0, 10, 20} - left


def test_retention_of_the_metadata_decides_and_the_output_names_its_record(
    orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    metadata.say(setting("orders", "retention.ms", str(HOUR)), setting("other", "retention.ms", "1"))
    assert gone(orders, tmp_path / "new") == {0}
    assert f"retention.ms is {HOUR}: __cluster_metadata-0, offset 2, tentative\n" in capsys.readouterr().out
    settings = planned("retain", orders, capsys)["settings"]
    assert settings["retention.ms"] == {
        "value": HOUR,
        "from": "__cluster_metadata-0",
        "offset": 2,
        "committed": False,
    }
    assert settings["retention.bytes"] == {"value": -1, "from": "default"}
    assert settings["cleanup.policy"] == {"value": "delete", "from": "default"}


def test_a_typed_setting_wins(orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured) -> None:
    metadata.say(setting("orders", "retention.ms", "0"), setting("orders", "retention.bytes", "1"))
    typed = ("--config", "retention.ms=-1", "--config", "retention.bytes=-1")
    assert gone(orders, tmp_path / "new", *typed) == set()
    assert "__cluster_metadata" not in capsys.readouterr().out
    settings = planned("retain", orders, capsys, *typed)["settings"]
    assert settings["retention.ms"] == {"value": -1, "from": "--config"}


def test_a_topic_that_is_only_compacted_loses_no_segment(orders: Path, metadata: MetadataLog, tmp_path: Path) -> None:
    metadata.say(setting("orders", "retention.ms", "0"), setting("orders", "cleanup.policy", "compact"))
    assert gone(orders, tmp_path / "new") == set()


def test_what_was_said_after_the_clock_does_not_count(orders: Path, metadata: MetadataLog, tmp_path: Path) -> None:
    metadata.say(setting("orders", "retention.ms", str(HOUR)), time_ms=T)
    metadata.say(setting("orders", "retention.ms", "0"), time_ms=T + 1)
    assert gone(orders, tmp_path / "new") == {0}


def test_without_metadata_or_a_setting_of_the_topic_kafkas_defaults_count(
    orders: Path, tmp_path: Path, capsys: Captured
) -> None:
    without = planned("retain", orders, capsys)
    assert {each["from"] for each in without["settings"].values()} == {"default"}
    MetadataLog(orders.parent).say(created("orders"), setting("orders", "compression.type", "zstd"))
    assert planned("retain", orders, capsys) == without
    assert without["settings"]["retention.ms"]["value"] == 7 * 24 * HOUR


def test_the_metadata_can_be_left_out(orders: Path, metadata: MetadataLog, tmp_path: Path) -> None:
    metadata.say(setting("orders", "retention.ms", "0"))
    metadata.damage(1)
    assert gone(orders, tmp_path / "new", "--config-from", "none") == set()


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_commands_that_remove_refuse_settings_in_doubt(
    command: str, orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    metadata.say(setting("orders", "retention.ms", "0"), setting("orders", "retention.ms", "-1"))
    metadata.damage(3)
    assert main([command, str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    error = capsys.readouterr().err
    assert "what it says of settings is in doubt" in error
    assert "from offset 3 on" in error
    assert "--config-from none" in error
    assert not (tmp_path / "new").exists()


def test_who_types_every_setting_that_the_command_uses_needs_no_metadata(
    orders: Path, metadata: MetadataLog, tmp_path: Path
) -> None:
    metadata.damage(0)
    typed = [
        part
        for each in (
            "cleanup.policy=delete",
            f"retention.ms={HOUR}",
            "retention.bytes=-1",
            "remote.storage.enable=false",
            "remote.log.copy.disable=false",
            "local.retention.ms=-2",
            "local.retention.bytes=-2",
        )
        for part in ("--config", each)
    ]
    assert gone(orders, tmp_path / "new", *typed) == {0}


@pytest.mark.parametrize("several", [False, True])
def test_recovery_goes_on_without_settings_in_doubt_and_says_so(
    several: bool, orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    metadata.say(setting("orders", "index.interval.bytes", "0"))
    metadata.damage(2)
    source = ["recover", str(orders.parent), "--topic", "orders"] if several else ["recover", str(orders)]
    assert main([*source, "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("warning ") == 1
    assert "in doubt" in captured.err
    assert list((tmp_path / "new").rglob("*.index"))


@pytest.mark.parametrize("command", ["recover", "reindex"])
@pytest.mark.parametrize("several", [False, True])
def test_indexes_have_the_interval_of_the_metadata(
    command: str, several: bool, orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    metadata.say(setting("orders", "index.interval.bytes", "0"))
    source = [command, str(orders.parent), "--topic", "orders"] if several else [command, str(orders)]
    assert main([*source, "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 0
    assert "index.interval.bytes is 0: __cluster_metadata-0, offset 2, tentative\n" in capsys.readouterr().out
    (index,) = (tmp_path / "new").rglob(f"{0:020d}.index")
    size = len((orders / f"{0:020d}.log").read_bytes()) // 2
    assert index.read_bytes()[:8] == struct.pack(">ii", 9, size)


def test_cleaning_has_the_segment_size_of_the_metadata(
    orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    def segments(out: str, *arguments: str) -> int:
        assert main(["compact", str(orders), "--out", str(tmp_path / out), "--as-of", str(T), *arguments]) == 0
        return len(list((tmp_path / out).glob("*.log")))

    assert segments("joined") == 2
    metadata.say(setting("orders", "segment.bytes", "14"))
    assert segments("apart") == 3
    assert segments("typed", "--config", "segment.bytes=1000000") == 2
    assert "segment.bytes is 14: __cluster_metadata-0, offset 2" in capsys.readouterr().out


def test_the_metadata_of_another_topic_with_the_name_is_in_doubt(
    orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    (orders / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text('orders', 9)}")
    assert main(["retain", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "The topic was recreated" in capsys.readouterr().err


def test_a_value_that_kafka_would_refuse_is_in_doubt(
    orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    metadata.say(setting("orders", "retention.ms", "soon"), setting("orders", "segment.ms", "later"))
    assert main(["retain", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "retention.ms of orders, offset 2" in capsys.readouterr().err
    assert gone(orders, tmp_path / "typed", "--config", f"retention.ms={HOUR}") == {0}


def test_metadata_that_cannot_be_read_is_in_doubt(orders: Path, tmp_path: Path, capsys: Captured) -> None:
    (orders.parent / "__cluster_metadata-0").write_text("a file")
    assert main(["retain", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "in doubt" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["retain", "compact"])
@pytest.mark.parametrize("why", ["only another topic", "named after the clock", "removed"])
def test_a_topic_that_the_metadata_does_not_name_at_the_clock_is_in_doubt(
    command: str, why: str, orders: Path, tmp_path: Path, capsys: Captured
) -> None:
    log = MetadataLog(orders.parent)
    log.say(created("other"), time_ms=T)
    if why == "named after the clock":
        log.say(created("orders"), setting("orders", "cleanup.policy", "compact"), time_ms=T + 1000)
    if why == "removed":
        log.say(created("orders"), setting("orders", "retention.ms", "-1"), removed("orders"), time_ms=T)
    assert main([command, str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "does not name the topic orders" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_recovery_of_a_topic_that_the_metadata_does_not_name_goes_on_and_says_so(
    orders: Path, tmp_path: Path, capsys: Captured
) -> None:
    MetadataLog(orders.parent).say(created("other"))
    assert main(["recover", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 1
    assert "does not name the topic orders" in capsys.readouterr().err
    assert list((tmp_path / "new").glob("*.log"))


def test_the_metadata_log_itself_needs_no_settings_from_the_metadata(
    metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    main(["recover", str(metadata.path), "--out", str(tmp_path / "new"), "--as-of", str(T)])
    assert "settings is in doubt" not in capsys.readouterr().err


def test_settings_are_in_doubt_if_a_segment_of_the_metadata_cannot_be_opened(
    orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    metadata.say(setting("orders", "retention.ms", "0"))
    (metadata.path / f"{3:020d}.log").symlink_to(tmp_path / "nothing")
    assert main(["retain", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    error = capsys.readouterr().err
    assert "from offset 3 on" in error
    assert f"{3:020d}.log" in error


def test_a_directory_whose_partition_metadata_cannot_be_used_is_in_doubt(
    orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    (orders / "partition.metadata").write_text("version: 0\ntopic_id: !!broken")
    assert main(["retain", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "partition.metadata of orders-0 cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("is_older", [True, False], ids=["older-topic-before-the-snapshot", "only-topic"])
def test_a_log_without_a_topic_id_may_be_of_another_topic_and_is_in_doubt(
    is_older: bool, orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    """Records of a topic that was deleted before the latest snapshot are in no file."""
    (orders / "partition.metadata").unlink()
    metadata.say(setting("orders", "retention.ms", str(HOUR)))
    if is_older:
        metadata.segment.unlink()
        metadata.snapshot(9, created("orders", 1), setting("orders", "retention.ms", "0"))
        rest = handmade.simple_batch(9, [created("another")], leader_epoch=1, base_timestamp=1000)
        (metadata.path / f"{9:020d}.log").write_bytes(rest)
    assert main(["retain", str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "id of the log's topic is not known" in capsys.readouterr().err
    (orders / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text('orders', int(is_older))}")
    assert gone(orders, tmp_path / "known") == ({0, 10} if is_older else {0})


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_a_setting_that_follows_a_record_of_a_clock_that_was_ahead_is_not_left_out(
    command: str, orders: Path, metadata: MetadataLog, tmp_path: Path, capsys: Captured
) -> None:
    """Each controller has a clock. The state at a time ends at the first later record."""
    metadata.say(setting("orders", "retention.ms", "0"), setting("orders", "cleanup.policy", "compact,delete"))
    metadata.say(setting("other", "retention.ms", "5"), time_ms=T + 60_000)
    metadata.say(setting("orders", "retention.ms", "-1"), time_ms=T - 1000)
    assert main([command, str(orders), "--out", str(tmp_path / "new"), "--as-of", str(T)]) == 3
    assert "offset 5" in capsys.readouterr().err
