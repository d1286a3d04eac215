"""Reports a run to another Dagster, which started this process through Dagster Pipes.

Such a Dagster sets two environment variables, for instance with its ``PipesSubprocessClient``. Without them nothing
here is used, and ``dagster_pipes`` is not imported. The report takes the place of the record in our own history.

    progress                 log messages
    what a step made         a materialization of its asset, if the asset belongs to the step of that Dagster
    answers of checks        check results, if that step names them: Dagster refuses results that it does not expect

An error of the report never reaches the run: one line on stderr says what failed, and nothing more is reported.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Severity
from spark_jobs.contracts import JobConfig
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.registered_lakes import lake_name
from spark_jobs.outlines import Outline

from ..catalog.asset_results import AssetResult
from ..catalog.queried_tables import TABLES, table_metadata
from ..metadata.values import (
    JsonValue,
    LinkValue,
    MarkdownValue,
    Metadata,
    PathValue,
    TableValue,
    Value,
)
from ..run.chains import CHAINS, INTAKE_JOB
from ..run.check_definitions import RECORDS, CheckAnswer
from ..run.direct import FinishedRun

VARIABLES = ("DAGSTER_PIPES_CONTEXT", "DAGSTER_PIPES_MESSAGES")
CHECKS = "loglake_checks"
"""Name of the extra in which a step lists the checks that it expects."""


@dataclass(slots=True)
class PipesReport:
    """The report of one command.

    Attributes:
        pipes: The open context of Dagster Pipes.
        expected_checks: The checks that the step of that Dagster expects.
    """

    pipes: Any
    expected_checks: tuple[str, ...] = ()
    failure: str | None = None
    """Why the command failed; None: it did not."""
    _is_broken: bool = False
    _answers: dict[str, CheckAnswer] = field(default_factory=dict)
    """The answers of the run, by name of the check."""

    @classmethod
    def open(cls) -> PipesReport | None:
        """Open the report; None if no Dagster waits for one, or if it cannot be opened."""
        if not all(name in os.environ for name in VARIABLES):
            return None
        try:
            from dagster_pipes import open_dagster_pipes

            pipes = open_dagster_pipes()
            named = pipes.extras.get(CHECKS) or ()
            return cls(pipes, tuple(map(str, named)) if isinstance(named, list | tuple) else ())
        except Exception as error:  # noqa: BLE001 - a report must not end the run
            _complain(error)
            return None

    def lines(self) -> io.StringIO:
        """A file whose lines become log messages, and lines on stderr."""
        return _Lines(self.log)

    def announce(self, config: JobConfig[Outline]) -> None:
        """Log that a job begins."""
        self.log(f"{lake_name(config.lake)}: {config.JOB} …")

    def log(self, text: str) -> None:
        """Log a message."""
        self._safely(self._log, "info", text)

    def warn(self, lines: Sequence[str]) -> None:
        """Log warnings."""
        for line in lines:
            self._safely(self._log, "warning", line)

    def record(self, run: FinishedRun) -> None:
        """Report the steps of a run that have run. A failure of the report is none of the run."""
        self._safely(self._report, run)

    def exit_code(self, code: int, failing: Collection[str]) -> int:
        """The exit code of a command that finished.

        Dagster fails a step whose process does not end with 0, and drops all of its results. So the code is 0 if the
        step expects checks and gets each one that fails.

        Args:
            code: The exit code without Pipes.
            failing: Names of the checks that fail.
        """
        is_reported = not self._is_broken and bool(self.expected_checks) and set(failing) <= set(self.expected_checks)
        return ExitCode.CLEAN if is_reported and code <= ExitCode.DAMAGE else code

    def finish(self) -> None:
        """Report the checks that the step expects, each once, also if the run has no answer to one."""
        self._safely(self._report_checks)
        self._safely(self._warn_of_other_assets)

    def close(self) -> None:
        """Nothing: :meth:`end` closes the report, after the last output."""

    def end(self) -> None:
        """Close the report, with the failure of the command if there is one."""
        if self.failure is None:
            self._safely(self.pipes.close)
            return
        self._safely(self._log, "error", self.failure)
        no_trace: dict[str, Any] = {"message": self.failure, "stack": [], "name": None, "cause": None, "context": None}
        self._safely(self.pipes.close, no_trace)

    def _log(self, level: str, text: str) -> None:
        getattr(self.pipes.log, level)(text)

    def _report(self, run: FinishedRun) -> None:
        state: LakeState | None = None
        for step in CHAINS[run.job]:
            done = run.steps.results.get(step.name)
            if done is None:
                continue
            state = done.state or state
            self._answers.update((answer.name, answer) for answer in done.answers)
            if step.product is None or state is None:
                continue
            made = AssetResult.of(step.product, state, done, run.as_of_ms)
            what = ", ".join(f"{name} {value:,}" for name, value in made.summary().items() if isinstance(value, int))
            self.pipes.log.info(f"{step.product.name}: {what}")
            self._materialize(step.product.name, partial(self._metadata, made))
        if run.job == INTAKE_JOB and state is not None and not run.steps.errors:
            for table in TABLES:
                self._materialize(table.name, partial(table_metadata, state.lake, table, state))
        self.pipes.log.info(f"job {run.job} of lake {lake_name(run.lake)} ended; its run is {run.run_id}")

    def _metadata(self, made: AssetResult) -> Metadata:
        """Of the topic partition of the step; of the whole lake if the step is for no topic partition, or for many."""
        if self.pipes.is_partition_step:
            keys = self.pipes.partition_key_range
            for log in made.state.logs:
                if keys["start"] == keys["end"] == log.topic_partition:
                    return made.of_log(log)
        return made.of_lake()

    def _materialize(self, asset: str, metadata: Callable[[], Metadata | None]) -> None:
        key = self._key_of(asset)
        if key is not None:
            self.pipes.report_asset_materialization(asset_key=key, metadata=as_pipes(metadata() or {}))

    def _keys(self) -> dict[str, str]:
        """The assets of the step, by their last name."""
        from dagster_pipes import to_asset_key_path

        keys = self.pipes.asset_keys if self.pipes.is_asset_step else ()
        return {to_asset_key_path(key)[-1]: key for key in keys}

    def _key_of(self, asset: str) -> str | None:
        """The asset of the step that shows one of ours. A step with one asset of another name shows ``records``."""
        keys = self._keys()
        if asset in keys:
            return keys[asset]
        is_other = len(keys) == 1 and not keys.keys() & _OURS
        return next(iter(keys.values())) if is_other and asset == RECORDS else None

    def _warn_of_other_assets(self) -> None:
        keys = self._keys()
        if len(keys) > 1 and not keys.keys() & _OURS:
            named = ", ".join(sorted(_OURS))
            self.pipes.log.warning(f"No asset of this step has the name of an asset of a lake. These are: {named}.")

    def _report_checks(self) -> None:
        keys = self._keys()
        only = next(iter(keys.values())) if len(keys) == 1 else None
        for name in dict.fromkeys(self.expected_checks):
            answer = self._answers.get(name)
            key = only or (None if answer is None else self._key_of(answer.asset))
            if answer is None:
                shown: Metadata = {"description": "This run has no answer to the check."}
            else:
                shown = {"description": answer.description, **answer.shown}
            is_error = answer is not None and answer.severity is Severity.ERROR
            self.pipes.report_asset_check(
                name,
                passed=answer is not None and answer.passed,
                severity="ERROR" if is_error else "WARN",
                metadata=as_pipes(shown),
                asset_key=key or self._key_of(RECORDS),
            )

    def _safely(self, work: Callable[..., None], *arguments: Any) -> None:
        if self._is_broken:
            return
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - a report must not end the run
            self._is_broken = True
            _complain(error)


_OURS = frozenset(
    [step.product.name for chain in CHAINS.values() for step in chain if step.product is not None]
    + [table.name for table in TABLES]
)


class _Lines(io.StringIO):
    """A file whose lines go to a function and to stderr."""

    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__()
        self._take = take

    def write(self, text: str, /) -> int:
        """Take lines, each with its end."""
        sys.stderr.write(text)
        self._take(text.rstrip("\n"))
        return len(text)

    def flush(self) -> None:
        """Flush stderr."""
        sys.stderr.flush()


def as_pipes(metadata: Metadata) -> dict[str, dict[str, Any]]:
    """Metadata as Dagster Pipes writes it. Links to our own pages are left out: that Dagster does not have them."""
    return {
        name: {"type": kind, "raw_value": content}
        for name, value in metadata.items()
        if not (isinstance(value, LinkValue) and value.address.startswith("/"))
        for kind, content in [_typed(value)]
    }


def _typed(value: Value) -> tuple[str, Any]:
    match value:
        case PathValue(path):
            return "path", path
        case LinkValue(address):
            return "url", address
        case MarkdownValue(text):
            return "md", text
        case JsonValue(content):
            return "json", content
        case TableValue(columns, rows):
            records = [dict(zip(columns, row, strict=True)) for row in rows]
            return "table", {"records": records, "schema": [{"name": name, "type": "string"} for name in columns]}
        case None:
            return "null", None
        case bool():
            return "bool", value
        case int():
            return "int", value
        case float():
            return "float", value
        case _:
            return "text", value


def _complain(error: Exception) -> None:
    # The text of the error is left out: it may contain what the variables contain.
    sys.stderr.write(f"note: the report to Dagster by Pipes failed with {type(error).__name__}. The run goes on.\n")
