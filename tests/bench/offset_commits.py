"""The rows about `__consumer_offsets`: commits as the rows of their table, and the decoded dump.

Rows are made on one processor, as a task has it. Dumps are whole commands; ours may use every processor.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from logcore.messages.reader import ReadMessage
from logcore.reading.internal_topics.internal_logs import each_record
from logcore.reading.read_options import Notes
from logcore.topics.internal_topics import InternalTopic, record_messages
from spark_jobs.cluster.internal_sources import clusters_of, logs_at
from spark_jobs.cluster.read_tasks import read_commits
from tests.bench.commands import check_dumps, in_memory, process, tool
from tests.bench.commit_logs import CommitLog, CommitTotals, commit_log
from tests.bench.results import Line, Unit, compared, seconds
from tests.bench.rounds import MOST_SPREAD, Contender, take_turns
from tests.bench.totals import Differ, same

ROWS, DUMP = "commits-rows", "commits-dump"
_COMPARED = 100_000
_THEIRS = re.compile(rb"\| offset: (\d+) .*? headerKeys: \[\] key: (\{.*?\}\}) payload: (.*)")
_OURS = re.compile(rb"\S+ offset (\d+)  \S+  key (\{.*\})  value (null|\{.*\})")


def rows_lines(records: int, rounds: int) -> Iterator[Line]:
    """Records a second from a log to Arrow rows.

    :raises Differ: the rows are not those of the log.
    """
    made = commit_log(records)
    with one_processor():
        _check_rows(made)
        taken = []
        for _ in range(rounds):
            begun = time.perf_counter()
            _rows(made)
            taken.append(time.perf_counter() - begun)
    count = made.totals.records
    figures = [count / each for each in taken]
    yield Line(
        f"{ROWS}: {count:,} records of `__consumer_offsets` to rows of `cluster_offset_commits`, one processor",
        "",
        Unit.RECORDS_A_SECOND,
        median(figures),
        min(figures),
        max(figures),
        f"{seconds(median(taken))}, {made.nbytes / median(taken) / 1e6:,.0f} MB/s",
        "",
        200_000,
        1_000_000,
        max(taken) / min(taken) > MOST_SPREAD,
    )


def dump_lines(records: int, rounds: int) -> Iterator[Line]:
    """The decoded dump against Kafka's tool.

    :raises Differ: the dumps differ. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    made = commit_log(records)
    with tempfile.TemporaryDirectory(prefix="loglake-commands-", dir=in_memory()) as folder:
        our_file, their_file = Path(folder, "ours.txt"), Path(folder, "theirs.txt")
        program = str(Path(sys.executable).with_name("loglake"))
        ours = process([program, "dump", "--decode", str(made.segment)], our_file)
        theirs = process(tool(made.segment, "--offsets-decoder"), their_file)
        ours(), theirs()
        check_dumps(made.totals.records, our_file, their_file, partial(_parsed, _OURS), partial(_parsed, _THEIRS))
        our_name, their_name = "loglake dump --decode > FILE", "kafka-dump-log --offsets-decoder > FILE"
        contenders = [Contender(our_name, ours), Contender(their_name, theirs)]
        outcome = take_turns(contenders, rounds=rounds, warm_ups=0, sets=2)
    yield compared(
        f"{DUMP}: `{our_name}`, {made.totals.records:,} records",
        outcome,
        our_name,
        their_name,
        raw_bytes=made.nbytes,
        records=made.totals.records,
        must=5,
        aim=15,
    )


def _rows(made: CommitLog) -> pa.Table:
    (cluster,) = clusters_of(logs_at([str(made.directory)]), "bench")
    (log,) = cluster.of(InternalTopic.CONSUMER_OFFSETS)
    notes = Notes()
    rows = read_commits(cluster, log, 0, notes).rows
    if any(finding.rule != "no-high-watermark" for finding in notes.findings):
        raise Differ(f"findings in a whole log: {notes.findings[0].message}")
    return rows


def _check_rows(made: CommitLog) -> None:
    """Sums over all rows, and every field of the first ones as the generic reader has them.

    :raises Differ: they differ.
    """
    rows = _rows(made)
    text = pc.sum(pc.binary_length(rows["metadata"])).as_py()
    deleted = pc.sum(rows["is_deleted"]).as_py()
    times = pc.sum(pc.divide(rows["commit_time"].cast(pa.int64()), 1000)).as_py()
    found = CommitTotals(
        rows.num_rows,
        rows.num_rows - deleted,
        deleted,
        _wrapped(pc.sum(rows["committed_offset"]).as_py()),
        pc.sum(rows["partition"]).as_py(),
        _wrapped(times),
        rows["leader_epoch"].null_count,
        text,
    )
    same("commits", found, made.totals, CommitTotals.__slots__)
    (cluster,) = clusters_of(logs_at([str(made.directory)]), "bench")
    expected = islice(each_record(cluster.logs[0], Notes()), _COMPARED)
    names = ("record_offset", "group", "topic", "partition", "committed_offset", "leader_epoch", "metadata")
    columns = zip(*(rows[name].slice(0, _COMPARED).to_pylist() for name in names), strict=True)
    for record, ours in zip(expected, columns, strict=True):
        messages = record_messages(InternalTopic.CONSUMER_OFFSETS, record.key, record.value)
        key = messages.key.message if messages.key is not None else None
        value = None if messages.value is None else messages.value.message
        if not isinstance(key, ReadMessage) or (value is not None and not isinstance(value, ReadMessage)):
            raise Differ("the generic reader does not read a commit")
        content = {} if value is None else value.fields
        epoch = content.get("leaderEpoch", -1)
        fields = (
            record.offset, key.fields["group"], key.fields["topic"], key.fields["partition"],
            content.get("offset"), None if epoch == -1 else epoch, content.get("metadata"),
        )  # fmt: skip
        if ours != fields:
            raise Differ(f"the commit at offset {record.offset} differs from the generic reader's")


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _parsed(pattern: re.Pattern[bytes], line: bytes) -> tuple[object, ...]:
    match = pattern.fullmatch(line.rstrip(b"\n"))
    if match is None:
        raise Differ(f"a line of a dump cannot be understood: {line[:200]!r}")
    value = match[3] if match[3].startswith(b"{") else b"null"
    return int(match[1]), json.loads(match[2]), json.loads(value)


@contextmanager
def one_processor() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
