"""Cases in a row: how many trials came out equal by version, operation and codec, and each that did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.differential.cases import trials
from tests.differential.comparison import compare
from tests.differential.ours import by_ours
from tests.differential.trials import OPERATIONS, Left, Trial
from tests.kafka.storage_oracle import StorageOracle

_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Different:
    """A trial that did not come out equal, with what Kafka left and what differs, in words."""

    trial: Trial
    kafka: Left
    words: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.trial.name} ({', '.join(self.trial.injuries) or 'as it was written'})"
        return "\n  ".join((head, *self.words))


@dataclass(slots=True)
class Results:
    """Counts, by what they are of. Trials: (version, operation); codecs: (version, codec) of equal ones."""

    trials: Counter[tuple[str, str]] = field(default_factory=Counter)
    equal: Counter[tuple[str, str]] = field(default_factory=Counter)
    codecs: Counter[tuple[str, str]] = field(default_factory=Counter)
    named: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    different: list[Different] = field(default_factory=list)

    def take(self, trial: Trial, kafka: Left) -> None:
        """Hold ours against what Kafka left."""
        place = (trial.version, trial.operation)
        self.trials[place] += 1
        comparison = compare(trial, kafka, by_ours(trial))
        for name, count in comparison.named.items():
            self.named[(*place, name)] += count
        if comparison.differences:
            self.different.append(Different(trial, kafka, comparison.differences))
            return
        self.equal[place] += 1
        for codec in trial.codecs:
            self.codecs[trial.version, codec] += 1


def run(
    kafka: StorageOracle, seed: int, numbers: Sequence[int], operations: Sequence[str] = OPERATIONS
) -> Iterator[Results]:
    """The results so far, after every case."""
    results = Results()
    with scratch() as folder:
        for number in numbers:
            for trial, left in trials(kafka, seed, number, folder, operations):
                results.take(trial, left)
            yield results


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a while, in memory if this machine has such a file system."""
    with TemporaryDirectory(prefix="differential-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)
