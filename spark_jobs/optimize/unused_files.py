"""Files that no version of a table within the retention period names: which there are, and their removal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.errors import StorageError, TableUnreadable, UsageError
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, existing
from spark_jobs.lake.delta.files.live_files import idle_files, live_files
from spark_jobs.lake.delta.tables.delta_log import History, read_history
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.optimize.log_cleanup import LEAST_VACUUM_MS
from spark_jobs.outlines import UnusedFile


def table_histories(lake: str) -> dict[str, History]:
    """Return the history of each table: of ``TABLES`` by name, of a topic by kind and folder.

    A table of a topic that can't be read is left out, and so is one with other features than ours: a deletion vector is
    a file too that only the table's log names.
    """
    histories = {name: read_history(lake, name) for name in TABLES}
    for kind in (DECODED, UNDECODED, LATEST):
        for folder in existing(lake, (kind,)):
            name = f"{kind}/{folder}"
            try:
                table = open_table(lake, name)
                if table is not None and is_supported(table):
                    histories[name] = read_history(lake, name)
            except StorageError:
                raise
            except TableUnreadable:
                continue  # verify names it
    return histories


def least_age(config: OptimizeConfig, histories: Mapping[str, History]) -> int:
    """Age at which a file that no version names is removed.

    A file that waits for its commit, or that is being read, must never reach it. So it is also at least twice the
    longest time that a file of this lake has waited.
    """
    if config.force:
        return config.vacuum_after_ms
    if config.vacuum_after_ms < LEAST_VACUUM_MS:
        raise UsageError(
            f"optimize: files would be removed after {config.vacuum_after_ms} ms, and the minimum is {LEAST_VACUUM_MS} "
            "ms, seven days: a run or a reader could still need them. Request more, or set `force` if nothing else "
            "reads or writes this lake."
        )
    return max([config.vacuum_after_ms, *(2 * history.longest_wait_ms for history in histories.values())])


def plan_vacuum(config: OptimizeConfig, histories: Mapping[str, History], floor_ms: int) -> Iterator[UnusedFile]:
    """Files that are old by the run's clock and by the store's clock.

    A run with a clock in the future must not remove files of a publish that is still working.
    """
    now_ms = config.as_of_ms
    is_asked = config.force
    for name, history in histories.items():
        for file in idle_files(config.lake, name, history):
            if now_ms - file.since_ms > floor_ms and not is_asked:
                now_ms = min(now_ms, storage.clock_ms(config.lake))
                is_asked = True
            age = now_ms - file.since_ms
            if age > floor_ms:
                yield UnusedFile(name, file.path, file.size, age, file.was_live)


def remove_files(lake: str, files: Sequence[UnusedFile]) -> Iterator[UnusedFile]:
    """Delete files, except those that a version added since the plan."""
    for name, of_table in groupby(files, key=lambda each: each.table):
        table = open_table(lake, name)
        live = {file.path for file in live_files(table)} if table is not None else set()
        for each in of_table:
            if table is not None and each.path not in live:
                storage.delete(storage.join(table_uri(lake, name), each.path))
                yield each
