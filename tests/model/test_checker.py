"""The checker passes a cleaner that does what section 9 says, and finds every one with a fault."""

from __future__ import annotations

import pytest

from tests.model.checker import Cleaner, Retainer, Settings
from tests.model.faulty_retention import RETENTION_MUTANTS, naive_retention
from tests.model.histories import SHORT_OF_RETENTION, STORIES, Violated, random_history, run, shortest
from tests.model.naive_cleaner import MUTANTS, NaiveCleaner

SETTINGS = Settings()


def test_a_cleaner_that_follows_the_rules_passes_every_short_history():
    assert sum(1 for _ in shortest(SETTINGS, NaiveCleaner(), 4)) > 1000


def test_a_cleaner_that_follows_the_rules_passes_random_histories():
    for history in (*STORIES, *map(random_history, range(300))):
        run(history, Settings(producer_expiration_ms=5000), NaiveCleaner())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_every_faulty_cleaner_is_found(mutant: type[NaiveCleaner]):
    with pytest.raises(Violated):
        every_history(mutant())


RETENTIONS = tuple(Settings(retention_ms=ms, retention_bytes=size) for ms in (4, -1) for size in (-1, 0, 150))


@pytest.mark.parametrize("mutant", RETENTION_MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_every_faulty_retention_is_found(mutant: Retainer):
    with pytest.raises(Violated):
        every_retention(mutant)


def test_a_retention_that_follows_the_rules_passes():
    every_retention(naive_retention)


def every_history(clean: Cleaner) -> None:
    for history in (*STORIES, *map(random_history, range(400))):
        run(history, SETTINGS, clean)


def every_retention(retain: Retainer) -> None:
    for settings in RETENTIONS:
        for _ in shortest(settings, NaiveCleaner(), 5, retain=retain, alphabet=SHORT_OF_RETENTION):
            pass
