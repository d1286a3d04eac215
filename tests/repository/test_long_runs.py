"""Totals of long campaigns: what is recorded, what counts once, and that the page shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests import long_runs
from tests.long_runs import Kind, LongRun, record, recorded, section

RUN = LongRun(Kind.MUTANTS, "batches", 1000, 5, "aaaaaaaa", "2026-11-01", "0123456789ab")


def test_the_page_shows_the_totals_of_the_recorded_runs() -> None:
    assert long_runs.PAGE.read_text().endswith(f"\n\n{section(recorded())}")


def test_runs_with_new_seeds_add_up_and_of_one_seed_the_longest_counts() -> None:
    runs = [
        RUN,
        replace(RUN, seed=6, count=20, date="2026-11-02"),
        replace(RUN, seed=6, count=200, date="2026-11-03"),
        replace(RUN, seed=6, count=100, date="2026-11-04"),
        replace(RUN, kind=Kind.DOUBLE_CRASHES, part="one", count=7),
        replace(RUN, kind=Kind.DOUBLE_CRASHES, part="another", count=7),
        replace(RUN, generation="bbbbbbbb", count=3),
    ]
    assert section(runs).splitlines()[-3:] == [
        "| bbbbbbbb | mutants | 3 | 10,000,000 | 1 | 2026-11-01, seed 5, `0123456789ab` |",
        "| aaaaaaaa | mutants | 1,200 | 10,000,000 | 2 | 2026-11-03, seed 6, `0123456789ab` |",
        "| aaaaaaaa | double crashes | 14 | 1,000 | 2 | 2026-11-01, seed 5, `0123456789ab` |",
    ]


def test_a_run_is_recorded_with_the_rules_and_the_commit_where_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(long_runs.VARIABLE, raising=False)
    record(Kind.HISTORIES, "random", 10, 3)
    file = tmp_path / "runs.jsonl"
    monkeypatch.setenv(long_runs.VARIABLE, str(file))
    for seed in (3, 4):
        record(Kind.HISTORIES, "random", 10, seed)
    assert [(run.kind, run.part, run.count, run.seed) for run in recorded(file)] == [
        (Kind.HISTORIES, "random", 10, 3),
        (Kind.HISTORIES, "random", 10, 4),
    ]
    assert {run.generation for run in recorded(file)} == {long_runs.generation()}


def test_another_rule_or_severity_begins_a_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    known = long_runs.generation()
    name, rule = next(iter(long_runs.RULES.items()))
    monkeypatch.setattr(long_runs, "RULES", dict(long_runs.RULES) | {"another-rule": rule})
    added = long_runs.generation()
    without = {each: value for each, value in long_runs.RULES.items() if each not in (name, "another-rule")}
    monkeypatch.setattr(long_runs, "RULES", without)
    assert len({known, added, long_runs.generation()}) == 3


def test_the_totals_replace_those_before_and_keep_the_rest_of_the_page(tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "runs.jsonl"
    page.write_text("# A page\n\nText.\n")
    for _ in range(2):
        long_runs.write_section(page, file)
        assert page.read_text() == f"# A page\n\nText.\n\n{section([])}"
