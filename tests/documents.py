"""README and the pages of ``docs/`` as values: their sentences, their links, and the shell commands in them.

A command of a page is run by ``tests/journey`` unless the line above its block is ``<!-- not run here: reason -->``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

README = REPOSITORY / "README.md"
CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"
CONTRACTS = {"cli.md", "shared-tables.md"}
"""Pages that scripts and messages depend on: their wording changes together with the commands."""

_GENERATED = re.compile(r"\A(<!-- Made from |# .*\n\nWritten by\b)")
_NOT_RUN = re.compile(r"<!-- not run here: (?P<reason>(?:(?!-->).)*?) -->\s*\Z", re.DOTALL)
_SHOWN = re.compile(r"\n*```text\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ShellBlock:
    """A block of shell commands; `reason` says why no test runs it, None where one does. `shown`: lines of their output
    that the page shows in the ``text`` block after it."""

    body: str
    reason: str | None
    shown: tuple[str, ...] = ()

    @property
    def commands(self) -> list[str]:
        """The commands in reading order, comments cut off; a here-document or a text in quotes is one command."""
        found: list[str] = []
        lines = self.body.splitlines()
        while lines:
            line = lines.pop(0)
            here = re.search(r"<<'(\w+)'$", line)
            if here:
                end = lines.index(here.group(1)) + 1
                line = "\n".join([line, *lines[:end]])
                del lines[:end]
            else:
                line = re.sub(r"(^|\s+)#.*$", "", line)
                while line.endswith("\\"):
                    line = f"{line[:-1].rstrip()} {lines.pop(0).strip()}"
                while line.replace('\\"', "").count('"') % 2:
                    line = f"{line}\n{lines.pop(0)}"
            if line.strip():
                found.append(line)
        return found


def pages() -> list[Path]:
    """README, CONTRIBUTING and every page of docs/."""
    return [README, CONTRIBUTING, *sorted((REPOSITORY / "docs").rglob("*.md"))]


def is_generated(text: str) -> bool:
    """Whether a program writes the page, as its first lines say."""
    return bool(_GENERATED.match(text))


def written_pages() -> list[Path]:
    """The pages that people write."""
    return [page for page in pages() if not is_generated(page.read_text())]


def plain_pages() -> list[Path]:
    """The pages whose language is checked."""
    return [page for page in written_pages() if page.name not in CONTRACTS]


def shell_blocks(text: str) -> list[ShellBlock]:
    """The ``sh`` blocks of a page."""
    blocks = []
    for fence in _FENCE.finditer(text):
        if fence["language"] == "sh":
            mark = _NOT_RUN.search(text[: fence.start()])
            shown = _SHOWN.match(text, fence.end())
            lines = tuple(shown["body"].splitlines()) if shown else ()
            blocks.append(ShellBlock(fence["body"], mark["reason"] if mark else None, lines))
    return blocks


def run_blocks(page: Path) -> list[ShellBlock]:
    """The blocks of a page whose commands a test has to run."""
    return [block for block in shell_blocks(page.read_text()) if block.reason is None]


def links(text: str) -> list[str]:
    """Targets of the links and pictures of a page, code left out."""
    return re.findall(r"\]\(([^)\s]+)\)", _without_code(text))


def prose(text: str) -> str:
    """A page without code, tables, headings, comments and pictures; an inline code span is one word."""
    text = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.DOTALL)
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    kept = [line for line in text.splitlines() if not re.match(r"\||#| {4}", line)]
    return "\n".join(kept)


def sentences(text: str) -> list[str]:
    """The sentences of a page; an item of a list begins a new one."""
    found = []
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )", prose(text)):
        words = " ".join(paragraph.split())
        found += [sentence for sentence in re.split(r"(?<=[.!?])[*_)\"]*\s+", words) if sentence]
    return found


def word_count(text: str) -> int:
    """Words of a text: parts between spaces that contain a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]+`", "", _FENCE.sub("", text))
