"""The row about `__cluster_metadata`: `loglake metadata` on a log of very many changes, without any snapshot.

The log makes topics with 50 partitions each, and then changes partitions: the ISR shrinks and grows, leaders move,
some partitions are reassigned. The state that is printed must be that of a simple replay.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import crc32c

from tests import handmade, message_bytes
from tests.bench.corpora import SEED, SEGMENT_NAME, home
from tests.bench.processes import environment
from tests.bench.results import Line, Unit
from tests.bench.rounds import MOST_SPREAD
from tests.bench.totals import Differ
from tests.bench.watched import watched

METADATA = "metadata-state"
PARTITIONS, BROKERS, _BATCH = 50, 9, 100
_MIB = 1 << 20
_State = dict[tuple[str, int], tuple[int, list[int], list[int], int]]
"""By topic and partition: leader, replicas, ISR, partition epoch."""


def lines(records: int, rounds: int) -> Iterator[Line]:
    """Seconds and memory of the command.

    :raises Differ: it prints another state.
    """
    topics = max(records // 500, 1)
    directory = _log(records, topics)
    program = str(Path(sys.executable).with_name("loglake"))
    command = [program, "metadata", "--format", "jsonl", str(directory)]
    taken = [watched(command, Path.cwd(), environment()) for _ in range(rounds + 1)]
    _check(taken[0].stdout, directory, records)
    times = sorted(each.seconds for each in taken[1:])
    peaks = sorted(each.driver / _MIB for each in taken[1:])
    case = f"{METADATA}: `loglake metadata`, {topics:,} topics of {PARTITIONS} partitions, {records:,} records"
    middle = times[len(times) // 2]
    yield Line(
        case,
        "",
        Unit.SECONDS,
        middle,
        times[0],
        times[-1],
        f"{records / middle:,.0f} records/s",
        "",
        30,
        10,
        times[-1] / times[0] > MOST_SPREAD,
    )
    peak = peaks[len(peaks) // 2]
    yield Line(f"{case}: peak of RssAnon", "", Unit.MIB, peak, peaks[0], peaks[-1], "", "", 1024, 1024)


def _log(records: int, topics: int) -> Path:
    """The log directory, and beside it the state as JSON; made if they are not there yet."""
    digest = hashlib.sha256(b"".join(Path(str(each)).read_bytes() for each in (__file__, handmade.__file__)))
    directory = home() / f"{digest.hexdigest()[:12]}-{records}metadata"
    path, facts = directory / "__cluster_metadata-0" / SEGMENT_NAME, directory / "facts.json"
    if not facts.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        state: _State = {}
        values = _values(random.Random(SEED), records, topics, state)
        with path.open("wb") as stream:
            for offset in range(0, records, _BATCH):
                rows = [next(values) for _ in range(min(_BATCH, records - offset))]
                stream.write(_batch(offset, rows))
        facts.write_text(json.dumps([[*place, *row] for place, row in state.items()]))
    return directory


def _values(chance: random.Random, records: int, topics: int, state: _State) -> Iterator[bytes]:
    """Values of the records, in order; the state is kept up."""
    made = 0
    for number in range(topics):
        name, topic_id = f"topic-{number:05d}", _topic_id(number)
        yield bytes([1, 2, 0]) + _text(name) + topic_id + b"\0"
        yield bytes([1, 4, 0, 2]) + _text(name) + _text("retention.ms") + _text(str(number)) + b"\0"
        made += 2
        for partition in range(PARTITIONS):
            first = chance.randrange(BROKERS)
            replicas = [(first + step) % BROKERS for step in range(3)]
            state[name, partition] = first, replicas, list(replicas), 0
            yield _partition(partition, topic_id, replicas, first)
            made += 1
            if made == records:
                return
    while made < records:
        number, partition = chance.randrange(topics), chance.randrange(PARTITIONS)
        name = f"topic-{number:05d}"
        leader, replicas, isr, epoch = state[name, partition]
        kind, tags = chance.random(), dict[int, bytes]()
        if kind < 0.02:
            replicas = sorted({*replicas, chance.randrange(BROKERS)})[-3:]
            leader, isr = replicas[0], list(replicas)
            tags = {0: _ints(isr), 1: struct.pack(">i", leader), 2: _ints(replicas), 8: _directories(replicas)}
        elif len(isr) == 3:
            gone = isr[chance.randrange(3)]
            isr = [each for each in isr if each != gone]
            tags = {0: _ints(isr)}
            if leader not in isr:
                leader = isr[0]
                tags[1] = struct.pack(">i", leader)
        else:
            isr = list(replicas)
            tags = {0: _ints(isr)}
        state[name, partition] = leader, replicas, isr, epoch + 1
        section = b"".join(bytes([tag, len(part)]) + part for tag, part in sorted(tags.items()))
        yield bytes([1, 5, 1]) + struct.pack(">i", partition) + _topic_id(number) + bytes([len(tags)]) + section
        made += 1


def _partition(partition: int, topic_id: bytes, replicas: list[int], leader: int) -> bytes:
    lists = _ints(replicas) + _ints(replicas) + _ints([]) + _ints([])
    body = struct.pack(">i", partition) + topic_id + lists + struct.pack(">iii", leader, 0, 0)
    return bytes([1, 3, 1]) + body + _directories(replicas) + b"\0"


def _topic_id(number: int) -> bytes:
    return struct.pack(">qq", 7, number + 1)


def _text(value: str) -> bytes:
    return message_bytes.packed_uvarint(len(value) + 1) + value.encode()


def _ints(values: list[int]) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


def _directories(replicas: list[int]) -> bytes:
    return bytes([len(replicas) + 1]) + b"".join(bytes([replica + 1]) * 16 for replica in replicas)


def _batch(offset: int, values: list[bytes]) -> bytes:
    records = [handmade.record(delta, None, value) for delta, value in enumerate(values)]
    made = handmade.batch(records, base_offset=offset, base_timestamp=1_700_000_000_000 + offset, crc=0)
    checksum = crc32c.crc32c(made[handmade.CRC_FROM :])
    return made[: handmade.CRC_AT] + struct.pack(">I", checksum) + made[handmade.CRC_FROM :]


def _check(printed: str, directory: Path, records: int) -> None:
    expected = {(row[0], row[1]): row[2:] for row in json.loads((directory / "facts.json").read_text())}
    found, summary = {}, {}
    for line in map(json.loads, printed.splitlines()):
        if line["kind"] == "summary":
            summary = line
        for row in line["partitions"] if line["kind"] == "topic" else ():
            place = line["topic"], row["partition"]
            found[place] = [row["leader"], row["replicas"], row["isr"], row["partition_epoch"]]
            if len(row["directories"]) != len(row["replicas"]):
                raise Differ(f"{place}: directories and replicas differ in number")
    if summary.get("end_offset") != records:
        raise Differ(f"the state ends at offset {summary.get('end_offset')} of {records}")
    if found != expected:
        raise Differ(f"the state of {sum(found.get(each) != row for each, row in expected.items())} partitions differs")
