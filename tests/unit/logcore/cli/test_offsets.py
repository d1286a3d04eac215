"""`offsets` answers like a broker's ListOffsets, bounded by the isolation level."""

import json
import os
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]
T = 1_700_000_000_000


def answer(capsys: Captured, at: object, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    assert main(["offsets", "--format", "jsonl", "--at", f"{at}ms" if isinstance(at, int) else at, *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def triple(capsys: Captured, at: object, *arguments: str, code: int = 0) -> tuple[object, object, object]:
    (line,) = answer(capsys, at, *arguments, code=code)
    return line["offset"], line["timestamp"], line["leader_epoch"]


@pytest.fixture
def known(root: Path) -> Path:
    """The log directory, after a clean stop, with a time index for its active segment too."""
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
    (root / "orders-0" / "00000000000000000005.index").touch()
    (root / "orders-0" / "00000000000000000005.timeindex").write_bytes(struct.pack(">qi", T + 500, 2))
    return root


def test_a_line_has_these_keys_in_this_order(known: Path, capsys: Captured) -> None:
    assert main(["offsets", "--format", "jsonl", "--at", str(T + 1), str(known)]) == 0
    assert capsys.readouterr().out == (
        '{"topic":"orders","partition":0,"offset":1,"timestamp":1700000000001,"leader_epoch":3}\n'
    )


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("earliest", (0, -1, 3)),
        ("-2", (0, -1, 3)),
        ("earliest-local", (0, -1, 3)),
        ("-4", (0, -1, 3)),
        ("latest", (8, -1, 3)),
        ("-1", (8, -1, 3)),
        ("max-timestamp", (7, T + 500, None)),
        ("-3", (7, T + 500, None)),
        ("0ms", (0, T, 3)),
        (str(T + 3), (3, T + 100, 3)),
        ("2023-11-14T22:13:20.300Z", (5, T + 300, 3)),
        (str(T + 501), (-1, -1, None)),
    ],
)
def test_every_kind_of_question_has_a_brokers_answer(
    known: Path, capsys: Captured, at: str, expected: tuple[object, ...]
) -> None:
    assert triple(capsys, at, str(known)) == expected


def test_read_committed_ends_at_the_first_open_transaction(known: Path, capsys: Captured) -> None:
    open_batch = handmade.batch(
        [handmade.record()],
        base_offset=8,
        base_timestamp=T + 600,
        attributes=handmade.TRANSACTIONAL,
        producer_id=10,
        producer_epoch=0,
        base_sequence=0,
    )
    with (known / "orders-0" / "00000000000000000005.log").open("ab") as file:
        file.write(open_batch + handmade.simple_batch(9, [(b"k", b"v")], base_timestamp=T + 700))
    made.write_checkpoint(known, "replication-offset-checkpoint", orders=10)
    assert triple(capsys, "latest", str(known))[0] == 10
    assert triple(capsys, "latest", str(known), "--isolation.level", "read_committed")[0] == 8
    assert triple(capsys, T + 550, str(known))[0] == 8
    assert triple(capsys, T + 550, str(known), "--isolation.level", "read_committed") == (-1, -1, None)


def test_the_high_watermark_bounds_every_answer(known: Path, capsys: Captured) -> None:
    made.write_checkpoint(known, "replication-offset-checkpoint", orders=6)
    assert triple(capsys, "latest", str(known))[0] == 6
    assert triple(capsys, "max-timestamp", str(known))[0] == -1
    assert triple(capsys, "latest", str(known), "--high-watermark", "log-end")[0] == 8
    assert triple(capsys, "latest", str(known), "--high-watermark", "7")[0] == 7


@pytest.mark.parametrize(("stated", "expected"), [(99, 8), (8, 8), (1, 2)])
def test_a_high_watermark_lies_between_log_start_and_log_end(
    known: Path, capsys: Captured, stated: int, expected: int
) -> None:
    made.write_checkpoint(known, "log-start-offset-checkpoint", orders=2)
    made.write_checkpoint(known, "replication-offset-checkpoint", orders=stated)
    lost = stated > 8
    assert triple(capsys, "latest", str(known), code=2 if lost else 0)[0] == expected


def test_records_below_the_log_start_are_not_found(known: Path, capsys: Captured) -> None:
    made.write_checkpoint(known, "log-start-offset-checkpoint", orders=2)
    assert triple(capsys, "earliest", str(known)) == (2, -1, 3)
    assert triple(capsys, 0, str(known)) == (2, T + 2, 3)


class TestASegmentWhoseTimestampsItsBrokerDoesNotKnow:
    """It counts by its file's time of change, for a broker that opens it does not scan it."""

    def lose(self, known: Path, modified_ms: int) -> None:
        (known / "orders-0" / "00000000000000000000.timeindex").write_bytes(b"")
        os.utime(known / "orders-0" / "00000000000000000000.log", ns=(0, modified_ms * 1_000_000))

    def test_it_hides_what_comes_later_if_it_is_fresh(self, known: Path, capsys: Captured) -> None:
        self.lose(known, T + 10**9)
        assert triple(capsys, T + 250, str(known)) == (-1, -1, None)
        assert triple(capsys, T + 2, str(known)) == (2, T + 2, 3)

    def test_it_is_passed_over_if_it_is_old(self, known: Path, capsys: Captured) -> None:
        self.lose(known, 1000)
        assert triple(capsys, T, str(known)) == (5, T + 300, 3)

    def test_an_absent_time_index_is_as_an_empty_one(self, known: Path, capsys: Captured) -> None:
        self.lose(known, 1000)
        (known / "orders-0" / "00000000000000000000.timeindex").unlink()
        assert triple(capsys, T, str(known)) == (5, T + 300, 3)

    def test_a_segment_without_an_offset_index_is_recovered_at_the_start(self, known: Path, capsys: Captured) -> None:
        self.lose(known, 1000)
        (known / "orders-0" / "00000000000000000000.index").unlink()
        assert triple(capsys, T, str(known)) == (0, T, 3)

    def test_after_an_unclean_stop_it_is_recovered_unless_it_was_on_disk_before(
        self, known: Path, capsys: Captured
    ) -> None:
        self.lose(known, 1000)
        (known / ".kafka_cleanshutdown").unlink()
        assert triple(capsys, T, str(known)) == (0, T, 3)
        made.write_checkpoint(known, "recovery-point-offset-checkpoint", orders=5)
        assert triple(capsys, T, str(known)) == (5, T + 300, 3)

    def test_what_junk_in_it_says_is_not_followed(self, known: Path, capsys: Captured) -> None:
        self.lose(known, 1000)
        (known / "orders-0" / "00000000000000000000.timeindex").write_bytes(b"\xff" * 24)
        assert triple(capsys, T, str(known)) == (0, T, 3)


def test_a_named_file_answers_for_all_it_holds(known: Path, capsys: Captured) -> None:
    made.write_checkpoint(known, "replication-offset-checkpoint", orders=0)
    assert triple(capsys, "latest", str(known / "orders-0" / "00000000000000000000.log"))[0] == 5
    assert triple(capsys, 0, str(known / "orders-0" / "00000000000000000005.log")) == (5, T + 300, 3)


def test_an_empty_log_answers_with_its_bounds(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000042.log").touch()
    made.write_checkpoint(tmp_path, "replication-offset-checkpoint", orders=42)
    assert triple(capsys, "earliest", str(tmp_path)) == (42, -1, None)
    assert triple(capsys, "latest", str(tmp_path)) == (42, -1, None)
    assert triple(capsys, "max-timestamp", str(tmp_path)) == (-1, -1, None)
    assert triple(capsys, 0, str(tmp_path)) == (-1, -1, None)


def test_without_a_high_watermark_the_log_end_is_used_with_a_warning(known: Path, capsys: Captured) -> None:
    (known / "replication-offset-checkpoint").unlink()
    assert triple(capsys, "latest", str(known), code=1)[0] == 8


@pytest.mark.parametrize("content", [bytes(100), None], ids=["zeroed", "cut in its first batch"])
def test_the_latest_offset_of_a_log_without_a_whole_batch_at_its_end_is_that_of_ls(
    known: Path, capsys: Captured, content: bytes | None
) -> None:
    last = known / "orders-0" / "00000000000000000005.log"
    last.write_bytes(last.read_bytes()[:30] if content is None else content)
    main(["offsets", "--format", "jsonl", "--at", "latest", str(known)])
    assert json.loads(capsys.readouterr().out)["offset"] == 5
    main(["ls", "--format", "jsonl", str(known)])
    assert json.loads(capsys.readouterr().out)["log_end_offset"] == 5


def test_logs_come_by_name_and_can_be_chosen(known: Path, capsys: Captured) -> None:
    for name in ("orders-10", "orders-2", "audit-0"):
        (known / name).mkdir()
        (known / name / "00000000000000000000.log").touch()
    lines = answer(capsys, "earliest", str(known))
    assert [(line["topic"], line["partition"]) for line in lines] == [
        ("audit", 0),
        ("orders", 0),
        ("orders", 2),
        ("orders", 10),
    ]
    assert len(answer(capsys, "earliest", str(known), "--topic", "ord*", "--partition", "2")) == 1


def test_the_same_partition_from_two_paths_is_answered_once(known: Path, tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "other"
    (other / "orders-0").mkdir(parents=True)
    (other / "orders-0" / "00000000000000000000.log").touch()
    made.write_checkpoint(other, "replication-offset-checkpoint", orders=0)
    assert triple(capsys, "latest", str(known), str(other), code=1)[0] == 8


def test_text_is_for_people(known: Path, capsys: Captured) -> None:
    assert main(["offsets", "--at", str(T + 1), str(known)]) == 0
    assert capsys.readouterr().out == "orders-0  offset 1  2023-11-14T22:13:20.001Z  leader epoch 3\n"
    assert main(["offsets", "--at", "2040-01-01", str(known)]) == 0
    assert capsys.readouterr().out == "orders-0  no such record\n"


@pytest.mark.parametrize("at", ["-7", "soon", "1969-12-31", "-1ms", "-5ms"])
def test_a_question_that_no_directory_answers_is_wrong_usage(known: Path, capsys: Captured, at: str) -> None:
    assert main(["offsets", "--at", at, str(known)]) == 64
    assert "neither" in capsys.readouterr().err


@pytest.mark.parametrize("at", ["-5", "-6", "latest-tiered", "earliest-pending-upload"])
def test_offsets_of_remote_storage_need_remote_storage(known: Path, capsys: Captured, at: str) -> None:
    assert main(["offsets", "--at", at, str(known)]) == 64
    assert "--remote DIR" in capsys.readouterr().err


def test_a_segment_that_goes_away_is_reported_and_the_other_logs_continue(
    known: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logcore.logs.model.sources import SegmentFile, SourceLog
    from logcore.reading import segment_reading
    from logcore.reading.segment_reading import segment_bytes
    from logcore.storage.discovery import SourceUnreadable
    from logcore.storage.source_bytes import SourceBytes

    (known / "later-0").mkdir()
    (known / "later-0" / "00000000000000000000.log").write_bytes(handmade.simple_batch(0, [(b"k", b"v")]))
    made.write_checkpoint(known, "replication-offset-checkpoint", orders=8, later=1)

    def gone(log: SourceLog, segment: SegmentFile) -> SourceBytes:
        if segment.path.endswith("later-0/00000000000000000000.log"):
            raise SourceUnreadable("it is gone", file=segment.path)
        return segment_bytes(log, segment)

    monkeypatch.setattr(segment_reading, "segment_bytes", gone)
    lines = answer(capsys, 0, str(known), code=3)
    assert {line["topic"]: line["offset"] for line in lines} == {"later": -1, "orders": 0}


@pytest.mark.parametrize(
    ("at", "count", "expected"),
    [
        ("latest", 9, [50, 40, 30, 20]),
        ("latest", 2, [50, 40]),
        ("latest", 0, []),
        ("earliest", 9, [20]),
        (T + 2_000, 9, [30, 20]),
        (T + 1_999, 9, [20]),
        (T + 999, 9, []),
    ],
)
def test_offsets_before_a_time_are_those_of_segments_changed_until_then(
    tmp_path: Path, capsys: Captured, at: object, count: int, expected: list[int]
) -> None:
    """By hand: segments 10, 30 and 40, changed after 1, 2 and 3 s; the log start is 20, the log end 50."""
    source = LogDirectory(tmp_path / "logs")
    orders = source.partition("orders-0")
    orders.next_offset = 10
    for number, count_of in enumerate((20, 10, 10)):
        path = orders.roll()
        orders.append(count_of)
        os.utime(path, ns=((T + 1_000 * (number + 1)) * 1_000_000,) * 2)
    source.checkpoint("log-start", orders_0=20)
    source.high_watermarks(orders_0=50)
    (line,) = answer(capsys, at, "--before", str(count), str(source.path))
    assert line == {"topic": "orders", "partition": 0, "offsets": expected}
    source.high_watermarks(orders_0=35)
    (line,) = answer(capsys, at, "--before", str(count), str(source.path))
    above = [offset for offset in expected if offset > 35]
    assert line["offsets"] == ([35] if above else []) + expected[len(above) :]


def test_offsets_before_a_time_are_not_for_other_special_values(known: Path, capsys: Captured) -> None:
    assert main(["offsets", "--at", "max-timestamp", "--before", "3", str(known)]) == 64
    assert "--before is for a time, latest or earliest" in capsys.readouterr().err
