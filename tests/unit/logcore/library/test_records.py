"""Records of opened logs are those that were packed by hand, or that a real consumer read, and no others."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import pytest

import logcore
from logcore import Record, TimestampType
from logcore.columns.engines import Engine
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.conftest import Sample
from tests.unit.logcore.library.conftest import Findings, T, segment

CREATE, APPEND, NONE = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME, TimestampType.NO_TIMESTAMP_TYPE


def test_every_field_of_a_record_is_as_it_was_packed(tmp_path: Path, engine: Engine) -> None:
    headers = [(b"trace", b"\x00\x01"), ("ключ".encode(), None), (b"", b"")]
    content = [
        handmade.batch(
            [
                handmade.record(0, b"k", b"v", headers=headers),
                handmade.record(1, None, None, timestamp_delta=5),
                handmade.record(2, b"", b"", timestamp_delta=-1001),
            ],
            base_timestamp=1000,
            max_timestamp=1005,
        ),
        handmade.batch(
            [handmade.record(0, b"odd", b"name", headers=[(b"\xff", b"x"), (b"plain", None)])],
            base_offset=3,
            base_timestamp=99,
            max_timestamp=253_402_300_800_000,
            attributes=handmade.LOG_APPEND_TIME,
        ),
    ]
    log = logcore.open_segment(segment(tmp_path / "orders-3", 0, content))
    assert (log.topic, log.partition) == ("orders", 3)
    assert list(log.records()) == [
        Record(0, 1000, CREATE, b"k", b"v", ((b"trace", b"\x00\x01"), ("ключ".encode(), None), (b"", b""))),
        Record(1, 1005, CREATE, None, None),
        Record(2, -1, CREATE, b"", b""),
        Record(3, 253_402_300_800_000, APPEND, b"odd", b"name", ((b"\xff", b"x"), (b"plain", None))),
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_compressed_batches(tmp_path: Path, engine: Engine, codec: str) -> None:
    number, compress = {
        "gzip": (handmade.GZIP, handmade.stored_gzip),
        "snappy": (handmade.SNAPPY, handmade.stored_snappy),
        "lz4": (handmade.LZ4, handmade.stored_lz4),
    }[codec]
    rows = [handmade.record(delta, b"k%d" % delta, b"v" * delta) for delta in range(50)]
    content = handmade.batch(body=compress(b"".join(rows)), attributes=number, last_offset_delta=49, count=50)
    log = logcore.open_segment(segment(tmp_path / "orders-0", 0, content))
    assert list(log.records()) == [Record(at, 1000, CREATE, b"k%d" % at, b"v" * at) for at in range(50)]


def test_formats_before_v2(tmp_path: Path, engine: Engine) -> None:
    content = [
        handmade.message_v0(0, None, b"old"),
        handmade.message_v1(1, 500, b"k", None),
        handmade.wrapper_v0([2, 4]),
        handmade.wrapper_v1([5, 7, 8]),
        handmade.wrapper_append_time([9], 777),
    ]
    log = logcore.open_segment(segment(tmp_path / "orders-0", 0, content))
    assert list(log.records()) == [
        Record(0, -1, NONE, None, b"old"),
        Record(1, 500, CREATE, b"k", None),
        Record(2, -1, NONE, b"k", b"2"),
        Record(4, -1, NONE, b"k", b"4"),
        Record(5, 1005, CREATE, b"k", b"5"),
        Record(7, 1007, CREATE, b"k", b"7"),
        Record(8, 1008, CREATE, b"k", b"8"),
        Record(9, 777, APPEND, b"k", b"9"),
    ]


def test_all_segments_of_a_partition_in_order(orders: Partition, engine: Engine) -> None:
    log = logcore.open_partition(orders.path)
    assert [(record.offset, record.key, record.value) for record in log.records()] == [
        (offset, key, value) for offset, (key, value) in orders.rows.items()
    ]
    assert log.segment_paths == tuple(map(str, orders.segments()))
    assert (log.log_start_offset, log.high_watermark, log.end_offset()) == (0, 60, 60)


def test_a_log_is_read_again_from_its_beginning(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    first = log.records()
    next(first)
    assert sum(1 for _ in log.records()) == 60
    assert sum(1 for _ in first) == 59


def test_reading_leaves_the_source_as_it_is(logdir: LogDirectory, orders: Partition) -> None:
    before = logdir.fingerprint()
    log = logcore.open_partition(orders.path, isolation_level="read_committed")
    list(log.records())
    list(log.ledger())
    log.transactions()
    log.validate()
    log.offset_for_time(T)
    assert logdir.fingerprint() == before


# Which offsets are visible.


def offsets(log: logcore.Log, **how: Any) -> list[int]:
    return [record.offset for record in log.records(**how)]


def test_records_end_at_the_high_watermark_and_begin_at_the_log_start(logdir: LogDirectory, orders: Partition) -> None:
    logdir.high_watermarks(orders_0=37)
    logdir.checkpoint("log-start", orders_0=3)
    assert offsets(logcore.open_partition(orders.path)) == list(range(3, 37))
    assert offsets(logcore.open_partition(orders.path, high_watermark="log-end")) == list(range(3, 60))
    assert offsets(logcore.open_partition(orders.path, high_watermark=10)) == list(range(3, 10))
    assert offsets(logcore.open_partition(orders.path, show_all=True)) == list(range(60))
    assert offsets(logcore.open_segment(orders.segments()[1])) == list(range(20, 40))


def test_a_partition_without_a_line_in_the_checkpoint_shows_nothing(logdir: LogDirectory, orders: Partition) -> None:
    logdir.high_watermarks(payments_0=5)
    assert offsets(logcore.open_partition(orders.path)) == []


def test_without_a_checkpoint_file_records_end_at_the_log_end(
    logdir: LogDirectory, orders: Partition, findings: Findings
) -> None:
    (logdir.path / "replication-offset-checkpoint").unlink()
    log = logcore.open_partition(orders.path)
    assert offsets(log, on_finding=findings) == list(range(60))
    assert findings.rules == ["no-high-watermark"]
    assert [finding.rule for finding in log.findings] == ["no-high-watermark"]
    assert logcore.open_partition(orders.path, high_watermark="log-end").findings == ()


@pytest.fixture
def transactional(logdir: LogDirectory) -> Partition:
    """Committed 0 to 4, aborted 6 to 10, plain 12 to 14, open from 15 on; markers at 5 and 11."""
    partition = logdir.partition("orders-0")
    writes = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0}
    partition.append(5, producer_id=1, base_sequence=0, **writes)
    partition.marker(1, handmade.COMMIT)
    partition.append(5, producer_id=1, base_sequence=5, **writes)
    partition.marker(1, handmade.ABORT)
    partition.append(3)
    partition.append(2, producer_id=2, base_sequence=0, **writes)
    partition.append(3)
    logdir.high_watermarks(orders_0=20)
    return partition


def test_records_of_aborted_and_open_transactions_are_hidden(transactional: Partition, engine: Engine) -> None:
    everything = logcore.open_partition(transactional.path)
    committed = logcore.open_partition(transactional.path, isolation_level="read_committed")
    assert offsets(everything) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19]
    assert offsets(committed) == [0, 1, 2, 3, 4, 12, 13, 14]
    assert (everything.end_offset(), committed.end_offset()) == (20, 15)
    named = logcore.open_segment(transactional.segments()[0], isolation_level="read_committed")
    assert offsets(named) == [0, 1, 2, 3, 4, 12, 13, 14]


def test_a_torn_tail_is_no_damage(orders: Partition, findings: Findings, engine: Engine) -> None:
    orders.write(handmade.simple_batch(60, [(b"k", b"v")])[:-1])
    log = logcore.open_partition(orders.path)
    assert offsets(log) == list(range(60))
    assert offsets(log, on_finding=findings) == list(range(60))
    assert findings.rules == ["torn-tail"]


def test_zeros_of_a_preallocated_segment_are_no_damage(orders: Partition, findings: Findings, engine: Engine) -> None:
    orders.write(bytes(5000))
    assert offsets(logcore.open_partition(orders.path), on_finding=findings) == list(range(60))
    assert findings.rules == ["zero-padding"]


def test_empty_segments_and_an_empty_partition_have_no_records(logdir: LogDirectory, engine: Engine) -> None:
    partition = logdir.partition("orders-0")
    logdir.high_watermarks(orders_0=0)
    assert offsets(logcore.open_partition(partition.path)) == []
    partition.roll()
    log = logcore.open_partition(partition.path)
    assert offsets(log) == []
    assert log.record_batches().read_all().num_rows == 0
    assert log.end_offset() == 0
    assert log.offset_for_time(0) is None


# What real consumers read.

SAMPLES = ("codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0", "internal-topics-4.4.0")


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("name", SAMPLES)
def test_records_are_those_that_a_real_consumer_read(
    sample: Callable[[str], Sample], name: str, isolation_level: Any
) -> None:
    directory = logcore.open_log_directory(sample(name).logdir, isolation_level=isolation_level)
    consumed: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in sample(name).consumed(isolation_level):
        consumed.setdefault((line["topic"], line["partition"]), []).append(line)
    assert consumed
    for (topic, partition), lines in consumed.items():
        read = list(directory.log(topic, partition).records())
        assert [as_line(record) for record in read] == [comparable(line) for line in lines], (topic, partition)


def as_line(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type.kafka_name,
        "key": record.key,
        "value": record.value,
        "headers": [(name.decode(), value) for name, value in record.headers],
    }


def comparable(line: dict[str, Any]) -> dict[str, Any]:
    def plain(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    kept = {name: line[name] for name in ("offset", "timestamp", "timestamp_type")}
    headers = [(name, plain(value)) for name, value in line["headers"]]
    return kept | {"key": plain(line["key"]), "value": plain(line["value"]), "headers": headers}


# Opening.


def test_a_path_that_is_none_is_refused_by_its_name(tmp_path: Path, orders: Partition) -> None:
    for opened in (logcore.open_partition, logcore.open_segment, logcore.open_log_directory):
        with pytest.raises(logcore.LogError, match="nowhere does not exist"):
            opened(tmp_path / "nowhere")


def test_a_path_of_another_kind_is_refused(logdir: LogDirectory, orders: Partition) -> None:
    with pytest.raises(logcore.LogError, match="no partition directory"):
        logcore.open_partition(logdir.path)
    with pytest.raises(logcore.LogError, match="no partition directory"):
        logcore.open_partition(orders.segments()[0])
    with pytest.raises(logcore.LogError, match="no segment file"):
        logcore.open_segment(orders.path)
    with pytest.raises(logcore.LogError, match="is not a segment"):
        logcore.open_segment(orders.path / "partition.metadata")
    with pytest.raises(logcore.LogError, match=r"no log directory\. Use open_partition"):
        logcore.open_log_directory(orders.path)
    with pytest.raises(logcore.LogError, match=r"no log directory\. Use open_partition"):
        logcore.open_log_directory(orders.segments()[0])


def test_a_directory_that_a_broker_was_deleting_is_no_log(orders: Partition) -> None:
    gone = orders.path.rename(orders.path.with_name(f"orders-0.{'a' * 32}-delete"))
    with pytest.raises(logcore.LogError, match="queued for deletion"):
        logcore.open_partition(gone)


def test_an_address_of_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(ValueError, match="gs:// is no object store that Loglake supports"):
        logcore.open_log_directory("gs://bucket/logs")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"isolation_level": "serializable"}, "isolation_level is read_uncommitted or read_committed"),
        ({"high_watermark": "newest"}, "high_watermark is checkpoint, log-end or an offset"),
        ({"high_watermark": -1}, "negative"),
    ],
)
def test_a_rule_that_is_none_is_the_callers_mistake(orders: Partition, rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        logcore.open_partition(orders.path, **rules)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """A segment of 192 MiB is read with less than 100 MiB more than a small one."""
    record = handmade.record(0, b"k", bytes(range(256)) * 2048)
    template = handmade.HEADER.pack(0, 49 + len(record), 0, 2, 0, 0, 0, T, T, -1, -1, -1, 1) + record
    template = handmade.patch(template, 17, crc32c.crc32c(template[21:]).to_bytes(4, "big"))
    count = (192 << 20) // len(template)
    small = segment(tmp_path / "small-0", 0, template)
    large = segment(tmp_path / "large-0", 0, [n.to_bytes(8, "big") + template[8:] for n in range(count)])
    code = (
        "import logcore, resource, sys\n"
        "log = logcore.open_segment(sys.argv[1])\n"
        "print(sum(1 for _ in log.records()), sum(each.num_rows for each in log.record_batches()))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    peaks = []
    for path, records in ((small, 1), (large, count)):
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
        counts, peak = done.stdout.splitlines()
        assert counts == f"{records} {records}"
        peaks.append(int(peak))
    assert peaks[1] - peaks[0] < 100
