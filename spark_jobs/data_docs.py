"""Great Expectations' Data Docs made readable without a network.

As built, every page loads its style, icons and scripts from other hosts and shows unstyled text where those can't be
reached; a page that names them also tells those hosts who reads it. Here each page gets a small style of its own, and
everything that points elsewhere is taken out.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL | re.IGNORECASE)
_LINK = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_FOOTER = re.compile(r"<footer\b.*?</footer>", re.DOTALL | re.IGNORECASE)
_STYLE = re.compile(r"<style\b.*?</style>", re.DOTALL | re.IGNORECASE)
# The one card of buttons that needs the scripts: "show all", "failed only".
_BUTTONS = re.compile(r'<div class="btn-group btn-group-toggle".*?</div>', re.DOTALL)
_BUTTON_LABEL = re.compile(r'<p class="card-text col-12 p-0 mb-1">\s*Validation Filter:\s*</p>')
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
.fa-exclamation::before, .fa-exclamation-triangle::before { content: "!"; } .cooltip .top, th[hidden] { display: none; }
</style>"""


def make_readable_offline(directory: str) -> list[str]:
    """Rewrite every page below ``directory`` that still points elsewhere; returns the paths of all pages."""
    shutil.rmtree(os.path.join(directory, "static"), ignore_errors=True)
    pages = sorted(_pages(directory))
    for path in pages:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        clean = without_outside_references(text)
        if clean != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(clean)
    return pages


def without_outside_references(page: str) -> str:
    """A page without scripts, links, images and addresses of other hosts, and with a style of its own."""
    if _OUTSIDE.search(page) is None:
        return page
    for pattern in (_SCRIPT, _LINK, _IMAGE, _FOOTER, _STYLE, _BUTTONS, _BUTTON_LABEL):
        page = pattern.sub("", page)
    page = page.replace("</head>", _OWN_STYLE + "\n</head>", 1)
    return _OUTSIDE.sub("", page)


def _pages(directory: str) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        yield from (os.path.join(folder, name) for name in names if name.endswith(".html"))
