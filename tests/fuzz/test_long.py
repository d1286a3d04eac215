"""The long campaign writes down what it found, and fails if anything is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fuzz import campaign, long
from tests.fuzz.campaign import ThirdReader
from tests.fuzz.engines_compared import fast_engines


@pytest.fixture(autouse=True)
def without_a_third_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def none() -> Iterator[tuple[str, ThirdReader | None]]:
        yield "none: it would take too long here", None

    monkeypatch.setattr(long, "third_reader", none)


def test_the_results_file_names_seed_commit_and_every_engine(tmp_path: Path) -> None:
    assert long.main(["--mutants", "300", "--seed", "5", "-o", str(tmp_path / "results.md")]) == 0
    text = (tmp_path / "results.md").read_text()
    assert "| seed | 5 |" in text
    assert f"| commit | `{long.commit()}` |" in text
    for engine in fast_engines():
        assert f"| {engine} | 300 |" in text


def test_an_engine_that_differs_makes_it_fail_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "equal", lambda one, other: False)
    assert long.main(["--mutants", "30", "--seed", "5", "-o", str(tmp_path / "results.md")]) == 1
    assert "mutant(5, " in (tmp_path / "results.md").read_text()


def test_steps_of_a_campaign_add_up_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, halves = campaign.run(9, 200, None), campaign.run(9, 100, None)
    halves.add(campaign.run(9, 100, None, first=100))
    assert (halves.mutants, halves.verdicts, halves.engines) == (whole.mutants, whole.verdicts, whole.engines)
