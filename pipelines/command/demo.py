"""``loglake demo``: the bundled samples become tables, one lake a cluster, and what to type next is printed.

All runs are in one process, so that one Spark session serves them, and in one instance, the one that ``make ui`` shows.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from logcore.exit_codes import ExitCode
from pipelines.command.instance import open_instance
from pipelines.command.running import Runner, RunOutcome, announcer
from pipelines.command.summary import damage_lines, logs_table, meanings_line, shown_path
from pipelines.jobs import INTAKE_JOB
from pipelines.view.lakes import lake_name
from pipelines.view.state import LakeState, read_state
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.registry import Intake, remember
from spark_jobs.lake.store.lease import hold

SUFFIX = ".tar.xz"


def run_demo(samples: str | None = None) -> int:
    """Run the demo; exit code 0 although a sample is damaged, because that is meant to be seen."""
    begun = time.monotonic()
    home = Path(registry.home())
    os.environ["LOGLAKE_HOME"] = str(home)
    archives = _archives(Path(samples) if samples else Path(__file__).resolve().parents[2] / "samples")
    outcomes: dict[str, RunOutcome] = {}
    with open_instance(str(home / "dagster")) as instance:
        runner = Runner(instance, announcer())
        for archive in archives:
            logdir = _unpack(archive, home / "samples")
            lake = str(home / "lakes" / logdir.parent.name)
            with hold(lake, "loglake demo"):
                remember(lake, Intake((str(logdir),)))
                outcomes[lake] = runner.run(INTAKE_JOB, lake, sources=[str(logdir)])
            if outcomes[lake].error is not None:
                raise JobError(f"The sample {lake_name(lake)}: {outcomes[lake].error}")
    states = [read_state(lake) for lake in outcomes]
    _show(home, states)
    if all(outcome.found_nothing_new for outcome in outcomes.values()):
        print("\nnothing new")
    else:
        print(f"\ndone in {time.monotonic() - begun:.0f} s; run it again, and it says: nothing new")
    return ExitCode.CLEAN


def _archives(folder: Path) -> list[Path]:
    found = sorted(folder.glob(f"*{SUFFIX}"))
    if not found:
        raise UsageError(
            f"No samples under {folder}. They come with the repository, not with the installed package: "
            "name their folder by --samples DIR."
        )
    return found


def _unpack(archive: Path, folder: Path) -> Path:
    """Unpack a sample once, with its modification times; returns its log directory."""
    target = folder / archive.name.removesuffix(SUFFIX)
    if not target.exists():
        unfinished = target.with_name(target.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        with tarfile.open(archive) as packed:
            packed.extractall(unfinished, filter="data")
        os.replace(unfinished, target)
    return target / "logdir"


def _show(home: Path, states: Sequence[LakeState]) -> None:
    print(logs_table(states, name_lakes=True))
    print(meanings_line(states))
    damage = damage_lines(states)
    if damage:
        print("\nOne sample was damaged on purpose, and this is what is said of it:")
        for line in damage:
            print(f"  {line}")
    shown = next((state for state in states if any(log.published_to for log in state.logs)), states[0])
    here = shown_path(str(home))
    python = shown_path(sys.executable)
    query = (
        "import duckdb; from deltalake import DeltaTable; "
        f"records = DeltaTable('{here}/lakes/{shown.name}/tables/records').to_pyarrow_dataset(); "
        "print(duckdb.sql('select topic, partition, count(*) from records group by all order by all').fetchall())"
    )
    print(f"""
The tables are under {here}/lakes/<lake>/tables: records, offset_ledger, findings, quarantine, and others.

What to type next:
  the same in Dagster's pages:
    make ui
  a query over records:
    {python} -c "{query}"
  your own log directory:
    {_loglake(python)} run /var/kafka-logs --lake {here}/my-lake""")


def _loglake(python: str) -> str:
    command = os.path.join(os.path.dirname(python), "loglake")
    return command if os.path.exists(command) else "loglake"
