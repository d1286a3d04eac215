"""The checks by name: what each checks about an asset, and what to do if it fails.

:mod:`pipelines.run.checks` answers the checks. Each failure has the key of its log, so that a run for chosen topic
partitions only reports those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from logcore.logs.model.findings import Severity
from logcore.logs.rules.advice import HarmedPlace, filled
from logcore.texts import sentences
from spark_jobs.lake.view.alarms import KINDS
from spark_jobs.lake.view.harmed_places import harmed_place

from ..metadata.values import Cell, JsonValue, Metadata, Value, table_value

ARCHIVED, VALIDATED, RECORDS = "archived_segments", "validated_segments", "records"
RETAINED, COMPACTED, TIDY, INDEXES, OPTIMIZED = (
    "retained_log",
    "compacted_log",
    "tidy_archive",
    "rebuilt_indexes",
    "optimized_tables",
)
OF_MAINTENANCE = frozenset({RETAINED, COMPACTED, TIDY, INDEXES, OPTIMIZED})
WHOLE_LAKE = "whole_lake"

FAILING, UNANSWERED, WHAT_TO_DO, NOTES = "failing", "nothing to look at yet", "what to do", "notes"
WHERE = "where"
"""Names of metadata of checks."""


ABOUT_DAMAGE = ("no_crc_failures_in_range", "no_crc_failures_in_log")
"""Built-in expectations that fail because of damage in the log."""
ADVISED = 3
"""Maximum number of commands shown per check."""
_PLACE = ("topic partition", "offsets", "file", "position", "what")


@dataclass(frozen=True, slots=True)
class Failure:
    """One reason why a check fails."""

    what: str
    log: str | None = None
    """Log key; None where it does not belong to one log."""
    topic_partition: str | None = None
    """Name of the log for people."""
    offsets: str = ""
    """Offset range, as ``[4, 9)``."""
    severity: Severity = Severity.ERROR
    file: str | None = None
    """File concerned; None where there is none, or several."""
    position: int | None = None
    """Position in the file, bytes."""
    what_to_do: str = ""
    """One command for this failure, or one sentence why there is none; empty: what the check says counts."""
    topic: str | None = None
    """The topic, where it belongs to one topic and not to one log."""

    @property
    def place(self) -> tuple[Cell, ...]:
        """The failure as a row of the table of its check."""
        return self.topic_partition, self.offsets, self.file, self.position, self.what

    @property
    def text(self) -> str:
        """The failure as text: log, offsets, file and reason."""
        place = [self.topic_partition] if self.topic_partition else []
        if self.offsets:
            place.append(f"offset{'s' if self.offsets.startswith('[') else ''} {self.offsets}")
        if self.file is not None:
            place.append(f"file {self.file}" + ("" if self.position is None else f", position {self.position}"))
        return f"{', '.join(place)}: {self.what}" if place else self.what


def sentence(texts: Sequence[str], shown: int = 3) -> str:
    """Join the first texts, and say how many more there are."""
    more = len(texts) - shown
    return "; ".join(texts[:shown]) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """A run's answer to one check, for the command line and for Dagster."""

    name: str
    asset: str
    passed: bool
    description: str
    """One sentence."""
    failures: tuple[Failure, ...] = ()
    what_to_do: str = ""
    notes: tuple[str, ...] = ()
    """Notes for people although nothing failed."""
    metadata: Metadata = field(default_factory=dict)
    """Metadata for Dagster's pages."""
    is_unanswered: bool = False
    """Whether there was no data to check yet."""
    is_of_plan: bool = False
    """Whether the run only planned, and the check is about what is due. Failures do not change the exit code then."""

    @property
    def recorded(self) -> dict[str, Any]:
        """The answer for comparison with a later one: values for JSON that do not depend on the clock."""
        failing = sorted([each.log or "", each.offsets, str(each.severity)] for each in self.failures)
        return {"passed": self.passed, "is_unanswered": self.is_unanswered, "failing": failing}

    @property
    def shown(self) -> Metadata:
        """The metadata for Dagster's pages, with what fails and what to do."""
        facts: dict[str, Value] = {}
        if self.is_unanswered:
            facts[UNANSWERED] = True
        if self.failures:
            facts[WHAT_TO_DO] = self.what_to_do
            facts[WHERE] = table_value(_PLACE, [each.place for each in self.failures])
            facts[FAILING] = JsonValue([asdict(each) for each in self.failures])
        if self.notes:
            facts[NOTES] = JsonValue(list(self.notes))
        return {**self.metadata, **facts}

    @property
    def severity(self) -> Severity:
        """The worst severity of its failures; ERROR where it passed."""
        is_error = self.passed or any(each.severity is Severity.ERROR for each in self.failures)
        return Severity.ERROR if is_error else Severity.WARNING


