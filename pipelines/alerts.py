"""Posts what is wrong with a lake to a webhook. The policies of the lake name it: `alerts.webhook`.

problems    damage, stopped logs, hanging transactions, lag above `alerts.max.lag`, sources that cannot be read, runs
            that fail, no intake for three intervals, and a lake or policies that cannot be read
failures    runs of the lake that failed since the last tick

There is one message for each lake and tick at most, however many problems there are, and none while they stay the same.
A message that is not delivered is posted again at later ticks, for a day; then it is dropped, and the log of the tick
says so. The document is described in docs/operations.md.

The address is that of the policies, also if other lines of the file have a mistake. If it states none that can be used,
it is the last one, if that holds no secret: only such an address is kept.

Posts one JSON document to an address. The address may hold a secret: errors name only its host.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from shlex import quote
from typing import Any

import dagster as dg

from logcore.logs.model.findings import Severity
from spark_jobs.errors import JobError, StorageError, UsageError
from spark_jobs.lake.view.alarms import UNREAD_LAKE, Problem, problems_of, problems_of_files, run_problems
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, is_lake, read_home
from spark_jobs.lake.view.runs.run_ends import run_ends
from spark_jobs.lake.view.runs.run_rows import JOBS, newest_run_of_each_job
from spark_jobs.lake.view.unread_sources import begin_looks
from spark_jobs.policies.policies_file import NO_POLICIES, Policies, read_policies, stated_webhook

from .catalog.names import tags_of
from .run.chains import INTAKE_JOB

TIMEOUT_S = 10.0


class NotDelivered(Exception):
    """The document was not taken; the text says why, without the address."""


def post(address: str, document: dict[str, Any], timeout_s: float = TIMEOUT_S) -> None:
    """Post a document.

    Args:
        address: An ``http`` or ``https`` address, or ``env:NAME`` for one in an environment variable.
        document: What is posted, as JSON.
        timeout_s: The longest wait for an answer, seconds.

    Raises:
        NotDelivered: There is no answer, or it is not of the 2xx kind.
    """
    if address.startswith("env:"):
        name = address.removeprefix("env:")
        address = os.environ.get(name, "")
        if not address:
            raise NotDelivered(f"the environment variable {name} is not set")
    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname
    except ValueError:
        raise NotDelivered("the address cannot be parsed") from None
    if parts.scheme not in ("http", "https") or not host:
        raise NotDelivered("the address is not an http or https address")
    body = json.dumps(document, sort_keys=True).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - the scheme was checked
    try:
        with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310 - as above
            return
    except urllib.error.HTTPError as error:
        raise NotDelivered(f"{host} answered with status {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotDelivered(f"{host} did not answer: {type(reason).__name__}") from None


UI_ADDRESS = "LOGLAKE_UI_ADDRESS"
"""Variable with the address of the pages, for links in alerts; `loglake ui` sets it to its own."""
FORMAT = 1
"""Version of the document."""
MOST_SHOWN = 20
"""Problems that a message shows; it counts all of them."""
FAILED_RUNS = "failed runs"
"""In place of a digest."""
KEPT_MS = 86_400_000
"""Time for which a message that is not delivered is posted again."""
MOST_WAIT_MS = 900_000
"""The longest time between two such posts."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message that was not delivered yet."""

    document: dict[str, Any]
    since_ms: int
    tries: int
    next_ms: int


@dataclass(frozen=True, slots=True)
class Posted:
    """What a lake's webhook knows."""

    problems: str = ""
    """Digest of the problems; empty: there were none; `FAILED_RUNS`: only failed runs were reported."""
    runs_until_ms: int = 0
    """Failures up to this time are known."""
    unsent: Unsent | None = None
    is_unset: bool = False
    """Whether it was said that the address is in an environment variable without a value."""
    webhook: str | None = None
    """The last address, if it holds no secret."""


Failures = Callable[[RegisteredLake, int], Sequence[dict[str, str]]]
"""Gives the runs of a lake that failed after a time, as plain values."""


