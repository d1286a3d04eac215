"""No key, value or secret leaves the tables of records: not to outputs, to Dagster, to table logs, or to arguments.

What is planted: keys, values and headers of sound, damaged and undecodable records, an address of a webhook, a key of
an object store, and credentials, a token and a password in the metadata of a cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipelines.alerts import post_alerts
from spark_jobs.lake.view.registered_lakes import read_home
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.planted_secrets import PLANTED, is_planted, write_metadata

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

KEY, VALUE, HEADER = b"planted-Key", b"planted-Value", b"planted-Header"
WEBHOOK_SECRET, STORE_SECRET = "planted-webhook-token", "planted-store-key"
HOLD_RECORDS = {"records", "records_uncommitted", "quarantine"}
"""Tables whose data files are the records, or bytes of damaged batches."""
BAD_HEADER = 1 << 20


@dataclass
class Seen:
    """Everything that others than readers of records may see."""

    outputs: list[tuple[str, bytes]] = field(default_factory=list)
    command_lines: set[bytes] = field(default_factory=set)


@dataclass
class Place:
    """A source with all kinds of records, and the lake."""

    folder: Path
    source: LogDirectory
    seen: Seen
    environment: dict[str, str]

    @property
    def lake(self) -> Path:
        return self.folder / "shop"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def command(
        self, *words: str | Path, expected: tuple[int, ...], program: tuple[str, ...] = (), **more: str
    ) -> None:
        """Run a program (default: loglake) and keep what it prints."""
        line = [*(program or (sys.executable, "-m", "logcore.cli.main")), *map(str, words)]
        done = subprocess.run(
            line, env=self.environment | more, cwd=REPOSITORY, capture_output=True, timeout=WAIT_SECONDS, check=False
        )
        self.seen.outputs.append((" ".join(line[3:]), done.stdout + done.stderr))
        assert done.returncode in expected, (line, done.stdout.decode(), done.stderr.decode())

    def watch(self) -> None:
        """One round of a watch that publishes two records."""
        with (self.source.path / "orders-0" / f"{0:020d}.log").open("ab") as file:
            file.write(planted(6))
        self.source.high_watermarks(orders_0=8, payments_0=10)
        line = [sys.executable, "-m", "logcore.cli.main", "watch", str(self.source.path), "--lake", str(self.lake)]
        line += ["--policies", str(self.folder / "policies.yaml")]
        pipe = subprocess.PIPE
        with subprocess.Popen(line, env=self.environment, cwd=REPOSITORY, stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            rest, errors = process.communicate(timeout=WAIT_SECONDS)
        assert first.startswith(b"published 2 records"), errors
        self.seen.outputs.append(("watch", first + rest + errors))


def planted(offset: int, **fields: int) -> bytes:
    """A batch of two records."""
    records = [handmade.record(n, KEY, VALUE, headers=[(b"trace", HEADER)]) for n in range(2)]
    return handmade.batch(records, base_offset=offset, base_timestamp=1_700_000_000_000, **fields)


def undecodable(offset: int) -> bytes:
    """A batch whose checksum is right, and whose second record says that it is much longer."""
    first = handmade.record(0, KEY, VALUE)
    broken = handmade.varint(BAD_HEADER) + handmade.record(1, KEY, VALUE)[1:]
    return handmade.batch([first, broken], base_offset=offset, base_timestamp=1_700_000_000_000)


def watch_command_lines(seen: set[bytes], stop: threading.Event) -> None:
    """Collect the arguments of commands, and of every process of this machine that has a planted text in them."""
    while not stop.wait(0.05):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    line = Path("/proc", entry, "cmdline").read_bytes()
                except OSError:
                    continue
                if PLANTED in line or b"logcore.cli.main" in line:
                    seen.add(line)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """After runs from the command line and from Dagster, a verification, maintenance, and ticks of the alerts."""
    folder = tmp_path_factory.mktemp("secrets")
    source = LogDirectory(folder / "kafka-logs")
    orders, broken = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.roll()
    orders.write(planted(0) + planted(2))
    broken.roll()
    damaged = bytearray(planted(2))
    damaged[-3] ^= 0xFF
    compressed = handmade.batch(
        [KEY + VALUE], base_offset=6, attributes=handmade.GZIP, count=2, last_offset_delta=1
    )  # no gzip stream at all
    broken.write(planted(0) + bytes(damaged) + undecodable(4) + compressed + planted(8))
    source.high_watermarks(orders_0=4, payments_0=10)
    write_metadata(source.path / "__cluster_metadata-0")
    policies = folder / "policies.yaml"
    policies.write_text("lake: {alerts.webhook: 'env:LOGLAKE_WEBHOOK', alerts.max.lag: 1}\n")
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"} | {
        "LOGLAKE_HOME": str(folder / "home"),
        # Nothing listens there.
        "LOGLAKE_WEBHOOK": f"http://127.0.0.1:9/{WEBHOOK_SECRET}",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": STORE_SECRET,
        "AWS_REGION": "us-east-1",
    }
    place = Place(folder, source, Seen(), environment)
    stop = threading.Event()
    watching = threading.Thread(target=watch_command_lines, args=(place.seen.command_lines, stop))
    watching.start()
    try:
        _use(place, policies)
    finally:
        stop.set()
        watching.join()
    return place


def _use(place: Place, policies: Path) -> None:
    place.command(
        "run", place.source.path, "--lake", place.lake, "--policies", policies, "--isolation.level",
        "read_uncommitted", expected=(2, 3),
    )  # fmt: skip
    place.command("verify", place.source.path, "--log-level", "debug", expected=(2,))
    place.command("ledger", place.source.path, "--log-level", "debug", expected=(0, 2))
    place.command("recover", place.source.path, "--out", place.folder / "recovered", expected=(2, 3))
    with (place.source.path / "orders-0" / f"{0:020d}.log").open("ab") as file:
        file.write(planted(4))
    place.source.high_watermarks(orders_0=6, payments_0=10)
    place.command(
        "-m", "dagster", "job", "execute", "-m", "pipelines.definitions", "-j", "shop__intake",
        expected=(0,), program=(sys.executable,),
        DAGSTER_HOME=str(place.home / "dagster"),
    )  # fmt: skip
    place.command(
        "run", place.source.path, "--lake", place.lake, "--policies", policies, "--maintain", "--apply", expected=(2, 3)
    )
    place.watch()
    place.command(
        "cluster", place.lake, "--source", place.source.path, expected=(0,)
    )  # the runs before have its findings
    for form in ("text", "jsonl"):
        place.command("metadata", "--format", form, place.source.path, expected=(0,))
        place.command("dump", "--decode", "--all", "--format", form, place.source.path, expected=(1,))
    place.command("verify", place.lake, expected=(0, 1, 2))
    place.command("metrics", place.lake, expected=(0,))
    place.command("doctor", "--lake", place.lake, expected=(0, 1))
    _tick(place)


def _tick(place: Place) -> None:
    """A tick of the alerts whose webhook has no server."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in place.environment.items():
            patched.setenv(name, value)
        said: list[str] = []
        lines: list[str] = []
        cursor: str | None = None
        for minute in range(3):
            now_ms = 1_800_000_000_000 + minute * 3_600_000
            cursor, more = post_alerts(read_home(str(place.home)).lakes, cursor, now_ms, lambda *_: [], said.append)
            lines += more
    assert said, "the webhook did not answer, and nothing says so"
    place.seen.outputs.append(("alerts", "\n".join([*said, *lines, cursor or ""]).encode()))


