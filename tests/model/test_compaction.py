"""Cleaning, by every engine there is, after every short history and many long ones: I4 to I8 and I10 hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from tests.model import ours
from tests.model.checker import Settings, data_offsets
from tests.model.histories import STORIES, random_history, run, shortest
from tests.model.naive_cleaner import NaiveCleaner
from tests.model.reference_log import ReferenceLog, Segment

BOTH: tuple[Callable[[], Cleaner], ...] = (PlainCleaner, CompiledCleaner)


def settings_of(seed: int) -> Settings:
    """Every line, with and without grouping, producers that are forgotten, maps that get full, limits of retention."""
    return Settings(
        producer_expiration_ms=(86_400_000, 5000)[seed % 2],
        line=("4.4", "4.0", "3.9")[seed % 3],
        groups=bool(seed // 2 % 2),
        max_keys=(None, None, 1, 2)[seed // 4 % 4],
        retention_ms=(5, -1, 20)[seed // 2 % 3],
        retention_bytes=(-1, 200, 0, 500)[seed // 3 % 4],
    )


@pytest.mark.parametrize("groups", [True, False])
def test_what_must_hold_holds_after_every_short_history(groups: bool):
    clean = ours.cleaner(PlainCleaner)
    assert sum(1 for _ in shortest(Settings(groups=groups), clean, 4)) > 2000


@pytest.mark.parametrize("number", range(len(STORIES)))
def test_what_must_hold_holds_after_the_stories(number: int):
    for seed in range(12):
        run(STORIES[number], settings_of(seed), ours.cleaner(*BOTH))


@pytest.mark.long
def test_what_must_hold_holds_after_random_histories():
    for seed in range(300):
        run(random_history(seed), settings_of(seed), ours.cleaner(*BOTH))


@pytest.mark.long
def test_cleaning_again_at_the_same_clock_changes_no_record():
    """I10; bytes come to rest a little later: a marker is stamped in the first round that finds it without data, and
    goes in the next where nothing is retained."""
    for seed in range(200):
        for retention in (1000, 0):
            settings = replace(settings_of(seed), max_keys=None, delete_retention_ms=retention)
            rounds = [sound(seed, settings)]
            for _ in range(6):
                rounds.append(again(rounds[-1], settings))
            at_rest = 2 if retention == 0 else 1
            assert len({frozenset(data_offsets(each)) for each in rounds[at_rest:]}) == 1, seed
            assert joined(rounds[-1]) == joined(rounds[-2]), seed


def test_how_segments_are_put_together_and_where_a_round_ends_does_not_matter():
    """I10: in one round or in one for each segment, in one group or in many, the same records stay."""
    for seed in range(200):
        settings = replace(settings_of(seed), max_keys=None)
        log = sound(seed, settings)
        whole = again(log, replace(settings, groups=True))
        assert joined(again(log, replace(settings, groups=False))) == joined(whole), seed
        steps = replace(log, first_dirty=None)
        for base in [each.base_offset for each in log.segments[1:]]:
            steps = after(steps, ours.clean_up_to(steps, settings, base, PlainCleaner))
        assert data_offsets(steps) == data_offsets(whole), seed


def sound(seed: int, settings: Settings) -> ReferenceLog:
    """A log with a history and an empty active segment, in which all can be read."""
    letters = [letter for letter in random_history(seed).split() if letter[0] not in "XY"]
    return run(" ".join(letters), settings, NaiveCleaner()).roll()


def again(log: ReferenceLog, settings: Settings) -> ReferenceLog:
    """After a round over all of the log, whatever was cleaned before."""
    fresh = replace(log, first_dirty=None)
    return after(fresh, ours.clean_up_to(fresh, settings, None, PlainCleaner))


def after(log: ReferenceLog, result: ours.Cleaned | None) -> ReferenceLog:
    return log if result is None else replace(log, segments=result.segments, first_dirty=result.first_dirty)


def joined(log: ReferenceLog) -> bytes:
    """What the segments hold, however it is cut into them."""

    def content(segment: Segment) -> bytes:
        return segment.content

    return b"".join(map(content, log.segments))
