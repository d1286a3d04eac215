"""Histories: words over a small alphabet, each letter an operation on a log.

    Pa Pb      a record with that key               Da Db      a tombstone
    N          a record without a key               Mab        one batch: key a, then a tombstone for b
    Za         a gzip batch: key a twice            I1a        as Pa, by idempotent producer 1
    T1a        a record in a transaction of producer 1 (opened if none is)   E1a  a tombstone in it
    C1 A1      that transaction commits, aborts
    R          roll
    K          a record of key z (a round needs something new), roll, and clean at the clock
    H          the same after waiting for delete.retention.ms
    J          wait until producers are forgotten   S          wait three milliseconds
    X0 X3      the newest batch, or the third before it, gets a wrong checksum     Y0  a size that makes no sense
    G          what is damaged heals                V          retention
    W2         deleteRecords up to two below the end
    L2 F       the high watermark is two below the end; it follows the end again

A history is written with spaces between: "Pa Da K H" is a program that anybody can run again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.model.checker import Cleaner, Retainer, Settings, cleaned, retained
from tests.model.reference_log import ReferenceLog

SHORT = ("Pa", "Pb", "Da", "T1a", "C1", "A1", "R", "K", "H", "X0", "G")
"""The alphabet of the histories of which there is every one."""

SHORT_OF_RETENTION = ("Pa", "C1", "T1a", "R", "S", "V", "W1", "L1", "F")
"""The same for retention."""

LONG = (
    *("Pa", "Pb", "Pc", "Da", "Db", "N", "Mab", "Mba", "Za", "I1a", "I2b"),
    *("T1a", "T1b", "T2a", "E1a", "E2b", "C1", "C2", "A1", "A2"),
    *("R", "K", "H", "K", "H", "J", "X0", "X1", "X3", "Y1", "G", "V", "W1", "W3", "L1", "L3", "F"),
)
"""That of the random ones. A letter that is here twice comes twice as often."""

STORIES = (
    "Pa R T1a A1 K K X3 H H G H H",  # a marker without data, above what is damaged later
    "Pa X0 R Da K H H G K H H",  # the value that a tombstone is for can be read again
    "Pa R Pa X0 R Pb K H G K",  # the newest value cannot be read
    "Pa T1a X0 A1 R Pa K H G H H",  # aborted data that cannot be read
    "Pa T1a A1 X0 R Pb K H G H H",  # an abort marker that cannot be read
    "Pa T1a C1 X0 R Pb K H G H H",
    "Pa R Da R Pb X0 K G K H H",  # sound segments beside a damaged one
    "Da Mba X0 X0 Pc T2a Db W1 Y1 K",  # an index entry in the middle of damage
    "T1a R T2b R A1 Pa K C2 K H H",  # transactions over segments, and over each other
    "T1a T2a A1 C2 K H H J K H",
    "T1a K T1b R C1 K T1a A1 K H H H",  # a round between the data and its marker
    "E1a A1 Da K H H",  # an aborted tombstone deletes nothing
    "Pa Da K K H Pa K H H",  # a key that comes back by itself
    "Mab Mba K H H J H",
    "Za Za R Za K Da K H H",
    "I1a I2a I1a K J K K",  # producers that are remembered, then forgotten
    "Pa W1 Pb Da K H H",
    "T1a C1 T1a A1 T1b C1 K H H",  # one producer, one transaction after the other
    "N N R N K K",
    "Pa Pb L1 Da R Pa K F K H H",  # a high watermark in the middle
    "T2a H H E1a C2 L3 W1 K F K",  # a transaction that began below the log start, its end above the high watermark
    "T1a H T1a A1 W3 Mba L3 K F K H",
    "E2b T1b Y1 G T1b X0 E2b A2 A1 W3 E2b Y1 A2 G K H",  # an abort that is neither met nor begun outside of damage
    "I1a I2b Da H Pc H X3 H",  # damage to a batch that is empty already
    "I2b T1a A1 N K Y1 W3 Y1 T1a C1 G K",  # damage before damage
    "T1b I2b H K A1 E2b J H L3 K",  # the high watermark falls below an abort of which nothing is left
)
"""Histories that once mattered; every cleaner goes through them."""


class Violated(AssertionError):
    """A history after which an invariant does not hold."""


def step(
    log: ReferenceLog, letter: str, settings: Settings, clean: Cleaner, retain: Retainer | None = None
) -> ReferenceLog | None:
    """The log after one operation; None if it means nothing there. Raises Violated."""
    kind, rest = letter[0], letter[1:]
    value = b"%d" % log.end
    key = rest[-1:].encode()
    match kind:
        case "P":
            return log.write([(key, value)])
        case "D":
            return log.write([(key, None)])
        case "N":
            return log.write([(None, value)])
        case "M":
            return log.write([(rest[:1].encode(), value), (key, None)])
        case "Z":
            return log.write([(key, value + b"-"), (key, value)], compressed=True)
        case "I":
            if int(rest[0]) in (log.open or {}):
                return None
            return log.write([(key, value)], producer=int(rest[0]))
        case "T" | "E":
            row = (key, value if kind == "T" else None)
            return log.write([row], producer=int(rest[0]), in_transaction=True)
        case "C" | "A":
            producer = int(rest)
            return log.finish(producer, commits=kind == "C") if producer in (log.open or {}) else None
        case "R":
            rolled = log.roll()
            return None if rolled is log else rolled
        case "K" | "H":
            waited = log.later(settings.delete_retention_ms) if kind == "H" else log
            return cleaned(waited.write([(b"z", value)]).roll(), settings, clean) if log.end else None
        case "J":
            return log.later(settings.producer_expiration_ms)
        case "S":
            return log.later(3)
        case "X" | "Y":
            return log.injured(int(rest), unwalkable=kind == "Y") if len(log.damage) < 3 else None
        case "G":
            return log.healed() if log.damage else None
        case "V":
            return None if retain is None or log.damage else retained(log, settings, retain)
        case "W":
            target = log.committed_end - int(rest)
            return log.starting_at(target) if target > log.log_start else None
        case "L":
            mark = log.end - int(rest)
            least = max(log.high_watermark or 1, log.log_start, log.cleaned_to)
            return replace(log, high_watermark=mark) if mark >= least else None
        case "F":
            return None if log.high_watermark is None else replace(log, high_watermark=None)
    raise ValueError(f"no such letter: {letter}")


def run(history: str, settings: Settings, clean: Cleaner, retain: Retainer | None = None) -> ReferenceLog:
    """The log at the end of a history; letters that mean nothing where they stand are passed over. Raises Violated."""
    log = ReferenceLog()
    done: list[str] = []
    for letter in history.split():
        done.append(letter)
        try:
            log = step(log, letter, settings, clean, retain) or log
        except AssertionError as error:
            raise Violated(f"{' '.join(done)} with {settings}: {error}") from error
    return log


def shortest(
    settings: Settings,
    clean: Cleaner,
    length: int,
    *,
    retain: Retainer | None = None,
    alphabet: tuple[str, ...] = SHORT,
) -> Iterator[tuple[str, ReferenceLog]]:
    """Every history of up to so many letters of an alphabet, each with its log; of those that lead to the same log, and
    have as many letters left, one. Keys come in the order of the alphabet. Raises Violated."""
    layer: list[tuple[str, ReferenceLog]] = [("", ReferenceLog())]
    for _ in range(length):
        seen: set[object] = set()
        following = []
        for history, log in layer:
            for letter in alphabet:
                if letter == "Pb" and "a" not in history:
                    continue
                if letter == "X0" and log.damage:
                    continue
                word = f"{history} {letter}".strip()
                try:
                    after = step(log, letter, settings, clean, retain)
                except AssertionError as error:
                    raise Violated(f"{word} with {settings}: {error}") from error
                if after is None:
                    continue
                same = identity(after)
                if same not in seen:
                    seen.add(same)
                    following.append((word, after))
        yield from following
        layer = following


def identity(log: ReferenceLog) -> object:
    """Equal for logs that no later operation can distinguish."""
    return (
        log.segments,
        log.written,
        log.marked,
        log.first_dirty,
        log.damage,
        log.clock_ms,
        log.log_start,
        log.high_watermark,
    )


def random_history(seed: int) -> str:
    """Some twelve to forty letters, ending with two rounds of cleaning."""
    chance = random.Random(seed)
    letters = chance.choices(LONG, k=chance.randrange(8, 40))
    return " ".join([*letters, "G", "F", "K", "H", "H"][: len(letters) + chance.choice((3, 5, 5))])
