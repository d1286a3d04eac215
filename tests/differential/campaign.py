"""Cases in a row, our results compared with Kafka's, and the counts of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from logcore.columns.engines import new_cleaner
from tests.differential.cases import trials
from tests.differential.comparison import Comparison, compare
from tests.differential.ours import by_ours
from tests.differential.trials import OPERATIONS, Left, Trial
from tests.kafka.storage_oracle import StorageOracle

_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Compared:
    """A trial, what Kafka left, and how ours compares with it."""

    trial: Trial
    kafka: Left
    comparison: Comparison

    def __str__(self) -> str:
        head = f"{self.trial.name} ({'; '.join(self.trial.injuries) or 'as it was written'})"
        return "\n  ".join((head, *self.comparison.differences))


def run(
    kafka: StorageOracle, seed: int, numbers: Sequence[int], operations: Sequence[str] = OPERATIONS
) -> Iterator[Compared]:
    """Every trial of the cases of these numbers."""
    with scratch() as folder:
        for number in numbers:
            for trial, left in trials(kafka, seed, number, folder, operations):
                yield Compared(trial, left, compared(trial, left))


def compared(trial: Trial, kafka: Left) -> Comparison:
    """Ours beside Kafka's; of a cleaning, by the specification, and the fastest engine beside that."""
    ours = by_ours(trial)
    comparison = compare(trial, kafka, ours)
    if not trial.operation.startswith("clean"):
        return comparison
    fast = by_ours(trial, new_cleaner)
    if fast == ours:
        return comparison
    said = compare(trial, ours, fast).differences or ("not to the byte",)
    return replace(comparison, differences=(*comparison.differences, *(f"engines: {words}" for words in said)))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a while, in memory if this machine has such a file system."""
    with TemporaryDirectory(prefix="differential-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@dataclass(slots=True)
class Tally:
    """Counts by words. trials, equal: version, operation. codecs: version, codec, of equal trials whose log has it.
    named: version, operation, known difference. different: trials that are not equal, in words."""

    trials: Counter[tuple[str, ...]] = field(default_factory=Counter)
    equal: Counter[tuple[str, ...]] = field(default_factory=Counter)
    codecs: Counter[tuple[str, ...]] = field(default_factory=Counter)
    named: Counter[tuple[str, ...]] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def take(self, compared: Compared) -> None:
        """Count a trial."""
        trial, comparison = compared.trial, compared.comparison
        place = (trial.version, trial.operation)
        self.trials[place] += 1
        for name, count in comparison.named.items():
            self.named[(*place, name)] += count
        if comparison.differences:
            self.different.append(str(compared))
            return
        self.equal[place] += 1
        for codec in trial.codecs:
            self.codecs[trial.version, codec] += 1

    def add(self, other: Tally) -> None:
        """Count what another has counted."""
        for counter, more in zip(self._counters(), other._counters(), strict=True):
            counter.update(more)
        self.different += other.different

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        counted = [{" ".join(words): count for words, count in counter.items()} for counter in self._counters()]
        return dict(zip(_COUNTERS, counted, strict=True)) | {"different": self.different}

    @staticmethod
    def of(values: dict[str, Any]) -> Tally:
        """What `as_dict` made."""
        counters = [
            Counter({tuple(words.split(" ")): count for words, count in values[name].items()}) for name in _COUNTERS
        ]
        return Tally(*counters, different=list(values["different"]))

    def _counters(self) -> tuple[Counter[tuple[str, ...]], ...]:
        return self.trials, self.equal, self.codecs, self.named


_COUNTERS = ("trials", "equal", "codecs", "named")
