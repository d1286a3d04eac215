"""The results page: the machine, what was asked for and what came out. Written by the benchmark, edited by nobody."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pyarrow as pa

from logcore.columns.kernels.machine.processor import this_processor
from tests.bench.cleaning import VERSION as KAFKA
from tests.bench.results import Line, number
from tests.kafka import distribution

_PACKAGES = (
    "numpy",
    "pyarrow",
    "numba",
    "llvmlite",
    "crc32c",
    "isal",
    "lz4",
    "zstandard",
    "python-snappy",
    "cramjam",
    "kafka-python",
    "aiokafka",
    "pyspark",
    "deltalake",
)

_HEAD = """\
# How fast

Written by

    {command}

The figures are of the machine below and of nothing else. Read the ratios: each is of one run, in which the contenders
took turns.
"""
_FIGURES = """\
- **Figures.** Medians, extremes in brackets. *noisy*: a contender's slowest round took more than 1.3 times its fastest,
  though such sets were thrown away and repeated; it is void.
"""
_READING = """\
- **What is read.** Generated segments, seeded, at least {mib} MiB of records each, the file in the page cache: `small`
  (keys of 13 bytes, about 83 bytes of JSON), `medium` (about 728 bytes of JSON), `headers` (small, with two of them),
  values of 10 and 100 KB; 1 % null keys, 1 % tombstones; batches of 16 KB (`16k`) or 1 MB (`1m`), codecs as Java
  clients write them; `v1`: messages of format 1, alone or in wrappers of 16 KB. The two commands read a segment of
  {command_mib} MiB and write into a file system in memory. {rounds} rounds (commands: {command_rounds}).