@dataclass(frozen=True, slots=True)
class CheckDefinition:
    """A check."""

    name: str
    asset: str
    description: str
    what_to_do: str
    """What to do if the check fails, and the failure itself does not say it; a template of
    :mod:`logcore.logs.rules.advice`."""
    of_topics: str | None = None
    """The folder of the tables of topics that it is about; None: it is about other tables."""

    def answer(
        self,
        lake: str,
        failures: Sequence[Failure],
        fine: str,
        metadata: Metadata,
        notes: Sequence[str] = (),
        *,
        is_of_plan: bool = False,
    ) -> CheckAnswer:
        """Build the answer: one sentence and its metadata.

        Args:
            fine: The sentence if nothing failed.
            notes: Notes for people although nothing failed.
            is_of_plan: Whether the run only planned, and the check is about what is due.
        """
        return CheckAnswer(
            name=self.name,
            asset=self.asset,
            passed=not failures,
            description=sentence([each.text for each in failures]) if failures else fine,
            failures=tuple(failures),
            what_to_do=self._advice(lake, failures),
            notes=tuple(notes),
            metadata=metadata,
            is_of_plan=is_of_plan,
        )

    def _advice(self, lake: str, failures: Sequence[Failure]) -> str:
        stated = list(dict.fromkeys(each.what_to_do for each in failures if each.what_to_do))
        if all(each.what_to_do for each in failures) and stated:
            return sentences([*stated[:ADVISED], *(["And so on."] if stated[ADVISED:] else [])])
        return filled(self.what_to_do, harmed_place(lake))

    def unanswered(self, why: str) -> CheckAnswer:
        """The answer if there is no data yet: the check does not pass, but no error is known either."""
        return CheckAnswer(self.name, self.asset, passed=False, description=why, is_unanswered=True)


