"""One commit to a table: its guards are checked, Delta writes it, and it is on disk when it ends."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from logcore.storage.objects.answers import said
from spark_jobs.errors import CommitUnanswered, ConcurrentChange, JobError, is_disk_full
from spark_jobs.lake.delta.commits.commit_guards import Guard, TableVersions, check_guards
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.files.row_counts import JUDGED_BY_LEDGER, new_count
from spark_jobs.lake.delta.tables import delta_log, table_features
from spark_jobs.lake.delta.tables.table_creation import bring_up_to_date, open_or_create, spec_of
from spark_jobs.lake.field_ids import as_in_table
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES

APPEND_RETRIES = 15
"""Blind appends are rebased onto commits of others up to this many times; guarded commits never are."""

Action = AddAction | RemoveAction


class TableCommit:
    """One commit to a table. Its dependencies are checked when it begins, and again by Delta when it is written."""

    def __init__(
        self,
        lake: str,
        name: str,
        run_id: str,
        guards: Sequence[Guard],
        expected: TableVersions | None,
        *,
        rewrites: bool = False,
        spec: TableSpec | None = None,
        whole: bool = False,
    ) -> None:
        """Open the table; create it or bring it up to date if necessary.

        Args:
            rewrites: The commit removes files.
            spec: Columns of a table of a topic; None: the table is one of ``TABLES``.
            whole: The commit replaces all files, and the columns by those of ``spec``.
        """
        self._lake, self._name, self._run_id, self._guards, self._expected = lake, name, run_id, guards, expected
        self._whole, declared = whole, TABLES[name] if spec is None else spec
        with answered(lake, name):
            self.table = open_or_create(lake, name, declared)
        if spec is None:
            # Check again: another program may have changed the table since the job was planned.
            table_features.refuse_table(lake, name, self.table, rewrites=rewrites)
        self._begun = self.table.version()
        if expected is not None:
            expected.check(self.table, name)
        with answered(lake, name):
            described = 0 if whole else bring_up_to_date(self.table, declared)
        if expected is not None:
            expected.moved(name, described)
            expected.check(self.table, name)
        check_guards(lake, self.table, name, guards)
        self.spec = spec_of(name, self.table) if spec is None else spec

    def add(self, written: Sequence[WrittenFile]) -> None:
        """Commit with these files added; without a guard it may be rebased onto commits of others."""
        retries = 0 if self._guards or self._expected else APPEND_RETRIES
        self._land([_added(file) for file in written], (), written, retries)

    def swap(self, removed: Sequence[LiveFile], written: Sequence[WrittenFile], *, data_change: bool) -> None:
        """Commit with files replaced. It is never rebased: delta-rs does not notice that a file to remove was rewritten
        meanwhile, and its rows would be in the table twice.
        """
        added = [_added(file, data_change) for file in written]
        self._land([*_removals(removed, data_change=data_change), *added], removed, written, retries=0)

    def _land(
        self, actions: list[Action], removed: Sequence[LiveFile], written: Sequence[WrittenFile], retries: int
    ) -> None:
        # No automatic rebase for guarded commits: delta-rs records an application's version but does not compare it
        # with the planned one, so every attempt must check again.
        # An add action of deltalake has no tags, so the commit as a whole carries the digests of its files.
        digests = {file.path: file.digest for file in written if file.digest is not None}
        contents = {file.path: file.content for file in written if file.content is not None}
        metadata = {"run_id": self._run_id, "digests": digests, "contents": contents}
        recorded = {guard.application_id: guard.next_version for guard in self._guards}
        with answered(self._lake, self._name):
            if self._name not in JUDGED_BY_LEDGER:
                recorded |= new_count(self.table, self._name, removed, written, whole=self._whole)
            self.table.create_write_transaction(
                actions,
                mode="overwrite" if self._whole else "append",
                schema=Schema.from_arrow(as_in_table(self.spec.schema)) if self._whole else self.table.schema(),
                partition_by=list(self.spec.partition_by),
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": json.dumps(metadata)},
                    max_commit_retries=retries,
                    app_transactions=[Transaction(name, recorded[name]) for name in recorded],
                ),
            )
            _kept(self._lake, self._name, self.table, self._begun)
        if self._expected is not None:
            self._expected.moved(self._name)


def _removals(files: Sequence[LiveFile], *, data_change: bool) -> list[RemoveAction]:
    now_ms = (
        time.time_ns() // 1_000_000
    )  # Delta counts the retention of removed files by the system clock, not by a run's
    # The action escapes its path itself. An escaped path would name no file, and the old rows would stay.
    return [RemoveAction(f.path, data_change, now_ms, f.size, dict(f.partition_values)) for f in files]


def _added(file: WrittenFile, data_change: bool = True) -> AddAction:
    values = dict(file.partition_values)
    return AddAction(file.path, file.size, values, file.modified_ms, data_change, file.statistics)


@contextlib.contextmanager
def answered(lake: str, name: str) -> Iterator[None]:
    """Turn Delta's errors of a commit into ours: another commit was first, or the outcome is unknown."""
    try:
        yield
    except CommitFailedError as error:
        raise ConcurrentChange(f"Table {name}: another commit came between plan and commit ({said(error)})") from error
    except JobError:
        raise
    except (DeltaError, OSError) as error:
        cause = f"The disk of {lake} is full. " if is_disk_full(error) else ""
        raise CommitUnanswered(
            f"{cause}Table {name}: a commit was not confirmed ({said(error)}) Remove the cause and run again: "
            "if it succeeded nevertheless, the next run finds it and writes nothing twice."
        ) from error


def _kept(lake: str, name: str, table: DeltaTable, planned: int) -> None:
    """Wait until the commits after version ``planned`` are on disk. Until then a power failure may remove them, while
    later commits stay. ``deltalake`` syncs nothing; the files that the commit adds are synced before it.
    """
    if storage.is_remote(lake):
        return
    table.update_incremental()
    for version in range(planned + 1 if planned else 0, table.version() + 1):
        with contextlib.suppress(FileNotFoundError):
            disk_sync.sync(delta_log.commit_file(lake, name, version))
    disk_sync.sync(delta_log.log_folder(lake, name))
