"""Pages with the results of expectations: one page for each of the newest runs, and an index of these.

A page needs no script and no other host. It has counts and coordinates, never keys or values of records, so it can be
shown to anyone. The same results give the same page.
"""

from __future__ import annotations

import datetime
import html
import urllib.parse
from collections.abc import Iterable, Sequence

from spark_jobs.expectations.range_checks import CHECKS, CRITICAL, DECODED_CHECKS, SUITE, FrameRow
from spark_jobs.lake.store import deletion, storage
from spark_jobs.outlines import ExpectationResult, Scalar

INDEX, VALIDATIONS = "index.html", "validations"
KEPT_PAGES = 500
"""Pages of the newest runs. A watch writes a page each round; all of them are listed for each new index."""
TITLE = "Expectations on published records"

_STYLE = """
:root { color-scheme: light dark; --line: #d5d9de; --head: #eef1f4; --bad: #b3261e; --good: #146c2e; }
@media (prefers-color-scheme: dark) { :root { --line: #444a52; --head: #262b31; --bad: #ff8a80; --good: #7bd88f; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.6em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } th { background: var(--head); }
td, th { border: 1px solid var(--line); padding: .25em .6em; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.failed { color: var(--bad); font-weight: 600; } .met { color: var(--good); }
"""

_IN_LOG = frozenset({"topic", "log_id", "partition"})
"""Columns of a range that its log already has."""
_OTHER_TESTS = {
    "one_frame_row_per_range": ("-", "Every range to check was counted."),
    "every_check_was_made": ("-", "Every expectation was evaluated on every range."),
}


def write_pages(
    directory: str,
    run_id: str,
    as_of_ms: int,
    outcomes: Sequence[ExpectationResult],
    frame: Sequence[FrameRow],
    checked_by: str,
) -> str:
    """Write the page of a run next to those of earlier runs, and the index of the newest :data:`KEPT_PAGES`.

    Older pages are deleted when the index no longer leads to them. The page of this run stays, also if its clock
    shows an earlier time than theirs.

    Returns:
        The path of the page.
    """
    moment = datetime.datetime.fromtimestamp(as_of_ms / 1000, datetime.UTC)
    folders = (VALIDATIONS, SUITE, urllib.parse.quote(run_id, safe=""), f"{moment:%Y%m%dT%H%M%S.%fZ}")
    path = storage.join(directory, *folders, "ranges.html")
    storage.put(path, run_page(run_id, moment.isoformat(timespec="seconds"), outcomes, frame, checked_by).encode())
    placed = {
        storage.relative(file.path, directory): file.placed_ms
        for file in deletion.own_files_below(storage.join(directory, VALIDATIONS))
        if file.path.endswith(".html")
    }
    own = storage.relative(path, directory)
    earlier = _newest_first(page for page in placed if page.count("/") == len(folders) and page != own)
    kept, dropped = earlier[: KEPT_PAGES - 1], earlier[KEPT_PAGES - 1 :]
    storage.put(storage.join(directory, INDEX), index_page([own, *kept]).encode())
    if dropped:
        before_ms = max(placed[page] for page in dropped) + 1
        deletion.delete_all_below(directory, dropped, placed_before_ms=before_ms)
    return path


def run_page(
    run_id: str, as_of: str, outcomes: Sequence[ExpectationResult], frame: Sequence[FrameRow], checked_by: str
) -> str:
    """The page of one run; ``checked_by`` is what checked the rows."""
    failed = [outcome for outcome in outcomes if not outcome.success]
    critical = sum(outcome.severity == CRITICAL for outcome in failed)
    verdict = f"Not met: {critical} critical expectations, {len(failed)} of {len(outcomes)} in all."
    tests = {check.name: (check.test, check.says) for check in (*CHECKS, *DECODED_CHECKS)} | _OTHER_TESTS
    places = {row["log"]: f"{row['topic_partition']} [{row['start_offset']}, {row['end_offset']})" for row in frame}
    expectations = []
    for outcome in outcomes:
        test, says = tests.get(outcome.name, ("-", "An expectation of a suite that a policy names."))
        at = ", ".join(str(places.get(log, log)) for log in outcome.failing)
        cells = [_cell(text) for text in (outcome.name, says, test, outcome.severity, outcome.observed)]
        expectations.append([*cells, _result(outcome), _cell(at)])
    columns = [column for column in (frame[0] if frame else ()) if column not in _IN_LOG]
    body = (
        f'<p><a href="{"../" * 4}{INDEX}">All runs</a></p>\n<h1>{TITLE}</h1>\n'
        f"<p>Run <b>{html.escape(run_id)}</b>, as of {html.escape(as_of)}. "
        f'<span class="{"failed" if critical else "met"}">{verdict}</span> '
        f"Rows were checked by {html.escape(checked_by)}.</p>\n<h2>Expectations</h2>\n"
        + _table(("expectation", "meaning", "test", "severity", "observed", "result", "not met by"), expectations)
        + "<h2>Ranges</h2>\n"
        + _table(columns, [[_cell(row.get(column)) for column in columns] for row in frame])
    )
    return _page(f"{TITLE}: {run_id}", body)


def index_page(pages: Iterable[str]) -> str:
    """The list of runs, the latest first.

    Args:
        pages: Paths as ``validations/<suite>/<run>/<time>/<name>.html``.
    """
    rows = []
    for page in _newest_first(pages):
        _, suite, run, moment, *_ = page.split("/")
        link = f'<a href="{html.escape(urllib.parse.quote(page))}">{html.escape(urllib.parse.unquote(run))}</a>'
        rows.append([f"<td>{link}</td>", _cell(moment), _cell(suite)])
    return _page(TITLE, f"<h1>{TITLE}</h1>\n" + _table(("run", "as of", "suite"), rows))


def _newest_first(pages: Iterable[str]) -> list[str]:
    return sorted(pages, key=lambda page: (page.split("/")[3], page), reverse=True)


def _page(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(column.replace('_', ' '))}</th>" for column in columns)
    lines = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n'


def _cell(value: Scalar) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    return f"<td>{'' if value is None else html.escape(str(value))}</td>"


def _result(outcome: ExpectationResult) -> str:
    return '<td class="met">met</td>' if outcome.success else '<td class="failed">not met</td>'
