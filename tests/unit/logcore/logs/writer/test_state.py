"""Leader epochs, checkpoints and times of a written log; what is no append changes nothing."""

import pytest

from logcore.errors import CorruptRecordError
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.writer.writer import LogWriter
from tests import handmade
from tests.unit.logcore.logs.writer.written_batches import ORDERS, SIZE, T, batch, contents, epochs, file, writer


def test_the_history_of_leaders_follows_batches_and_elections() -> None:
    log = writer()
    assert epochs(log) == b""
    log.become_leader(0, T)
    log.append([batch(0), batch(1, leader_epoch=2), batch(2, leader_epoch=2)], T)
    assert epochs(log) == b"0\n2\n0 0\n2 1\n"
    log.become_leader(5, T)
    log.become_leader(6, T)
    assert epochs(log) == b"0\n3\n0 0\n2 1\n6 3\n"
    log.append(batch(3, leader_epoch=-1), T)
    assert epochs(log) == b"0\n3\n0 0\n2 1\n6 3\n"


def test_an_old_format_clears_the_history_of_leaders() -> None:
    log = writer()
    log.append(batch(0), T)
    log.append(handmade.message_v1(1, T, b"k", b"v"), T)
    assert epochs(log) == b"0\n0\n"


def test_root_files_have_the_offsets_of_a_stop_or_of_the_last_checkpoint() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for offset in range(3):
        log.append(batch(offset), T)
    killed = log.kill()
    assert (killed.recovery_point, killed.high_watermark, killed.log_start_offset) == (None, None, None)
    log.checkpoint()
    log.append(batch(3), T)
    killed = log.kill()
    assert (killed.recovery_point, killed.high_watermark, killed.is_clean) == (2, 3, False)
    closed = log.close(T)
    assert (closed.recovery_point, closed.high_watermark, closed.is_clean) == (4, 4, True)


def test_flush_messages_and_flush_ms_move_the_recovery_point() -> None:
    log = writer({"flush.messages": "3", "flush.ms": "50"})
    points = []
    for offset in range(5):
        log.append(batch(offset), T + offset)
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3, 3]
    assert not log.flush_if_due(T + 51)
    assert log.flush_if_due(T + 52)
    assert log.recovery_point == 5


def test_deleted_records_move_the_log_start_and_cut_the_history() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for offset in range(5):
        log.append(batch(offset, leader_epoch=offset // 2), T)
    log.delete_records(3, T)
    assert epochs(log) == b"0\n2\n1 3\n2 4\n"
    assert log.close(T).log_start_offset == 3
    log.delete_records(2, T)
    assert log.log_start_offset == 3
    with pytest.raises(ValueError, match="the log ends at 5"):
        log.delete_records(6, T)


def test_a_time_of_change_is_the_clock_of_the_last_step_that_changed_a_file() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)}, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    log.become_leader(0, T + 1)
    for offset in range(3):
        log.append(batch(offset), T + 10 + offset)
    times = {name: held.modified_ms - T for name, held in log.close(T + 99).files.items()}
    assert times == {
        "leader-epoch-checkpoint": 1,
        "partition.metadata": 0,
        file(0, "log"): 11,
        file(0, "index"): 12,
        file(0, "timeindex"): 12,
        file(2, "log"): 12,
        file(2, "snapshot"): 12,
        file(2, "index"): 99,
        file(2, "timeindex"): 99,
        file(3, "snapshot"): 99,
    }


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ValueError),
        (batch(0)[:-1], ValueError),
        (batch(0) + b"x", ValueError),
        (batch(0) + batch(0), ValueError),
        (batch(1) + batch(0), ValueError),
        (handmade.flip(batch(0), 64), CorruptRecordError),
    ],
)
def test_what_is_no_append_is_refused_and_changes_nothing(data, error) -> None:
    log = writer()
    with pytest.raises(error):
        log.append(data, T)
    assert log.log_end_offset == 0
    assert contents(log.close(T))[file(0, "log")] == b""


def test_offsets_below_the_log_end_are_refused() -> None:
    log = writer()
    log.append(batch(5), T)
    with pytest.raises(ValueError, match="below the expected 6"):
        log.append(batch(5), T)


def test_a_log_cannot_be_cut_below_zero_nor_led_in_a_negative_epoch() -> None:
    with pytest.raises(ValueError, match="cut back"):
        writer().truncate(-1, T)
    with pytest.raises(ValueError, match="negative"):
        writer().become_leader(-1, T)


def test_the_default_configuration_is_kafkas() -> None:
    log = LogWriter(ORDERS, TopicConfig(), BrokerLine.V4_4, as_of_ms=T)
    log.append(batch(0), T)
    assert len(contents(log.kill())[file(0, "index")]) == 10_485_760
    assert len(contents(log.kill())[file(0, "timeindex")]) == 10_485_756
