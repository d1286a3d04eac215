"""A tiered topic of two brokers whose leader epochs parted: the joined log is what the consumer of the broker reads.

One broker has the controller and all internal topics, among them the metadata of remote segments. The topic is on the
two others. The first leader copies segments that its follower never gets, and is killed. The follower becomes leader
by an unclean election, gets other records at the same offsets, and copies its own segments. Then the first is back.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logcore.cli.main import main
from spark_jobs import launch
from tests.in_process import InProcessExecutor
from tests.kafka import distribution
from tests.kafka.broker import TIERED_STORAGE, Broker
from tests.spark.cycle import Lake

pytestmark = [pytest.mark.kafka, pytest.mark.long]

TOPIC = "parted"
FIRST, SECOND = 2, 3
SHARED, LOST, NEW = 150, 100, 180
"""Records that both have, that only the first leader had, and that the second one wrote instead."""
SECONDS = 60
TIERED = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "internal.segment.bytes": "3000",
    "index.interval.bytes": "500",
    "file.delete.delay.ms": "0",
    "local.retention.bytes": "1",
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
}
SETTINGS = {
    **TIERED_STORAGE,
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
}

Captured = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Stopped:
    """The stopped cluster.

    Attributes:
        internal: The log directory with the metadata of remote segments.
        log_dirs: Of the two brokers of the topic.
        remote: Remote storage.
        consumed: What the consumer received, by offset, without a gap.
        parted_at: The first offset that the two leaders wrote differently.
        of_first: Base offsets of the segments that the first leader had copied when it was killed.
    """

    internal: Path
    log_dirs: dict[int, Path]
    remote: Path
    consumed: dict[int, bytes]
    parted_at: int
    of_first: tuple[int, ...]


def wait(what: Callable[[], Any], why: str) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if answer := what():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"after {SECONDS} s: {why}")


def produced(servers: str, tag: str, count: int) -> None:
    """Produce records, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "batch.num.messages": 1, "log_level": 0})
    for number in range(count):
        producer.produce(TOPIC, f"{tag} {number} ".encode() * 10, partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def consumed(servers: str) -> dict[int, bytes]:
    """Every record from the beginning of the log, by offset."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": "false", "log_level": 0}
    )
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), SECONDS)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: dict[int, bytes] = {}
        while not found or max(found) < end - 1:
            message = consumer.poll(SECONDS)
            assert message is not None, f"nothing after offset {max(found, default=-1)}"
            assert message.error() is None, message.error()
            assert message.offset() not in found
            found[message.offset()] = message.value()
        return found
    finally:
        consumer.close()


def leader_is(admin: AdminClient, broker: int, *isr: int) -> bool:
    partition = admin.list_topics(TOPIC, 10).topics[TOPIC].partitions[0]
    return partition.leader == broker and (not isr or set(partition.isrs) == set(isr))


def copied(remote: Path) -> tuple[int, ...]:
    """Base offsets of the copied segments, which are in their names."""
    return tuple(sorted(int(path.name[:20]) for path in remote.rglob("*.log") if path.parent.name.startswith(TOPIC)))


def rest(remote: Path, *log_dirs: Path) -> None:
    """Wait until no segment was copied or removed for three seconds."""
    before: list[Any] = []
    since = time.monotonic()

    def is_still() -> bool:
        nonlocal before, since
        now = [copied(remote), [sorted(path.name for path in each.glob(f"{TOPIC}-0/*.log")) for each in log_dirs]]
        if now != before:
            before, since = now, time.monotonic()
        return time.monotonic() - since > 3

    wait(is_still, "segments are still moving")


@pytest.fixture(scope="module")
def stopped(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    try:
        jars = distribution.tiered_storage()
    except distribution.Unavailable as missing:
        pytest.skip(f"there is no LocalTieredStorage: {missing}")
    folder = tmp_path_factory.mktemp("parted")
    remote = folder / "remote"
    settings = SETTINGS | {"rsm.config.dir": str(remote)}
    running: dict[int, Broker] = {}

    def start(broker: int) -> Broker:
        more: dict[str, Any] = {"joins": running[1], "node.id": str(broker)} if running else {}
        running[broker] = Broker(folder / f"broker-{broker}", more_jars=jars, **settings, **more)
        return running[broker]

    try:
        servers = start(1).servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        wait(lambda: "__remote_log_metadata" in admin.list_topics(timeout=10).topics, "no topic of remote metadata")
        first, second = start(FIRST), start(SECOND)
        new = NewTopic(TOPIC, 1, replica_assignment=[[FIRST, SECOND]], config=TIERED)
        admin.create_topics([new])[TOPIC].result(SECONDS)
        wait(lambda: leader_is(admin, FIRST, FIRST, SECOND), "the first leader")
        produced(servers, "both", SHARED)
        wait(lambda: copied(remote)[2:], "segments of the first leader")
        second.stop()
        wait(lambda: leader_is(admin, FIRST, FIRST), "one replica in sync")
        produced(servers, "lost", LOST)
        wait(lambda: max(copied(remote)) > SHARED + LOST // 2, "segments with records that get lost")
        rest(remote, first.log_dir)
        first.kill()
        of_first = copied(remote)
        second = start(SECOND)
        wait(lambda: leader_is(admin, SECOND), "the unclean election")
        produced(servers, "new", NEW)
        wait(lambda: max(copied(remote)) > SHARED + LOST, "segments of the second leader")
        first = start(FIRST)
        wait(lambda: leader_is(admin, SECOND, FIRST, SECOND), "both replicas in sync")
        rest(remote, first.log_dir, second.log_dir)
        found = consumed(servers)
        for broker in (first, second, running[1]):
            broker.stop()
    finally:
        for broker in running.values():
            broker.kill()
    parted_at = min(offset for offset, value in found.items() if value.startswith(b"new"))
    log_dirs = {FIRST: first.log_dir, SECOND: second.log_dir}
    return Stopped(running[1].log_dir, log_dirs, remote, found, parted_at, of_first)


def joined(capsys: Captured, *words: str | Path) -> dict[int, bytes]:
    """What `dump` prints, by offset."""
    main(["dump", *map(str, words), "--topic", TOPIC, "--format", "jsonl"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {line["offset"]: base64.b64decode(line["value"]) for line in lines}
    assert len(found) == len(lines)
    return found


def test_the_leaders_parted_and_both_copied_segments_of_the_same_offsets(stopped: Stopped) -> None:
    """The case is what it should be."""
    assert sorted(stopped.consumed) == list(range(SHARED + NEW))
    assert stopped.parted_at == SHARED
    assert not any(value.startswith(b"lost") for value in stopped.consumed.values())
    assert max(stopped.of_first) > stopped.parted_at
    for log_dir in stopped.log_dirs.values():
        assert min(int(path.stem) for path in log_dir.glob(f"{TOPIC}-0/*.log")) > stopped.parted_at


@pytest.mark.parametrize("broker", [FIRST, SECOND])
def test_the_joined_log_of_each_broker_is_what_the_consumer_received(
    stopped: Stopped, broker: int, capsys: Captured
) -> None:
    ours = joined(capsys, stopped.internal, stopped.log_dirs[broker], "--remote", stopped.remote)
    assert ours == stopped.consumed


@pytest.mark.parametrize("broker", [FIRST, SECOND])
def test_without_the_metadata_of_remote_segments_their_epochs_decide_the_same(
    stopped: Stopped, broker: int, capsys: Captured
) -> None:
    ours = joined(capsys, stopped.log_dirs[broker], "--remote", stopped.remote)
    assert ours == stopped.consumed


def test_the_log_directories_of_all_brokers_are_one_log(stopped: Stopped, capsys: Captured) -> None:
    ours = joined(capsys, stopped.internal, *stopped.log_dirs.values(), "--remote", stopped.remote)
    assert ours == stopped.consumed


def test_records_of_a_lake_are_what_the_consumer_received(
    stopped: Stopped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    lake = Lake(tmp_path / "lake")
    lake.turn(stopped.internal, stopped.log_dirs[SECOND], remote=(str(stopped.remote),), topics=(TOPIC,))
    rows = {row["offset"]: row["value"] for row in lake.rows("records")}
    assert rows == stopped.consumed
    assert {state for _, _, state in lake.ledger(TOPIC)} == {"present"}


def test_segments_that_the_log_lost_are_reported_as_such(stopped: Stopped, capsys: Captured) -> None:
    places = map(str, (stopped.internal, stopped.log_dirs[SECOND], "--remote", stopped.remote))
    main(["remote", *places, "--topic", TOPIC, "--format", "jsonl"])
    *_, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert summary["summary"]["by_status"]["not-in-lineage"] > 0
