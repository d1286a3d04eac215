"""`retain` of a topic in tiered storage: local segments go only if the metadata says that remote storage has them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.broker_directory import TOPIC_ID
from tests.metadata_log import MetadataLog, compact, setting
from tests.tiered_log import DELETE_FINISHED, DELETE_STARTED, FINISHED, STARTED, TieredLog

Captured = pytest.CaptureFixture[str]
T = 1_700_000_000_000
"""The time of all records."""
TIERED = ("--config", "remote.storage.enable=true")
DUE = (*TIERED, "--config", "local.retention.ms=0")


@pytest.fixture
def log(tmp_path: Path) -> TieredLog:
    """Offsets 0 to 19 in batches of five, of one leader."""
    log = TieredLog(tmp_path)
    log.append(5, 5, 5, 5)
    return log


def plan(log: TieredLog, capsys: Captured, *arguments: str, code: int = 0) -> dict[str, Any]:
    source = str(log.logs / "orders-0")
    assert main(["retain", source, "--plan", "--as-of", str(T + 1000), *arguments]) == code
    return json.loads(capsys.readouterr().out)


def gone(made: dict[str, Any]) -> list[int]:
    return [each["base_offset"] for each in made["segments"] if each["action"] == "delete"]


def test_a_local_segment_goes_if_remote_storage_has_all_of_it_and_the_log_start_stays(
    log: TieredLog, tmp_path: Path, capsys: Captured
) -> None:
    log.copy(0, 5)
    log.copy(5, 15)
    log.write(0, bases=(5, 15))
    out = tmp_path / "new" / "orders-0"
    source = log.logs / "orders-0"
    options = ("--as-of", str(T + 1000), "--checkpoints-out", str(out.parent))
    assert main(["retain", str(source), "--out", str(out), *options, *DUE]) == 0
    assert sorted(path.name for path in out.glob("*.log")) == [f"{15:020d}.log", f"{20:020d}.log"]
    assert (out.parent / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 0\n"
    assert (out / "leader-epoch-checkpoint").read_bytes() == (source / "leader-epoch-checkpoint").read_bytes()
    assert "log start offset 0 -> 0" in capsys.readouterr().out


def test_what_is_left_is_a_log_that_reads_on_from_remote_storage(
    log: TieredLog, tmp_path: Path, capsys: Captured
) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    root = tmp_path / "new"
    options = ("--as-of", str(T + 1000), "--checkpoints-out", str(root))
    assert main(["retain", str(log.logs / "orders-0"), "--out", str(root / "orders-0"), *options, *DUE]) == 0
    capsys.readouterr()
    metadata = log.logs / "__remote_log_metadata-0"
    (root / metadata.name).mkdir()
    for file in metadata.iterdir():
        (root / metadata.name / file.name).write_bytes(file.read_bytes())
    assert main(["dump", str(root), "--topic", "orders", "--remote", str(log.remote), "--format", "jsonl"]) == 0
    assert [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()] == list(range(20))


def test_the_last_segment_is_followed_by_a_new_one_when_it_is_due(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    made = plan(log, capsys, *DUE)
    assert (gone(made), made["new_segment"]) == ([0], 20)
    assert made["segments"][0]["rule"] == "local.retention.ms"
    assert made["segments"][1]["why"] == [
        "its latest record is 1000 ms (1.0 s) old, and local.retention.ms is 0 ms, but its offsets from 10 on are not "
        "known to be in remote storage"
    ]
    assert made["checkpoints"]["log-start-offset-checkpoint"] == 0
    assert made["checkpoints"]["recovery-point-offset-checkpoint"] == 20
    made = plan(log, capsys, *TIERED, "--config", "local.retention.ms=5000")
    assert (gone(made), made["new_segment"]) == ([], None)


@pytest.mark.parametrize("state", [STARTED, DELETE_STARTED, DELETE_FINISHED])
def test_a_segment_whose_copy_is_unfinished_or_being_deleted_proves_nothing(
    log: TieredLog, state: int, capsys: Captured
) -> None:
    log.copy(0, 10, state)
    log.write(0, bases=(10,))
    assert gone(plan(log, capsys, *DUE)) == []


def test_offsets_of_a_leader_that_lost_them_prove_nothing(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.elect(at=5)
    log.append(5, 5)
    log.write(0, bases=(10,))
    assert gone(plan(log, capsys, *DUE)) == []
    log.copy(5, 10)
    log.write(0, bases=(10,))
    assert gone(plan(log, capsys, *DUE)) == [0]


def test_nothing_goes_after_a_gap_in_remote_storage(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 5)
    log.copy(10, 15)
    log.write(0, bases=(5, 10, 15))
    assert gone(plan(log, capsys, *DUE)) == [0]


def test_a_segment_that_crosses_two_remote_ones_goes(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.copy(10, 15)
    log.write(0, bases=(5, 15))
    assert gone(plan(log, capsys, *DUE)) == [0, 5]


def test_remote_storage_counts_from_the_log_start_on(log: TieredLog, capsys: Captured) -> None:
    """The leader epochs of the log begin there: below it nothing can be compared, and nothing is needed."""
    log.copy(0, 10)
    log.write(0, bases=(10,), log_start=5)
    assert gone(plan(log, capsys, *DUE)) == [0]


def test_doubtful_metadata_proves_nothing(log: TieredLog, capsys: Captured) -> None:
    """The copy is described, and a later record cannot follow: what it should have said is not known."""
    copied = log.copy(0, 10)
    log.update(replace(copied, uuid=bytes(16)), DELETE_STARTED)
    log.write(0, bases=(10,))
    assert gone(plan(log, capsys, *DUE, code=1)) == []


def test_a_damaged_record_of_the_metadata_proves_nothing(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    metadata = log.logs / "__remote_log_metadata-0" / f"{0:020d}.log"
    data = bytearray(metadata.read_bytes())
    data[-3] ^= 1
    metadata.write_bytes(data)
    assert gone(plan(log, capsys, *DUE, code=1)) == []


def test_lost_offsets_of_the_metadata_prove_nothing(log: TieredLog, capsys: Captured) -> None:
    """The segment that is lost said that the copy is being deleted."""
    log.update(log.copy(0, 10), DELETE_STARTED)
    log.copy(10, 15)
    log.write(0, bases=(10, 15), metadata_bases=(2, 3))
    (log.logs / "__remote_log_metadata-0" / f"{2:020d}.log").unlink()
    source = str(log.logs / "orders-0")
    assert main(["retain", source, "--plan", "--as-of", str(T + 1000), *DUE]) == 1
    said = capsys.readouterr()
    assert gone(json.loads(said.out)) == []
    assert "__remote_log_metadata-0: offsets [2, 3) are committed, and cannot be read." in said.err


def test_without_the_metadata_topic_nothing_goes_and_a_warning_says_so(log: TieredLog, capsys: Captured) -> None:
    log.with_metadata = False
    log.copy(0, 10)
    log.write(0, bases=(10,))
    source = str(log.logs / "orders-0")
    assert main(["retain", source, "--plan", "--as-of", str(T + 1000), *DUE]) == 1
    said = capsys.readouterr()
    assert gone(json.loads(said.out)) == []
    assert "warning no-remote-metadata: no partition of __remote_log_metadata is in" in said.err


def test_the_log_start_deletes_also_what_was_never_copied(log: TieredLog, capsys: Captured) -> None:
    log.write(0, bases=(10,))
    made = plan(log, capsys, *TIERED, "--config", "retention.ms=-1", "--delete-records-before", "10")
    assert (gone(made), made["segments"][0]["rule"]) == ([0], "log-start-offset")
    assert made["checkpoints"]["log-start-offset-checkpoint"] == 10


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("local.retention.bytes=0",), [0, 10]),
        (("local.retention.bytes=-2", "retention.bytes=0"), [0, 10]),
        (("local.retention.bytes=-1", "retention.bytes=0"), []),
        (("retention.ms=0",), [0, 10]),
        (("retention.ms=0", "local.retention.ms=-1"), []),
        (("cleanup.policy=", "local.retention.ms=0"), [0, 10]),
    ],
)
def test_local_retention_of_minus_two_is_retention_and_of_minus_one_has_no_limit(
    log: TieredLog, settings: tuple[str, ...], expected: list[int], capsys: Captured
) -> None:
    log.copy(0, 10)
    log.copy(10, 15)
    log.write(0, bases=(10, 15))
    typed = [word for each in settings for word in ("--config", each)]
    assert gone(plan(log, capsys, *TIERED, *typed)) == expected


def test_a_topic_whose_copying_is_off_goes_by_retention_alone(log: TieredLog, capsys: Captured) -> None:
    log.write(0, bases=(10,))
    off = ("--config", "remote.log.copy.disable=true", "--config", "local.retention.ms=0")
    assert gone(plan(log, capsys, *TIERED, *off)) == []
    made = plan(log, capsys, *TIERED, *off, "--config", "retention.ms=0")
    assert (gone(made), made["segments"][0]["rule"]) == ([0, 10], "retention.ms")
    assert made["log_start_offset"] == {"before": 0, "after": 20}


def test_a_log_with_a_remote_part_needs_the_setting(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.write(10, bases=(15,))
    assert main(["retain", str(log.logs / "orders-0"), "--plan", "--as-of", str(T + 1000)]) == 3
    error = capsys.readouterr().err
    assert "offsets [0, 10) are in the remote tier" in error
    assert "--config remote.storage.enable=true" in error
    made = plan(log, capsys, "--config", "remote.storage.enable=false", "--config", "retention.ms=-1")
    assert made["log_start_offset"]["before"] == 10
    made = plan(log, capsys, *TIERED, "--config", "retention.ms=-1")
    assert made["log_start_offset"] == {"before": 0, "after": 0}


def refused(log: TieredLog, capsys: Captured, *arguments: str) -> str:
    """What `retain` says when it refuses the log."""
    assert main(["retain", str(log.logs / "orders-0"), "--plan", "--as-of", str(T + 1000), *arguments]) == 3
    return capsys.readouterr().err


@pytest.mark.parametrize("epochs", [None, "0\n1\nx\n"], ids=["missing", "broken"])
def test_a_log_that_may_have_a_remote_part_needs_the_setting(
    log: TieredLog, epochs: str | None, capsys: Captured
) -> None:
    log.with_metadata = False
    log.copy(0, 10)
    log.write(10, bases=(15,), epochs=False)
    if epochs is not None:
        (log.logs / "orders-0" / "leader-epoch-checkpoint").write_text(epochs)
    error = refused(log, capsys)
    assert "offsets [0, 10) are in the remote tier or were deleted; leader-epoch-checkpoint" in error
    assert "is missing or broken" in error
    assert "--config remote.storage.enable=true" in error
    typed = ("--config", "remote.storage.enable=false", "--config", "retention.ms=-1")
    made = plan(log, capsys, *typed, code=0 if epochs is None else 1)
    assert made["log_start_offset"]["before"] == 10


@pytest.mark.parametrize("state", [STARTED, FINISHED, DELETE_FINISHED])
def test_a_log_whose_segments_the_metadata_names_needs_the_setting(
    log: TieredLog, state: int, capsys: Captured
) -> None:
    """All of it is still on the disk, so that its own files do not show it."""
    log.copy(0, 10, state)
    log.write(0, bases=(10,))
    error = refused(log, capsys)
    assert "__remote_log_metadata names 1 segment of it, and nothing says that the topic is tiered" in error
    assert gone(plan(log, capsys, "--config", "remote.storage.enable=false", "--config", "retention.ms=0")) == [0, 10]


def test_segments_of_an_older_topic_of_the_name_do_not_make_it_tiered(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    path = log.logs / "orders-0" / "partition.metadata"
    path.write_text(path.read_text().replace(TOPIC_ID, "EEEEEEEEEEEEEEEEEEEEEQ"))
    assert gone(plan(log, capsys, "--config", "retention.ms=0")) == [0, 10]


@pytest.mark.parametrize("epochs", [None, "0\n0\n", "0\n1\nx\n"], ids=["missing", "empty", "broken"])
@pytest.mark.parametrize("local_start", [0, 5])
def test_without_leader_epochs_no_local_segment_goes_and_a_warning_says_so(
    log: TieredLog, epochs: str | None, local_start: int, capsys: Captured
) -> None:
    """As of a broker: it finds no offset in remote storage then."""
    log.copy(0, 5)
    log.copy(5, 10)
    log.write(local_start, bases=(10,), epochs=False)
    if epochs is not None:
        (log.logs / "orders-0" / "leader-epoch-checkpoint").write_text(epochs)
    source = str(log.logs / "orders-0")
    assert main(["retain", source, "--plan", "--as-of", str(T + 1000), *DUE]) == 1
    said = capsys.readouterr()
    assert gone(json.loads(said.out)) == []
    assert (
        "warning remote-tier-unproven: orders-0: leader-epoch-checkpoint has no epochs that can be read. Without them "
        "nothing shows which offsets are in remote storage, so no segment is deleted by age or size." in said.err
    )


def test_an_empty_tiered_log_needs_no_leader_epochs(tmp_path: Path, capsys: Captured) -> None:
    log = TieredLog(tmp_path)
    log.write(0, epochs=False)
    assert gone(plan(log, capsys, *DUE)) == []


def test_settings_of_the_tier_are_those_of_the_metadata(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    topic = b"\1\2\0" + compact("orders") + base64.urlsafe_b64decode(TOPIC_ID + "==") + b"\0"
    MetadataLog(log.logs).say(
        (None, topic), setting("orders", "remote.storage.enable", "true"), setting("orders", "local.retention.ms", "1")
    )
    made = plan(log, capsys)
    assert gone(made) == [0]
    assert made["settings"]["local.retention.ms"] == {
        "value": 1,
        "from": "__cluster_metadata-0",
        "offset": 2,
        "committed": False,
    }


def test_an_internal_topic_is_never_tiered(log: TieredLog, capsys: Captured) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    (log.logs / "orders-0").rename(log.logs / "__consumer_offsets-0")
    for name in ("log-start-offset-checkpoint", "replication-offset-checkpoint"):
        path = log.logs / name
        path.write_text(path.read_text().replace("orders 0", "__consumer_offsets 0"))
    source = str(log.logs / "__consumer_offsets-0")
    assert main(["retain", source, "--plan", "--as-of", str(T + 1000), *DUE]) == 0
    assert gone(json.loads(capsys.readouterr().out)) == []


@pytest.mark.parametrize(("line", "expected"), [("3.9", []), ("4.0", []), ("4.4", [0])])
def test_without_a_cleanup_policy_local_retention_counts_from_line_4_4_on(
    log: TieredLog, line: str, expected: list[int], capsys: Captured
) -> None:
    log.copy(0, 10)
    log.write(0, bases=(10,))
    assert gone(plan(log, capsys, *DUE, "--config", "cleanup.policy=", "--compat", line)) == expected