@dg.sensor(
    name="alerts",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Posts a message to the webhook of a lake when its problems change or a run of it failed. It is on: a "
    "lake whose policies name no webhook is left out.",
)
def alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Post what is new; requests no runs."""
    instance = context.instance

    def failures(lake: RegisteredLake, after_ms: int) -> list[dict[str, str]]:
        records = instance.get_run_records(
            dg.RunsFilter(
                statuses=[dg.DagsterRunStatus.FAILURE],
                tags=tags_of(lake),
                updated_after=datetime.fromtimestamp(after_ms / 1000, UTC),
            ),
            limit=MOST_SHOWN,
        )
        runs = [record.dagster_run for record in records]
        pages = os.environ.get(UI_ADDRESS, "")
        return [{"run_id": run.run_id, "job": run.job_name, "link": f"{pages}/runs/{run.run_id}"} for run in runs]

    home = read_home(home_folder())
    now_ms = time.time_ns() // 1_000_000
    cursor, lines = post_alerts(home.lakes, context.cursor, now_ms, failures, context.log.warning)
    context.update_cursor(cursor)
    return dg.SkipReason("; ".join(lines) or "There is nothing new.")


def post_alerts(
    lakes: Sequence[RegisteredLake],
    cursor: str | None,
    now_ms: int,
    failures: Failures,
    warn: Callable[[str], object],
) -> tuple[str, list[str]]:
    """Run one tick.

    Args:
        lakes: The registered lakes.
        cursor: JSON: what the webhooks know, by key of the lake.
        now_ms: The clock, epoch milliseconds.
        failures: Finds failed runs.
        warn: Gets a sentence for each lake that cannot be examined, each message that is not delivered, and once for
            an address that is not set.

    Returns:
        The next cursor, and a line for each message that was delivered.
    """
    begin_looks(lake.path for lake in lakes)
    known = _read_cursor(cursor)
    after: dict[str, Posted] = {}
    lines: list[str] = []
    for lake in lakes:
        posted = known.get(lake.key, Posted(runs_until_ms=now_ms))
        policies, problems = _policies(lake, posted.webhook)
        webhook = policies.lake.alerts_webhook
        if webhook is None:
            for problem in problems:
                warn(f"No alert is posted: {problem.what}")
                after[lake.key] = posted
            continue
        if not lake.is_there and lake.key not in known:
            continue  # it may not be made yet
        try:
            found = _problems(lake, policies, now_ms)
            is_failing = not found and posted.problems == FAILED_RUNS and _is_failing(lake)
        except (JobError, UsageError, OSError) as error:
            warn(f"The lake {lake.path} is not examined: {error}")
            after[lake.key] = posted
            continue
        if found is None:
            after[lake.key] = posted
            continue
        problems += found
        unset = policies.unset_notes()
        if unset and not posted.is_unset:
            warn(f"The lake {lake.path} posts no alerts: {unset[0].removeprefix('note: ')}")
        failed = failures(lake, posted.runs_until_ms)
        unsent = posted.unsent
        is_failing = is_failing or bool(failed) or (unsent is not None and bool(unsent.document["failed_runs"]))
        digest = _digest(problems) or (FAILED_RUNS if is_failing else "")
        if failed or digest != posted.problems:
            if unsent is not None:  # the latest message replaces it, and still names its failed runs
                failed = [*unsent.document["failed_runs"], *failed][-MOST_SHOWN:]
            document = _document(lake, problems, failed, now_ms)
            unsent = Unsent(document, now_ms, 0, now_ms)
        unsent = _posted(lake, webhook, unsent, now_ms, lines, warn)
        after[lake.key] = Posted(digest, now_ms, unsent, bool(unset), webhook if _is_public(webhook) else None)
    return json.dumps({key: asdict(posted) for key, posted in after.items()}), lines


def _policies(lake: RegisteredLake, last_webhook: str | None) -> tuple[Policies, list[Problem]]:
    """The policies of a lake; of those that cannot be used only the webhook, and that they cannot be used."""
    try:
        return read_policies(lake.policies), []
    except UsageError as error:
        of_lake = replace(NO_POLICIES.lake, alerts_webhook=stated_webhook(lake.policies) or last_webhook)
        what = f"policies of lake {lake.name} cannot be used: {error}"
        command = f"loglake config check {quote(lake.policies or '')}"
        return Policies(lake=of_lake, path=lake.policies), [Problem(UNREAD_LAKE, "the policies", what, command)]


def _problems(lake: RegisteredLake, policies: Policies, now_ms: int) -> list[Problem] | None:
    """What is wrong with a lake; None: its first run is under way.

    Raises:
        JobError, OSError: That is not known now.
    """
    command = f"loglake doctor --lake {quote(lake.path)}"
    try:
        if not is_lake(lake.path):
            return None if lake.is_busy(now_ms) else [Problem(UNREAD_LAKE, "the lake", lake.why_no_lake, command)]
        newest = newest_run_of_each_job(lake.path, (INTAKE_JOB,))
        # First: the others leave out sources that do not answer.
        of_runs = list(run_problems(lake.path, run_ends(lake.path, newest)[INTAKE_JOB], now_ms, policies.lake.ingest))
        of_state = problems_of(read_state(lake.path), now_ms, policies.lake.alerts_max_lag)
        return [*of_state, *problems_of_files(lake.path, now_ms), *of_runs]
    except (JobError, UsageError, OSError) as error:
        # The next tick may read what a store does not answer now, and what a run changes.
        if isinstance(error, StorageError) or lake.is_busy(now_ms):
            raise
        return [Problem(UNREAD_LAKE, "the lake", str(error), command)]


def _is_failing(lake: RegisteredLake) -> bool:
    """Whether no run of a job has succeeded since its newest failure."""
    ends = run_ends(lake.path, newest_run_of_each_job(lake.path, JOBS))
    return any(each.is_failing for each in ends.values())


def _is_public(address: str) -> bool:
    """Whether an address holds no secret: it names a variable, an IP address or localhost. A name may be a secret."""
    return re.fullmatch(r"env:\w+|https?://(localhost|[\d.]+|\[[\da-fA-F:.]+\])(:\d+)?/?", address) is not None


def _posted(
    lake: RegisteredLake,
    address: str,
    unsent: Unsent | None,
    now_ms: int,
    lines: list[str],
    warn: Callable[[str], object],
) -> Unsent | None:
    """Post a message that is due; return it if it is to be posted again."""
    if unsent is None or now_ms < unsent.next_ms:
        return unsent
    try:
        post(address, unsent.document)
    except NotDelivered as error:
        if now_ms - unsent.since_ms >= KEPT_MS:
            warn(f"An alert of lake {lake.name} is dropped after {unsent.tries + 1} tries: {error}.")
            return None
        warn(f"An alert of lake {lake.name} is not delivered and will be posted again: {error}.")
        wait_ms = min(60_000 * 2 ** min(unsent.tries, 16), MOST_WAIT_MS)
        return Unsent(unsent.document, unsent.since_ms, unsent.tries + 1, now_ms + wait_ms)
    lines.append(unsent.document["summary"])
    return None


def _document(
    lake: RegisteredLake, problems: Sequence[Problem], failed: Sequence[dict[str, str]], now_ms: int
) -> dict[str, Any]:
    counts = Counter(problem.kind for problem in problems)
    is_error = failed or any(problem.severity is Severity.ERROR for problem in problems)
    parts = [f"{count:,} {kind}" for kind, count in sorted(counts.items())]
    parts += [f"{len(failed)} failed run{'s' if len(failed) != 1 else ''}"] if failed else []
    return {
        "format": FORMAT,
        "lake": lake.path,
        "name": lake.name,
        "time_ms": now_ms,
        "severity": str(Severity.ERROR if is_error else Severity.WARNING if problems else Severity.INFO),
        "summary": f"lake {lake.name}: {', '.join(parts) or 'all problems are gone'}",
        "command": f"loglake status {quote(lake.path)}",
        "counts": dict(sorted(counts.items())),
        "problems": [asdict(problem) | {"severity": str(problem.severity)} for problem in problems[:MOST_SHOWN]],
        "failed_runs": list(failed),
    }


def _digest(problems: Sequence[Problem]) -> str:
    if not problems:
        return ""
    places = sorted({(problem.kind, problem.place) for problem in problems})
    return hashlib.sha256(json.dumps(places).encode()).hexdigest()[:16]


def _read_cursor(cursor: str | None) -> dict[str, Posted]:
    known = {}
    for key, value in (json.loads(cursor) if cursor else {}).items():
        unsent = value.pop("unsent")
        known[key] = Posted(**value, unsent=None if unsent is None else Unsent(**unsent))
    return known
