"""``loglake verify LAKE``: verify a lake from its own bytes. logcore passes the arguments.

0 clean · 1 warnings, also what cannot be verified · 2 damage · 3 could not check · 64 wrong usage

On stdout it prints a line for each finding, then a summary; on stderr its progress. On a terminal the findings come at
the end, below the name of their log. Until then the progress counts them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from logcore.cli.output.advice_lines import AdviceLines
from logcore.cli.output.progress import ProgressLine, bytes_text
from logcore.cli.output.terminal import FILE, OF_SEVERITY, Style, Terminal, duration_text, size_text
from logcore.cli.reading.arguments import selection_of
from logcore.logs.model.findings import Finding, Severity, exit_code
from logcore.logs.rules.advice import advice
from logcore.segments.filenames import TopicPartition
from logcore.texts import json_shown, shown
from spark_jobs import launch
from spark_jobs.engine.job_engine import chosen_engine
from spark_jobs.errors import UsageError, guarded
from spark_jobs.lake.store import storage
from spark_jobs.lake.view.harmed_places import harmed_place
from spark_jobs.lake_verification.progress import resumed
from spark_jobs.lake_verification.whole_lake import LakeVerification, Sample, VerifiedSoFar, verify_whole_lake
from spark_jobs.placed_finding import PlacedFinding


@guarded
def verify_lake(arguments: argparse.Namespace) -> int:
    """Verify the lake at ``arguments.paths``; return the exit code.

    Args:
        arguments: Arguments of ``loglake verify``: paths, topic, partition, sample (number and total, or None), resume,
            format.
    """
    if len(arguments.paths) > 1:
        raise UsageError("name exactly one lake.")
    lake = storage.absolute(arguments.paths[0])
    report = Report(arguments.format, lake)
    sample = Sample(*arguments.sample) if arguments.sample else Sample()
    selection = selection_of(arguments)
    try:
        with resumed(arguments.resume, lake) as progress:
            outcome = verify_whole_lake(
                lake,
                report.say,
                arguments.now_ms,
                sample=sample,
                progress=progress,
                selection=selection,
                step=report.step,
                start=lambda nbytes: launch.start_executor(lake, chosen_engine(None, nbytes)[0], "verify"),
            )
    finally:
        report.print_held()  # also after an interrupt
    return report.finish(outcome)


@dataclass(slots=True)
class Report:
    """Lines of one verification; ``form`` is ``text`` or ``jsonl``."""

    form: str
    lake: str
    severities: Counter[Severity] = field(default_factory=Counter)
    _kinds: dict[tuple[str, Severity], Finding] = field(default_factory=dict)
    _held: dict[str, list[PlacedFinding]] = field(default_factory=dict)
    """Findings that are not printed yet, by heading."""
    _line: ProgressLine = field(default_factory=ProgressLine)
    _advice: AdviceLines = field(default_factory=AdviceLines)
    _terminal: Terminal = field(init=False)

    def __post_init__(self) -> None:
        self._terminal = Terminal.of(sys.stdout) if self.form == "text" else FILE

    def say(self, found: PlacedFinding) -> None:
        """Print a finding as soon as it is known; on a terminal hold it."""
        said = found.finding
        self.severities[said.severity] += 1
        self._kinds.setdefault((said.rule, said.severity), said)
        to_do = self._advice_for(found)
        if self._terminal.is_terminal:
            self._held.setdefault(_heading(found), []).append(found)
            return
        self._line.clear()
        sys.stdout.write(_json(found, to_do) if self.form == "jsonl" else _text(found, FILE))

    def _advice_for(self, found: PlacedFinding) -> str | None:
        """What to do about a finding; None: its message says it, as for bytes that lie at their source."""
        said, named = found.finding, None
        if said.file is not None and not said.file.startswith(f"{self.lake}/"):
            return None
        if found.topic is not None and found.partition is not None:
            named = TopicPartition(found.topic, found.partition)
        place = harmed_place(self.lake, topic_partition=named, finding=said, table=found.table)
        self._advice.add(said, place)
        return None if "`loglake" in said.message else advice(said.rule, place)

    def step(self, far: VerifiedSoFar) -> None:
        """Show the progress."""
        count = sum(self.severities.values())
        findings = f", {count:,} finding{'' if count == 1 else 's'}" if count else ""
        self._line.show(
            lambda seconds: (
                f"{far.done:,} of {far.total:,} verified, "
                f"{bytes_text(far.done_bytes, far.total_bytes, seconds)}{findings}"
                f"{f', {shown(far.name)}' if far.name else ''}"
            )
        )

    def print_held(self) -> None:
        """Print the findings that were held."""
        self._line.clear()
        for heading, findings in sorted(self._held.items()):
            sys.stdout.write(f"{self._terminal.styled(heading, Style.BOLD)}\n")
            for found in findings:
                sys.stdout.write(f"  {_text(found, self._terminal)}")
        self._held.clear()

    def finish(self, outcome: LakeVerification) -> int:
        """Print what is left and the summary; return the exit code."""
        self.print_held()
        if self.form == "text":
            sys.stdout.write(str(self._advice))
        summary: dict[str, Any] = asdict(outcome.result.counts)
        summary["skipped"] = {"sample": outcome.skipped["sample"], "resume": outcome.skipped["resume"]}
        summary["findings"] = {str(severity): self.severities[severity] for severity in Severity}
        sys.stdout.write(_json_line({"summary": summary}) if self.form == "jsonl" else self._summary(outcome))
        return exit_code(self._kinds.values())

    def _summary(self, outcome: LakeVerification) -> str:
        counts = outcome.result.counts
        counted = ", ".join(
            self._terminal.styled(text, OF_SEVERITY[severity]) if self.severities[severity] else text
            for severity in reversed(Severity)
            for text in (f"{self.severities[severity]} {severity}",)
        )
        left = " and ".join(f"{number} by --{name}" for name, number in sorted(outcome.skipped.items()))
        archive, tables = (
            size_text(nbytes) if self._terminal.is_terminal else f"{nbytes} bytes"
            for nbytes in (counts.archive_bytes, counts.table_bytes)
        )
        duration = f"verified in {duration_text(self._line.seconds)}\n" if self._terminal.is_terminal else ""
        return (
            f"{counts.archive_files} archived files, {archive}; {counts.table_files} table files, {tables}; "
            f"{counts.logs} logs, {counts.ledger_ranges} ranges of offsets\n"
            f"{counts.rows} rows: {counts.rows_by_digest} verified by digest, {counts.rows_by_archive} by the archive, "
            f"{counts.rows_not_provable} not provable\n"
            f"{f'not verified now: {left}' + chr(10) if left else ''}{duration}findings: {counted}\n"
        )


def _heading(found: PlacedFinding) -> str:
    """The name of the log, else of the table."""
    if found.topic is not None and found.partition is not None:
        return f"{found.topic}-{found.partition}"
    if found.log is not None:
        return f"log {found.log}"
    return "the lake" if found.table is None else f"table {found.table}"


def _json(found: PlacedFinding, to_do: str | None) -> str:
    said = found.finding
    return _json_line(
        {
            "rule": said.rule,
            "severity": str(said.severity),
            "file": None if said.file is None else shown(said.file),
            "position": said.position,
            "nbytes": said.nbytes,
            "offset": said.start_offset,
            "end_offset": said.end_offset,
            "message": said.message,
            "what_to_do": to_do,
            "table": found.table,
            "log": found.log,
        }
    )


def _text(found: PlacedFinding, terminal: Terminal) -> str:
    said = found.finding
    places = [] if said.file is None else [shown(said.file)]
    if said.position is not None:
        places.append(f"position {said.position}")
    place = f" ({', '.join(places)})" if places else ""
    severity = terminal.styled(str(said.severity), OF_SEVERITY[said.severity])
    return f"{severity} {said.rule}: {said.message}{place}\n"


def _json_line(value: dict[str, Any]) -> str:
    return json_shown(json.dumps(value, ensure_ascii=False)) + "\n"
