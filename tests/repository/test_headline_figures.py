"""The table of headline figures says what the pages of figures say, and README quotes it."""

from __future__ import annotations

import argparse
import re

import pytest

from tests.bench.__main__ import cases
from tests.bench.pages import HEADING, HEADLINES, PageName, renewed
from tests.conftest import REPOSITORY

PAGE = """# Speed

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


def pages() -> dict[PageName, str]:
    return {name: (REPOSITORY / "docs" / name.file).read_text() for name in PageName}


def test_the_table_is_that_of_the_pages() -> None:
    """`python -m tests.bench.pages` renews it."""
    found = pages()
    assert renewed(found[PageName.READING], found) == found[PageName.READING]


def test_a_row_has_the_figure_of_its_case_and_the_command_with_the_sizes_of_its_page() -> None:
    table = renewed(PAGE, dict.fromkeys(PageName, "") | {PageName.MAINTENANCE: PAGE})
    [row] = [line for line in table.splitlines() if line.startswith("| [cleaning on one core")]
    assert row.endswith("| **7.19** × | 4 | 8 | must | `python -m tests.bench --only compact-none --mib 512` |")
    assert table.count("not measured") == len(HEADLINES) - 1


def test_a_table_that_is_renewed_twice_stays() -> None:
    everything = dict.fromkeys(PageName, PAGE)
    once = renewed(PAGE, everything)
    assert renewed(once, everything) == once
    assert once.count(HEADING) == 1


def test_a_page_without_figures_gets_no_table() -> None:
    with pytest.raises(ValueError, match="no table of targets"):
        renewed("# Speed\n", {})


def test_readme_quotes_the_table() -> None:
    table = pages()[PageName.READING].partition(HEADING)[2].partition("\n## ")[0]
    figures = {f"{float(value):.1f}" for value in re.findall(r"\*\*([\d.]+)\*\* ×", table)}
    quoted = re.findall(r"(\d+\.\d) times as fast", (REPOSITORY / "README.md").read_text().replace("\n", " "))
    assert len(quoted) >= 3
    assert [each for each in quoted if each not in figures] == []
