"""Comments, docstrings and texts of the code are free of phrases that have to be read twice.

The phrases are those of the documents: `AVOIDED` in `test_documents.py`. In the tests, comments, docstrings and the
names of functions and planted faults are free of the clearest of them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.planted_faults.every import FAULTS
from tests.repository.test_documents import AVOIDED

PACKAGES = ["logcore", "spark_jobs", "pipelines", "deploy"]

NOT_IN_TESTS = re.compile(
    r"(?<![a-z-])(told|tells?|judge[sd]?|judging|nobody|stands|anew|in front of|behind|asked of|speaks?)(?![a-z-])",
    re.IGNORECASE,
)
UNFINISHED_TESTS = {
    "tests/bench/segments.py": "its digest names the kept corpora of the benchmarks",
    "tests/bench/shapes.py": "its digest names the kept corpora of the benchmarks",
}
"""Files of the tests that are not plain yet, and why."""
_AVOIDED = {re.compile(rf"(?<![\w-])(?:{phrase})(?![\w-])", re.I): instead for phrase, instead in AVOIDED.items()}
"""A word with a hyphen, such as `source-behind`, is the id of a rule."""
_IN_BACKTICKS = re.compile(r"`[^`]+`")
_FIELD = re.compile(r"\{[^{}]*\}")


def python_files() -> list[Path]:
    return sorted(file for package in PACKAGES for file in (REPOSITORY / package).rglob("*.py"))


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Comments and string literals, each with the line that it begins on; without the fields of f-strings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], token.string
        elif token.type == tokenize.STRING:
            is_template = "f" in re.split("['\"]", token.string)[0].lower()
            yield token.start[0], _FIELD.sub("{}", token.string) if is_template else token.string


def phrases_to_avoid(source: str) -> list[str]:
    found = []
    for line, text in texts(source):
        words = re.sub(r"\s+", " ", _IN_BACKTICKS.sub("", text))
        for phrase, instead in _AVOIDED.items():
            found += [f"line {line}: {match[0]} ({instead})" for match in phrase.finditer(words)]
    return found


def claims(source: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and names of functions as words, each with the line that it begins on."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield node.body[0].lineno, docstring
            if not isinstance(node, ast.Module | ast.ClassDef):
                yield node.lineno, node.name.replace("_", " ")


def words_not_in_tests(source: str) -> list[str]:
    if not NOT_IN_TESTS.search(re.sub(r"[_\s]+", " ", source)):
        return []
    return [
        f"line {line}: {match[0]}"
        for line, text in claims(source)
        for match in NOT_IN_TESTS.finditer(re.sub(r"\s+", " ", _IN_BACKTICKS.sub("", text)))
    ]


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_phrase_that_has_to_be_read_twice(path: Path):
    assert phrases_to_avoid(path.read_text()) == []


def test_tests_say_what_they_claim_in_plain_words():
    files = sorted((REPOSITORY / "tests").rglob("*.py"))
    assert len(files) > 100
    found = {str(file.relative_to(REPOSITORY)): words_not_in_tests(file.read_text()) for file in files}
    assert {path for path, words in found.items() if words} == set(UNFINISHED_TESTS), found


def test_planted_faults_have_plain_names():
    assert [fault.name for fault in FAULTS if NOT_IN_TESTS.search(fault.name)] == []


def test_the_code_of_every_package_is_searched():
    assert {path.relative_to(REPOSITORY).parts[0] for path in python_files()} == set(PACKAGES)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x = 1  # it lies behind", 1),
        ('"""It is in\nfront of."""', 1),
        ('x = rb"anew"', 1),
        ('x = f"{behind} is mended"', 1),
        ('x = "`behind`, source-behind and log-not-judged"', 0),
        ("behind = judged = 1", 0),
    ],
)
def test_only_texts_are_searched(source: str, count: int):
    assert len(phrases_to_avoid(source)) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x = 1  # it lies behind", 1),
        ('def test_x():\n    """It is in\n    front of."""', 1),
        ("def test_what_nobody_stated_is_told(): ...", 2),
        ("x = 1  # `behind`, source-behind and log-not-judged", 0),
        ('behind = "told"\nassert behind == """judged"""', 0),
    ],
)
def test_only_claims_of_tests_are_searched(source: str, count: int):
    assert len(words_not_in_tests(source)) == count
