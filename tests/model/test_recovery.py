"""Recovery of what a history leaves, damaged or not: the longest sound beginning, with the side files of the model."""

from __future__ import annotations

import pytest

from logcore.segments.filenames import LEADER_EPOCH_FILE
from tests.model import ours
from tests.model.checker import Settings
from tests.model.histories import STORIES, random_history, run, shortest
from tests.model.naive_cleaner import NaiveCleaner
from tests.model.recovering import expected_recovery, sound_batches
from tests.model.reference_log import ReferenceLog

CHECKED = (".log", ".index", ".timeindex")


def test_recovery_is_the_models_after_every_short_history():
    count = 0
    for history, log in shortest(Settings(), NaiveCleaner(), 4):
        check(history, log, 0)
        count += 1
    assert count > 2000


@pytest.mark.long
def test_recovery_is_the_models_after_random_histories():
    for seed in range(600):
        history = random_history(seed)
        log = run(history, Settings(), NaiveCleaner())
        check(history, log, 0)
        check(history, log, log.segments[len(log.segments) // 2].base_offset)


def test_recovery_is_the_models_after_the_stories():
    for history in STORIES:
        for end in range(len(history.split())):
            log = run(" ".join(history.split()[: end + 1]), Settings(), NaiveCleaner())
            check(history, log, 0)


def check(history: str, log: ReferenceLog, recovery_point: int) -> None:
    expected = expected_recovery(log, recovery_point, ours.INTERVAL)
    plan, found = ours.recover(log, recovery_point)
    told = (*CHECKED, ".txnindex") if recovery_point == log.log_start == 0 else CHECKED
    assert plan.refusal is None, history
    assert _of(found, told) == _of(expected.files, told), (history, recovery_point)
    assert (plan.log_start_offset, plan.log_end_offset) == (expected.log_start, expected.end), (history, recovery_point)
    assert bool(plan.losses) or not expected.cut, history
    if recovery_point:
        return  # what lies below was not looked at
    left = dict(found)
    if plan.log_start_offset == plan.log_end_offset and LEADER_EPOCH_FILE in found:
        # Of an empty log a start puts the last epoch at the log start, and the next takes away what begins at the end.
        left[LEADER_EPOCH_FILE] = b"0\n0\n"
    assert ours.recover_again(log, plan, found) == left, history
    _, kept = ours.recover(log, 0, salvage=True)
    wanted = {each for each in sound_batches(found) if each[0] >= log.log_start}
    assert sound_batches(kept) >= wanted, history


def _of(files: dict[str, bytes], suffixes: tuple[str, ...]) -> dict[str, bytes]:
    """An index without entries may also stay as an empty file, if there was an index before."""
    return {
        name: content
        for name, content in files.items()
        if name.endswith(suffixes) and (content or not name.endswith(".txnindex"))
    }
