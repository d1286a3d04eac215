"""A broker operated at random: odd settings, four client libraries, stopped in order or killed.

Everything that is chosen follows from a seed; what the broker and its clients make of it does not (times, producer ids,
batch boundaries). `Operated.story` names every choice, for the message of an assertion.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests.kafka import distribution
from tests.kafka.broker import Broker

_SECONDS = 30
_ODD_BROKER: dict[str, tuple[str, ...]] = {
    "offsets.topic.num.partitions": ("1", "3"),
    "transaction.state.log.num.partitions": ("1", "2"),
    "offsets.topic.compression.codec": ("0", "1", "2", "3", "4"),
    "log.flush.interval.messages": ("1", "50", "9223372036854775807"),
    "log.index.interval.bytes": ("1", "512", "4096"),
    "log.preallocate": ("false", "true"),
    "log.cleaner.enable": ("false", "true"),
    "log.cleaner.backoff.ms": ("100",),
    "log.cleaner.min.cleanable.ratio": ("0.0", "0.5"),
    "log.cleaner.delete.retention.ms": ("0", "86400000"),
    "log.initial.task.delay.ms": ("200", "600000"),
    "log.retention.check.interval.ms": ("300",),
    "log.segment.delete.delay.ms": ("0", "60000"),
    "producer.id.expiration.ms": ("1500", "86400000"),
    "producer.id.expiration.check.interval.ms": ("300",),
    "transactional.id.expiration.ms": ("2000", "604800000"),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("500",),
    "group.coordinator.rebalance.protocols": ("classic,consumer", "classic"),
    "offsets.retention.check.interval.ms": ("500",),
}
_ODD_TOPIC: dict[str, tuple[str, ...]] = {
    "internal.segment.bytes": ("40000", "200000"),
    "segment.ms": ("300", "604800000"),
    "segment.jitter.ms": ("0", "100"),
    "segment.index.bytes": ("96", "4096", "65536"),
    "index.interval.bytes": ("0", "300", "4096"),
    "compression.type": ("producer", "producer", "gzip", "snappy", "lz4", "zstd", "uncompressed"),
    "message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime"),
    "message.timestamp.after.max.ms": ("9223372036854775807",),
    "preallocate": ("false", "false", "true"),
    "retention.bytes": ("-1", "-1", "10000"),
    "retention.ms": ("-1",),
    "delete.retention.ms": ("0", "86400000"),
    "flush.messages": ("1", "9223372036854775807"),
}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Operated:
    """One broker's directory, grown by `round`.

    :param folder: of the broker; made here. :param seed: of every choice.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = Random(seed)
        self._settings = self._chosen(_ODD_BROKER)
        self._topics: dict[str, int] = {}
        self._names = 0
        self.story = [f"seed {seed}", f"broker {self._settings}"]

    @property
    def log_dir(self) -> Path:
        """The broker's log directory."""
        return self._folder / "data"

    def round(self, *, kill: bool) -> None:
        """Start the broker, let clients use it, end it: by SIGKILL or in order."""
        broker = Broker(self._folder, **self._settings)
        try:
            self._use(broker.servers)
        except BaseException:
            broker.kill()
            raise
        if kill:
            broker.kill()
        else:
            if self._random.random() < 0.5:
                time.sleep(1)  # the cleaner, retention and the expiry of producers have their turn
            broker.stop()
        self.story.append("killed" if kill else "stopped")

    def _use(self, servers: str) -> None:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for _ in range(self._random.choice((1, 2, 3))):
            self._create(admin)
        clients: list[Callable[[str], None]] = [
            *(self._librdkafka, self._librdkafka_exactly_once, self._kafka_python, self._kafka_python_transactions),
            *(self._aiokafka, self._aiokafka_transactions, self._consume),
        ]
        operators: list[Callable[[AdminClient], None]] = [
            *(self._delete_records, self._more_partitions, self._alter, self._delete_topic),
        ]
        for client in self._random.sample(clients, 5):
            client(servers)
            if self._random.random() < 0.4:
                self._random.choice(operators)(admin)
        if self._random.random() < 0.3:
            # the Java client: topics of its own, of every kind that `Produce` makes
            seed = self._random.randrange(10**6)
            self.story.append(f"java {seed}")
            self._java(servers, seed)

    def _java(self, servers: str, seed: int) -> None:
        """It may fail: a broker that forgets producers after a second refuses what they send next."""
        command = distribution.command("Produce", servers, str(seed), log_level="ERROR")
        try:
            done = subprocess.run(command, capture_output=True, timeout=2 * _SECONDS, check=False)
        except subprocess.TimeoutExpired:
            self.story.append("it took too long")
        else:
            self.story.append(f"it ended with {done.returncode}")

    # What operators do

    def _create(self, admin: AdminClient) -> None:
        self._names += 1
        name, partitions = f"t{self._names}", self._random.choice((1, 1, 3))
        config = self._chosen(_ODD_TOPIC) | {
            "cleanup.policy": self._random.choice(("delete", "delete", "compact", "compact,delete"))
        }
        self.story.append(f"{name} of {partitions}: {config}")
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(_SECONDS)
        self._topics[name] = partitions

    def _delete_records(self, admin: AdminClient) -> None:
        topic, partition = self._target()
        consumer = Consumer({"bootstrap.servers": ",".join(_servers(admin)), "group.id": "bounds", "log_level": 0})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
        finally:
            consumer.close()
        before = self._random.randint(low, high)
        self.story.append(f"delete records of {topic}-{partition} before {before}")
        try:
            admin.delete_records([TopicPartition(topic, partition, before)])
        except KafkaException as error:
            self.story.append(f"refused: {error}")  # a compacted topic

    def _more_partitions(self, admin: AdminClient) -> None:
        topic = self._random.choice(list(self._topics))
        self.story.append(f"one partition more: {topic}")
        admin.create_partitions([NewPartitions(topic, self._topics[topic] + 1)])[topic].result(_SECONDS)
        self._topics[topic] += 1

    def _alter(self, admin: AdminClient) -> None:
        topic = self._random.choice(list(self._topics))
        name = self._random.choice(list(_ODD_TOPIC))
        value = self._random.choice(_ODD_TOPIC[name])
        self.story.append(f"{topic}: {name}={value}")
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(_SECONDS)

    def _delete_topic(self, admin: AdminClient) -> None:
        if len(self._topics) > 1:
            topic = self._random.choice(list(self._topics))
            self.story.append(f"delete {topic}")
            del self._topics[topic]
            admin.delete_topics([topic])[topic].result(_SECONDS)

    # What clients do

    def _librdkafka(self, servers: str) -> None:
        settings = {
            "bootstrap.servers": servers,
            "compression.type": self._random.choice(_CODECS),
            "enable.idempotence": self._random.choice(("true", "false")),
            "linger.ms": self._random.choice(("0", "5", "50")),
            "batch.num.messages": self._random.choice(("1", "7", "10000")),
            "batch.size": "16384",  # less than any segment
            "acks": "all",
            "log_level": 0,
        }
        self.story.append(f"librdkafka {settings}")
        producer = Producer(settings)
        for _ in range(self._random.randint(1, 300)):
            self._produce(producer)
        producer.flush(_SECONDS)

    def _librdkafka_exactly_once(self, servers: str) -> None:
        """Consume, transform, produce; some of the transactions are aborted, the last may be left open."""
        source, target = self._target()[0], self._target()[0]
        group = f"g{self._random.randrange(3)}"
        self.story.append(f"librdkafka exactly once, group {group}: {source} to {target}")
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": f"{group}-{self._random.randrange(2)}", "log_level": 0}
        )
        try:
            consumer.subscribe([source])
            producer.init_transactions(_SECONDS)
            for turn in range(self._random.randint(2, 8)):
                producer.begin_transaction()
                for message in consumer.consume(20, timeout=0.5):
                    if message.error() is None:
                        producer.produce(target, key=message.key(), value=message.value())
                if self._random.random() < 0.3:
                    self._produce(producer)
                if read := [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]:
                    producer.send_offsets_to_transaction(read, consumer.consumer_group_metadata(), _SECONDS)
                if self._random.random() < 0.3:
                    producer.abort_transaction(_SECONDS)
                elif turn or self._random.random() < 0.9:
                    producer.commit_transaction(_SECONDS)
                else:
                    producer.flush(_SECONDS)
                    self.story.append("left open")
                    break
        finally:
            consumer.close()

    def _kafka_python(self, servers: str) -> None:
        codec = self._random.choice(_CODECS)
        idempotent = self._random.choice((True, False))
        self.story.append(f"kafka-python {codec}, idempotent {idempotent}")
        producer = KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all" if idempotent else self._random.choice((0, 1, "all")),
            linger_ms=self._random.choice((0, 20)),
            batch_size=self._random.choice((1, 500, 16384)),
        )
        for _ in range(self._random.randint(1, 200)):
            topic, partition = self._target()
            producer.send(topic, self._bytes(2000), self._key(), partition=partition, timestamp_ms=self._time())
        producer.flush(_SECONDS)
        producer.close()

    def _kafka_python_transactions(self, servers: str) -> None:
        self.story.append("kafka-python transactions")
        producer = KafkaProducer(
            bootstrap_servers=servers, transactional_id=f"kp{self._random.randrange(3)}", acks="all"
        )
        producer.init_transactions()
        for _ in range(self._random.randint(1, 6)):
            producer.begin_transaction()
            for _ in range(self._random.randint(0, 20)):
                topic, partition = self._target()
                producer.send(topic, self._bytes(300), self._key(), partition=partition)
            producer.flush(_SECONDS)
            if self._random.random() < 0.4:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.close()

    def _aiokafka(self, servers: str) -> None:
        codec = self._random.choice(_CODECS)
        idempotent = self._random.choice((True, False))
        self.story.append(f"aiokafka {codec}, idempotent {idempotent}")

        async def produce() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all" if idempotent else self._random.choice((0, 1, "all")),
                linger_ms=self._random.choice((0, 20)),
            )
            await producer.start()
            try:
                for _ in range(self._random.randint(1, 200)):
                    topic, partition = self._target()
                    await producer.send(
                        topic, self._bytes(2000), self._key(), partition=partition, timestamp_ms=self._time()
                    )
            finally:
                await producer.stop()

        asyncio.run(produce())

    def _aiokafka_transactions(self, servers: str) -> None:
        self.story.append("aiokafka transactions")

        async def produce() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers, transactional_id=f"ai{self._random.randrange(3)}", acks="all"
            )
            await producer.start()
            try:
                for _ in range(self._random.randint(1, 6)):
                    await producer.begin_transaction()
                    for _ in range(self._random.randint(1, 20)):
                        topic, partition = self._target()
                        await producer.send_and_wait(topic, self._bytes(300), self._key(), partition=partition)
                    if self._random.random() < 0.4:
                        await producer.abort_transaction()
                    else:
                        await producer.commit_transaction()
            finally:
                await producer.stop()

        asyncio.run(produce())

    def _consume(self, servers: str) -> None:
        """Groups of two libraries that commit what they read: records of the offsets topic."""
        self.story.append("groups")
        topics = list(self._topics)
        reader = KafkaConsumer(
            *topics, bootstrap_servers=servers, group_id="kp", auto_offset_reset="earliest", consumer_timeout_ms=1500
        )
        for _ in zip(reader, range(300), strict=False):
            pass
        reader.commit()
        reader.close()

        async def read() -> None:
            consumer = AIOKafkaConsumer(
                *topics,
                bootstrap_servers=servers,
                group_id="ai",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=100,
            )
            await consumer.start()
            try:
                await consumer.getmany(timeout_ms=1000)
            finally:
                await consumer.stop()

        asyncio.run(read())

    # What they send

    def _produce(self, producer: Producer) -> None:
        topic, partition = self._target()
        headers = [(f"h{n}", self._random.choice((None, b"", b"value"))) for n in range(self._random.choice((0, 0, 2)))]
        while True:
            try:
                producer.produce(
                    topic, self._bytes(2000), self._key(), partition, headers=headers, timestamp=self._time()
                )
                return
            except BufferError:
                producer.poll(0.1)

    def _target(self) -> tuple[str, int]:
        topic = self._random.choice(list(self._topics))
        return topic, self._random.randrange(self._topics[topic])

    def _key(self) -> bytes:
        """Never null: some of the topics are compacted."""
        return b"key-%d" % self._random.randrange(30)

    def _bytes(self, most: int) -> bytes | None:
        kind = self._random.randrange(8)
        if kind == 0:
            return None
        return (
            b"" if kind == 1 else self._random.randbytes(self._random.randrange(most)) if kind == 2 else b"text " * 20
        )

    def _time(self) -> int:
        """Milliseconds: mostly now, sometimes old or far ahead."""
        return self._random.choice((int(time.time() * 1000),) * 4 + (1, 1_500_000_000_000, 4_102_444_800_000))

    def _chosen(self, odd: dict[str, tuple[str, ...]]) -> dict[str, str]:
        """About half of the settings, the others as Kafka has them; those of one value always."""
        return {
            name: self._random.choice(values)
            for name, values in odd.items()
            if len(values) == 1 or self._random.random() < 0.5
        }


def _servers(admin: AdminClient) -> list[str]:
    return [f"{broker.host}:{broker.port}" for broker in admin.list_topics(timeout=_SECONDS).brokers.values()]
