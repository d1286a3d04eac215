"""Where the tables of a lake are, and how an error while one is read becomes one of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError

from logcore.storage.objects.answers import said
from spark_jobs.errors import JobError, StorageError, TableUnreadable, UsageError
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY
from spark_jobs.lake.repair_commands import rebuild_command, replace_command, topic_command
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES

_DENIED = "(os error 13)"
"""Delta's library has no error class for a file that the user may not read, only this text."""
READY_FILE = "ready.json"
"""In the folder of a rebuild: the new table is complete."""


def table_uri(lake: str, name: str) -> str:
    """Return the location of table ``name`` of ``lake``: one of ``TABLES``, or kind and topic of a topic's table."""
    return storage.join(lake, "tables", table_folder(name))


def table_folder(name: str) -> str:
    """Return the directory of a table, below that of all tables."""
    kind, _, topic = name.partition("/")
    if not topic:
        return TABLES[name].name
    # A topic's name has no other characters than these two that a path would follow. A table in a directory with the
    # name of a log is taken for a log by Delta's library.
    return f"{kind}/{f'~{topic}' if topic in ('.', '..', LOG_DIRECTORY) else storage.folder_name(topic)}"


def rebuilding_folder(lake: str, name: str) -> str:
    """Return the folder where ``loglake repair --rebuild`` writes the new table, as a lake of its own."""
    return storage.join(lake, "tables", f".{name}-rebuilding")


def refuse_half_swapped(lake: str, name: str) -> None:
    """Refuse a table between the two renames of a rebuild: a job that takes it for one that was never created would
    publish everything again.

    Raises:
        JobError: A rebuild was interrupted there.
    """
    if not storage.is_remote(lake) and os.path.exists(os.path.join(rebuilding_folder(lake, name), READY_FILE)):
        raise JobError(
            f"Table {name}: a rebuild of it was interrupted when the new table was about to replace it. Finish it: "
            f"`{rebuild_command(lake, name)}`"
        )


@contextmanager
def reading(lake: str, name: str, path: str | None = None) -> Iterator[None]:
    """Turn errors of Arrow and Delta that occur while table ``name`` is read into ours.

    Args:
        path: The file that is read, relative to the table, if it is known.

    Raises:
        TableUnreadable: The table, or a file of it, is missing or damaged.
        StorageError: The object store failed, or the user may not read a file.
    """
    uri = table_uri(lake, name)
    try:
        with storage.answers(uri):
            yield
    except (JobError, UsageError):  # the address of a store is not a damaged table
        raise
    except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = uri if path is None else storage.join(uri, path)
        if isinstance(error, PermissionError) or _DENIED in str(error):
            text = (
                f"Table {name}: {where} can't be read: permission denied. Give this user permission to read the lake."
            )
            raise StorageError(text) from error
        is_row_file = path is not None and not path.startswith(LOG_DIRECTORY)
        kind, _, topic = name.partition("/")
        way_out = f"To rebuild the table: `{rebuild_command(lake, name)}`"
        if topic:
            job = "latest" if kind == "latest" else "decode"
            way_out = f"Remove its directory, then: {topic_command(lake, job, topic)}"
        elif name == "records" and is_row_file:
            way_out = f"To write its rows again: `{replace_command(lake)}`"
        raise TableUnreadable(f"Table {name}: {where} can't be read ({said(error)[:300]}) {way_out}") from error
