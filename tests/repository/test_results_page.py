"""The page of results says what the results say and how old they are, and README quotes its headline figures."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import pytest

from tests import results_page
from tests.bench.__main__ import cases
from tests.bench.pages import HEADLINES, RESULTS, PageName, headline_table
from tests.conftest import REPOSITORY
from tests.results_page import EVERY, PAGE, Age, Result, age, page_text, speed_pages

SPEED = """# Speed

Written by

    python -m tests.bench --page maintenance --mib 512

## Targets

| case | against | figure | must | aim | reached | ours | theirs |
|---|---|---|---|---|---|---|---|
| compact-none-twice | Cleaner.doClean | **9.99** × (9–10) | 4 | 8 | aim | a | b |
| compact-none | 1 core | **8.88** × (8–9) | 4 | 8 | aim | a | b |
| compact-none | Cleaner.doClean | **7.19** × (6.55–7.32) | 4 | 8 | must | a | b |
"""


def test_every_case_is_on_one_page() -> None:
    settings = {"quick": True, "mib": 1, "rounds": 1, "command_mib": 1, "command_rounds": 1}
    every = cases(argparse.Namespace(**settings, publish_mib=1, publish_rounds=1, whole_rounds=1, rows=1))
    assert len(every) > 40
    assert {name: [str(page) for page in PageName if page.has(name)] for name in every if not on_one_page(name)} == {}
    assert {headline.name for headline in HEADLINES} <= set(every)
    assert [each.name for each in HEADLINES if not each.page.has(each.name)] == []


def on_one_page(name: str) -> bool:
    return sum(page.has(name) for page in PageName) == 1


def test_the_page_is_that_of_the_results() -> None:
    """`python -m tests.results_page` writes it. How much has changed since is what its last writer saw."""
    written = (REPOSITORY / PAGE).read_text()
    seen = dict(
        re.findall(r"^\| \[[^]]+\]\(results/([\w-]+\.md)\) \| (.+) \|$", written.partition("## Headline")[0], re.M)
    )
    assert list(seen) == [result.file for result in EVERY]
    assert page_text(seen, speed_pages()) == written


def test_every_result_is_on_the_page() -> None:
    assert {path.name for path in (REPOSITORY / RESULTS).iterdir()} == {result.file for result in EVERY}


@pytest.mark.parametrize(
    ("states", "is_found"), [("HEAD", True), ("0" * 40, False), (None, None)], ids=["known", "unknown", "no commit"]
)
def test_a_result_has_the_age_of_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: str | None, is_found: bool | None
) -> None:
    command = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
    commit = head if states == "HEAD" else states
    monkeypatch.setattr(results_page, "RESULTS", tmp_path)
    (tmp_path / "a.md").write_text("# A\n" + (f"\n| commit | `{commit}` |\n" if commit else ""))
    found = age(Result("a.md", "a", ("logcore",)))
    assert found == Age(None if commit is None else commit[:8], 0 if is_found else None)


def test_a_row_has_the_figure_of_its_case_and_the_command_with_the_sizes_of_its_page() -> None:
    table = headline_table(dict.fromkeys(PageName, "") | {PageName.MAINTENANCE: SPEED})
    [row] = [line for line in table if line.startswith("| [cleaning on one core")]
    assert row.endswith("| **7.19** × | 4 | 8 | must | `python -m tests.bench --only compact-none --mib 512` |")
    assert sum("not measured" in line for line in table) == len(HEADLINES) - 1


def test_readme_quotes_the_table() -> None:
    table = (REPOSITORY / PAGE).read_text()
    figures = {f"{float(value):.1f}" for value in re.findall(r"\*\*([\d.]+)\*\* ×", table)}
    quoted = re.findall(r"(\d+\.\d) times as fast", (REPOSITORY / "README.md").read_text().replace("\n", " "))
    assert len(quoted) >= 3
    assert [each for each in quoted if each not in figures] == []
