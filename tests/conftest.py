"""What every test may ask for: the bundled samples, and an environment in which nothing leaves this machine."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logcore.records.snappy_encoder import use_library
from spark_jobs.engine.snappy_library import load_snappy_java
from tests import sampling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).resolve().parent.parent
SAMPLES = REPOSITORY / "samples"


_MEMORY = Path("/dev/shm")
_ROOM = 8 << 30
"""Bytes free in memory from which tests write there. A whole run leaves less."""


def _write_in_memory() -> None:
    """Let temporary files lie in memory: most of a run's time would be waits for a disk at each of its commits."""
    is_free = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM
    if is_free and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


_write_in_memory()


def _session_home() -> str:
    """A home for this session: its own registrations and Dagster history, and by links what is made once a machine."""
    ordinary = Path(os.environ.get("LOGLAKE_HOME", REPOSITORY / ".loglake")).absolute()
    home = Path(tempfile.mkdtemp(prefix="loglake-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("jars", "kafka", "kernels", "differential", "versitygw"):
        (ordinary / name).mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(ordinary / name)
    return str(home)


# Jars and Java shim are made once, however a test changes its home or working directory. Set before anything reads it.
os.environ["LOGLAKE_HOME"] = _session_home()
_JARS = Path(os.environ["LOGLAKE_HOME"], "jars")
if list(_JARS.glob("*.jar")):
    os.environ.setdefault("LOGLAKE_JARS_DIR", str(_JARS))
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["GX_ANALYTICS_ENABLED"] = "false"
# A test of an object store sets the address of its own server. Without one, no request leaves this machine.
os.environ.update({"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"})
os.environ["AWS_ALLOW_HTTP"] = "true"
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"

# As every program that compacts does: snappy in the bytes of a broker. It is loaded when something is compressed.
use_library(load_snappy_java)

# PySpark ends a process whose main module has no file, as pytest-xdist's have none: it takes it for a doctest.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = str(Path(pytest.__file__).with_name("__main__.py"))

_FOLDERS_IN_ORDER = (
    *("unit", "property", "model", "repository", "jobs", "conformance", "kafka"),
    *("dagster", "spark", "crash", "cluster", "object_store", "harm", "journey", "browser"),
)
_SLOW_MARKERS = ("kafka", "object_store", "dagster", "spark", "crash", "cluster")
_LONGEST_FILES = (
    *("journey/test_demo.py", "journey/test_pages.py", "harm/test_second_look.py", "harm/test_matrix.py"),
    "browser/test_pages_in_browser.py",
    *("spark/shared_records/test_mixed_files.py", "spark/repair/test_frontiers.py", "cluster/test_standalone.py"),
    "harm/test_every_file.py",
    "cluster/test_corpus.py",
    *("crash/test_every_side_effect.py", "crash/test_full_disk.py", "crash/test_maintenance.py"),
    *("dagster/test_a_lake_on_real_jobs.py", "object_store/test_journey.py", "spark/test_table_features.py"),
    *("crash/test_kill.py", "spark/test_class_archive.py", "crash/test_compaction.py"),
)
"""Slow files of which one process runs each whole. At the end of a run one of them would leave the other idle."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draw some of the long ones. Fast ones first: a wrong claim about bytes should not wait for a JVM.

    Then the longest files. A claim with many cases, each of which is slow, is long but for the cases drawn.
    """
    files = {path: path.relative_to(REPOSITORY / "tests").as_posix() for path in {item.path for item in items}}
    folders = {path: file.partition("/")[0] for path, file in files.items()}
    left_out = [item for item in items if item.get_closest_marker("long") and sampling.is_left_out(item.nodeid)]
    claims = dict[tuple[str, int, str], list[pytest.Item]]()
    for item in items:
        folder = folders[item.path]
        count = sampling.CASES.get(folder, sampling.SLOW_CASES if item.get_closest_marker("slow") else 0)
        if count and not item.get_closest_marker("long"):
            claims.setdefault((folder, count, item.nodeid.partition("[")[0]), []).append(item)
    for (folder, count, _), cases in claims.items():
        if len(cases) > count:
            drawn = set(sampling.drawn_cases(cases, count, folder))
            left_out += [item for item in cases if item not in drawn]
            for item in cases:
                item.add_marker("long")
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]

    def rank(item: pytest.Item) -> tuple[bool, int, int]:
        folder = folders[item.path]
        path = files[item.path]
        known = _FOLDERS_IN_ORDER.index(folder) if folder in _FOLDERS_IN_ORDER else len(_FOLDERS_IN_ORDER)
        is_slow = any(item.get_closest_marker(marker) for marker in _SLOW_MARKERS)
        longest = _LONGEST_FILES.index(path) if is_slow and path in _LONGEST_FILES else len(_LONGEST_FILES)
        return is_slow, longest, known

    items.sort(key=rank)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what draws the same samples again."""
    terminalreporter.write_line(f"samples are drawn by {sampling.VARIABLE}={sampling.SEED}")
    if sampling.ONE_IN > 1:
        terminalreporter.write_line(
            f"of the tests marked `long`, one in {sampling.ONE_IN} was drawn; `make test-long` runs them all"
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One bundled sample, unpacked with its modification times. Shared by all tests: never write into it."""

    name: str
    root: Path

    @property
    def logdir(self) -> Path:
        """The broker's log directory."""
        return self.root / "logdir"

    @property
    def case(self) -> dict[str, Any]:
        """``case.json``: broker, cluster, topics, what was done."""
        return json.loads((self.root / "case.json").read_text())

    def consumed(self, isolation_level: str = "read_committed") -> list[dict[str, Any]]:
        """What the real consumer received, in its order; bytes as base64, as in the oracle's lines."""
        lines = (self.root / "oracle" / f"{isolation_level}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def summary(self, isolation_level: str = "read_committed") -> dict[str, Any]:
        """Per topic partition: ``beginning``, ``end``, ``position``, ``records``, as the real consumer saw them."""
        return json.loads((self.root / "oracle" / f"{isolation_level}.summary.json").read_text())["partitions"]

    def dump(self, partition_directory: str, segment_file: str) -> str:
        """Text of Kafka's DumpLogSegments for one ``.log`` file."""
        return (self.root / "oracle" / "dump" / partition_directory / f"{segment_file}.txt").read_text()

    def copy_logdir(self, target: Path) -> Path:
        """A copy of the log directory that a test may change; modification times kept."""
        return Path(shutil.copytree(self.logdir, target))


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Sample]:
    """``sample("transactions-4.4.0")``: unpacks that archive on first use."""
    folder = tmp_path_factory.mktemp("samples")
    unpacked: dict[str, Sample] = {}

    def unpack(name: str) -> Sample:
        if name not in unpacked:
            with tarfile.open(SAMPLES / f"{name}.tar.xz") as archive:
                archive.extractall(folder / name, filter="data")
            unpacked[name] = Sample(name, folder / name)
        return unpacked[name]

    return unpack


@pytest.fixture(scope="session")
def expected_of_damaged() -> dict[str, dict[str, Any]]:
    """The stated expectation for the sample ``damaged``, by topic partition; see samples/PROVENANCE.md."""
    return json.loads((SAMPLES / "damaged.expected.json").read_text())["partitions"]


@pytest.fixture
def signals_act() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt here, and processes that are started ignore neither SIGINT nor SIGTERM.

    A shell starts background processes with SIGINT ignored, and Python then leaves it so. In a process that ran
    Dagster, SIGTERM has the action of SIGINT.
    """
    actions = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, action) for number, action in actions.items()}
    yield
    for number, action in before.items():
        signal.signal(number, action)


@pytest.fixture(scope="module")
def spark(spark_stopped_at_the_end: None) -> SparkSession:
    """The Spark session of the test process. Not one for all modules: some stop it, and the next gets another."""
    from spark_jobs.engine.session import get_session

    return get_session()


@pytest.fixture(scope="session")
def spark_stopped_at_the_end() -> Iterator[None]:
    """Nothing of Spark outlives the test process."""
    from spark_jobs.engine.session import stop_session

    yield
    stop_session()
