"""The results page: the machine, the targets and the results. The benchmark writes it, and no person edits it."""

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
from tests.bench.rounds import MOST_SPREAD
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
# {title}

Written by

    {command}

The figures are of the machine below and of no other. Read the ratios: in each row the contenders took turns.

- **Columns.** `must` is what we accept: the lowest ratio, or the highest time or memory. `aim` is our goal, and
  `reached` names which of them was met. Figures are medians; brackets have the least and the greatest value.
- **Noisy rows.** A row is *noisy*, and does not count, if one round took {most_spread} times as long as the fastest.
  Such rounds are repeated first.
"""
_READING, _WHOLE, _MAINTENANCE = "Speed of reading", "Speed of `loglake run`", "Speed of cleaning and recovery"
_TABLES = "Speed of decoded tables, latest state, internal topics and remote storage"
_OF_TABLES = ("decode-", "latest-", "commits-", "metadata-", "remote-")
_DECODING = ("small-", "medium-", "headers-", "10k-", "100k-")
_EXPLAINED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (*_DECODING, "dump", "verify", "`loglake "),
        """\
- **What is read.** Each segment is generated from a seed, has at least {mib} MiB of records, and is in the page cache.
  Of the keys 1 % are null, and of the values 1 %.
- **Names of the cases.** `small`: keys of 13 bytes, JSON values of about 83. `medium`: JSON values of about 728 bytes.
  `headers`: as `small`, with two headers. `10k` and `100k`: values of that size. `none`, `lz4`, …: the codec.
  `16k` and `1m`: size of the batches. `v1`: messages of format 1, alone or compressed in groups of 16 KB.
- **The two commands** read a segment of {command_mib} MiB and write into a file system in memory.
  Other cases have {rounds} rounds, commands have {command_rounds}.
- **Equality first.** Before the timing all readers must return the same records. Counts and sums are compared for whole
  segments, all fields for a part. Of two dumps the number of records and every 997th record are compared.
- **The same work.** Each reader checks every CRC and reads every field of every record. All use one thread, except the
  commands: ours may use every core. Ours makes Arrow batches of offset, timestamp, key, value and headers.
  The others make objects.
- **Opponents.** Kafka's classes run in a JVM that has read the file {java_warm_ups} times before. Both times include
  opening the file. kafka-python reads the first 8 MiB, aiokafka the first 32, and their times are scaled.
- **The limit.** 1/T = segment bytes / CRC speed + raw bytes / decompression speed + raw bytes / memcpy speed.
  Each speed is that of the fastest way on this machine, measured in the same rounds.
""",
    ),
    (
        ("doubtful-batches",),
        """\
- **doubtful-batches.** Segments of 512 KiB with batches of 10 records, read by our two engines on one processor.
  Header names are not UTF-8, or records contradict their batch in every batch or in every tenth.
  Both engines must give the same rows, damage and verdicts.
""",
    ),
    (
        ("journey-",),
        """\
- **journey-…** compares whole processes, from start to end. Ours is `loglake run` into a new lake: archive, validation,
  ledger, all columns, checks, and the record in Dagster. Theirs reads the topic from a running broker into Delta, with
  six columns and no checks. Topics have {publish_mib} MiB of keys and values in four partitions.
  {publish_rounds} rounds follow one that does not count.
- **Opponents of journey-….** *Spark job, defaults*: Spark's Kafka source with default settings. *Tuned*: it fetches
  1 to 16 MB, polls 10,000 records, and writes no Parquet dictionary for unique values. *Python consumers*: two
  consumers with large fetches, Arrow and delta-rs.
- **Equality first.** Number of rows, sum of offsets and sum of a 64-bit hash over each row must be equal in all tables.
""",
    ),
    (
        ("journey-parts",),
        """\
- **journey-parts** compares `loglake run` with what its parts need if each is done once: read, digest, copy, decode
  with the checksum, and write Parquet. One process for each core does them. 0.5: the command takes twice as long.
  Both must have as many rows as the topic has records.
""",
    ),
    (
        ("publish-small", "publish-medium"),
        """\
