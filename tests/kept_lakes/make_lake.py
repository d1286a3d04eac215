"""Make a kept lake of this version's layout: its source, its runs by the real command, and the archive of both.

Run it in a work tree of the last commit that wrote the layout (README.md names it for each archive)::

    git worktree add ../loglake-before COMMIT
    cp -r tests/kept_lakes ../loglake-before/tests
    cd ../loglake-before && python -m tests.kept_lakes.make_lake layout-2.tar.xz

Everything is made under one neutral folder, because a lake holds absolute paths of its source (README.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from spark_jobs.lake.setup.identity import LAYOUT_VERSION
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition

PLACE = Path(tempfile.gettempdir(), "loglake-kept-lake")
"""Neutral: no user, no machine. `logs.source`, `segments.origin_file` and `sources.json` begin with it."""

THIRD_TOPIC_ID = "DDDDDDDDDDDDDDDDDDDDDA"
SECOND = 1_000_000_000
MODIFIED_NS = 1_750_000_000 * SECOND
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
POLICIES = """\
topics:
  changelog: {cleanup.policy: compact, min.cleanable.dirty.ratio: 0}
"""


def keyed(partition: Partition, keys: list[bytes], tag: bytes) -> None:
    """One batch in the active segment with a record for each key."""
    rows = [(key, tag + b"%d" % (partition.next_offset + delta)) for delta, key in enumerate(keys)]
    batch = handmade.simple_batch(partition.next_offset, rows, base_timestamp=1_700_000_000_000, leader_epoch=0)
    partition.write(batch)
    partition.next_offset += len(rows)


def begin(source: LogDirectory) -> tuple[Partition, Partition, Partition]:
    """A log with a decided and an open transaction, one with a damaged batch, one that a broker compacted before."""
    orders = source.partition("orders-0")
    orders.append(20)
    orders.append(5, **TRANSACTIONAL, base_sequence=0)
    orders.marker(7, handmade.COMMIT)
    orders.roll()
    orders.append(10)
    orders.append(5, **TRANSACTIONAL, base_sequence=5)

    payments = source.partition("payments-0", OTHER_TOPIC_ID)
    payments.append(15)
    first = payments.segments()[0]
    first.write_bytes(handmade.flip(first.read_bytes(), handmade.size_of(first.read_bytes()) + 80))
    payments.roll()
    payments.append(5)

    changelog = source.partition("changelog-0", THIRD_TOPIC_ID)
    changelog.roll()
    left = [handmade.record(delta, b"k%d" % delta, b"old%d" % delta) for delta in (0, 1, 4)]
    fields = {"base_timestamp": 1_700_000_000_000, "leader_epoch": 0}
    changelog.write(handmade.batch(left, base_offset=0, last_offset_delta=5, **fields))
    changelog.next_offset = 6
    keyed(changelog, [b"k0", b"k1", b"k9"], b"new")
    changelog.roll()
    keyed(changelog, [b"k0", b"k2"], b"newer")

    source.checkpoint("cleaner", changelog_0=6)
    source.high_watermarks(orders_0=41, payments_0=20, changelog_0=11)
    return orders, payments, changelog


def grow(source: LogDirectory, orders: Partition, payments: Partition, changelog: Partition) -> None:
    """The open transaction is decided, another is aborted, all logs go on."""
    orders.marker(7, handmade.COMMIT)
    orders.append(5, **TRANSACTIONAL, base_sequence=10)
    orders.marker(7, handmade.ABORT)
    orders.roll()
    orders.append(7)
    payments.append(5)
    keyed(changelog, [b"k1", b"k9"], b"newest")
    changelog.roll()
    keyed(changelog, [b"k5"], b"v")
    source.high_watermarks(orders_0=55, payments_0=25, changelog_0=14)


def grow_again(source: LogDirectory, orders: Partition, payments: Partition, changelog: Partition) -> None:
    """What came after the tables were merged; the last transaction stays open."""
    orders.append(3)
    orders.append(2, **TRANSACTIONAL, base_sequence=15)
    payments.append(2)
    keyed(changelog, [b"k6"], b"v")
    source.high_watermarks(orders_0=60, payments_0=27, changelog_0=15)


def settle(source: LogDirectory) -> None:
    """Whole seconds of modification, which every archive format keeps."""
    for number, path in enumerate(sorted(source.path.rglob("*.log"))):
        os.utime(path, ns=(MODIFIED_NS + number * SECOND, MODIFIED_NS + number * SECOND))


def run(source: LogDirectory, *more: str) -> int:
    """``loglake run`` as a person types it; returns the exit code."""
    settle(source)
    command = [sys.executable, "-m", "logcore.cli.main", "run", str(source.path), "--lake", str(PLACE / "lake"), *more]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DAGSTER")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PLACE, env=environment)
    print(" ".join(command[2:]), done.stdout, done.stderr, f"exit code {done.returncode}", sep="\n")
    assert done.returncode == 2, "the damaged batch of payments-0 is all that is wrong"
    return done.returncode


def without_history(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Dagster's history and the lease say nothing of the lake; owners are of the machine."""
    if ".dagster" in Path(info.name).parts or info.name.endswith("lease.json"):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def main() -> None:
    """Make it."""
    target = Path(sys.argv[1]).absolute()
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    policies = PLACE / "policies.yaml"
    policies.write_text(POLICIES)
    source = LogDirectory(PLACE / "source")
    logs = begin(source)
    run(source, "--policies", str(policies))
    grow(source, *logs)
    run(source, "--policies", str(policies))
    run(source, "--policies", str(policies), "--maintain", "--apply")
    grow_again(source, *logs)
    run(source, "--policies", str(policies))
    assert json.loads((PLACE / "lake" / "lake.json").read_text())["layout"] == LAYOUT_VERSION
    with tarfile.open(target, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as archive:
        for name in ("source", "lake", "policies.yaml"):
            archive.add(PLACE / name, name, filter=without_history)
    print(target, target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