SOURCES_AGREE = CheckDefinition(
    "sources_agree",
    ARCHIVED,
    "Every source could be read, and no log has stopped growing: each source still has, at the end of our copy, "
    "the same batch that our copy ends with.",
    "make the named path readable, or correct it; where a log has stopped because its source changed, say in a policy "
    "how to continue (on_truncate, on_recreate), or take the log from another directory with --move-source.",
)
NO_DAMAGE = CheckDefinition(
    "no_damage",
    VALIDATED,
    "No log of the lake has offsets that are corrupt, missing or of unknown outcome. Damage stops only the log that "
    "has it, and only from the damage on; the others are published all the same.",
    "name another copy of the log where the offsets are whole: `{run} --fill-from COPY`, where COPY is its log "
    "directory.",
)
EVERY_OFFSET_ACCOUNTED_FOR = CheckDefinition(
    "every_offset_accounted_for",
    VALIDATED,
    "The offset ledger of each log covers every offset from 0 to the log's end exactly once. Of a log whose ledger "
    "does not, nothing is published; the others continue.",
    "rebuild the ledger from the archive: `loglake repair {lake} --rebuild offset_ledger --apply && {run}`.",
)
NOTHING_REMOTE = CheckDefinition(
    "nothing_remote",
    VALIDATED,
    "No log of the lake has offsets that are in the remote tier (tiered storage) and were not read from there. Their "
    "records are not published; all others are.",
    "name the remote storage once: `{run} --remote DIR`, where DIR is its directory or s3:// prefix. If it was named, "
    "`loglake verify {directory} --remote DIR` says why a segment cannot be read. If the lake needs only local "
    "offsets, ignore this warning.",
)
ROWS_EQUAL_LEDGER = CheckDefinition(
    "rows_equal_ledger",
    RECORDS,
    "File by file, the table has exactly the rows that the ledger counts as published records; a difference is named "
    "with its offsets.",
    "publish again from the archive: `{run} --replace ..`; where rows were deleted on purpose: `loglake withdraw "
    "{lake} --apply`.",
)
NO_HANGING_TRANSACTION = CheckDefinition(
    "no_hanging_transaction",
    RECORDS,
    "No transaction is open for longer than Kafka's default transaction.max.timeout.ms, 15 minutes, or a longer "
    "timeout that its coordinator keeps. Nothing after an open transaction is published; one that hangs has lost its "
    "coordinator and holds its log back until it is aborted (kafka-transactions.sh find-hanging, abort).",
    "abort it on the cluster (kafka-transactions.sh find-hanging, then abort); the next run publishes what waits. If "
    "there is no cluster any more: `{maintain} --isolation.level read_uncommitted` writes the records that wait into "
    "the table records_uncommitted, later runs keep it up to date, and the warning ends.",
)
TABLES_UNHARMED = CheckDefinition(
    "tables_unharmed",
    RECORDS,
    "No table lost commits or files since the last run, no archived file is gone or changed, rows that another engine "
    "wrote are those of the archive, and no table of a topic has lost its policy. Checked by listings and commits; "
    "harm that leaves a file's size and time as they were is found only by loglake verify LAKE.",
    "`loglake verify {lake}` checks the whole lake, and says what to do about each harm.",
)
DECODED_ROWS_EQUAL_RECORDS = CheckDefinition(
    "decoded_rows_equal_records",
    RECORDS,
    "Of each topic that a policy decodes, the rows of decoded/TOPIC and of undecoded/TOPIC are together the rows of "
    "records below the same offsets, and no topic waits. It answers only for lakes with such a policy.",
    "decode all rows of the topic again: `{again}`. For a topic that waits, the line names the command.",
    "decoded",
)
UNDECODED_SHARE_STEADY = CheckDefinition(
    "undecoded_share_steady",
    RECORDS,
    "Of each topic that a policy decodes, some of the rows that were published last decode, and they fail hardly more "
    "often than all rows before them: at most twice as often, or at most one in a hundred, or as often as the policy "
    "decode.undecoded.max allows. It answers only for lakes with such a policy.",
    "`loglake decode {lake} --infer {topic}` shows what the bytes look like, and the table undecoded/{topic} has the "
    "reasons. With a corrected policy, `{again}` decodes again. To accept the share: "
    "`{policy:decode.undecoded.max=SHARE}`.",
    "decoded",
)
SCHEMAS_OF_OWN_SUBJECT = CheckDefinition(
    "schemas_of_own_subject",
    RECORDS,
    "Of each topic that a policy decodes, no row that was published last names a schema of another subject than the "
    "topic's. It answers only for lakes with such a policy.",
    "look at the producer of these rows: it may write to the wrong topic. If the schema is right, name its subject in "
    "decode.value.subjects or decode.key.subjects, and decode again: `{again}`.",
    "decoded",
)
LATEST_FOLLOWS_RECORDS = CheckDefinition(
    "latest_follows_records",
    RECORDS,
    "Of each topic whose policy has latest, the table latest/TOPIC was computed from the rows that records has now "
    "below the same offsets, and no topic waits. It answers only for lakes with such a policy.",
    "compute the table of the topic again: `{again}`. For a topic that waits, the line names the command.",
    "latest",
)
CLUSTER_FOLLOWS_SOURCES = CheckDefinition(
    "cluster_follows_sources",
    RECORDS,
    "The tables cluster_... have what Kafka's internal topics at the sources say, and no internal log waits. It "
    "answers only for lakes with such topics.",
    "do what the line says: name the source that reaches furthest, or make its files readable. To read all of them "
    "again: `loglake cluster {lake}`.",
)
NO_COMMIT_BEYOND_LOG_END = CheckDefinition(
    "no_commit_beyond_log_end",
    RECORDS,
    "No consumer group has committed an offset beyond the end of a log at the sources. It answers only for lakes with "
    "internal topics.",
    "look whether the log was truncated or created again, or whether its copy is older than that of "
    "__consumer_offsets; then reset the offset of the group (kafka-consumer-groups.sh --reset-offsets).",
)
EXPECTATIONS_MET = CheckDefinition(
    "expectations_met",
    RECORDS,
    "Plain checks of counts of the published rows, read from the table, and the suites of Great Expectations that "
    "policies name.",
    "see {lake}/data_docs for the figures; then publish again from the archive: `{run} --replace ..`.",
)
EXPECTATIONS_OF_SUITES = (
    "see {lake}/data_docs for the figures of the suite; then correct the data where they are produced, or the suite. "
    "The next run that publishes rows evaluates the log again from its first row."
)
"""What to do if an expectation of a user's suite is not met: publishing again would change nothing."""
LAKE_VERIFIED = CheckDefinition(
    "lake_verified",
    WHOLE_LAKE,
    "One seventh of the lake, another every night, verified from its own bytes: archived files against digests and "
    "checksums, rows against the archive or the digest of what was written, rows and segments against the ledger.",
    "`loglake verify {lake}` checks the whole lake, and says what to do about each harm.",
)

