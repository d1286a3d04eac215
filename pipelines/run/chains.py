"""The steps of a run in their order: what each does, the asset that it makes, its tables and its checks.

The command line, the watch and Dagster's assets use this table. Texts are plain, because Dagster shows them in lists
without Markdown.

The steps of a run that write tables of topics: they follow `records` where a policy says so.

And the step that writes the tables of the cluster, from Kafka's internal topics at the sources, with its checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from spark_jobs.contracts import ClusterConfig, DecodeConfig, FollowConfig, JobReport, LatestConfig, LogChange
from spark_jobs.lake.view.cluster_tables import TABLES_OF, has_internal_topics
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.log_state import LogState
from spark_jobs.outlines import FollowingOutline, Topic_co

from ..metadata import reporting
from ..metadata.values import Metadata
from . import check_definitions, maintenance_steps, steps, topic_checks
from .check_definitions import (
    ARCHIVED,
    COMPACTED,
    INDEXES,
    OPTIMIZED,
    RECORDS,
    RETAINED,
    TIDY,
    VALIDATED,
    CheckDefinition,
)
from .outcome import StepResult
from .steps import Run, Work

Asset = TypeVar("Asset", bound=TopicAsset)


def decode(run: Run) -> StepResult:
    """Decode keys and values of new rows, where a policy says so. Without such a policy nothing is opened."""
    done, topics, report = _written(run, DecodedTopic, DecodeConfig)
    if done.state is not None:
        done.answers.append(topic_checks.decoded_rows_equal_records(done.state, topics, report))
        done.answers.append(topic_checks.undecoded_share_steady(done.state, topics))
        done.answers.append(topic_checks.schemas_of_own_subject(done.state, topics))
    return done


def latest(run: Run) -> StepResult:
    """Bring the newest row of each key up to date, where a policy says so. Without such a policy nothing is opened."""
    done, topics, report = _written(run, LatestTopic, LatestConfig)
    if done.state is not None:
        done.answers.append(topic_checks.latest_follows_records(done.state, topics, report))
    return done


def _written(
    run: Run, asset: type[Asset], config: type[FollowConfig[Topic_co]]
) -> tuple[StepResult, list[Asset], JobReport[FollowingOutline[Topic_co]] | None]:
    """Start the job for all topics; without topics nothing is started, and the result has no state.

    A run for chosen logs does so too: the checks answer for the lake, and only new rows cost time.
    """
    topics = asset.all_of(run.lake, run.policies)
    if not topics or run.logs() == ():
        return StepResult(), [], None
    report = run.start(config(run.lake, run.run_id, run.as_of_ms, run.policies))
    return StepResult([report], state=run.state(), topics=topics), topics, report


def cluster(run: Run) -> StepResult:
    """Write what internal topics say into the tables of the cluster, if the sources have such topics.

    A run for chosen topics or partitions does not: lag and groups are about all of them.
    """
    intakes = [intake for intake in run.intakes if not intake.topics and not intake.partitions]
    if (
        not run.follows_cluster
        or run.keys is not None
        or not intakes
        or not has_internal_topics(run.lake, run.policies)
    ):
        return StepResult()
    report = run.start(ClusterConfig.of(run.lake, run.run_id, run.as_of_ms, intakes, only_after_intake=True))
    state = run.state()
    answers = [
        topic_checks.cluster_follows_sources(state, report.plan),
        topic_checks.no_commit_beyond_log_end(state, report.plan),
    ]
    return StepResult([report], answers, state=state)


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
    """A step of a run; in Dagster an op."""

    name: str
    work: Work
    product: Product | None = None
    """The asset that it makes, if any."""
    checks: tuple[CheckDefinition, ...] = ()
    tables: tuple[str, ...] = ()
    """Other tables for users that no later step of a run writes."""

    @property
    def asset(self) -> str | None:
        """The name of its asset."""
        return None if self.product is None else self.product.name


INTAKE = (
    Step(
        "ingest",
        steps.ingest,
        Product(
            ARCHIVED,
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
        "validate",
        steps.validate,
        Product(
            VALIDATED,
            "Every byte validated: batches, findings, quarantined bytes, transactions, and the ledger that gives "
            "the state of every offset from 0 to the log's end.",
            "offset_ledger",
            ("deltalake",),
            reporting.validation_metadata,
            (ARCHIVED,),
            reporting.validation_pictures,
        ),
        (check_definitions.NO_DAMAGE, check_definitions.EVERY_OFFSET_ACCOUNTED_FOR, check_definitions.NOTHING_REMOTE),
        ("batches", "transactions"),
    ),
    Step(
        "publish",
        steps.publish,
        Product(
            RECORDS,
            "The table to query: every record that a read-committed consumer sees, exactly once. Columns are those "
            "of Spark's Kafka source, and where each record came from.",
            "records",
            ("deltalake",),
            reporting.publish_metadata,
            (VALIDATED,),
            column_sources={
                **{name: (ARCHIVED, name) for name in ("topic", "partition", "log_id", "segment_id")},
                **{name: ("batches", name) for name in ("position", "leader_epoch")},
            },
        ),
        (check_definitions.ROWS_EQUAL_LEDGER, check_definitions.NO_HANGING_TRANSACTION),
        ("offset_ledger",),
    ),
    Step("check_tables", steps.check_tables, None, (check_definitions.TABLES_UNHARMED,)),
    Step(
        "decode",
        decode,
        None,
        (
            check_definitions.DECODED_ROWS_EQUAL_RECORDS,
            check_definitions.UNDECODED_SHARE_STEADY,
            check_definitions.SCHEMAS_OF_OWN_SUBJECT,
        ),
    ),
    Step("latest", latest, None, (check_definitions.LATEST_FOLLOWS_RECORDS,)),
    Step(
        "cluster",
        cluster,
        None,
        (check_definitions.CLUSTER_FOLLOWS_SOURCES, check_definitions.NO_COMMIT_BEYOND_LOG_END),
        tuple(name for names in TABLES_OF.values() for name in names),
    ),
    Step(
        "expectations",
        steps.expect,
        None,
        (check_definitions.EXPECTATIONS_MET,),
        ("findings",),
    ),
)

MAINTENANCE = (
    Step(
        "retention",
        maintenance_steps.retain,
        Product(
            RETAINED,
            "The archive after retention by retention.ms and retention.bytes, as a broker would do it. Only "
            "topics with a policy; nothing unpublished is removed; only a plan unless the run has apply.",
            "log_actions",
            ("deltalake",),
            reporting.maintenance_metadata,
            (RECORDS,),
        ),
        (check_definitions.RETENTION_CARRIED_OUT,),
    ),
    Step(
        "compaction",
        maintenance_steps.compact,
        Product(
            COMPACTED,
            "The archive after cleaning by key. Only topics whose policy says compact; checked before it is "
            "rewritten; only a plan unless the run has apply.",
            "log_actions",
            ("deltalake",),
            reporting.maintenance_metadata,
            (RETAINED,),
        ),
        (check_definitions.NO_CLEANING_REFUSED,),
    ),
    Step(
        "tidy_archive",
        maintenance_steps.tidy_archive,
        Product(
            TIDY,
            "The archive without unneeded files: files of segments that were retired long enough ago, and "
            "copies that were never committed, are deleted; slices of one source segment are joined. What a live row, "
            "a reader or an unpublished range needs is kept; only a plan unless the run has apply.",
            "log_actions",
            ("deltalake", "file"),
            reporting.maintenance_metadata,
            (COMPACTED,),
        ),
        (check_definitions.ARCHIVE_BYTES_MATCH, check_definitions.NO_FILE_WAITS_FOR_DELETION),
    ),
    Step(
        "rebuild_indexes",
        maintenance_steps.rebuild_indexes,
        Product(
            INDEXES,
            "Offset and time indexes beside every live segment of the archive, as a broker's recovery writes them.",
            "segments",
            ("file",),
            reporting.maintenance_metadata,
            (TIDY,),
        ),
        (check_definitions.INDEXES_WRITTEN,),
    ),
    Step(
        "optimize",
        maintenance_steps.optimize,
        Product(
            OPTIMIZED,
            "The tables in files of the right size: small ones are merged in their order, so that a look-up opens "
            "one file. Files that no version within the retention period names are removed. Only a plan unless "
            "the run has apply.",
            "records",
            ("deltalake",),
            reporting.maintenance_metadata,
            (RECORDS,),
        ),
        (check_definitions.TABLE_FILES_SOUND,),
    ),
)

INTAKE_JOB, MAINTENANCE_JOB = "intake", "maintenance"
CHAINS = {INTAKE_JOB: INTAKE, MAINTENANCE_JOB: MAINTENANCE}
"""The steps by name of the job; in Dagster the name of the lake comes before it."""