- **publish-….** Ours is the job `publish` on segments that are registered and validated before, with all columns.
  Theirs is a Spark job that reads the topic from a running broker, with six columns. Both use one Spark session.
  The tuned job fetches 1 to 16 MB and polls 10,000 records. It writes no Parquet dictionary for unique values.
""",
    ),
    (
        ("decode-",),
        """\
- **decode-…** is the job `decode` on published rows against `publish` of the same records by the separate path. Each
  runs in a process of its own with its workers. Values have nine fields with a struct and a list. 0.5: decoding takes
  twice as long. `plain`: every row is decoded row by row. Equality first: the decoded rows are those that were written.
- **decode-…-spark.** Spark's `from_json` and `from_avro` in the mode PERMISSIVE read the same `records` and write the
  same columns into a Delta table. Spark's time begins in a warm session, which has decoded a quarter of the rows. Ours
  is that of the job with the start of its workers. Both tables must have equal rows.
""",
    ),
    (
        ("latest-recent", "latest-even"),
        """\
- **latest-recent, latest-even** is the job `latest` for 1 % new rows, against computing the table from all of `records`
  again. Keys are a quarter of the rows. New rows have keys of the newest twentieth of the log, or any keys. Times are
  processor times. Both tables must have the newest offset of each key.
""",
    ),
    (
        ("latest-spark", "latest-keys"),
        """\
- **latest-spark.** Spark keeps the newest row of each key by `row_number` and merges it into a Delta table by the key:
  first all rows, then 1 % new ones. Each command is a process of its own, from its start to its end. Both tables must
  have equal rows.
- **latest-keys** is `loglake latest` on many different keys, with the memory of all processes. Rows must be exact.
""",
    ),
    (
        ("increment-", "partitions-"),
        """\
- **increment-…** is `loglake run` on a lake whose logs grew a little, or did not grow.
- **partitions-…** is `loglake run` into a new lake from many topic partitions.
""",
    ),
    (
        ("transactions-",),
        """\
- **transactions-small** is `loglake run` into a new lake. The log has committed transactions of one record each. Speed
  is per second of processor time of all processes. All offsets, keys and values must be those of the log.
""",
    ),
    (
        ("publish-noop", "publish-run", "publish-memory"),
        """\
- **publish-noop, publish-run.** `loglake run` as a process, without new data and with 1 MiB. A run without new data
  must make no table version and start no JVM. Otherwise the row does not count.
- **publish-memory.** Each job runs in a process of its own. *growth*: the driver's peak memory with many small
  segments, minus its peak with ten segments.
""",
    ),
    (
        ("watch-",),
        """\
- **watch-….** A writer appends 10 MB/s to a log. The time is from the checkpoint that covers a batch to the commit
  with its rows.
""",
    ),
    (
        ("commits-",),
        """\
- **commits-….** Commits of offsets in `__consumer_offsets`, in batches of about 50 without a producer. Values are of
  version 3, and of version 4 with the topic id. Three records in a thousand are another thing. Rows are made on one
  processor, up to Arrow. Their sums must be those of the log, and the first 100,000 those of the generic reader.
- **commits-dump** compares whole commands, ours with all processors. Of the two dumps the number of records, and two in
  997 as parsed JSON, are compared.
""",
    ),
    (
        ("metadata-",),
        """\
- **metadata-state** is the command from start to end on a log without snapshots. Partitions change until the end of the
  log. The printed state must be that of a simple replay.
""",
    ),
    (
        ("remote-",),
        """\
- **remote-read.** A segment as Aiven's plugin stores it, in chunks of 4 MiB with zstd and AES-256-GCM. The store is
  versitygw over a directory, on loopback. The opponent is the same segment as a plain file in the page cache. Our
  process has one processor. 0.5: reading takes twice as long. Counts and sums of all records must be equal.
- **remote-offset** reads one offset of a segment in the store. It counts the bytes that are requested.
- **remote-reference** is `loglake run --mode reference` into a new lake on a disk. Segments of 530 KB, random values,
  lie in the store as those of remote-read, and the metadata topic names them. The operating system counts the bytes
  that the store sends. The figure is what is more than each object `.log` once: manifests, listings, HTTP headers,
  second reads. Equality first: each offset of the table is there once, with its value. The next run finds nothing new.
