"""The rows about decoding values: the job `decode` against publishing `records` alone by the separate path.

    decode     `decoded/<topic>` from `records` of a lake that has published them
    publish    `records` from the archive of the same lake, validated before

Each job runs in a process of its own with its workers, on a fresh copy of the lake. The time is that of the job.

python -m tests.bench.decoded_values JOB LAKE POLICIES        one job, in this process
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from tests import handmade
from tests.bench.corpora import home
from tests.bench.decoding import Asked
from tests.bench.results import Line, Unit, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ
from tests.bench.watched import watched
from tests.broker_directory import LogDirectory

_REPOSITORY = Path(__file__).resolve().parents[2]
_AS_OF_MS = 1_800_000_000_000
_PARTITIONS = 4
_ROWS, _BATCHES = 500, 32
"""Rows of a batch, and different batches: they come again at other offsets."""
_BATCH_OFFSET_BYTES = 8
PUBLISH = "`publish` of `records` alone"


@dataclass(frozen=True, slots=True)
class DecodedCase:
    """A format, and which share of the speed of publishing is asked."""

    format: str
    asked: Asked
    is_plain: bool = False

    @property
    def name(self) -> str:
        return f"decode-{self.format}{'-plain' if self.is_plain else ''}"


CASES = (
    DecodedCase("json", Asked(0.35, 0.5)),
    DecodedCase("json", Asked(0.08, 0.12), is_plain=True),
    DecodedCase("avro", Asked(0.5, 0.6)),
    DecodedCase("protobuf", Asked(0.5, 0.7)),
    DecodedCase("string", Asked(None, None)),
)
SCHEMAS: Mapping[str, tuple[str, str]] = {
    "json": (
        "row.json",
        json.dumps(
            {
                "type": "object",
                "properties": {
                    **{name: {"type": "integer"} for name in ("id", "created")},
                    **{name: {"type": "string"} for name in ("user", "email", "currency")},
                    "amount": {"type": "number"},
                    "paid": {"type": "boolean"},
                    "address": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                    },
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            }
        ),
    ),
    "avro": (
        "row.avsc",
        json.dumps(
            {
                "type": "record",
                "name": "Row",
                "fields": [
                    {"name": "id", "type": "long"},
                    {"name": "user", "type": "string"},
                    {"name": "email", "type": "string"},
                    {"name": "amount", "type": "double"},
                    {"name": "currency", "type": "string"},
                    {"name": "paid", "type": "boolean"},
                    {"name": "created", "type": "long"},
                    {
                        "name": "address",
                        "type": {
                            "type": "record",
                            "name": "Address",
                            "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "string"}],
                        },
                    },
                    {"name": "tags", "type": {"type": "array", "items": "string"}},
                ],
            }
        ),
    ),
    "protobuf": (
        "row.proto",
        """
        syntax = "proto3";
        message Row {
          int64 id = 1; string user = 2; string email = 3; double amount = 4; string currency = 5; bool paid = 6;
          int64 created = 7; Address address = 8; repeated string tags = 9;
          message Address { string city = 1; string zip = 2; }
        }
        """,
    ),
}


def lines(case: DecodedCase, mib: int, rounds: int) -> Iterator[Line]:
    """The job against publishing, after the decoded rows were compared with those that were written.

    :raises Differ: the decoded rows are others.
    """
    with tempfile.TemporaryDirectory(prefix="decode-", dir=home()) as scratch:
        place = DecodedPlace(Path(scratch), case)
        place.prepare(mib)
        place.compare()
        outcome = take_turns(
            [Contender(f"decode, {case.format}", place.decode), Contender(PUBLISH, place.publish)],
            rounds=rounds,
            warm_ups=1,
        )
    yield compared(
        case.name,
        outcome,
        f"decode, {case.format}",
        PUBLISH,
        raw_bytes=place.raw_bytes,
        records=place.records,
        must=case.asked.must,
        aim=case.asked.aim,
        unit=Unit.OF_ITS_SPEED,
    )
    peak = place.peak_bytes / (1 << 20)
    told = f"{place.raw_bytes / 1e6:,.0f} MB of values"
    yield Line(
        f"{case.name}: peak of RssAnon of a worker", "600 MiB", Unit.MIB, peak, peak, peak, "", told, must=600, aim=400
    )


class DecodedPlace:
    """A source, a lake that validated it, a lake that published it, and the copy that a job works on."""

    def __init__(self, scratch: Path, case: DecodedCase) -> None:
        self.case, self.scratch = case, scratch
        self.source, self.lake = scratch / "source", scratch / "lake"
        self.validated, self.published = scratch / "validated", scratch / "published"
        self.policies = scratch / "policies.yaml"
        self.records = self.raw_bytes = self.peak_bytes = 0

    def prepare(self, mib: int) -> None:
        """Write the source, and let a lake take it."""
        schema = ""
        if self.case.format in SCHEMAS:
            name, text = SCHEMAS[self.case.format]
            (self.scratch / name).write_text(text)
            schema = f"    decode.value.schema: {name}\n"
        self.policies.write_text(f"topics:\n  rows:\n    decode.value: {self.case.format}\n{schema}")
        self._write(mib)
        for job in ("ingest", "validate"):
            self._run(job)
        shutil.copytree(self.lake, self.validated)
        self._run("publish")
        shutil.copytree(self.lake, self.published)

    def _write(self, mib: int) -> None:
        batches = [_batch(self.case.format, number) for number in range(_BATCHES)]
        directory, ends = LogDirectory(self.source), {}
        size = sum(values for _, values in batches) / _BATCHES
        each = max(1, round((mib << 20) / size / _PARTITIONS))
        for partition in range(_PARTITIONS):
            with directory.partition(f"rows-{partition}").roll(0).open("wb") as stream:
                for at in range(each):
                    content, values = batches[at % _BATCHES]
                    stream.write((at * _ROWS).to_bytes(_BATCH_OFFSET_BYTES, "big") + content[_BATCH_OFFSET_BYTES:])
                    self.raw_bytes += values
            ends[f"rows_{partition}"] = each * _ROWS
        directory.high_watermarks(**ends)
        self.records = each * _ROWS * _PARTITIONS

    def decode(self) -> float:
        """Decode a fresh copy; return the seconds."""
        return self._fresh(self.published, "decode")

    def publish(self) -> float:
        """Publish a fresh copy; return the seconds."""
        return self._fresh(self.validated, "publish")

    def _fresh(self, original: Path, job: str) -> float:
        shutil.rmtree(self.lake, ignore_errors=True)
        shutil.copytree(original, self.lake)
        return self._run(job)

    def _run(self, job: str) -> float:
        command, environment = self._command(job)
        done = subprocess.run(command, cwd=_REPOSITORY, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Differ(f"{job}: {done.stderr[-2000:]}")
        return float(done.stdout.splitlines()[-1])

    def _command(self, job: str) -> tuple[list[str], Mapping[str, str]]:
        environment = os.environ | {"LOGLAKE_HOME": str(self.scratch / "home")}
        if self.case.is_plain and job == "decode":
            environment["LOGLAKE_ENGINE"] = "reference"
        places = map(str, (self.lake, self.policies, self.source))
        return [sys.executable, "-m", "tests.bench.decoded_values", job, *places], environment

    def compare(self) -> None:
        """Decode once, under a watch for memory, and compare the rows with those that were written.

        :raises Differ: rows are missing, undecoded, or others.
        """
        command, environment = self._command("decode")
        self.peak_bytes = watched(command, _REPOSITORY, environment).worker
        dataset = DeltaTable(str(self.lake / "tables" / "decoded" / "rows")).to_pyarrow_dataset()
        with duckdb.connect(":memory:") as connection:
            decoded = connection.from_arrow(dataset)
            [(rows, nulls)] = decoded.aggregate("count(*), count(*) filter (value is null)").fetchall()
            first = decoded.filter('partition = 0 and "offset" < 1000').order('"offset"').project("value").fetchall()
        if (rows, nulls) != (self.records, 0):
            raise Differ(f"{self.case.name}: {rows} rows, {nulls} of them null, of {self.records}")
        if self.case.format == "string":
            return
        expected = [value for number in range(2) for value in _values(number)]
        if not first or [json.loads(json.dumps(value)) for (value,) in first] != expected[: len(first)]:
            raise Differ(f"{self.case.name}: the decoded rows are not those that were written")


def _values(number: int) -> list[dict[str, Any]]:
    """The rows of a batch: nine fields with a struct and a list."""
    draw = random.Random(number)
    return [
        {
            "id": draw.getrandbits(40),
            "user": f"user-{draw.randrange(10**6):08d}-with-a-name",
            "email": f"user{draw.randrange(10**7)}@example.com",
            "amount": draw.randrange(10**6) / 100,
            "currency": "EUR",
            "paid": draw.random() < 0.5,
            "created": 1_700_000_000_000 + draw.randrange(10**9),
            "address": {"city": f"Springfield {draw.randrange(1000)}", "zip": f"{draw.randrange(10**5):05d}"},
            "tags": ["alpha", f"beta-{draw.randrange(50)}", "gamma"],
        }
        for _ in range(_ROWS)
    ]


def _batch(form: str, number: int) -> tuple[bytes, int]:
    """A batch at offset 0, and the bytes of its values."""
    bodies = [_WRITERS[form](value) for value in _values(number)]
    rows = [(b"user-%05d" % at, body) for at, body in enumerate(bodies)]
    batch = handmade.simple_batch(0, list(rows), base_timestamp=1_700_000_000_000, leader_epoch=0)
    return batch, sum(map(len, bodies))


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _avro_text(text: str) -> bytes:
    return _zigzag(len(text.encode())) + text.encode()


def _avro(value: Mapping[str, Any]) -> bytes:
    return b"".join(
        (
            _zigzag(value["id"]),
            *(_avro_text(value[name]) for name in ("user", "email")),
            struct.pack("<d", value["amount"]),
            _avro_text(value["currency"]),
            bytes([value["paid"]]),
            _zigzag(value["created"]),
            *(_avro_text(value["address"][name]) for name in ("city", "zip")),
            _zigzag(len(value["tags"])),
            *map(_avro_text, value["tags"]),
            b"\0",
        )
    )


def _part(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _protobuf(value: Mapping[str, Any]) -> bytes:
    address = b"".join(_part(at + 1, value["address"][name].encode()) for at, name in enumerate(("city", "zip")))
    return b"".join(
        (
            _varint(1 << 3) + _varint(value["id"]),
            *(_part(number, value[name].encode()) for number, name in ((2, "user"), (3, "email"), (5, "currency"))),
            _varint(4 << 3 | 1) + struct.pack("<d", value["amount"]),
            _varint(6 << 3) + b"\x01" if value["paid"] else b"",
            _varint(7 << 3) + _varint(value["created"]),
            _part(8, address),
            *(_part(9, tag.encode()) for tag in value["tags"]),
        )
    )


_WRITERS: Mapping[str, Callable[[Mapping[str, Any]], bytes]] = {
    "json": _json,
    "string": _json,
    "avro": _avro,
    "protobuf": _protobuf,
}


def _one_job(job: str, lake: str, policies: str, source: str) -> float:
    from spark_jobs import launch
    from spark_jobs.contracts import CONFIGS

    options: dict[str, Any] = {"lake": lake, "run_id": job, "as_of_ms": _AS_OF_MS}
    if job == "ingest":
        options["sources"] = [source]
    if job == "decode":
        options["policies"] = policies
    with launch.open_lake(lake, "benchmark"):
        begun = time.perf_counter()
        launch.run(CONFIGS[job].from_dict(options))
        return time.perf_counter() - begun


if __name__ == "__main__":
    sys.stdout.write(f"{_one_job(*sys.argv[1:])}\n")
