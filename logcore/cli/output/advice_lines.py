"""What to do about findings: lines at the end of a command's findings, each text once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.rules.advice import HarmedPlace, advice
from logcore.segments.filenames import MAX_OFFSET
from logcore.texts import shown

_ADVISED = 10
"""Maximum number of different texts that a command prints: those of errors come first."""


@dataclass(slots=True)
class AdviceLines:
    """Collects the advice for errors and warnings."""

    _texts: dict[Severity, dict[str, list[str]]] = field(default_factory=dict)
    """The findings that each text is about, by severity."""
    _copies: dict[tuple[str | None, int | None], list[str | None]] = field(default_factory=dict)
    """The directories of each log. Advice writes what it makes of each to a place of its own."""
    _commands: list[str] = field(default_factory=list)
    """The commands that give segments under other names their own."""

    def add(self, finding: Finding, place: HarmedPlace) -> None:
        """Take a finding. One whose message has a command already needs no other."""
        texts = self._texts.setdefault(finding.severity, {})
        if finding.severity is Severity.INFO or "`loglake" in finding.message or len(texts) > _ADVISED:
            return
        if finding.rule == "not-a-segment" and "`" in finding.message:
            self._commands.append(finding.message[finding.message.index("`") :])
        copies = self._copies.setdefault((place.topic, place.partition), [place.directory])
        if place.topic is not None and place.directory not in copies:
            copies.append(place.directory)
        number = copies.index(place.directory) if place.topic is not None else 0
        text = self._way_back(finding, place)
        text = text or advice(finding.rule, replace(place, new=f"new-{number + 1}") if number else place)
        log = place.table if place.partition is None else f"{place.topic}-{place.partition}"
        texts.setdefault(text, []).append(finding.rule if place.topic is None else f"{finding.rule} of {log}")

    def from_copies(self, log: str, text: str, *, is_all: bool) -> None:
        """Take the advice for offsets that a copy of a log lost and another one has: it comes before any other.

        Args:
            log: Topic and partition.
            text: The advice.
            is_all: Together the copies have all offsets. Then no other advice about lost ones is needed.
        """
        lost = {f"corrupt-bytes of {log}", f"missing-offsets of {log}"} if is_all else set()
        for texts in self._texts.values():
            for each, what in list(texts.items()):
                texts[each] = [one for one in what if one not in lost]
                if not texts[each]:
                    del texts[each]
        errors = self._texts.get(Severity.ERROR, {})
        self._texts[Severity.ERROR] = {text: [f"lost offsets of {log}"], **errors}

    def _way_back(self, finding: Finding, place: HarmedPlace) -> str:
        """The commands that bring missing offsets back from files beside the gap; nothing without any."""
        start, end = finding.start_offset, finding.end_offset
        if finding.rule == "high-watermark-beyond-log-end":
            end = MAX_OFFSET
        elif finding.rule != "missing-offsets":
            return ""
        if start is None or end is None:
            return ""
        of_log = re.compile(rf"{re.escape(shown(place.directory or ''))}/([0-9]{{20}})\.log")
        return " ".join(
            command for command in self._commands if any(start <= int(base) < end for base in of_log.findall(command))
        )

    def __str__(self) -> str:
        texts = dict(self._texts.get(Severity.ERROR, {}))
        for text, what in self._texts.get(Severity.WARNING, {}).items():
            texts.setdefault(text, what)
        lines = [f"What to do about {what[0]}: {text}\n" for text, what in texts.items()]
        more = "What to do about further findings: repeat the command after these.\n"
        return "".join([*lines[:_ADVISED], *([more] if lines[_ADVISED:] else [])])
