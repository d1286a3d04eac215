"""A Spark standalone cluster on loopback, from the jars that came with pyspark: one master, workers of one core each.

`pyspark` ships no start scripts; ``bin/spark-class`` runs the same classes. It replaces itself by the JVM, so that the
process that was started is the daemon, and ending it is ending its process.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from spark_jobs.engine.java import java_home
from tests.daemons import WAIT_SECONDS, state_of

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.executor.cores": "1",
}
"""What an application says that is to run on it."""


@dataclass
class StandaloneCluster:
    """The running daemons; a context manager that ends them."""

    folder: Path
    workers: int = 2
    address: str = ""
    """``spark://…``, once started."""
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> StandaloneCluster:
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0")
            self.address = self._wait(log, r"Starting Spark master at (spark://\S+)")
            self._wait(log, "I have been elected leader")
            for number in range(1, self.workers + 1):
                work = str(self.folder / f"work-{number}")
                sizes = ("--cores", "1", "--memory", "1g", "--work-dir", work)
                worker = "org.apache.spark.deploy.worker.Worker"
                # Hosts of their own, all of them loopback: Spark never speculates on the host of the first attempt.
                host = f"127.0.0.{number}"
                self._start(f"worker-{number}", worker, "--port", "0", *sizes, self.address, host=host)
            self._wait(log, r"(?s)" + r"Registering worker.*?" * self.workers)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End workers, then the master; what does not end when asked is killed."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(timeout=10)

    def kill_executors(self) -> int:
        """Kill all executors that run now; return how many there were."""
        daemons, killed = {daemon.pid for daemon in self._daemons}, 0
        for process in [int(path.name) for path in Path("/proc").glob("[0-9]*")]:
            with suppress(OSError):  # it has ended meanwhile
                command = Path(f"/proc/{process}/cmdline").read_bytes()
                if b"CoarseGrainedExecutorBackend" in command and _parent(process) in daemons:
                    os.kill(process, signal.SIGKILL)
                    killed += 1
        return killed

    def logs(self) -> str:
        """What daemons and executors said, for a test that fails."""
        files = [*sorted(self.folder.glob("*.log")), *sorted(self.folder.glob("work-*/*/*/stderr"))]
        return "\n".join(f"--- {path.relative_to(self.folder)}\n{path.read_text()[-3000:]}" for path in files)

    def _start(self, name: str, *command: str, host: str = "127.0.0.1") -> Path:
        home = os.path.dirname(pyspark.__file__)
        settings = os.environ | {
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it would ask for a fixed port
            "JAVA_HOME": str(java_home()),
        }
        settings.pop("PYTHONPATH", None)  # only the session gives Spark's workers the folders of packages
        log = self.folder / f"{name}.log"
        where = ("--host", host, "--webui-port", "0")
        with log.open("wb") as output:
            spark_class = os.path.join(home, "bin", "spark-class")
            line = ["bash", spark_class, command[0], *where, *command[1:]]
            daemon = subprocess.Popen(
                line, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=settings, cwd=self.folder
            )
        self._daemons.append(daemon)
        return log

    def _wait(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            text = log.read_text()
            if said := re.search(pattern, text):
                return said[1] if said.groups() else said[0]
            if any(daemon.poll() is not None for daemon in self._daemons) or time.monotonic() > deadline:
                states = ", ".join(map(state_of, self._daemons))
                raise RuntimeError(f"the cluster does not start ({states}): waiting for {pattern!r}\n{self.logs()}")
            time.sleep(0.1)


def executor_of(python_worker: int) -> int:
    """The executor's JVM above a Python worker: its daemon's parent."""
    return _parent(_parent(python_worker))


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
