"""A lake in a folder, run and verified in the test's process without JVM and Dagster: a thousand take minutes."""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pipelines.run.run_request import RunRequest
from tests.in_process import without_spark
from tests.spark.cycle import AS_OF_MS

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Ran:
    """What a command said: its exit code, and its lines."""

    code: int
    said: str


@dataclass
class SmallLake:
    """A lake and how it is run; every run is a run of its own.

    Attributes:
        path: Of the lake.
        request: The options of each run.
    """

    path: Path
    request: RunRequest = field(default_factory=RunRequest)
    _runs: Any = field(default_factory=itertools.count)

    def run(self) -> Ran:
        """The steps of ``loglake run``, and the exit code that it has."""
        from pipelines.command.running import DirectLauncher
        from pipelines.command.summary import check_lines, checks_code, damage_lines, refused_lines, warning_lines
        from pipelines.run.chains import INTAKE
        from pipelines.run.direct import outcome_of, run_steps
        from pipelines.run.steps import Run
        from spark_jobs.lake.view.lake_state import read_state

        run_id = f"run-{next(self._runs)}"
        run = Run(
            run_id,
            str(self.path),
            AS_OF_MS,
            self.request,
            self.request.policies_of(str(self.path)),
            DirectLauncher(),
            follows_cluster=False,
        )
        with without_spark():
            outcome = outcome_of(INTAKE, run_id, run_steps(INTAKE, run))
        if outcome.failure is not None:
            return Ran(outcome.failure.code, outcome.failure.message)
        state = read_state(str(self.path))
        lines = [f"{each.rule}: {each.message}" for each in outcome.of_paths]
        lines += [*damage_lines([state]), *warning_lines([state]), *refused_lines(outcome), *check_lines(outcome, None)]
        code = state.exit_code([*outcome.of_paths, *outcome.refused], AS_OF_MS)
        return Ran(max(code, checks_code(outcome, None)), "\n".join(lines))

    def loglake(self, *arguments: str | Path) -> Ran:
        """A command that needs no run, in this process."""
        from logcore.cli.main import main

        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main([str(each) for each in arguments])
        return Ran(code, out.getvalue())

    def verify(self) -> Ran:
        """``loglake verify LAKE``."""
        return self.loglake("verify", self.path)

    def copied(self, path: Path) -> SmallLake:
        """The same lake at another place."""
        shutil.copytree(self.path, path)
        return SmallLake(path, self.request)

    def table(self, name: str) -> Path:
        return self.path / "tables" / name

    def rows(self, name: str, columns: Sequence[str]) -> list[Key]:
        """Rows of a table, in order; none where it was never created."""
        if not (self.table(name) / "_delta_log").is_dir():
            return []
        rows = DeltaTable(str(self.table(name))).to_pyarrow_table(columns=list(columns)).to_pylist()
        return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)

    def facts(self) -> dict[str, Any]:
        """What users see: records, ledger, the end of each log, open findings."""
        from spark_jobs.lake.view.lake_state import read_state

        state = read_state(str(self.path))
        ledger = ["topic", "partition", "start_offset", "end_offset", "state", "records", "gaps", "published"]
        return {
            "records": self.rows("records", ["topic", "partition", "offset", "key", "value", "timestamp_ms"]),
            "ledger": self.rows("offset_ledger", ledger),
            "logs": self.rows("logs", ["topic", "partition", "next_offset", "high_watermark", "stopped", "gaps"]),
            "findings": sorted(
                (log.topic_partition, each.finding.rule, str(each.finding.severity))
                for log in state.logs
                for each in log.findings
            ),
        }
