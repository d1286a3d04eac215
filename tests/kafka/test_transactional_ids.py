"""A transactional id that a real broker forgot and that came back has another producer id; the table has both."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig
from tests.kafka.broker import Broker
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.kafka, pytest.mark.long]

SECONDS = 30
FORGETS_SOON = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
}


TOMBSTONE = b"billing\x01\x00"
"""The end of a record without a value: the key, the length -1 of the value, no headers."""


def state_log(broker: Broker) -> bytes:
    return (broker.log_dir / "__transaction_state-0" / f"{0:020d}.log").read_bytes()


def producer_ids(file: Path) -> Iterator[int]:
    """The producer id of each batch, by Kafka's layout of format v2."""
    content, at = file.read_bytes(), 0
    while at + 61 <= len(content) and content[at + 16] == 2:
        yield struct.unpack_from(">q", content, at + 43)[0]
        at += 12 + struct.unpack_from(">i", content, at + 8)[0]


def transaction(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": "billing", "log_level": 0})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(SECONDS)


def test_a_transactional_id_that_expired_and_came_back_has_its_earlier_producer_id_too(
    kafka: None, tmp_path: Path
) -> None:
    with Broker(tmp_path / "broker", **FORGETS_SOON) as broker:
        admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(SECONDS)
        transaction(broker)
        until = time.monotonic() + SECONDS
        while TOMBSTONE not in state_log(broker):
            assert time.monotonic() < until
            time.sleep(0.2)
        transaction(broker)
    earlier, now = dict.fromkeys(producer_ids(broker.log_dir / "orders-0" / f"{0:020d}.log"))
    lake = Lake(tmp_path / "lake")
    launch.run(ClusterConfig(str(lake.path), "run", AS_OF_MS, (str(broker.log_dir),)))
    (row,) = lake.rows("cluster_transactional_ids")
    assert (row["transactional_id"], row["producer_id"], row["other_producer_ids"]) == ("billing", now, [earlier])
