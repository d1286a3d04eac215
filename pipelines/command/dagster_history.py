"""Reports what runs of the command line did to Dagster, by its public events without a run.

Dagster's history is in ``$DAGSTER_HOME`` if that is set, otherwise ``dagster`` in the operator's home. A new folder
gets the same ``dagster.yaml`` that ``make ui`` uses, so that both share one instance. It is never inside a lake: a
``dagster.yaml`` can name code that Dagster then runs, and the author of a lake may be unknown.

Dagster needs some 15 ms for each event. So of many changed topic partitions only the first are reported at once. The
sensor :mod:`pipelines.lake_definitions` reports the others.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from spark_jobs.errors import JobError
from spark_jobs.lake.view.dagster_reports import keep_later
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.registered_lakes import RegisteredLake, lake_path, read_registered

from ..catalog.asset_results import AssetResult
from ..catalog.tables import table_events
from ..errors.step_errors import history_error, unusable_history
from ..events import check_evaluation, keep_answers, partition_events
from ..partitions import register
from ..run.chains import CHAINS, Step
from ..run.check_definitions import OF_MAINTENANCE
from ..run.direct import FinishedRun
from ..run.outcome import StepResult
from .history import DATABASES, history_not_writable, lacks_databases, prepare_history, settings_file

MOST_KEYS = 33
"""Topic partitions of an asset that are reported at once; so a run has about a hundred events."""

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation


def open_instance(default_folder: str, lake: str | None = None) -> dg.DagsterInstance:
    """Open the instance that the environment names, or the one in this folder; creates it if it does not exist.

    Sets ``DAGSTER_HOME`` in this process, because Dagster reads it.

    Args:
        lake: A directory that is a lake, or becomes one in this run.

    Raises:
        UsageError: The folder is inside a lake.
        JobError: It cannot be written or used: it is damaged, or its ``dagster.yaml`` is wrong.
    """
    folder = prepare_history(default_folder, lake)
    os.environ["DAGSTER_HOME"] = str(folder)
    try:
        if lacks_databases(folder):
            create_databases(folder)
        return dg.DagsterInstance.from_config(str(folder))
    except JobError:
        raise
    except Exception as error:
        # The text of the error may quote its dagster.yaml, which may have a password.
        raise JobError(history_error(error) or unusable_history(type(error).__name__)) from error


def create_databases(folder: Path) -> None:
    """Create the databases of a new history, all or none.

    Dagster creates their tables one by one. Of a process that is killed meanwhile, it keeps a database without the
    other tables for ever. So they are created in another folder, and then renamed.

    Raises:
        JobError: The folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            Path(new, "dagster.yaml").write_bytes(settings_file().read_bytes())
            dg.DagsterInstance.from_config(new).dispose()
            for name in DATABASES:
                with suppress(OSError):  # another process was faster, or was killed here
                    os.rename(Path(new, name), folder / name)
    except OSError as error:
        raise history_not_writable(folder, error) from error


@dataclass(frozen=True, slots=True)
class DagsterHistory:
    """Dagster's history of assets and checks, in a persistent instance.

    Attributes:
        instance: The open instance; closed by :meth:`close`.
    """

    instance: dg.DagsterInstance

    @classmethod
    def open(cls, folder: str) -> DagsterHistory:
        """Open the history in this folder, which has its ``dagster.yaml``."""
        instance = open_instance(folder)
        root = logging.getLogger()
        for handler in root.handlers:  # libraries set their own levels when they are imported
            handler.setLevel(root.level)
        # If an interrupt arrives while a connection closes, it is logged there with its trace, and then raised.
        logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
        return cls(instance)

    def close(self) -> None:
        """Close the instance."""
        self.instance.dispose()

    def record(self, run: FinishedRun) -> None:
        """Report the steps of a run that have run. Raises any error of Dagster."""
        lake = read_registered(lake_path(run.lake))
        later: dict[str, list[str]] = {}
        for step in CHAINS[run.job]:
            done = run.steps.results.get(step.name)
            if done is None:
                break  # a step before it has failed
            for event in self._events(lake, step, run, done, later):
                self.instance.report_runless_asset_event(event)
            keep_answers(self.instance, lake.path, run.run_id, done)
        keep_later(lake.path, self.instance.root_directory, run.run_id, later)

    def _events(
        self, lake: RegisteredLake, step: Step, run: FinishedRun, done: StepResult, later: dict[str, list[str]]
    ) -> Iterator[Event]:
        """The events of a step. Adds to ``later``, by asset, the topic partitions that are left for later."""
        if done.state is not None:
            register(self.instance, lake, (log.topic_partition for log in done.state.logs))
        if step.product is not None:
            made = AssetResult.of(step.product, done.state or read_state(run.lake), done, run.as_of_ms)
            yield from partition_events(lake, made, done, MOST_KEYS)
            left = [log.topic_partition for log in made.changed[MOST_KEYS:]]
            if left:
                later[step.product.name] = left
        yield from table_events(lake, self.instance, step, done)
        for answer in done.answers:
            if not (answer.is_unanswered and answer.asset in OF_MAINTENANCE):
                yield check_evaluation(lake, answer)