- **Equality first.** Before anything is timed, every reader must find the same: counts and sums over whole segments
  (ours, Kafka's), every field of every record over a part (ours, kafka-python, aiokafka), every column of every record
  over a part (ours, our plain reference); of the two dumps the number of records and every 997th of them.
- **The same work.** One thread (but for the commands), every CRC checked, every field of every record. Ours ends in
  Arrow batches with offset, timestamp, key, value and headers; theirs in objects. Kafka's Java classes run in their own
  JVM, {java_warm_ups} readings ahead; opening the file is in their time and in ours against them. kafka-python reads
  the first 8 MiB, aiokafka the first 32; their times are scaled.
- **Doubtful batches.** Segments of 512 KiB as stored, batches of 10 records: header names that are not UTF-8, and
  records that contradict their batch below a right CRC (every batch, or every tenth). Our two engines on one processor;
  first both must give the same rows, stretches and verdicts. Where every batch is damaged, both do the same work.
- **The limit.** 1/T = segment bytes / CRC speed + raw bytes / decompression speed + raw bytes / memcpy speed, each the
  fastest way at hand, measured in the same rounds.
- **Publishing.** Topics of {publish_mib} MiB of keys and values and four partitions, written through a real broker by a
  Java producer at its defaults (batches of 16 KB): `small` and `medium` as above. Ours is the whole job `publish`
  (plan, files, commit, ledger) in the same Spark session on segments that were registered where they lie and validated
  before; its table has all columns, theirs six. The Kafka source reads from the running broker on the same machine.
  Tuned: fetches of 16 MB, at least 1 MB, 10,000 records a poll, no dictionary where values do not repeat. MB/s: keys
  and values. Before anything is timed, number of rows, sum of offsets and sum of a 64-bit hash over (partition, offset,
  timestamp, key, value) are equal in all tables. {publish_rounds} rounds behind a warm-up; sessions, broker and
  processes are started before.
- **Whole runs.** `loglake run` as a process from its start to its end: over archived segments that bring nothing new
  (no table version, no JVM, or the row is void), and into a new lake. Memory: what a process holds that is no file
  (RssAnon), looked at every 20 ms, of each job in a process of its own with the same JVM heap; *growth* is the driver's
  peak over many small things less that over ten segments.
"""
_MAINTENANCE = """\
- **Cleaning and recovery.** Logs of {publish_mib} MiB before compression: records of about 60 bytes, batches of 16 KB
  and segments of 64 MiB; keys drawn evenly, 0.45 as many as records, so about two in five stay. Kafka's are
  `Cleaner.doClean` and `LogSegment.recover` of {kafka}, in a warm JVM on the same processor, one core each. First both
  must leave the same files, byte for byte: logs and indexes. Copying and opening the log are not timed on their side,
  mapping it and planning not on ours; ours verifies every checksum and digests what it writes, their cleaner neither.
- **Linear.** The same on a log eight times as large, against our own speed on the small one; what stays is held against
  a count that was made when the log was drawn.
- **The map.** As many different keys of 16 bytes as `SkimpyOffsetMap` takes at its load of 0.9, hashing included.
  Both have their room already, as a broker's cleaner has it. Also measured: ours when it makes its room, at once or
  growing, while the clock runs. Cleaning fills it growing.
- **One huge log.** The job `compaction`, spread over many tasks, on one processor and on two: warm sessions, the lake
  in memory, the same files.
- **The command.** `loglake run --maintain --apply` as a process from its start to its end, on a lake on disk that took
  the log before, against `Cleaner.doClean` in a warm JVM. Both may use every core. First both must leave the same
  files.
"""
_MAINTAINED = ("compact-", "recover-", "offset-map", "maintain-")
"""What the names of the cases of maintenance begin with."""


def page(
    lines: Sequence[Line],
    failures: Mapping[str, str],
    *,
    mib: int,
    command_mib: int,
    rounds: int,
    command_rounds: int,
    publish_mib: int,
    publish_rounds: int,
    java_warm_ups: int,
    load: float,
    command: str,
) -> str:
    """The page, in Markdown. It explains what is on it."""
    maintained = [name.startswith(_MAINTAINED) for name in (*(line.case for line in lines), *failures)]
    told = [_HEAD, "\n", _FIGURES, "" if all(maintained) else _READING, _MAINTENANCE if any(maintained) else ""]
    parts = [
        "".join(told).format(
            command=command,
            mib=mib,
            command_mib=command_mib,
            rounds=rounds,
            command_rounds=command_rounds,
            publish_mib=publish_mib,
            publish_rounds=publish_rounds,
            java_warm_ups=java_warm_ups,
            kafka=KAFKA,
        ),
        "## Targets\n",
        _table([line for line in lines if line.must is not None]),
        "\n## Also measured\n",
        _table([line for line in lines if line.must is None]),
    ]
    if failures:
        parts.append("\n## Void\n")
        parts += [f"- **{name}**: {reason}" for name, reason in failures.items()]
        parts.append("")
    parts += ["\n## The machine\n", *(f"- {name}: {value}" for name, value in machine(load).items()), ""]
    return "\n".join(parts)


def machine(load: float) -> dict[str, str]:
    """What the figures depend on. `load`: the load average when the run began."""
    processor = this_processor()
    pool = pa.default_memory_pool().backend_name
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "processor": f"{_processor_model()}, {os.cpu_count()} logical cores; load average when it began: {load:.2f}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "kernels compiled for": f"{processor.name} {processor.features}".strip(),
        "Arrow's memory pool": pool
        if pool == "mimalloc"
        else f"{pool} (not mimalloc: figures are lower than they might be)",
        "packages": ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES),
        "opponent": f"Kafka {distribution.VERSION}, {_java_version()}",
    }


def _table(lines: Sequence[Line]) -> str:
    rows = [
        "| case | against | figure | must | aim | reached | ours | theirs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        noisy = " *noisy*" if line.noisy else ""
        figure = f"**{number(line.figure)}** {line.unit} ({number(line.low)}–{number(line.high)}){noisy}"
        cells = [
            line.case,
            line.against,
            figure,
            _asked(line.must),
            _asked(line.aim),
            line.verdict,
            line.ours,
            line.theirs,
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _asked(target: float | None) -> str:
    return "" if target is None else f"{target:g}"


def _commit() -> str:
    here = Path(__file__).resolve().parent
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=, with changes", "--exclude=*"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"


def _processor_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _java_version() -> str:
    said = subprocess.run(
        [str(distribution.jdk()), "-version"], capture_output=True, text=True, check=False
    ).stderr.splitlines()
    return said[1].strip() if len(said) > 1 else "Java of unknown version"
