"""The pages of expectations: what they show, that they stand alone, and that nothing in them is markup of a name."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from spark_jobs.expectations import expectations_job
from spark_jobs.expectations.expectations_job import index_page, run_page, write_pages
from spark_jobs.expectations.range_checks import (
    BY_COUNTS,
    CHECKS,
    COMPLETENESS,
    DECODED_CHECKS,
    ROW_COUNT,
    ExpectationResult,
)

AS_OF_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
FOLDER = "20231114T221320.000000Z"
VOID = {"meta"}

ORDERS = {
    "topic_partition": "orders-0",
    "log": "id.0/0",
    "topic": "orders",
    "log_id": "id.0",
    "partition": 0,
    "start_offset": 10,
    "end_offset": 25,
    "rows": 14,
    "expected_rows": 15,
    "min_offset": None,
}
OUTCOMES = [
    ExpectationResult("rows_match_ledger", False, "critical", "1 of 1 ranges fail", ("id.0/0",)),
    ExpectationResult("no_lag_behind_log", True, "info", "0 of 1 ranges fail"),
]


class Page(HTMLParser):
    """Tables, links and text of a page; fails where a tag is left open or is closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        assert not {"src", "onclick", "style"} & given.keys()
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "a":
            self.links.append(str(given["href"]))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self._open or "th" in self._open:
            self.tables[-1][-1][-1] += data
        elif "style" not in self._open:
            self.words.append(data)


def test_a_page_says_what_was_expected_what_was_found_and_where_it_is_not_so():
    page = Page(run_page("run-7", "2023-11-14T22:13:20+00:00", OUTCOMES, [ORDERS], BY_COUNTS))
    expectations, ranges = page.tables
    assert expectations == [
        ["expectation", "meaning", "test", "severity", "observed", "result", "not met by"],
        [
            "rows_match_ledger",
            "The table has as many rows as the ledger counts visible records.",
            "rows = expected_rows",
            "critical",
            "1 of 1 ranges fail",
            "not met",
            "orders-0 [10, 25)",
        ],
        [
            "no_lag_behind_log",
            "Everything up to the log's end is published.",
            "lag = 0",
            "info",
            "0 of 1 ranges fail",
            "met",
            "",
        ],
    ]
    assert ranges == [
        ["topic partition", "log", "start offset", "end offset", "rows", "expected rows", "min offset"],
        ["orders-0", "id.0/0", "10", "25", "14", "15", ""],
    ]
    said = " ".join("".join(page.words).split())
    assert "Run run-7, as of 2023-11-14T22:13:20+00:00. Not met: 1 critical expectations, 1 of 2 in all." in said


def test_an_expectation_of_a_suite_that_only_informs_is_met_or_not_met():
    own = ExpectationResult("orders.json 1: expect_column_values_to_not_be_null value", False, "info", "1 of 2 rows")
    page = Page(run_page("run-7", "2023-11-14T22:13:20+00:00", [own], [ORDERS], BY_COUNTS))
    assert [row[5] for row in page.tables[0][1:]] == ["not met"]
    assert "1 of 1 in all." in " ".join(page.words)


def test_every_expectation_has_a_test_and_a_meaning():
    names = [ROW_COUNT, COMPLETENESS, *(check.name for check in (*CHECKS, *DECODED_CHECKS))]
    outcomes = [ExpectationResult(name, True, "critical", "") for name in names]
    rows = Page(run_page("run", "now", outcomes, [], BY_COUNTS)).tables[0][1:]
    assert [row[0] for row in rows] == names
    assert all(row[1] and row[2] for row in rows)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b', "a&amp;b", "a</td>b"])
def test_names_are_text_whatever_is_in_them(name: str):
    outcomes = [ExpectationResult("rows_match_ledger", False, "critical", name, (name,))]
    page = Page(run_page(name, name, outcomes, [ORDERS | {"log": name, "topic_partition": name}], BY_COUNTS))
    assert "script" not in page.tags
    assert page.tables[0][1][4:] == [name, "not met", f"{name} [10, 25)"]
    assert page.tables[1][1][:2] == [name, name]


def test_pages_stand_alone_and_are_the_same_each_time(tmp_path: Path):
    texts = []
    for directory in (tmp_path / "a", tmp_path / "b"):
        page = Path(write_pages(str(directory), "run-7", AS_OF_MS, OUTCOMES, [ORDERS], BY_COUNTS))
        assert page == directory / "validations" / "published_records" / "run-7" / FOLDER / "ranges.html"
        texts.append((page.read_text(), (directory / "index.html").read_text()))
    assert texts[0] == texts[1]
    for text in texts[0]:
        assert "//" not in text
        assert "<script" not in text
        assert "<link" not in text
        assert "prefers-color-scheme: dark" in text


def test_the_index_leads_to_every_run_the_newest_first_and_each_page_back_to_it(tmp_path: Path):
    runs: dict[str, Any] = {"early": AS_OF_MS, "a run/with <signs>%": AS_OF_MS + 1000}
    for run_id, as_of_ms in runs.items():
        write_pages(str(tmp_path), run_id, as_of_ms, OUTCOMES, [ORDERS], BY_COUNTS)
    index = Page((tmp_path / "index.html").read_text())
    assert [row[0] for row in index.tables[0]] == ["run", "a run/with <signs>%", "early"]
    for link in index.links:
        page = tmp_path / unquote(link)
        [back] = Page(page.read_text()).links
        assert (page.parent / back).resolve() == (tmp_path / "index.html").resolve()


def test_pages_of_old_runs_are_deleted_and_the_index_leads_to_the_others(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(expectations_job, "KEPT_PAGES", 3)
    for number in range(5):
        write_pages(str(tmp_path), f"run-{number}", AS_OF_MS + number * 1000, OUTCOMES, [ORDERS], BY_COUNTS)
    pages = sorted(page.relative_to(tmp_path).parts[2] for page in tmp_path.glob("validations/**/*.html"))
    assert pages == ["run-2", "run-3", "run-4"]
    index = Page((tmp_path / "index.html").read_text())
    assert [row[0] for row in index.tables[0]] == ["run", "run-4", "run-3", "run-2"]
    assert all((tmp_path / unquote(link)).is_file() for link in index.links)


def test_the_page_of_this_run_stays_where_its_clock_is_earlier_than_all_others(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(expectations_job, "KEPT_PAGES", 2)
    for number in range(3):
        write_pages(str(tmp_path), f"run-{number}", AS_OF_MS + number * 1000, OUTCOMES, [ORDERS], BY_COUNTS)
    page = Path(write_pages(str(tmp_path), "earlier", AS_OF_MS - 1000, OUTCOMES, [ORDERS], BY_COUNTS))
    assert page.is_file()
    index = Page((tmp_path / "index.html").read_text())
    assert [row[0] for row in index.tables[0]] == ["run", "run-2", "earlier"]


def test_pages_of_earlier_versions_are_in_the_index():
    old = "validations/published_records/run/20231114T221320.000000Z/records-ranges.html"
    assert Page(index_page([old])).links == [old]
