"""Executes ``loglake run`` after its options are parsed: a look for work, the steps if there is some, the output.

Dagster records the finished steps afterwards.

A run with nothing to do does not import Dagster and leaves no Dagster run, if Dagster shows the same answers already.

Reports a run to another Dagster, which started this process through Dagster Pipes.

Such a Dagster sets two environment variables, for instance with its ``PipesSubprocessClient``. Without them nothing
here is used, and ``dagster_pipes`` is not imported. The report takes the place of the record in our own history.

    progress                 log messages
    what a step made         a materialization of its asset, if the asset belongs to the step of that Dagster
    answers of checks        check results, if that step names them: Dagster refuses results that it does not expect

An error of the report never reaches the run: one line on stderr says what failed, and nothing more is reported.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from typing import Any

from logcore.cli.termination import abandon_output
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.log_selection import LogSelection
from logcore.storage.source_errors import shown
from spark_jobs import launch
from spark_jobs.contracts import Intake, JobConfig
from spark_jobs.errors import JobError, NothingChosen, SourceUnread, error_name
from spark_jobs.lake.view import registered_lakes
from spark_jobs.lake.view.alarms import Problem, held_back, run_problems
from spark_jobs.lake.view.dagster_reports import recorded_answers
from spark_jobs.lake.view.harmed_places import LOST, with_advice
from spark_jobs.lake.view.lake_state import LakeState, read_state
from spark_jobs.lake.view.open_findings import source_damage, source_warnings, unread_source
from spark_jobs.lake.view.registered_lakes import lake_name
from spark_jobs.lake.view.runs.run_ends import SOURCE_UNREAD, is_below, keep_run_end, run_ends
from spark_jobs.lake.view.runs.run_rows import JOBS, newest_run_of_each_job
from spark_jobs.lake.view.unread_sources import unread_sources
from spark_jobs.outlines import Outline
from spark_jobs.policies.policies_file import Policies, read_policies
from spark_jobs.prestart import start_workers

from ..catalog.asset_results import AssetResult
from ..catalog.queried_tables import TABLES, table_metadata
from ..errors.step_errors import sentence_of
from ..metadata.values import (
    JsonValue,
    LinkValue,
    MarkdownValue,
    Metadata,
    PathValue,
    TableValue,
    Value,
)
from ..run.chains import CHAINS, INTAKE_JOB, MAINTENANCE_JOB
from ..run.check_definitions import RECORDS, CheckAnswer
from ..run.direct import FinishedRun
from ..run.look import answers_after_expiry, outcome_without_work, present_answers
from ..run.outcome import WRITTEN, RunOutcome
from ..run.run_request import RunRequest
from .history import check_outside_lakes, prepare_history
from .progress_lines import ProgressLines
from .running import (
    DirectLauncher,
    HistoryInBackground,
    Runner,
    announcer,
    open_dagster_history,
)
from .summary import (
    LISTED,
    SHOWN_BY_LINES,
    accepted_gone_lines,
    check_lines,
    checks_code,
    damage_lines,
    failures_of,
    given_up_lines,
    logs_table,
    meanings_lines,
    open_transaction_lines,
    plan_lines,
    read_elsewhere_lines,
    refused_lines,
    tables_lines,
    verdict_line,
    warning_lines,
)
from .watch import watch_lake

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


INTERVAL_S, REMOTE_INTERVAL_S = 1.0, 60.0
"""Seconds between two looks of a watch: at local sources, and at those on an object store, where each look costs a
request for a thousand objects."""


def run_lake(options: argparse.Namespace) -> int:
    """Execute ``loglake run``, and report it if a Dagster started it through Pipes; return the exit code."""
    report = PipesReport.open()
    if report is None:
        return _run(options, None)
    try:
        return _run(options, report)
    except KeyboardInterrupt:
        report.failure = "The run was interrupted. What was committed stays; the next run continues."
        raise
    except Exception as error:
        report.failure = sentence_of(error, "of the command", "this process")
        raise
    finally:
        report.end()


def _run(options: argparse.Namespace, report: PipesReport | None) -> int:
    lake = registered_lakes.lake_path(options.lake)
    request = _request(options, lake)
    policies = read_policies(request.policies) if request.sources else request.policies_of(lake)
    try:  # before anything is created
        beside = (*request.fill_from, *request.remote)
        launch.check_run(lake, request.sources, beside, policies, request.engine, request.selection)
    except JobError as error:
        _keep_refusal(lake, request, options.now_ms, error)
        raise
    request = _forgetting_remote(lake, request)
    _forget_sources(lake, options.forget_source)
    history = registered_lakes.dagster_home()
    instance = str(check_outside_lakes(history, lake))
    hinted = registered_lakes.unadopted_sources(lake)
    as_of_ms = options.now_ms if request.as_of_ms is None else request.as_of_ms
    again = registered_lakes.ingest_commands(lake, [request.intake]) if request.sources else ""
    with launch.open_lake(lake, "loglake run", again):
        before = launch.sources_of_logs(lake) if request.move_source else set()
        # Sources and options are registered after a run that took them. Advice needs the policies now.
        launch.register(lake)
        if request.policies and request.to_register:
            for known in registered_lakes.read_registered(lake).intakes:
                if set(known.sources) <= set(request.sources):
                    launch.register(lake, replace(known, policies=request.policies))
        if options.maintain and request.apply:
            start_workers(request.engine)
        is_new = request.replace is not None or report is not None
        nothing = None if is_new else _nothing_to_do(lake, request, policies, as_of_ms, instance)
        if not request.sources:
            nothing = RunOutcome("", {})
            _say_of_unread_sources(lake, options.maintain)
        elif nothing is not None:
            unread = unread_source(nothing.of_paths)
            logs = [log.row for log in read_state(lake).logs]
            said = [about(lake, logs, nothing.of_paths, request.sources) for about in (source_warnings, source_damage)]
            keep_run_end(lake, INTAKE_JOB, options.now_ms, unread and SOURCE_UNREAD, unread, None, *said)
            _register(lake, request, nothing, before)
        outcomes = [] if nothing is None else [nothing]
        if nothing is None or options.maintain:
            outcomes = _outcomes(lake, history, request, policies, options, nothing, report, before)
    failure = next((outcome.failure for outcome in outcomes if outcome.failure is not None), None)
    if failure is not None:
        for line in check_lines(outcomes[0], None):
            print(line)
        sys.stderr.write(f"error: {failure.message}\n")
        if report is not None:
            report.failure = failure.message
        return failure.code
    of_runs: list[Problem] = []
    if options.forget_source and not request.sources:  # the code is that of the present lake
        outcomes[0] = replace(outcomes[0], answers=tuple(present_answers(lake, policies, as_of_ms)))
        of_runs = _problems_of_runs(lake, options.now_ms)
    whole = read_state(lake)
    selection = request.selection
    state = chosen_state(whole, selection)
    keys = {log.log for log in state.logs} | {log.row.topic for log in state.logs}
    chosen = None if selection.is_everything else keys
    _say(whole, outcomes[0].of_paths, policies)
    _say_of_hint(lake, hinted, request)
    try:
        _show(lake, state, outcomes, chosen, as_of_ms, request)
        sys.stdout.flush()
    except BrokenPipeError:  # the run is done, and its exit code counts
        abandon_output()
    code = state.exit_code([*outcomes[0].of_paths, *outcomes[0].refused], as_of_ms)
    for problem in of_runs:
        sys.stderr.write(f"{problem.severity}: {problem.place}: {problem.what}\n")
        code = max(code, ExitCode.DAMAGE if problem.kind == "damage" else ExitCode.NOT_CHECKED)
    # With --topic the lake may lack topics that the source has.
    idle = () if selection.topics or selection.names else policies.idle_notes(whole.topics)
    for note in (*idle, *policies.unset_notes()):
        sys.stderr.write(f"{note}\n")
    ended = max(code, *(checks_code(outcome, chosen) for outcome in outcomes))
    unrecorded = next((outcome.unrecorded for outcome in outcomes if outcome.unrecorded is not None), None)
    if unrecorded is not None:
        sys.stderr.write(f"error: {unrecorded.message}\n")
        ended = unrecorded.code
    if report is None:
        return ended
    for outcome in outcomes:
        report.warn([*refused_lines(outcome), *check_lines(outcome, chosen)])
    report.finish()
    return report.exit_code(ended, [a.name for outcome in outcomes for a in outcome.answers if failures_of(a, chosen)])


def _register(lake: str, request: RunRequest, outcome: RunOutcome, before: Collection[str]) -> None:
    """Register what a run took, instead of the sources that all logs left since ``before``.

    An option that matched nothing is not registered, nor is a copy that was refused: otherwise each later run would
    fail.
    """
    refused = [finding.file or "" for finding in outcome.of_paths if finding.rule == "copies-undecided"]
    if all(finding.rule != "nothing-chosen" for finding in outcome.of_paths):
        for intake in request.to_register:
            taken = tuple(copy for copy in intake.fill_from if not any(is_below(file, [copy]) for file in refused))
            launch.register(lake, replace(intake, fill_from=taken), before)


def _keep_refusal(lake: str, request: RunRequest, ended_ms: int, error: JobError) -> None:
    """Record a run that did not begin, if it was for the sources of the lake: they, or the lake, cannot be used."""
    if request.is_registered(lake) and not isinstance(error, NothingChosen):
        unread = str(error) if isinstance(error, SourceUnread) else None
        job = INTAKE_JOB if request.sources else MAINTENANCE_JOB
        keep_run_end(lake, job, ended_ms, error_name(error), unread)


def watch(options: argparse.Namespace) -> int:
    """Execute ``loglake watch``; return the exit code."""
    lake = registered_lakes.lake_path(options.lake)
    request = _forgetting_remote(lake, _request(options, lake))
    is_remote = any("://" in path for path in (*request.sources, *request.fill_from))
    return watch_lake(lake, request, options.interval or (REMOTE_INTERVAL_S if is_remote else INTERVAL_S))


def _nothing_to_do(
    lake: str, request: RunRequest, policies: Policies, as_of_ms: int, instance: str
) -> RunOutcome | None:
    """The outcome if there is nothing to do and Dagster shows it already; else None."""
    recorded = recorded_answers(lake, instance)
    if recorded is None:
        return None
    outcome = outcome_without_work(lake, request, policies, as_of_ms)
    if outcome is None or {answer.name: answer.recorded for answer in outcome.answers} != recorded:
        return None
    return outcome


def _outcomes(
    lake: str,
    history: str,
    request: RunRequest,
    policies: Policies,
    options: argparse.Namespace,
    nothing: RunOutcome | None,
    report: PipesReport | None,
    before: Collection[str],
) -> list[RunOutcome]:
    """Run the steps of the intake if it has something to do, then of maintenance where it is requested.

    Args:
        nothing: The outcome of the intake if it has nothing to do.
        report: Takes the place of the history if a Dagster waits for it.
        before: The partition directories of the logs before a run that may move them.
    """
    if report is None:
        prepare_history(history, lake)
    start_workers(request.engine)
    lines = ProgressLines(sys.stderr if report is None else report.lines())
    announce = announcer() if report is None else report.announce
    with HistoryInBackground(lambda: report or open_dagster_history(history)) as in_background:
        runner = Runner(in_background, options.now_ms, DirectLauncher(lines), announce)
        outcomes = [nothing or runner.run(INTAKE_JOB, lake, request, policies)]
        if outcomes[0].failure is None:
            if nothing is None:
                _register(lake, request, outcomes[0], before)
            if options.maintain:
                outcomes.append(runner.run(MAINTENANCE_JOB, lake, request, policies))
                if WRITTEN["retention", "expired_rows"] in outcomes[1].written:
                    now = {answer.name: answer for answer in answers_after_expiry(lake, policies)}
                    judged = tuple(now.get(answer.name, answer) for answer in outcomes[0].answers)
                    outcomes[0] = replace(outcomes[0], answers=judged)
    return outcomes


def _show(
    lake: str,
    state: LakeState,
    outcomes: Sequence[RunOutcome],
    chosen: Collection[str] | None,
    as_of_ms: int,
    request: RunRequest,
) -> None:
    """Print the results on stdout.

    Args:
        chosen: Log keys and topics of the run; None: all.
    """
    waiting = open_transaction_lines([state], as_of_ms)
    about_logs = (*damage_lines([state], said=outcomes[0].of_paths), *warning_lines([state]), *waiting)
    of_checks = check_lines(outcomes[0], chosen, shown=SHOWN_BY_LINES, said=about_logs)
    given_up = given_up_lines(state) if request.high_watermark == "log-end" else []
    alarms = [*about_logs, *refused_lines(outcomes[0]), *of_checks, *given_up]
    of_logs = [logs_table([state]), *meanings_lines([state])] if state.logs else []
    notes = list(islice((f"note: {each}" for each in held_back(state, as_of_ms)), LISTED))
    for line in (*alarms, *([""] if alarms else []), *of_logs, *notes):
        print(line)
    for outcome in outcomes[1:]:
        for line in (*plan_lines(outcome, state), *check_lines(outcome, chosen)):
            print(line)
    print("\ntables:" if state.logs else "no log was found")
    for line in tables_lines(lake):
        print(f"  {line}")
    print(verdict_line(outcomes, state, chosen, replaces=request.replace is not None))


def _problems_of_runs(lake: str, now_ms: int) -> list[Problem]:
    ends = run_ends(lake, newest_run_of_each_job(lake, JOBS))[INTAKE_JOB]
    return list(run_problems(lake, ends, now_ms, ""))  # without the schedule: no run is due because of this one


def _say_of_unread_sources(lake: str, maintains: bool) -> None:
    """Print that no source is read, and which registered ones are gone."""
    gone = ", ".join(map(shown, sorted(unread_sources(lake))))
    said = f"{f'; gone: {gone}' if gone else ''}.{' The lake is maintained.' if maintains else ''}"
    sys.stderr.write(f"note: no PATH is named, so no source is read{said}\n")


def _say_of_hint(lake: str, hinted: Sequence[Intake], request: RunRequest) -> None:
    """Print that the lake names sources of its own, which are not used."""
    named = [each for each in hinted if not set(each.sources) <= set(request.sources)]
    if named:
        sys.stderr.write(
            f"note: {registered_lakes.hint_file(lake)} also names sources. What a lake names itself is not used; if "
            f"they are right, register them: {registered_lakes.ingest_commands(lake, named)}\n"
        )


def _request(options: argparse.Namespace, lake: str) -> RunRequest:
    """The options of the command line, completed by what is remembered. Its options are named as the fields."""
    said: dict[str, Any] = {field.name: getattr(options, field.name, None) for field in fields(RunRequest)}
    said["high_watermark"] = str(said["high_watermark"])
    said["policies"] = os.path.abspath(options.policies) if options.policies else None
    if options.policies:
        launch.read_usable_policies(options.policies)
    for name in ("sources", "fill_from", "remote"):
        said[name] = [launch.source_place(path) for path in said[name]]
    launch.check_copies(lake, said["fill_from"])  # a remembered copy may be away for a while
    stated: dict[str, Any] = {
        name: tuple(it) if isinstance(it, list) else it for name, it in said.items() if it is not None
    }
    request = registered_lakes.as_remembered(lake, RunRequest(**stated))
    _say_of_choice(lake, request)
    unused = registered_lakes.unused_home(lake)
    if unused is not None:
        sys.stderr.write(f"note: {unused}\n")
    if request.policies is not None and not options.policies:
        sys.stderr.write(
            f"note: policies are those registered for this lake, {request.policies}; --policies names others\n"
        )
    return request


def _say_of_choice(lake: str, request: RunRequest) -> None:
    """Print that a run without ``--topic`` and ``--partition`` takes more of the sources than the lake took before."""
    if not request.sources or not request.selection.is_everything:
        return
    for known in registered_lakes.read_registered(lake).intakes:
        is_same = request.move_source or set(known.sources) <= set(request.sources)
        if is_same and (known.topics or known.partitions):
            options = (*(f"--topic {each}" for each in known.topics), *(f"--partition {n}" for n in known.partitions))
            schedules = "the schedules go on with that" if request.move_source else "so do the schedules from now on"
            sys.stderr.write(
                f"note: until now this lake took only {' '.join(map(shown, options))} of these sources. This run takes "
                f"every log, and {schedules}. To keep a choice, name it in each run.\n"
            )


def _forgetting_remote(lake: str, request: RunRequest) -> RunRequest:
    """The request, without the remembered remote storage if that is to be forgotten. It is forgotten once."""
    if not request.forget_remote:
        return request
    places = ", ".join(map(shown, launch.forget_remote(lake, request)))
    said = f"the remote storage {places} is forgotten" if places else "no remote storage is remembered"
    sys.stderr.write(f"note: {said}\n")
    return replace(request, remote=(), forget_remote=False)


def _forget_sources(lake: str, named: Sequence[str]) -> None:
    """Forget registered sources that are gone for good."""
    paths = [launch.source_place(path) for path in named]
    if paths:
        known = (*registered_lakes.read_registered(lake).intakes, *registered_lakes.unadopted_sources(lake))
        is_copied = all(each.mode == "copy" for each in known if set(each.sources) & set(paths))
        launch.forget_sources(lake, paths)
        stays = "rows and archive stay" if is_copied else "rows stay; segments by reference were never copied"
        sys.stderr.write(f"note: later runs no longer read {', '.join(map(shown, paths))}; {stays}\n")


def chosen_state(state: LakeState, selection: LogSelection) -> LakeState:
    """The lake's state, only of the selected logs."""
    return replace(state, logs=tuple(log for log in state.logs if selection.matches(log.row.topic, log.row.partition)))


