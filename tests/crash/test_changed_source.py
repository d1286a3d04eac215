"""Killed while the archive follows a source that changed its mind: one run cuts a tail back, fills damage and grows."""

from __future__ import annotations

import pytest

from tests.crash import test_every_side_effect as every
from tests.crash.forks import JOBS, Forks
from tests.crash.scene import Scene, change_its_mind, make_scene

pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def changed(forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene("changed", forks, tmp_path_factory.mktemp("changed"), change_its_mind)


def test_the_run_that_is_killed_cuts_back_and_fills_and_everything_is_published_then(changed):
    assert sum("'cut-back'" in row for row in changed.undisturbed["segments"]) == 1
    assert sum("'filled'" in row for row in changed.undisturbed["segments"]) == 1
    assert len(changed.undisturbed["records"]) == 20 + 5 + 10 + 8 + 20


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_killed_before_any_side_effect_the_next_run_makes_the_tables_of_an_undisturbed_one(changed, job):
    every.check_kills(changed, job, only_table_changes=True)


def test_what_a_commit_names_is_on_disk_with_all_folders_around_it_before_the_commit(changed):
    every.test_what_a_commit_names_is_on_disk_with_all_folders_around_it_before_the_commit(changed)