def files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


def test_nothing_planted_is_in_an_output(place: Place) -> None:
    assert len(place.seen.outputs) == 16
    assert any(b"orders-0" in text for _, text in place.seen.outputs)
    assert [(name, text) for name, text in place.seen.outputs if is_planted(text)] == []


def test_nothing_planted_is_in_an_argument_of_a_process(place: Place) -> None:
    assert any(b"logcore.cli.main" in line for line in place.seen.command_lines)
    assert [line for line in place.seen.command_lines if PLANTED in line] == []


def test_nothing_planted_is_in_the_home_with_dagsters_history_and_logs(place: Place) -> None:
    kept = [path for path, _ in files(place.home)]
    assert any(path.name.endswith(".db") for path in kept)
    assert any("compute_logs" in str(path) or path.suffix == ".err" for path in kept)
    assert [path for path, content in files(place.home) if is_planted(content)] == []


def test_nothing_planted_is_in_what_describes_the_tables(place: Place) -> None:
    """Logs of tables, their checkpoints, the pages of expectations, and the files at the top of the lake."""
    archive, tables = place.lake / "archive", place.lake / "tables"
    looked = 0
    for path, content in files(place.lake):
        if archive in path.parents or (tables in path.parents and "_delta_log" not in path.parts):
            continue
        looked += 1
        if path.name.endswith(".checkpoint.parquet"):
            content = repr(pq.read_table(path).to_pylist()).encode()
        assert not is_planted(content), path
    assert looked > 20


def test_nothing_planted_is_in_a_table_that_holds_no_records(place: Place) -> None:
    names = {path.name for path in (place.lake / "tables").iterdir()}
    assert names > HOLD_RECORDS
    for name in sorted(names - HOLD_RECORDS):
        rows = DeltaTable(str(place.lake / "tables" / name)).to_pyarrow_table().to_pylist()
        assert not is_planted(repr(rows).encode()), name
    # The search finds what is there.
    records = DeltaTable(str(place.lake / "tables" / "records")).to_pyarrow_table().to_pylist()
    assert "planted-Value" in repr(records)
