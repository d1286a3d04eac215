"""The text of the rule catalogue, and how it becomes rules.

    [texts]                                         texts that several rules share, by their names

    lost
      No command brings them back.

    [Paths and directories]                         a group of rules, as `loglake help rules` lists them
    # The checks are in ...                         a comment

    unreadable: error, while-stopped, unchecked     a rule: severity, `Persistence`, and `unchecked` as the outcome
      A file cannot be read.                        its meaning
      To do: Give read permission. $lost            what to do, with a shared text
      For logs: Mount the volume.                   the same about files that no lake has; only if it differs

A text may have several lines. Lines of it are indented.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from logcore.logs.rules.rule import Outcome, Persistence, Rule, Severity

_SHARED = "texts"
_MEANING, _TO_DO, _FOR_LOGS = "", "To do: ", "For logs: "


def parse_rules(text: str) -> dict[str, dict[str, Rule]]:
    """Parse the rules of a text, by their group and their id.

    Raises:
        ValueError: The text has another form, or names something that does not exist.
        KeyError: It names a persistence or a shared text that does not exist.
    """
    groups = _groups(text)
    shared = {name: texts[_MEANING] for name, texts in groups.pop(_SHARED).items()}
    return {
        title: dict(_rule(head, texts, shared) for head, texts in entries.items()) for title, entries in groups.items()
    }


def _groups(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """The texts of each entry, by the title of its group, its first line, and the word with which a text begins."""
    groups: dict[str, dict[str, dict[str, str]]] = {}
    entries: dict[str, dict[str, str]] = {}
    texts: dict[str, str] = {}
    part = _MEANING
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            entries = groups[line.strip("[]")] = {}
        elif not line.startswith(" "):
            if line in entries:
                raise ValueError(f"two entries begin with {line!r}")
            texts, part = {}, _MEANING
            entries[line] = texts
        else:
            words = line.strip()
            part = next((each for each in (_TO_DO, _FOR_LOGS) if words.startswith(each)), part)
            texts[part] = f"{texts.get(part, '')} {words.removeprefix(part)}".lstrip()
    return groups


def _rule(head: str, texts: Mapping[str, str], shared: Mapping[str, str]) -> tuple[str, Rule]:
    name, _, words = head.partition(": ")
    severity, persistence, *more = words.split(", ")
    meaning, to_do, for_logs = (
        Template(texts.get(part, "")).substitute(shared) for part in (_MEANING, _TO_DO, _FOR_LOGS)
    )
    if not meaning or not to_do:
        raise ValueError(f"the rule {name} says no meaning, or nothing to do")
    rule = Rule(
        Severity(severity),
        Persistence[persistence.upper().replace("-", "_")],
        meaning,
        to_do,
        Outcome(*more) if more else Outcome.CHECKED,
        for_logs,
    )
    return name, rule
