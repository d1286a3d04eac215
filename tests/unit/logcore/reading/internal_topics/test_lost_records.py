"""A state of the cluster is in doubt if a record before it is lost, and no later snapshot replaces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.reading.chosen_logs import find_logs
from logcore.reading.internal_topics.cluster_metadata import Moment, ReadState, read_cluster_state
from logcore.reading.read_options import Notes, ReadOptions
from logcore.topics.topic_settings import settings_of_topics
from tests import handmade
from tests.metadata_log import MetadataLog, created, setting


@pytest.fixture
def metadata(tmp_path: Path) -> MetadataLog:
    """Offsets 0 to 3: a topic, a setting, the same setting with another value, another topic."""
    log = MetadataLog(tmp_path)
    log.say(created("orders"), setting("orders", "retention.ms", "1"), time_ms=1000)
    log.say(setting("orders", "retention.ms", "2"), created("other"), time_ms=2000)
    return log


def state(metadata: MetadataLog, moment: Moment = Moment()) -> ReadState:  # noqa: B008
    (log,) = find_logs(ReadOptions((str(metadata.path),)), Notes())
    return read_cluster_state(log, Notes(), moment)


def test_a_whole_log_is_certain_and_a_setting_names_its_record(metadata: MetadataLog) -> None:
    read = state(metadata)
    assert (read.lost_from, read.doubt) == (None, None)
    settings = settings_of_topics(read.state, read.committed_end, read.doubt)
    assert set(settings) == {"orders", "other"}
    found = settings["orders"].settings["retention.ms"]
    assert (found.value, found.offset, found.is_committed) == ("2", 2, False)
    assert settings["other"].settings == {}


@pytest.mark.parametrize("offset", range(4))
def test_after_a_damaged_record_the_state_is_in_doubt(metadata: MetadataLog, offset: int) -> None:
    metadata.damage(offset)
    read = state(metadata)
    assert read.lost_from == offset
    assert f"offset {offset} " in str(read.doubt)
    settings = settings_of_topics(read.state, read.committed_end, read.doubt)
    assert all(each.doubt == read.doubt for each in settings.values())


def test_a_state_before_the_damage_is_certain(metadata: MetadataLog) -> None:
    metadata.damage(3)
    assert state(metadata, Moment(offset=3)).lost_from is None
    assert state(metadata, Moment(time_ms=1500)).lost_from is None
    assert state(metadata).lost_from == 3


def test_damage_just_before_the_time_counts_because_its_own_time_is_not_known(metadata: MetadataLog) -> None:
    metadata.damage(1)
    assert state(metadata, Moment(time_ms=1500)).lost_from == 1


def test_a_snapshot_after_the_damage_makes_the_state_certain(metadata: MetadataLog) -> None:
    metadata.damage(2)
    metadata.snapshot(3, created("orders"), setting("orders", "retention.ms", "2"), time_ms=2000)
    read = state(metadata)
    assert read.lost_from is None
    assert set(settings_of_topics(read.state, read.committed_end, read.doubt)) == {"orders", "other"}


def test_a_missing_segment_is_noticed_by_its_offsets(metadata: MetadataLog) -> None:
    (metadata.path / f"{3:020d}.log").write_bytes(metadata.batches[3])
    metadata.segment.write_bytes(b"".join(metadata.batches[:2]))
    assert state(metadata).lost_from == 2


def test_a_log_that_begins_after_its_snapshots_is_in_doubt(metadata: MetadataLog) -> None:
    (metadata.path / f"{2:020d}.log").write_bytes(b"".join(metadata.batches[2:]))
    metadata.segment.unlink()
    assert state(metadata).lost_from == 0
    metadata.snapshot(1, created("orders"))
    assert state(metadata).lost_from == 1
    metadata.snapshot(2, created("orders"))
    assert state(metadata).lost_from is None


def test_a_batch_that_was_being_written_is_no_loss(metadata: MetadataLog) -> None:
    torn = handmade.simple_batch(4, [created("late")], leader_epoch=1)[:-5]
    metadata.segment.write_bytes(b"".join(metadata.batches) + torn)
    assert state(metadata).lost_from is None


def test_a_record_of_a_newer_version_is_a_loss_and_one_of_a_newer_type_is_not(metadata: MetadataLog) -> None:
    metadata.say((None, b"\1\x7e\0\0"))
    assert state(metadata).lost_from is None
    metadata.say((None, b"\1\4\x63\0"))
    assert state(metadata).lost_from == 5


def test_a_record_of_a_snapshot_that_cannot_be_read_is_a_loss(metadata: MetadataLog) -> None:
    metadata.snapshot(4, created("orders"), (None, b"\1\4\x63\0"), time_ms=2000)
    assert state(metadata).lost_from == 4


def test_a_segment_at_the_end_that_cannot_be_opened_is_a_loss(metadata: MetadataLog) -> None:
    (metadata.path / f"{4:020d}.log").symlink_to(metadata.path / "nothing")
    assert state(metadata).lost_from == 4
    assert state(metadata, Moment(offset=4)).lost_from is None
    assert state(metadata, Moment(time_ms=1500)).lost_from is None
    metadata.snapshot(4, created("orders"), time_ms=2000)
    assert state(metadata).lost_from == 4


def test_a_log_that_cannot_be_opened_at_all_is_lost_from_its_snapshot_on(metadata: MetadataLog) -> None:
    metadata.snapshot(3, created("orders"))
    metadata.segment.unlink()
    metadata.segment.symlink_to(metadata.path / "nothing")
    assert state(metadata).lost_from == 3


def test_a_log_that_ends_before_its_newest_snapshot_is_a_loss_unless_that_snapshot_is_used(
    metadata: MetadataLog,
) -> None:
    metadata.snapshot(6, created("orders"), time_ms=3000)
    assert (state(metadata).lost_from, state(metadata).end_offset) == (None, 6)
    assert state(metadata, Moment(time_ms=2500)).lost_from == 4
    assert state(metadata, Moment(time_ms=1500)).lost_from is None
    assert state(metadata, Moment(offset=4)).lost_from is None
    (snapshot,) = metadata.path.glob("*.checkpoint")
    snapshot.write_bytes(handmade.flip(snapshot.read_bytes(), 100))
    assert state(metadata).lost_from == 4
