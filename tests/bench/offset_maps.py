"""The map of newest offsets against Kafka's own, `SkimpyOffsetMap`, in a warm JVM on the same processor.

As many different keys of 16 bytes are put into both as theirs takes at its load of 0.9. Hashing counts on both sides.
A broker's cleaner allocates its map once, so theirs has its memory already. Cleaning fills ours from nothing, and it
grows while the clock runs: that is the figure that counts. Other rows have ours with its memory allocated, before the
clock runs or at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from logcore.columns.cleaning.keyed_batches import hashes_in
from logcore.columns.cleaning.offset_map import MOST_BYTES_A_KEY, HashKey, OffsetMap
from tests.bench.quiet_place import one_processor
from tests.bench.results import Line, Unit, compared
from tests.bench.rounds import Contender, clocked, take_turns
from tests.kafka.storage_oracle import StorageOracle

_VERSION = "4.4.0"
_KEY_BYTES = 16
_SLOT_BYTES, _LOAD = 24, 0.9
"""Of their map, where a cleaner fills it."""
_ROWS_AT_ONCE = 20_000
"""About what a group of batches has."""


@dataclass(frozen=True, slots=True)
class MapCase:
    """So many keys, and how often. A round's time is the mean of several fillings where one takes two milliseconds:
    what else the machine does in these would make it noisy. A set of rounds that spreads too far is taken again."""

    name: str
    keys: int
    fillings: int
    rounds: int
    warm_ups: int


CASES = (
    MapCase("offset-map-100k", 100_000, 20, 15, 2),
    MapCase("offset-map-1m", 1_000_000, 2, 9, 2),
    MapCase("offset-map-5m", 5_000_000, 1, 5, 3),
)


def lines(case: MapCase, *, quick: bool) -> Iterator[Line]:
    """Let ours with room, ours without and theirs take turns.

    :raises distribution.Unavailable: Kafka cannot be run here.
    """
    map_bytes = int(case.keys / _LOAD * _SLOT_BYTES)
    with ExitStack() as stack:
        stack.enter_context(one_processor())
        kafka = stack.enter_context(StorageOracle(_VERSION, heap="2g", seconds_for_an_answer=3600))
        fillings = 1 if quick else case.fillings
        request = {"what": "offset_map", "map_bytes": map_bytes, "key_bytes": _KEY_BYTES, "rounds": fillings}
        count = int(kafka.ask("bench", **request)["keys"])
        cells = np.zeros((count, _KEY_BYTES), np.uint8)
        numbers = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        cells[:, :8] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        joined, offsets = cells.reshape(-1), np.arange(count)
        starts = np.arange(0, _KEY_BYTES * count + 1, _KEY_BYTES)
        bytes_a_key = [0.0]

        def fill(found: OffsetMap) -> None:
            key = HashKey.random()
            for start in range(0, count, _ROWS_AT_ONCE):
                end = min(start + _ROWS_AT_ONCE, count)
                high, low = hashes_in(joined, starts[start : end + 1], key)
                found.put(high, low, offsets[start:end])
            bytes_a_key[0] = max(bytes_a_key[0], found.peak_nbytes / len(found))

        def with_room() -> float:
            found = OffsetMap(expected=count)
            return clocked(lambda: fill(found))()

        def of_fillings(seconds: Callable[[], float]) -> Callable[[], float]:
            return lambda: fmean(seconds() for _ in range(fillings))

        def theirs() -> float:
            return fmean(kafka.ask("bench", **request)["rounds_ns"]) / 1e9

        contenders = [
            Contender("ours", of_fillings(with_room)),
            Contender("made", of_fillings(clocked(lambda: fill(OffsetMap(expected=count))))),
            Contender("grown", of_fillings(clocked(lambda: fill(OffsetMap())))),
            Contender("SkimpyOffsetMap", theirs),
        ]
        rounds, warm_ups = (1, 1) if quick else (case.rounds, case.warm_ups)
        outcome = take_turns(contenders, rounds=rounds, warm_ups=warm_ups, sets=1 if quick else 3)
    made = {"raw_bytes": _KEY_BYTES * count, "records": count}
    yield compared(f"{case.name}, growing", outcome, "grown", "SkimpyOffsetMap", must=8, aim=15, **made)
    yield compared(f"{case.name}, allocated at the start", outcome, "made", "SkimpyOffsetMap", **made)
    yield compared(f"{case.name}, allocated before", outcome, "ours", "SkimpyOffsetMap", **made)
    yield Line(
        f"{case.name}, bytes a key",
        "the bound",
        Unit.BYTES,
        *[bytes_a_key[0]] * 3,
        f"{count} keys",
        f"{map_bytes / count:.1f} bytes, at its load of {_LOAD}",
        must=MOST_BYTES_A_KEY,
        aim=MOST_BYTES_A_KEY,
    )
