"""The checks by name: what each asks of which asset, what makes it fail, and what a person does about it.

How a check is answered is in :mod:`pipelines.checks`. Each failure carries the key of its log, so that a run for
chosen topic partitions answers for those alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from logcore.logs.model.findings import Severity

ARCHIVED, VALIDATED, RECORDS = "archived_segments", "validated_segments", "records"
WHOLE_LAKE = "whole_lake"

FAILING, UNANSWERED, WHAT_TO_DO, NOTES = "failing", "nothing to look at yet", "what to do", "notes"
"""Names of check metadata that the command line reads."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that makes a check fail."""

    what: str
    log: str | None = None
    """Log key; None where it is not the matter of one log."""
    topic_partition: str | None = None
    """What a person calls the log."""
    offsets: str = ""
    """``4..9``, the end is exclusive."""
    severity: Severity = Severity.ERROR

    @property
    def told(self) -> str:
        """Log, offsets and what it is."""
        place = [self.topic_partition] if self.topic_partition else []
        if self.offsets:
            place.append(f"offset{'s' if '..' in self.offsets else ''} {self.offsets}")
        return f"{', '.join(place)}: {self.what}" if place else self.what


def sentence(told: Sequence[str], shown: int = 3) -> str:
    """The first of them, and how many more there are."""
    more = len(told) - shown
    return "; ".join(told[:shown]) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Question:
    """A check."""

    name: str
    asset: str
    description: str
    what_to_do: str
    """For whoever reads that it failed; LAKE and SOURCE stand for theirs."""

    @property
    def spec(self) -> dg.AssetCheckSpec:
        """For Dagster. No check stops a run: what one log has must not keep the others waiting."""
        return dg.AssetCheckSpec(self.name, asset=self.asset, description=self.description)

    def answer(
        self, lake: str, failures: Sequence[Failure], fine: str, metadata: Mapping[str, Any]
    ) -> dg.AssetCheckResult:
        """The result: one sentence and its evidence.

        Args:
            fine: the sentence where nothing failed.
        """
        is_error = any(each.severity is Severity.ERROR for each in failures)
        told: dict[str, Any] = {
            WHAT_TO_DO: self.what_to_do.replace("LAKE", lake),
            FAILING: dg.MetadataValue.json([dataclasses.asdict(each) for each in failures]),
        }
        return dg.AssetCheckResult(
            passed=not failures,
            asset_key=self.asset,
            check_name=self.name,
            severity=dg.AssetCheckSeverity.ERROR if is_error or not failures else dg.AssetCheckSeverity.WARN,
            description=sentence([each.told for each in failures]) if failures else fine,
            metadata={**metadata, **(told if failures else {})},
        )

    def unanswered(self, why: str) -> dg.AssetCheckResult:
        """There is nothing to look at yet: no reason to be green, but nothing is known to be wrong either."""
        return dg.AssetCheckResult(
            passed=False,
            asset_key=self.asset,
            check_name=self.name,
            severity=dg.AssetCheckSeverity.WARN,
            description=why,
            metadata={UNANSWERED: True},
        )


SOURCES_AGREE = Question(
    "sources_agree",
    ARCHIVED,
    "Every source could be read, and no log has stopped growing: each source still holds, at the end of our copy, "
    "the same batch that our copy ends with.",
    "make the named path readable, or correct it; where a log has stopped because its source changed, say in a policy "
    "how to go on (on_truncate, on_recreate), or take the log from another directory with --move-source.",
)
NO_DAMAGE = Question(
    "no_damage",
    VALIDATED,
    "No log of the lake has offsets that are corrupt, missing or of unknown outcome. Damage stops only the log that "
    "has it, and only from the damage on; the others are published all the same.",
    "name another copy of the log where the offsets are whole: loglake run SOURCE --lake LAKE --fill-from COPY; where "
    "there is none, publish what lies behind the damage with the policy salvage: permissive.",
)
EVERY_OFFSET_ACCOUNTED_FOR = Question(
    "every_offset_accounted_for",
    VALIDATED,
    "The offset ledger of each log covers every offset from 0 to the log's end exactly once. Of a log whose ledger "
    "does not, nothing is published; the others go on.",
    "have the ledger made again from the archive: loglake repair LAKE --rebuild offset_ledger --apply, then "
    "loglake run SOURCE --lake LAKE.",
)
NOTHING_REMOTE = Question(
    "nothing_remote",
    VALIDATED,
    "No log of the lake has offsets that lay in the remote tier (tiered storage) when it was taken in. They are not "
    "read, so their records are not published; everything that is local is.",
    "take the log in from a copy that still has these offsets, or raise local.retention.ms on the cluster before the "
    "first run; a lake that is to hold only what is local can leave this warning as it is.",
)
ROWS_EQUAL_LEDGER = Question(
    "rows_equal_ledger",
    RECORDS,
    "File by file, the table has exactly the rows that the ledger counts as published records; a difference is named "
    "with its offsets.",
    "put back what the archive holds: loglake run SOURCE --lake LAKE --replace .. (--topic and --partition choose "
    "logs); where rows were deleted on purpose: loglake withdraw LAKE --apply.",
)
NO_HANGING_TRANSACTION = Question(
    "no_hanging_transaction",
    RECORDS,
    "No transaction is open for longer than Kafka's default transaction.max.timeout.ms, 15 minutes. Nothing behind an "
    "open transaction is published; one that hangs has lost its coordinator and holds its log back until it is aborted "
    "(kafka-transactions.sh find-hanging, abort).",
    "abort it on the cluster (kafka-transactions.sh find-hanging, then abort); the next run publishes what waits.",
)
TABLES_UNHARMED = Question(
    "tables_unharmed",
    RECORDS,
    "No table lost commits or files since the last run, no archived file is gone or changed, and rows that another "
    "engine wrote are those of the archive. Told from listings and commits; harm that leaves size and time of a file "
    "as they were is found by loglake verify LAKE alone.",
    "docs/shared-tables.md says which command mends which harm: for records it is loglake run SOURCE --lake LAKE "
    "--replace .., for other tables loglake repair LAKE --rebuild TABLE --apply, for archived files loglake "
    "repair LAKE --archive --from COPY --apply; loglake verify LAKE proves the whole lake.",
)
EXPECTATIONS_MET = Question(
    "expectations_met",
    RECORDS,
    "Great Expectations, on figures of the published offsets computed in one Spark pass.",
    "look at LAKE/data_docs for the figures; then put back what the archive holds: loglake run SOURCE --lake LAKE "
    "--replace .. (--topic and --partition choose logs).",
)
LAKE_PROVED = Question(
    "lake_proved",
    WHOLE_LAKE,
    "One seventh of the lake, another every night, proved from its own bytes: archived files against digests and "
    "checksums, rows against the archive or the digest of what was written, rows and segments against the ledger.",
    "loglake verify LAKE proves the whole lake and names each harm; docs/shared-tables.md says which command mends it.",
)
QUESTIONS = (
    SOURCES_AGREE,
    NO_DAMAGE,
    EVERY_OFFSET_ACCOUNTED_FOR,
    NOTHING_REMOTE,
    ROWS_EQUAL_LEDGER,
    NO_HANGING_TRANSACTION,
    TABLES_UNHARMED,
    EXPECTATIONS_MET,
)
