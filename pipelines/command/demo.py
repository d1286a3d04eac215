"""``loglake demo``: converts the bundled samples to tables, one lake per cluster, and prints the next commands.

All runs are in one process, so that they share one Spark session, and in the instance that ``loglake ui`` shows.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from logcore.cli import main
from logcore.exit_codes import ExitCode
from spark_jobs import launch
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.lake_state import LakeState, read_state
from spark_jobs.lake.view.registered_lakes import home_folder, lake_name, read_registered
from spark_jobs.policies.policies_file import read_policies

from ..run.chains import INTAKE_JOB, MAINTENANCE_JOB
from ..run.outcome import RunOutcome
from ..run.run_request import RunRequest
from .history import prepare_history
from .progress_lines import ProgressLines
from .running import (
    DirectLauncher,
    HistoryInBackground,
    Runner,
    announcer,
    open_dagster_history,
)
from .summary import damage_lines, logs_table, meanings_lines, shown_path

SUFFIX = ".tar.xz"
_HERE = Path(__file__).resolve()
SAMPLES = _HERE.parents[1 if _HERE.parents[1].name == "loglake" else 2] / "samples"
"""The samples of an installed package, or of the clone of the repository."""
QUESTION = (
    "select value.name, count(*) as orders, round(sum(value.amount), 2) as amount from decoded_codec_2dnone "
    "where not is_tombstone group by all order by amount desc limit 3"
)
_COUNTS = "select topic, partition, count(*) from records group by all order by all"


def run_demo(now_ms: int, samples: str | None = None) -> int:
    """Run the demo. The exit code is 0 although a sample is damaged, because the demo shows that damage on purpose."""
    begun = time.monotonic()
    home = Path(home_folder())
    os.environ["LOGLAKE_HOME"] = str(home)
    archives = _archives(Path(samples) if samples else SAMPLES)
    outcomes: dict[str, RunOutcome] = {}
    folder = str(home / "dagster")
    prepare_history(folder)
    with HistoryInBackground(lambda: open_dagster_history(folder)) as history:
        lines = ProgressLines(sys.stderr)
        # By Spark, as on a cluster, unless LOGLAKE_JOB_ENGINE says otherwise.
        engine: Literal["auto", "spark"] = "auto" if launch.is_engine_requested() else "spark"
        for archive in archives:
            logdir = _unpack(archive, home / "samples")
            request = RunRequest(
                (str(logdir),),
                policies=_policies(archive, logdir.parent),
                engine=engine,
            )
            runner = Runner(history, now_ms, DirectLauncher(lines), announcer(), "demo")
            lake = _lake(str(home), archive)
            with launch.open_lake(lake, "loglake demo", "loglake demo"):
                launch.register(lake, request.intake)
                policies = read_policies(request.policies)
                outcomes[lake] = _checked(lake, runner.run(INTAKE_JOB, lake, request, policies))
                if policies.topics and not outcomes[lake].found_nothing_new:
                    # What the nightly schedule does: retention, compaction, and what follows from them.
                    _checked(lake, runner.run(MAINTENANCE_JOB, lake, replace(request, apply=True), policies))
    states = [read_state(lake) for lake in outcomes]
    _show(home, states)
    if all(outcome.found_nothing_new for outcome in outcomes.values()):
        print("\nnothing new")
    else:
        print(f"\ndone in {time.monotonic() - begun:.0f} s; run it again, and it reports: nothing new")
    return ExitCode.CLEAN


def _checked(lake: str, outcome: RunOutcome) -> RunOutcome:
    failure = outcome.failure or outcome.unrecorded
    if failure is not None:
        raise JobError(f"The sample {lake_name(lake)}: {failure.message}")
    return outcome


def lakes_of_samples(home: str) -> list[str]:
    """The lakes that the demo makes below a home, whether they are there or not."""
    return [_lake(home, archive) for archive in sorted(SAMPLES.glob(f"*{SUFFIX}"))]


def _lake(home: str, archive: Path) -> str:
    return str(Path(home, "lakes", archive.name.removesuffix(SUFFIX)))


def _archives(folder: Path) -> list[Path]:
    found = sorted(folder.glob(f"*{SUFFIX}"))
    if not found:
        raise UsageError(f"No samples under {folder}. Name their folder by --samples DIR.")
    return found


def _unpack(archive: Path, folder: Path) -> Path:
    """Unpack a sample once, with its modification times, and return its log directory."""
    target = folder / archive.name.removesuffix(SUFFIX)
    if not target.exists():
        unfinished = target.with_name(target.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        with tarfile.open(archive) as packed:
            # Python 3.11.2, that of Debian 12, has no argument `filter` and no filters.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            packed.extractall(unfinished)  # noqa: S202 - the samples are ours
        os.replace(unfinished, target)
    return target / "logdir"


def _policies(archive: Path, folder: Path) -> str | None:
    """The policies of a sample, copied beside it together with their schema; None: it has none."""
    name = archive.name.removesuffix(SUFFIX)
    for kind in ("schema.json", "policies.yaml"):
        bundled = archive.with_name(f"{name}.{kind}")
        if not bundled.exists():
            return None
        shutil.copyfile(bundled, folder / bundled.name)
    return str(folder / f"{name}.policies.yaml")


def _show(home: Path, states: Sequence[LakeState]) -> None:
    print(logs_table(states, name_lakes=True))
    for line in meanings_lines(states):
        print(line)
    damage = damage_lines(states, advises=False)
    if damage:
        print("\nOne sample was damaged on purpose. Its findings:")
        for line in damage:
            print(f"  {line}")
    shown = next((state for state in states if any(log.published_to for log in state.logs)), states[0])
    here = shown_path(str(home))
    python = shown_path(sys.executable)
    for state in states:
        if DecodedTopic.all_of(state.lake, read_policies(read_registered(state.lake).policies)):
            _ask(state.lake, _loglake(python))
    print(f"""
The tables are under {here}/lakes/<lake>/tables: records, offset_ledger, findings, quarantine, and others.

What to type next:
  the same in Dagster's pages:
    {_loglake(python)} ui
  a query over records:
    {_loglake(python)} query {here}/lakes/{shown.name} "{_COUNTS}"
  your own log directory:
    {_loglake(python)} run /var/kafka-logs --lake {here}/my-lake
{how_to_call(python)}""")


def _ask(lake: str, command: str) -> None:
    """Print a question about decoded rows as one would type it, and its answer."""
    print(f"""
Some values of lake {lake_name(lake)} are JSON, and its policies decode them. A question about their fields:
  {command} query {shown_path(lake)} "{QUESTION}"
""")
    sys.stdout.flush()
    main.main(["query", lake, QUESTION])


def how_to_call(python: str) -> str:
    """Return how to paste commands of advice, which begin with `loglake`; empty if the shell finds it.

    Args:
        python: The path of this Python, for use here.
    """
    if shutil.which("loglake") is not None:
        return ""
    here, activate = _loglake(python), os.path.join(os.path.dirname(python), "activate")
    return f"\nAdvice of Loglake begins with `loglake`. In this shell that is {here}, or first: source {activate}"


def _loglake(python: str) -> str:
    command = os.path.join(os.path.dirname(python), "loglake")
    return command if os.path.exists(command) else "loglake"
