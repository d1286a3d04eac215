"""The output of a verification: on stdout a line for each finding, then a summary; on stderr its progress."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from logcore.logs.model.findings import Finding, Severity, exit_code
from logcore.storage.discovery import shown
from spark_jobs.lake_verification.verified_thing import LakeFinding
from spark_jobs.lake_verification.whole_lake import LakeVerification


@dataclass(slots=True)
class Report:
    """Lines of one verification; ``form`` is ``text`` or ``jsonl``."""

    form: str
    severities: Counter[Severity] = field(default_factory=Counter)
    _kinds: dict[tuple[str, Severity], Finding] = field(default_factory=dict)
    _is_shown: bool = field(default_factory=lambda: sys.stderr.isatty())

    def say(self, found: LakeFinding) -> None:
        """Print a finding as soon as it is known."""
        said = found.finding
        self._clear()
        self.severities[said.severity] += 1
        self._kinds.setdefault((said.rule, said.severity), said)
        sys.stdout.write(_json(found) if self.form == "jsonl" else _text(found))

    def step(self, done: int, total: int, name: str) -> None:
        """Show the progress if stderr is a terminal."""
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[K{done} of {total} verified, {shown(name)[:100]}")
            sys.stderr.flush()

    def finish(self, outcome: LakeVerification) -> int:
        """Print the summary; return the exit code."""
        self._clear()
        summary: dict[str, Any] = asdict(outcome.result.counts)
        summary["skipped"] = {"sample": outcome.skipped["sample"], "resume": outcome.skipped["resume"]}
        summary["findings"] = {str(severity): self.severities[severity] for severity in Severity}
        sys.stdout.write(_line({"summary": summary}) if self.form == "jsonl" else self._summary(outcome))
        return exit_code(self._kinds.values())

    def _summary(self, outcome: LakeVerification) -> str:
        counts = outcome.result.counts
        counted = ", ".join(f"{self.severities[severity]} {severity}" for severity in reversed(Severity))
        left = " and ".join(f"{number} by --{name}" for name, number in sorted(outcome.skipped.items()))
        return (
            f"{counts.archive_files} archived files, {counts.archive_bytes} bytes; {counts.table_files} table files, "
            f"{counts.table_bytes} bytes; {counts.logs} logs, {counts.ledger_ranges} ranges of offsets\n"
            f"{counts.rows} rows: {counts.rows_by_digest} verified by digest, {counts.rows_by_archive} by the archive, "
            f"{counts.rows_not_provable} not provable\n"
            f"{f'not verified now: {left}' + chr(10) if left else ''}findings: {counted}\n"
        )

    def _clear(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _json(found: LakeFinding) -> str:
    said = found.finding
    return _line(
        {
            "rule": said.rule,
            "severity": str(said.severity),
            "file": None if said.file is None else shown(said.file),
            "position": said.position,
            "nbytes": said.nbytes,
            "offset": said.start_offset,
            "end_offset": said.end_offset,
            "message": said.message,
            "table": found.table,
            "log": found.log,
        }
    )


def _text(found: LakeFinding) -> str:
    said = found.finding
    place = [] if said.file is None else [shown(said.file)]
    if said.position is not None:
        place.append(f"position {said.position}")
    return f"{said.severity} {said.rule}: {said.message}{f' ({chr(44).join(place)})' if place else ''}\n"


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