""",
    ),
    (
        ("objects-", "operate-cancel"),
        """\
- **objects-…, a bucket.** The store is versitygw over a directory of the same disk, on loopback and on the same
  processors.
""",
    ),
    (
        ("operate-cancel",),
        """\
- **operate-cancel.** The time from the signal until another process can take the lease. A run is cancelled while it
  copies, validates and publishes; the slowest counts. The next run must publish all records.
""",
    ),
    (
        ("journey-", "maintain-", "partitions-", "publish-memory", "memory", "decode-"),
        """\
- **Memory** is anonymous memory (RssAnon) of all processes, read every 20 ms.
""",
    ),
    (
        ("compact-", "recover-"),
        """\
- **compact-…, recover-….** Logs of {publish_mib} MiB before compression: records of about 60 bytes, batches of 16 KB,
  segments of 64 MiB. About two in five records stay. Kafka's classes are `Cleaner.doClean` and `LogSegment.recover` of
  {kafka}, in a warm JVM on the same processor, one core each. Both must first write the same logs and indexes.
- **What is timed.** Kafka's time excludes copying and opening the log; ours excludes mapping and planning. Only ours
  verifies checksums and hashes its output.
""",
    ),
    (
        ("recover-none", "recover-lz4"),
        """\
- **recover-…-memory, -disk.** The same files, in a file system in memory (tmpfs) and on the disk. Kafka writes the
  indexes into them.
""",
    ),
    (
        ("compact-scaling", "recover-scaling"),
        """\
- **…-scaling.** A log eight times as large, against our own speed on the small one. The number of remaining records is
  compared with the number expected when the log was generated.
""",
    ),
    (
        ("offset-map",),
        """\
- **offset-map-….** As many different keys of 16 bytes as `SkimpyOffsetMap` takes at its load of 0.9, hashing included.
  Kafka's map is allocated before the timing. Ours grows from nothing during it, as in cleaning. Other rows have ours
  allocated at the start of the timing, or before it.
""",
    ),
    (
        ("compact-huge",),
        """\
- **compact-huge.** The job `compaction` with many tasks, on one processor and on two. Sessions are warm, the lake is in
  memory, and the files must be the same.
""",
    ),
    (
        ("maintain-",),
        """\
- **maintain-….** `loglake run --maintain --apply` as a process from start to end, on a lake that has the log already.
  The opponent is `Cleaner.doClean` in a warm JVM. Both may use every core, and must first write the same files.
""",
    ),
)
"""What is explained where a case has one of these beginnings."""


def introduction(
    names: Sequence[str],
    *,
    mib: int,
    command_mib: int,
    rounds: int,
    command_rounds: int,
    publish_mib: int,
    publish_rounds: int,
    java_warm_ups: int,
    command: str,
) -> str:
    """What the page says before its tables: only about the cases that it has."""
    if any(name.startswith(_DECODING) for name in names):
        title = _READING
    elif all(name.startswith(_OF_TABLES) for name in names):
        title = _TABLES
    else:
        title = _WHOLE if any(name.startswith(("journey-", "publish-")) for name in names) else _MAINTENANCE
    parts = [text for begins, text in _EXPLAINED if any(name.startswith(begins) for name in names)]
    return "".join([_HEAD, *parts]).format(
        title=title,
        command=command,
        most_spread=MOST_SPREAD,
        mib=mib,
        command_mib=command_mib,
        rounds=rounds,
        command_rounds=command_rounds,
        publish_mib=publish_mib,
        publish_rounds=publish_rounds,
        java_warm_ups=java_warm_ups,
        kafka=KAFKA,
    )


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
    parts = [
        introduction(
            [*(line.case for line in lines), *failures],
            mib=mib,
            command_mib=command_mib,
            rounds=rounds,
            command_rounds=command_rounds,
            publish_mib=publish_mib,
            publish_rounds=publish_rounds,
            java_warm_ups=java_warm_ups,
            command=command,
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
