"""Logs to make, drawn from a seed: what `generate` of tests/kafka/storage_oracle.py is asked for.

    field             what it is (probabilities of a batch or record unless said otherwise)
    seed              of the log's own draws
    batches           number of them, markers included
    largest_batch     records; keys: how many different ones; largest_value: bytes; producers: number of ids
    magic, codec, timestamp_type    lists that each batch draws from; zstd in old formats becomes gzip
    without_key, empty_key, tombstone, empty_value, headers, without_timestamp
    idempotent, transactional       a batch with a producer id; one in a transaction
    marker, abort                   an open transaction ends; it is aborted
    marker_of_nothing               a marker although no transaction is open
    leave_open        bool: transactions stay open at the end
    roll, last_roll   a segment ends although it is not full; also at the log end
    leader_change, gap              the leader epoch rises; offsets are left out
    step_ms, jitter_ms              clock from batch to batch; records around it
    clock_jump, clock_jump_ms       the clock goes far forth or back

Belongs here: the draws. Does not: what is done with the log (`trials`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

BEGIN_MS = 1_700_000_000_000
"""When the first batch is written."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Specification:
    """A log to make, and the topic's configuration by Kafka's names. Times of change of segment number n are
    `first_modified_ms + n * modified_step_ms`."""

    fields: dict[str, Any]
    config: dict[str, str]
    log_start_offset: int
    first_modified_ms: int
    modified_step_ms: int


def specification(seed: int) -> Specification:
    """The same for the same seed."""
    draw = random.Random(seed)
    family = draw.randrange(10)
    magic = {0: ["0"], 1: ["1"], 2: ["0", "1", "2", "2"]}.get(family, ["2"])
    largest_batch = draw.randint(1, 15)
    largest_value = draw.randint(1, 20_000 if draw.randrange(8) == 0 else 300)
    smallest_segment = largest_batch * (largest_value + 150) + 500
    fields: dict[str, Any] = {
        "seed": seed,
        "magic": magic,
        "codec": draw.sample(_CODECS, draw.randint(1, 3)),
        "timestamp_type": ["create", "append"] if draw.randrange(4) == 0 else ["create"],
        "batches": draw.randint(5, 95),
        "largest_batch": largest_batch,
        "keys": draw.randint(1, 60),
        "largest_value": largest_value,
        "producers": draw.randint(1, 5),
        "without_key": 0.1 if draw.randrange(3) == 0 else 0,
        "empty_key": 0.02,
        "tombstone": 0 if draw.randrange(4) == 0 else draw.random() * 0.5,
        "empty_value": 0.03,
        "headers": draw.choice([0, 0.3]),
        "without_timestamp": 0.1 if draw.randrange(10) == 0 else 0,
        "idempotent": draw.choice([0, 0.5]),
        "transactional": draw.choice([0, draw.random() * 0.8]),
        "marker": 0.1 + draw.random() * 0.5,
        "abort": draw.random(),
        "marker_of_nothing": 0.3 if draw.randrange(6) == 0 else 0,
        "leave_open": draw.randrange(4) == 0,
        "roll": 0.15 if draw.randrange(3) == 0 else 0.03,
        "last_roll": 0.6,
        "leader_change": 0.1 if draw.randrange(3) == 0 else 0,
        "gap": 0.1 if draw.randrange(3) == 0 else 0,
        "step_ms": draw.randrange(5000),
        "jitter_ms": draw.choice([0, draw.randrange(20_000)]),
        "clock_jump": 0.05 if draw.randrange(4) == 0 else 0,
        "clock_jump_ms": draw.choice([60_000, _DAY_MS, 30 * _DAY_MS]),
    }
    config = {
        "segment.bytes": str(max(draw.randint(2000, 42_000), smallest_segment)),
        # an append of several messages in an old format may give more entries than a small index takes: Kafka throws
        "segment.index.bytes": draw.choice(["1048576", "1048576", "120"]) if magic == ["2"] else "1048576",
        "index.interval.bytes": "4096" if draw.randrange(3) == 0 else str(draw.randint(0, 2000)),
        "delete.retention.ms": draw.choice([str(_DAY_MS), "0", str(draw.randrange(3_600_000))]),
    }
    return Specification(
        fields,
        config,
        log_start_offset=draw.randrange(100_000) if draw.randrange(5) == 0 else 0,
        first_modified_ms=BEGIN_MS,
        modified_step_ms=1000 * draw.randint(1, 7200),
    )
