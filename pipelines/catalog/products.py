"""What the assets of a lake are, and which step makes each of them: names, texts, tables, kinds, metadata.

Texts are plain, because Dagster shows them in lists without Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_jobs.contracts import LogChange
from spark_jobs.lake.view.log_state import LogState

from ..metadata import reporting
from ..metadata.values import Metadata
from ..run import chains, check_definitions
from ..run.chains import Link
from ..run.check_definitions import CheckDefinition
from ..run.steps import Work

SOURCES = "log_directories"
"""The asset for what a lake reads."""


@dataclass(frozen=True, slots=True)
class Product:
    """An asset and its presentation in the UI."""

    name: str
    description: str
    table: str
    """The table of the lake whose columns the UI shows."""
    kinds: tuple[str, ...]
    metadata: Callable[[LogState, LogChange | None, int], Metadata]
    made_from: tuple[str, ...]
    pictures: Callable[[LogState], Metadata] = lambda _: {}
    """More metadata, left out where very many keys changed."""
    column_sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By column of its table: the asset and the column that the values come from."""
    code_version: str = "1"
    """Another one means that the step makes other data of the same input."""


@dataclass(frozen=True, slots=True)
class Step:
    """An op: what it does, the asset that it makes (if any), and its checks."""

    link: Link
    product: Product | None = None
    checks: tuple[CheckDefinition, ...] = ()

    @property
    def name(self) -> str:
        """Name of the op."""
        return self.link.name

    @property
    def work(self) -> Work:
        """What the op does."""
        return self.link.work


INTAKE = (
    Step(
        chains.INTAKE[0],
        Product(
            "archived_segments",
            "The archive: our copy of each log, immutable segment files and the table segments that says which "
            "are live. It grows at its end, and does not lose offsets when the source loses them.",
            "segments",
            ("file", "deltalake"),
            reporting.segment_metadata,
            (SOURCES,),
        ),
        (check_definitions.SOURCES_AGREE,),
    ),
    Step(
        chains.INTAKE[1],
        Product(
            "validated_segments",
            "Every byte validated: batches, findings, quarantined bytes, transactions, and the ledger that gives "
            "the state of every offset from 0 to the log's end.",
            "offset_ledger",
            ("deltalake",),
            reporting.validation_metadata,
            ("archived_segments",),
            reporting.validation_pictures,
        ),
        (check_definitions.NO_DAMAGE, check_definitions.EVERY_OFFSET_ACCOUNTED_FOR, check_definitions.NOTHING_REMOTE),
    ),
    Step(
        chains.INTAKE[2],
        Product(
            "records",
            "The table to query: every record that a read-committed consumer sees, exactly once. Columns are those "
            "of Spark's Kafka source, and where each record came from.",
            "records",
            ("deltalake",),
            reporting.publish_metadata,
            ("validated_segments",),
            column_sources={
                **{name: ("archived_segments", name) for name in ("topic", "partition", "log_id", "segment_id")},
                **{name: ("batches", name) for name in ("position", "leader_epoch")},
            },
        ),
        (check_definitions.ROWS_EQUAL_LEDGER, check_definitions.NO_HANGING_TRANSACTION),
    ),
    Step(chains.INTAKE[3], None, (check_definitions.TABLES_UNHARMED,)),
    Step(
        chains.INTAKE[4],
        None,
        (
            check_definitions.DECODED_ROWS_EQUAL_RECORDS,
            check_definitions.UNDECODED_SHARE_STEADY,
            check_definitions.SCHEMAS_OF_OWN_SUBJECT,
        ),
    ),
    Step(chains.INTAKE[5], None, (check_definitions.LATEST_FOLLOWS_RECORDS,)),
    Step(
        chains.INTAKE[6],
        None,
        (check_definitions.CLUSTER_FOLLOWS_SOURCES, check_definitions.NO_COMMIT_BEYOND_LOG_END),
    ),
    Step(
        chains.INTAKE[7],
        None,
        (check_definitions.EXPECTATIONS_MET,),
    ),
)

MAINTENANCE = (
    Step(
        chains.MAINTENANCE[0],
        Product(
            "retained_log",
            "The archive after retention by retention.ms and retention.bytes, as a broker would do it. Only "
            "topics with a policy; nothing unpublished is removed; only a plan unless the run has apply.",
            "log_actions",
            ("deltalake",),
            reporting.maintenance_metadata,
            ("records",),
        ),
        (check_definitions.RETENTION_CARRIED_OUT,),
    ),
    Step(
        chains.MAINTENANCE[1],
        Product(
            "compacted_log",
            "The archive after cleaning by key. Only topics whose policy says compact; checked before it is "
            "rewritten; only a plan unless the run has apply.",
            "log_actions",
            ("deltalake",),
            reporting.maintenance_metadata,
            ("retained_log",),
        ),
        (check_definitions.NO_CLEANING_REFUSED,),
    ),
    Step(
        chains.MAINTENANCE[2],
        Product(
            "tidy_archive",
            "The archive without unneeded files: files of segments that were retired long enough ago, and "
            "copies that were never committed, are deleted; slices of one source segment are joined. What a live row, "
            "a reader or an unpublished range needs is kept; only a plan unless the run has apply.",
            "log_actions",
            ("deltalake", "file"),
            reporting.maintenance_metadata,
            ("compacted_log",),
        ),
        (check_definitions.ARCHIVE_BYTES_MATCH, check_definitions.NO_FILE_WAITS_FOR_DELETION),
    ),
    Step(
        chains.MAINTENANCE[3],
        Product(
            "rebuilt_indexes",
            "Offset and time indexes beside every live segment of the archive, as a broker's recovery writes them.",
            "segments",
            ("file",),
            reporting.maintenance_metadata,
            ("tidy_archive",),
        ),
        (check_definitions.INDEXES_WRITTEN,),
    ),
    Step(
        chains.MAINTENANCE[4],
        Product(
            "optimized_tables",
            "The tables in files of the right size: small ones are merged in their order, so that a look-up opens "
            "one file. Files that no version within the retention period names are removed. Only a plan unless "
            "the run has apply.",
            "records",
            ("deltalake",),
            reporting.maintenance_metadata,
            ("records",),
        ),
        (check_definitions.TABLE_FILES_SOUND,),
    ),
)

CHAINS = {chains.INTAKE_JOB: INTAKE, chains.MAINTENANCE_JOB: MAINTENANCE}
"""The steps by name of the job; in Dagster the name of the lake comes before it."""
