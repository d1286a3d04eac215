"""A cluster operated at random by `java-admin/OperateCluster.java`, and what its Admin API said last.

The broker requires SASL, so that it issues delegation tokens. What is chosen follows from a seed. At the end the broker
is stopped in order, or killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.kafka import distribution
from tests.kafka.broker import Broker

JAVA = Path(__file__).parent / "java-admin"
_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="adm1n-s3cr3t"'
_CLIENTS = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={_LOGIN};\n"
_SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{_LOGIN} user_admin="adm1n-s3cr3t";',
    "delegation.token.secret.key": "t0ken-s3cr3t",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
}
_SECONDS = 300


@dataclass(frozen=True, slots=True)
class OperatedCluster:
    """The files of a cluster, and what its Admin API said before its end. Shared by tests: never write into it.

    Attributes:
        folder: Of the broker.
        log_dirs: Its log directories; the metadata log is in the first.
        answers: As `java-admin/Answers.java` writes them.
        story: What was chosen, and what the broker refused.
        is_killed: Whether the broker was killed. Else its shutdown is in the metadata log, after the answers.
    """

    folder: Path
    log_dirs: tuple[Path, ...]
    answers: dict[str, Any]
    story: str
    is_killed: bool

    @property
    def sources(self) -> tuple[str, ...]:
        """The log directories, as arguments of commands."""
        return tuple(map(str, self.log_dirs))

    @property
    def moment(self) -> tuple[str, ...]:
        """Options that select the metadata at the time of the answers."""
        return () if self.is_killed else ("--at", str(self.answers["high_watermark"]))

    def files(self) -> Iterator[Path]:
        """Every segment and snapshot of an internal topic."""
        for log_dir in self.log_dirs:
            yield from sorted(log_dir.glob("__*/*.log"))
            yield from sorted(log_dir.glob("__cluster_metadata-0/*.checkpoint"))


def classes() -> Path:
    """Our Java for the broker of `distribution.NEWEST_BROKER`.

    :raises distribution.Unavailable: Kafka cannot be run here.
    """
    paths = [distribution.SOURCES / "Broker.java", *sorted(JAVA.glob("*.java"))]
    return distribution.compiled({path.name: path.read_text() for path in paths}, distribution.NEWEST_BROKER)


def operate(folder: Path, seed: int, steps: int) -> OperatedCluster:
    """Operate a new cluster, and end it.

    :param folder: of the broker; made here. :param seed: of every choice. :param steps: how many operations.
    """
    random = Random(seed)
    folder.mkdir(parents=True)
    names = ["data", "more-data"][: random.choice((1, 2))]
    chosen = {
        "log.dirs": ",".join(str(folder / name) for name in names),
        "offsets.topic.num.partitions": random.choice(("1", "3")),
        "transaction.state.log.num.partitions": random.choice(("1", "2")),
        "metadata.log.max.record.bytes.between.snapshots": random.choice(("1000", "4000", "20971520")),
    }
    is_killed = random.choice((True, False))
    (folder / "clients.properties").write_text(_CLIENTS)
    broker = Broker(folder, version=distribution.NEWEST_BROKER, classes=classes(), **_SETTINGS, **chosen)
    try:
        answers = folder / "answers.json"
        said = broker.run(
            "OperateCluster", str(seed), str(steps), str(folder / "clients.properties"), str(answers), seconds=_SECONDS
        )
    except BaseException:
        broker.kill()
        raise
    if is_killed:
        broker.kill()
    else:
        broker.stop()
    story = f"seed {seed}, {chosen}, {'killed' if is_killed else 'stopped'}\n{said}"
    log_dirs = tuple(folder / name for name in names)
    return OperatedCluster(folder, log_dirs, json.loads(answers.read_text()), story, is_killed)
