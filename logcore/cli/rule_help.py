"""`loglake help RULE`: what a finding means and what to do about it, from the catalogue of rules."""

from __future__ import annotations

from collections.abc import Iterator

from logcore.logs.model.findings import Finding, exit_code
from logcore.logs.rules import RULE_GROUPS, RULES
from logcore.logs.rules.advice import HarmedPlace, filled


def rule_help(word: str) -> str | None:
    """Return the text of this rule, or of `rules` a list; None if no rule has this name."""
    if word == "rules":
        return "".join(f"{line}\n" for line in _list())
    if word not in RULES:
        return None
    rule = RULES[word]
    code = exit_code([Finding(word, rule.severity, "")])
    lines = [
        f"{word}: {rule.severity}, exit code {code:d}. In a lake it counts {rule.persistence.value}.",
        filled(rule.meaning, HarmedPlace()),
        f"What to do: {filled(rule.what_to_do, HarmedPlace())}",
    ]
    if rule.for_logs:
        lines.append(f"For files that are in no lake: {filled(rule.for_logs, HarmedPlace())}")
    return "\n".join([*lines, _PLACEHOLDERS]) + "\n"


_PLACEHOLDERS = (
    "A finding prints this advice with its own paths and offsets. Here LOGDIR is the log directory, DIR the directory "
    "of the partition, LAKE the lake, TABLE the name of a table."
)


def _list() -> Iterator[str]:
    width = max(map(len, RULES))
    for title, group in RULE_GROUPS.items():
        yield f"{title}:"
        for name, rule in group.items():
            yield f"  {name:{width}}  {rule.severity:8} {rule.meaning.partition('. ')[0].removesuffix('.')}"
        yield ""
    yield "`loglake help RULE` says what a rule means and what to do. The severity of a rule is fixed."
