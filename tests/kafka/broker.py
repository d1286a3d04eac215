"""A Kafka broker of one node, on the loopback, for as long as a test needs it.

It runs in one JVM with its controller (`java/Broker.java`), listens on free ports, keeps everything under the folder it
is given, and stops by itself when the process that started it ends, however that ends.
"""

from __future__ import annotations

import base64
import select
import socket
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.daemons import WAIT_SECONDS, state_of
from tests.kafka import distribution

_TRIES = 3
_SCRIPT = ("-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")
"""As in `kafka-run-class.sh`."""

# One replica of everything, small indexes, no deletion or cleaning by the broker itself, no waiting for others.
_SETTINGS = {
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.index.size.max.bytes": "65536",
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": "600000",
    "message.max.bytes": "4000000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "metadata.max.idle.interval.ms": "0",
}
TIERED_STORAGE = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
}
"""What copies segments to LocalTieredStorage, three times a second. Its directory is `rsm.config.dir`."""


class Broker:
    """The running broker; use as a context manager or call `stop`.

    :param folder: where everything goes; made if it is not there. A second start on the same folder goes on with it.
    :param timed: its speed counts: it gets the JVM settings of Kafka's own start script.
    :param log_level: of what goes to `log_file`.
    :param more_jars: that it loads classes from, such as a plugin.
    :param version: of Kafka; the name of its lock. :param classes: our Java for it, with `Broker`.
    :param joins: the broker with the controller of a cluster that this one joins, without a controller of its own.
    :raises distribution.Unavailable: Kafka cannot be run here.
    :raises RuntimeError: it did not start; the text ends with what it logged last.
    """

    def __init__(
        self,
        folder: Path,
        *,
        timed: bool = False,
        log_level: str = "WARN",
        more_jars: Sequence[Path] = (),
        version: str = distribution.VERSION,
        classes: Path | None = None,
        joins: Broker | None = None,
        **settings: str,
    ) -> None:
        self._folder = folder
        self._version = version
        self._classes = classes
        self._timed = timed
        self._log_level = log_level
        self._settings = settings
        self._joins = joins
        self._controller = ""
        self._more_jars = more_jars
        self.log_dir = folder / "data"
        """The log directory: partition directories and checkpoints."""
        self.log_file = folder / "broker.log"
        self.servers = ""
        """``bootstrap.servers`` for clients."""
        folder.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(_TRIES)):
            try:
                self._start()
                return
            except RuntimeError:
                if not left or "BindException" not in self._log_tail():  # somebody took the port in between
                    raise

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """A controlled shutdown: indexes are trimmed, producer snapshots and checkpoints are written."""
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def kill(self) -> None:
        """End it on the spot (SIGKILL): nothing is written any more."""
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def run(self, main_class: str, *arguments: str, seconds: float = WAIT_SECONDS) -> str:
        """Run a class of ours as a client, the broker's address before the other arguments; returns its stdout.

        :raises RuntimeError: it ended with an error; the text has its stderr.
        """
        command = self._command(main_class, self.servers, *arguments, log_level="ERROR")
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{main_class} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def _start(self) -> None:
        port, controller_port = _free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        listeners = [f"PLAINTEXT://{self.servers}"]
        if self._joins is None:
            self._controller = f"127.0.0.1:{controller_port}"
            listeners.append(f"CONTROLLER://{self._controller}")
        else:
            self._controller = self._joins._controller
        settings = {
            **_SETTINGS,
            "process.roles": "broker,controller" if self._joins is None else "broker",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "controller.quorum.bootstrap.servers": self._controller,
            "log.dirs": str(self.log_dir),
            **self._settings,
        }
        properties = self._folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        arguments = ("Broker", str(properties), self._cluster_id())
        if self._timed:
            command = self._command(
                *arguments,
                heap="1g",
                collector="G1",
                options=_SCRIPT,
                log_level=self._log_level,
                more_jars=self._more_jars,
            )
        else:
            quick = ["-XX:TieredStopAtLevel=1"]  # it lives for seconds: the slow compiler would never pay
            command = self._command(
                *arguments, heap="512m", options=quick, log_level=self._log_level, more_jars=self._more_jars
            )
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self._folder
            )
        ready, _, _ = select.select([self._process.stdout], [], [], WAIT_SECONDS)
        if not ready or b"started" not in self._process.stdout.readline():
            state = state_of(self._process)
            self.kill()
            raise RuntimeError(f"the broker did not start ({state}):\n{self._log_tail()}")

    def _command(self, *arguments: str, **options: Any) -> list[str]:
        return distribution.command(*arguments, version=self._version, classes=self._classes, **options)

    def _cluster_id(self) -> str:
        """Of an earlier start or of the cluster that it joins, else a new one."""
        if self._joins is not None:
            return self._joins._cluster_id()
        try:
            lines = (self.log_dir / "meta.properties").read_text().splitlines()
        except FileNotFoundError:
            return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        return next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))

    def _log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-3000:]


def _free_ports(count: int) -> Sequence[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