# --- maintenance ------------------------------------------------------------------------------------------------------

_APPLY = (
    "look at the plan: `{maintain}`. Then apply it: `{maintain} --apply`, or switch on the schedule "
    "nightly_maintenance of the lake in Dagster, without `nightly: plan` in its policies."
)
RETENTION_CARRIED_OUT = CheckDefinition(
    "retention_carried_out",
    RETAINED,
    "No segment has been due by retention.ms for more than seven days. It answers only for topics whose policy has "
    "retention.",
    _APPLY,
)
NO_CLEANING_REFUSED = CheckDefinition(
    "no_cleaning_refused",
    COMPACTED,
    "Each log whose policy requires cleaning can be cleaned, and what was cleaned passed its proof. It answers only "
    "for topics whose policy has compact.",
    "do what the message says. Most often the log has damage: name another copy of it with `{run} --fill-from "
    "COPY`, where COPY is its log directory. Until then the log stays as it is.",
)
ARCHIVE_BYTES_MATCH = CheckDefinition(
    "archive_bytes_match",
    TIDY,
    "Each archived file is there, and has as many bytes as the table segments says. Checked by listings, after files "
    "were deleted and joined.",
    "restore the files from the source: `loglake repair {lake} --archive --apply`.",
)
NO_FILE_WAITS_FOR_DELETION = CheckDefinition(
    "no_file_waits_for_deletion",
    TIDY,
    "Each file that can be deleted could be, and none has waited for its deletion for more than seven days.",
    f"give the user permission to delete below {{lake}}/archive if a file could not be deleted. Otherwise {_APPLY}",
)
INDEXES_WRITTEN = CheckDefinition(
    "indexes_written",
    INDEXES,
    "Each archived segment that can have index files has them. It answers only for a run with apply.",
    "do what the message says, and run the maintenance again: `{maintain} --apply`.",
)
TABLE_FILES_SOUND = CheckDefinition(
    "table_files_sound",
    OPTIMIZED,
    "No file of a table was left as it is because it is damaged, or because its log is unknown.",
    "`loglake verify {lake}` names the files, and says what to do about each.",
)


def counted(number: int, word: str) -> str:
    """Return a number with its word, in the plural if it is not one."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def explained_names() -> Iterator[tuple[str, str]]:
    """Yield the name of each check and of each kind of alert, with its text: what `loglake help NAME` says."""
    for check in tuple(globals().values()):
        if isinstance(check, CheckDefinition):
            table = None if check.of_topics is None else f"{check.of_topics}/TOPIC"
            to_do = filled(check.what_to_do, HarmedPlace(table=table))
            yield check.name, f"{check.name}: a check of {check.asset}.\n{check.description}\nWhat to do: {to_do}\n"
    for name, kind in KINDS.items():
        yield name, f"{name}: an alert, {kind.severity}.\n{kind.meaning} `loglake status LAKE` says where.\n"
