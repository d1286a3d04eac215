"""A small strict reader of Prometheus' text format 0.0.4, written from its description."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")

Labels = frozenset[tuple[str, str]]


@dataclass
class Family:
    """One metric with its lines."""

    help: str
    type: str = ""
    samples: dict[Labels, float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """Families by name. Each claim of the format that a writer can break is an assertion."""
    assert text.endswith("\n"), "the last line must end with a line feed"
    families: dict[str, Family] = {}
    current = ""
    for line in text.split("\n")[:-1]:
        if match := re.fullmatch(rf"# HELP ({_NAME}) (.*)", line):
            assert match[1] not in families, "only one HELP line for a name"
            current = match[1]
            families[current] = Family(match[2])
        elif match := re.fullmatch(rf"# TYPE ({_NAME}) (counter|gauge|histogram|summary|untyped)", line):
            assert match[1] == current, "TYPE comes before the samples of its metric, next to HELP"
            assert not families[current].type, "only one TYPE line for a name"
            families[current].type = match[2]
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == current, "all lines of a metric are one group"
            assert families[current].type, "TYPE comes before the first sample"
            labels = _labels(match[2] or "")
            assert labels not in families[current].samples, "labels of a metric are unique"
            families[current].samples[labels] = float(match[3])
    return families


def _labels(text: str) -> Labels:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, text
        assert match[1] not in found, "a label has one value"
        found[match[1]] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), match[2])
        at = match.end()
    return frozenset(found.items())
