"""README and docs/: short enough, in plain words, with links that lead somewhere and commands that are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.documents import (
    README,
    is_generated,
    links,
    pages,
    plain_pages,
    prose,
    sentences,
    shell_blocks,
    word_count,
    written_pages,
)

MOST_WORDS_IN_A_SENTENCE = 28
README_LINES, README_WORDS, LINE_LENGTH = 100, 900, 120
AVOIDED = {
    r"behind(?! a proxy)": "after, or later than",
    r"in front of": "before",
    r"(is|are|was|were|be) (told|asked)": "say who reports or requests what",
    r"asked of": "required of, or requested from",
    r"(tell|tells|told)": "report, say, distinguish",
    r"(judge|judges|judged|judging)": "validate, check",
    r"anew": "again, new",
    r"nobody is to": "must not",
    r"(stands|stand|stood)": "is, means, represents",
    r"held against": "compared with",
    r"whoever": "the user, the caller",
    r"come to nothing|came to nothing": "was never committed",
    r"mends|mended|mend": "repairs, repaired",
    r"said of": "reported for",
    r"thereof|therein|whence|hitherto": "a plain word",
}
"""Words and phrases that a reader without English as first language has to read twice, and what says the same."""


def by_name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def anchors(text: str) -> set[str]:
    """The places in a page that a link can name, as code hosts make them from headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_short():
    text = README.read_text()
    lines = text.splitlines()
    assert len(lines) <= README_LINES
    assert [line for line in lines if len(line) > LINE_LENGTH] == []
    assert word_count(text) <= README_WORDS


@pytest.mark.parametrize("page", plain_pages(), ids=by_name)
def test_lines_are_no_longer_than_lines_of_code(page):
    assert [line for line in page.read_text().splitlines() if len(line) > LINE_LENGTH] == []


@pytest.mark.parametrize("page", plain_pages(), ids=by_name)
def test_no_sentence_is_too_long(page):
    found = {s: word_count(s) for s in sentences(page.read_text()) if word_count(s) > MOST_WORDS_IN_A_SENTENCE}
    assert found == {}


@pytest.mark.parametrize("page", plain_pages(), ids=by_name)
def test_no_phrase_that_has_to_be_read_twice(page):
    text = re.sub(r"`[^`]+`", "", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    found = {
        f"{match[0]} ({instead})"
        for phrase, instead in AVOIDED.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.IGNORECASE)
    }
    assert found == set()


@pytest.mark.parametrize("page", pages(), ids=by_name)
def test_every_relative_link_leads_somewhere(page):
    broken = []
    for target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors(linked.read_text())):
            broken.append(target)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = (target.partition("#")[0] for target in links(page.read_text()))
            waiting += [(page.parent / t).resolve() for t in targets if t.endswith(".md")]
    docs = {page.resolve() for page in (REPOSITORY / "docs").rglob("*.md")}
    assert {by_name(page) for page in docs - reached} == set()


@pytest.mark.parametrize("page", written_pages(), ids=by_name)
def test_a_command_that_is_not_run_has_a_reason(page):
    for block in shell_blocks(page.read_text()):
        assert block.commands, block
        assert block.reason is None or len(block.reason) > 10, block


def test_pages_that_a_program_writes_say_so():
    generated = {page.name for page in pages() if is_generated(page.read_text())}
    assert generated >= {"results.md", "reading.md", "run.md", "damaged-batches.md", "random-logs.md"}
    assert README not in generated


PAGE = """# A heading of more words than any sentence on this page has

One sentence here. Another `with code in it` and [a link](x.md#there)
that goes on in the next line!

| a row | that counts nowhere. |

```sh
make demo   # the demo
echo a \\
    b
```

```text
a b
```

<!-- not run here: it needs a cluster -->
```sh
spark-submit
```

<!-- a comment of another kind -->
```sh
ls
```

- an item
- and one more
"""


def test_sentences_leave_out_code_and_tables():
    assert sentences(PAGE) == [
        "One sentence here.",
        "Another code and a link that goes on in the next line!",
        "- an item",
        "- and one more",
    ]
    assert word_count("one, two - three") == 3


def test_blocks_of_commands_are_found_with_their_marks():
    assert [(block.commands, block.reason, block.shown) for block in shell_blocks(PAGE)] == [
        (["make demo", "echo a b"], None, ("a b",)),
        (["spark-submit"], "it needs a cluster", ()),
        (["ls"], None, ()),
    ]


def test_links_inside_of_code_are_none():
    assert links("[a](b.md) `[c](d.md)` ![e](f.svg)") == ["b.md", "f.svg"]
    assert "f.svg" not in prose("![e](f.svg)")


def test_anchors_are_those_of_headings():
    assert anchors("## Record batch, v2\n# Codecs") == {"record-batch-v2", "codecs"}
