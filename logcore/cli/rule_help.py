"""`loglake help NAME`: what a rule, a loss, a check, an alert, or why a value is not decoded means, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from logcore.errors import CorruptionReason, ExplainedReason, LogError
from logcore.logs.model.findings import Finding, exit_code
from logcore.logs.recovery.loss_kinds import LOSS_KINDS
from logcore.logs.rules import RULE_GROUPS, RULES
from logcore.logs.rules.advice import HarmedPlace, filled
from logcore.values.undecodable import Reason

_REASONS: Mapping[str, type[ExplainedReason]] = {
    "bytes of a segment cannot be trusted": CorruptionReason,
    "a key or value is in undecoded/TOPIC": Reason,
}


def name_help(word: str) -> str | None:
    """Return the text about a name, or of `rules` a list; None if nothing has this name."""
    if word == "rules":
        return "".join(f"{line}\n" for line in _list())
    reasons = [_of_rule(word)] if word in RULES else []
    if word in LOSS_KINDS:
        severity, meaning = LOSS_KINDS[word]
        reasons.append(f"{word}: {severity}, a loss that `loglake recover` or `reindex` reports: {meaning}.\n")
    reasons += [
        f"{word}: why {what}.\n{each.meaning}\n" for what, all_of in _REASONS.items() for each in all_of if each == word
    ]
    return "".join(reasons) or dict(_of_packages()).get(word)


def explained_names() -> list[str]:
    """The names of which :func:`name_help` has a text."""
    return [
        *dict.fromkeys([*RULES, *LOSS_KINDS]),
        *{str(each): None for all_of in _REASONS.values() for each in all_of},
        *(name for name, _ in _of_packages()),
    ]


def _of_packages() -> Iterator[tuple[str, str]]:
    from logcore.cli import entry_points

    for point in entry_points.of_group(entry_points.HELP).values():
        with suppress(LogError):  # an installation without lakes
            yield from entry_points.load(point, "help")()


def _of_rule(word: str) -> str:
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