def _say(state: LakeState, findings: Sequence[Finding], policies: Policies) -> None:
    """Print current findings about the source paths on stderr, with what to do."""
    absent = [each for each in findings if each.rule in (*LOST, "log-gone") and each.severity is Severity.INFO]
    names = {os.path.basename(each.file or ""): each for each in absent}
    accepted = [name for name in names if policies.accepts_gone(name.rpartition("-")[0])]
    read_elsewhere = {name: each for name, each in names.items() if name not in accepted and each.rule in LOST}
    for note in (*accepted_gone_lines(accepted), *read_elsewhere_lines(read_elsewhere)):
        sys.stderr.write(f"{note}\n")
    if noted := [each for each in findings if each.rule == "second-source" and each.severity is Severity.INFO]:
        more = f" The same holds for {len(noted) - 1:,} more." if len(noted) > 1 else ""
        sys.stderr.write(f"note: {noted[0].message}{more}\n")
    for finding in findings:
        if finding.rule == "unread-segments" and finding.severity is Severity.INFO:
            sys.stderr.write(f"note: {finding.message} `loglake help {finding.rule}` says what helps.\n")
    for finding, to_do in with_advice(state.lake, (log.row for log in state.logs), findings):
        sys.stderr.write(f"{finding.severity}: {finding.message}\n")
        if to_do:
            sys.stderr.write(f"  What to do about {finding.rule}: {to_do}\n")
