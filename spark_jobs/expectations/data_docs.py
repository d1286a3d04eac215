"""Great Expectations' Data Docs made readable without a network.

As built, every page loads its style, icons and scripts from other hosts and shows unstyled text where those can't be
reached; a page that names them also tells those hosts who reads it. Here each page gets a small style of its own, and
everything that points elsewhere is taken out.
"""

from __future__ import annotations

import html
import os
import re
import urllib.parse
from collections.abc import Iterator

from spark_jobs.lake.store import storage

INDEX, VALIDATIONS = "index.html", "validations"

_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL | re.IGNORECASE)
_LINK = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_FOOTER = re.compile(r"<footer\b.*?</footer>", re.DOTALL | re.IGNORECASE)
_STYLE = re.compile(r"<style\b.*?</style>", re.DOTALL | re.IGNORECASE)
# What needs the scripts: a card of buttons, "show all" and "failed only".
_BUTTONS = re.compile(r'<div class="btn-group btn-group-toggle".*?</div>', re.DOTALL)
_BUTTON_LABEL = re.compile(r'<p class="card-text col-12 p-0 mb-1">\s*Validation Filter:\s*</p>')
_BUTTON_CARD = re.compile(r'<div class="card-header p-2">\s*<strong>Actions</strong>\s*</div>')
_OUTSIDE = re.compile(r"(?:https?:)?//[A-Za-z0-9][^\s\"'<>)]*")

_OWN_STYLE = """<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; color: #222; background: #fff; }
a { color: #0b57d0; } h4, h5, h6 { margin: .4em 0; } img { display: none; }
nav.navbar { border-bottom: 1px solid #ccc; padding: .6em 1.2em; } nav ol, nav ul { list-style: none; padding: 0; }
.row { display: flex; flex-wrap: wrap; gap: 1.5em; padding: 1em 1.2em; } .row .row { padding: 0; display: block; }
.col-lg-2 { flex: 0 0 15em; } .col-md-10, .col-lg-10 { flex: 1 1 40em; min-width: 0; }
.alert { background: #eef1f4; padding: .5em .8em; border-radius: 4px; }
.card-header { font-weight: 600; } .badge { background: #e6eaf0; border-radius: 3px; padding: 0 .35em; }
table { border-collapse: collapse; margin: .5em 0; } td, th { border: 1px solid #d5d9de; padding: .25em .6em;
  text-align: left; vertical-align: top; } .text-danger { color: #b3261e; } .text-success { color: #146c2e; }
i.fas { font-style: normal; } .fa-times::before { content: "\\2717"; } .fa-check-circle::before { content: "\\2713"; }
.fa-exclamation::before, .fa-exclamation-triangle::before { content: "!"; } .cooltip .top, th[hidden], .collapse,
  a[data-toggle] { display: none; } body > h4, body > table { margin: .6em 1.2em; }
</style>"""


def keep_pages(built: str, kept: str) -> str | None:
    """Move the pages of a run from where they were built to ``kept``, beside those of earlier runs.

    Returns:
        The page of this run's results; None if there is none.
    """
    page = None
    for path in _pages(built):
        relative = os.path.relpath(path, built)
        if relative == INDEX:
            continue
        with open(path, encoding="utf-8") as file:
            page_text = without_outside_references(file.read())
        storage.put(storage.join(kept, relative), page_text.encode())
        if relative.startswith(VALIDATIONS + os.sep):
            page = storage.join(kept, relative)
    runs = [storage.relative(path, kept) for path in _pages(storage.join(kept, VALIDATIONS))]
    storage.put(storage.join(kept, INDEX), _index(runs).encode())
    return page


def without_outside_references(page: str) -> str:
    """A page without scripts, links, images and addresses of other hosts, and with a style of its own."""
    if _OUTSIDE.search(page) is None:
        return page
    for pattern in (_SCRIPT, _LINK, _IMAGE, _FOOTER, _STYLE, _BUTTONS, _BUTTON_LABEL, _BUTTON_CARD):
        page = pattern.sub("", page)
    page = page.replace("</head>", _OWN_STYLE + "\n</head>", 1)
    return _OUTSIDE.sub("", page)


def _index(runs: list[str]) -> str:
    """Every run's page, newest first: below ``validations`` are suite, run, time, and the page."""
    rows = []
    for relative in sorted(runs, key=lambda path: path.split(os.sep)[-2], reverse=True):
        _, suite, run, moment, *_ = relative.split(os.sep)
        link = urllib.parse.quote(relative.replace(os.sep, "/"))
        cells = (f'<a href="{link}">{html.escape(run)}</a>', html.escape(moment), html.escape(suite))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return (
        '<!DOCTYPE html>\n<html><head><meta charset="UTF-8"><title>Expectations</title>\n'
        f"{_OWN_STYLE}\n</head><body><h4>Expectations on published records</h4>\n"
        "<table><tr><th>run</th><th>as of</th><th>suite</th></tr>\n" + "\n".join(rows) + "\n</table></body></html>\n"
    )


def _pages(directory: str) -> Iterator[str]:
    return (file.path for file in storage.files_below(directory) if file.path.endswith(".html"))
