"""Findings: what a check has to say, and the table of every rule that may say it.

A finding is a value, not an exception: damage in one place never keeps the rest from being read. Rule ids are
kebab-case and stable; they are stored in the `findings` table and printed by the command line. What belongs here is
the rule table and the value; the checks themselves live beside the thing they check.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Severity(StrEnum):
    """How bad a finding is. INFO is ordinary life of a log, WARNING wants a look, ERROR is damage or a refusal."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Outcome(StrEnum):
    """What a rule says about the check itself; decides the exit code of a command.

    JUDGED: the bytes were looked at, and this is the verdict. UNCHECKED: they could not be looked at.
    """

    JUDGED = "judged"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rule table: usual severity, whether the thing could be judged at all, and what the rule means."""

    severity: Severity
    meaning: str
    outcome: Outcome = Outcome.JUDGED


_INFO, _WARNING, _ERROR, _UNCHECKED = Severity.INFO, Severity.WARNING, Severity.ERROR, Outcome.UNCHECKED

RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        # paths and directories (logcore.storage.local)
        "path-not-found": Rule(_ERROR, "nothing lies at a path that was named", _UNCHECKED),
        "nothing-chosen": Rule(_ERROR, "options that choose logs or offsets match nothing", _UNCHECKED),
        "unreadable": Rule(_ERROR, "the operating system refuses to read it", _UNCHECKED),
        "not-a-log-directory": Rule(_ERROR, "a directory without anything a broker keeps in one", _UNCHECKED),
        "empty-directory": Rule(_ERROR, "a directory was named that holds nothing: a volume not mounted?", _UNCHECKED),
        "no-segments": Rule(_WARNING, "a partition directory without a segment"),
        "not-a-segment": Rule(_ERROR, "ends in .log but is no regular file named by a base offset", _UNCHECKED),
        "illegal-topic-name": Rule(_ERROR, "a partition directory whose name no broker would have made", _UNCHECKED),
        "unknown-directory": Rule(_WARNING, "a directory in a log directory that is no partition"),
        "delete-directory": Rule(_INFO, "a partition that the broker had queued for deletion; left alone"),
        "future-directory": Rule(_INFO, "a replica that was being moved between directories; left alone"),
        "stray-directory": Rule(_INFO, "a replica that was no longer assigned to its broker; left alone"),
        "leftover-file": Rule(_INFO, "files that a broker's start would remove (*.deleted, *.cleaned); left alone"),
        "interrupted-swap": Rule(_INFO, "cleaned segments not yet in place; read as a broker's start would have them"),
        "oversized-segment": Rule(_WARNING, "a segment above 2 GiB, which no broker opens"),
        "broken-root-file": Rule(_WARNING, "a checkpoint or properties file that cannot be used; taken as absent"),
        "broken-partition-file": Rule(_WARNING, "partition.metadata or leader-epoch-checkpoint cannot be understood"),
        "corrupt-index": Rule(_WARNING, "an index file that contradicts itself; it can be rebuilt from its segment"),
        "remote-tier": Rule(_WARNING, "offsets that lie in the remote tier alone, which is not read"),
        "no-high-watermark": Rule(_WARNING, "no usable replication-offset-checkpoint; the log end stands in for it"),
        # growth of the archive (logcore.logs.growth.growth)
        "topic-recreated": Rule(_ERROR, "a topic of the same name but another topic id"),
        "source-diverged": Rule(_ERROR, "the source holds other batches than the archive at the same offsets"),
        "source-behind": Rule(_ERROR, "the source ends before the archive does"),
        "source-cleaned": Rule(_ERROR, "the source was cleaned above what the archive holds, before it was taken"),
        "segments-not-named": Rule(_ERROR, "segments were named one by one, and some are left out", _UNCHECKED),
        "trimmed-before-ingest": Rule(_ERROR, "the source dropped offsets before they were taken"),
        "source-trimmed": Rule(_INFO, "the source dropped offsets that the archive holds; not followed"),
        "source-compacted": Rule(_INFO, "the source was cleaned where the archive holds the log; not followed"),
        "high-watermark-fell": Rule(_WARNING, "the source's high watermark is lower than it was; nothing moves back"),
        "tail-cut-back": Rule(_INFO, "the source took back offsets above all that is published; so did the archive"),
        "incarnation-opened": Rule(_WARNING, "a changed source is followed as a new incarnation of its log"),
        "range-filled": Rule(_INFO, "offsets that were missing or corrupt were found later"),
        "source-moved": Rule(_INFO, "a log is taken from another directory from now on"),
        "source-changed": Rule(_ERROR, "a source file changed while it was read", _UNCHECKED),
        "second-source": Rule(_WARNING, "a topic partition that is already taken from another directory; left alone"),
        "high-watermark-beyond-log-end": Rule(_ERROR, "committed offsets behind the last one that can be read"),
        "archive-unreadable": Rule(_ERROR, "an archived file that is gone or cannot be read", _UNCHECKED),
        "archive-not-written": Rule(
            _ERROR, "the archive could not take a segment: disk full, or no permission", _UNCHECKED
        ),
        "log-not-judged": Rule(_ERROR, "batches that contradict what was archived of their log", _UNCHECKED),
        "archive-changed": Rule(_ERROR, "archived bytes that are not those that were copied"),
        "output-mismatch": Rule(
            _ERROR, "the table of records is not what frontier and ledger say; nothing is published"
        ),
        "table-file-damaged": Rule(_ERROR, "a data file of a table cannot be read, or is not what its statistics say"),
        "table-file-rebuilt": Rule(_INFO, "a data file of a table that cannot be read; its rows were written again"),
        # bytes and batches of a segment (logcore.logs.checks.validation)
        "corrupt-bytes": Rule(_ERROR, "bytes that cannot be trusted, with the reason; quarantined"),
        "torn-tail": Rule(_INFO, "a partial batch at the end of a segment still being written"),
        "tail-hides-batches": Rule(
            _ERROR, "the end of a segment still being written is no partial batch, or it contains whole batches"
        ),
        "segment-without-batch": Rule(_WARNING, "a segment that is not empty, and of which no batch can be read"),
        "zero-padding": Rule(_INFO, "zeros up to the end of a segment still being written: reserved room"),
        "zero-tail": Rule(_ERROR, "zeros up to the end of a segment that was complete: something was lost"),
        "unknown-attribute-bits": Rule(_WARNING, "attribute bits that no known broker sets"),
        "control-batch-shape": Rule(_WARNING, "a control batch that does not hold exactly one record"),
        "unknown-control-type": Rule(_WARNING, "a control record of a type that is not known; it decides nothing"),
        "leader-epoch-regression": Rule(_WARNING, "a leader epoch below that of the batch before"),
        "max-timestamp-differs": Rule(_WARNING, "a batch whose greatest timestamp is not that of its records"),
        "negative-timestamp": Rule(_WARNING, "a timestamp below -1, which no broker takes from a producer"),
        "timestamp-out-of-range": Rule(_INFO, "a timestamp no table can hold; kept as the raw number"),
        "sequence-gap": Rule(
            _WARNING, "a producer's batch that skips sequence numbers; records were lost on their way"
        ),
        "sequence-duplicate": Rule(_WARNING, "a producer's batch that was written before; both are kept"),
        "unusual-encoding": Rule(_WARNING, "numbers encoded otherwise than Kafka does; read as Kafka reads them"),
        "header-name-not-utf8": Rule(_INFO, "a record header's name that is not UTF-8; kept as bytes"),
        "inner-crc-differs": Rule(_WARNING, "a message inside a compressed one fails its own checksum"),
        "inner-magic-differs": Rule(_WARNING, "a message inside a compressed one is of another format version"),
        "inner-bytes-left": Rule(
            _WARNING, "the last message inside a compressed one is not whole; dropped as in Kafka"
        ),
        "wrapper-offset-zero": Rule(
            _WARNING, "a compressed message that says offset 0, though a message inside has another"
        ),
        # the log as a whole (logcore.logs.model.transactions, logcore.logs.model.offset_ledger)
        "batch-outside-transaction": Rule(_WARNING, "a producer wrote around its own open transaction"),
        "transaction-outcome-lost": Rule(
            _ERROR, "a transaction was open where offsets are lost; how it ended is lost too"
        ),
        "corrupt-offsets": Rule(_ERROR, "offsets whose bytes cannot be trusted"),
        "missing-offsets": Rule(_ERROR, "offsets that are gone, and nothing explains it"),
        "changed-after-publishing": Rule(_ERROR, "archived bytes no longer say what was published of them"),
        # segments against each other, and against what lies beside them (logcore.logs.checks.log_check, index_check)
        "offset-gap": Rule(_WARNING, "offsets gone inside a segment of a log that shows no sign of cleaning"),
        "leader-epoch-differs": Rule(_WARNING, "a batch of another epoch than leader-epoch-checkpoint has there"),
        "producer-sequence": Rule(_WARNING, "a producer's batch that does not follow its last one"),
        "producer-epoch-regression": Rule(_WARNING, "a producer's batch of a lower epoch than it had before"),
        "index-missing": Rule(_INFO, "a segment without an offset index; a broker's start would recover it"),
        "index-partial-entry": Rule(_INFO, "bytes at the end of an index that are no whole entry; nobody reads them"),
        "index-zeroed": Rule(_WARNING, "zeros in an index whose segment is complete; it can be rebuilt"),
        "leader-epochs-unproven": Rule(_INFO, "no leader-epoch-checkpoint: a flipped epoch could not be seen"),
        "index-past-end": Rule(_WARNING, "an index entry for bytes behind the segment's end: it may have been cut"),
        "offset-index-differs": Rule(_WARNING, "an offset index that does not fit its segment; it can be rebuilt"),
        "time-index-differs": Rule(_WARNING, "a time index that does not fit its segment; it can be rebuilt"),
        "transaction-index-differs": Rule(_WARNING, "a transaction index that does not fit the log; can be rebuilt"),
        "broken-snapshot": Rule(_WARNING, "a producer snapshot that cannot be used; a broker would delete it"),
        "snapshot-not-whole": Rule(_ERROR, "a KRaft snapshot that does not begin and end as every snapshot does"),
        "snapshot-differs": Rule(_WARNING, "a producer snapshot that is not what the batches below it come to"),
        "checkpoint-beyond-log-end": Rule(_WARNING, "something beside the log knows of offsets behind its end"),
        # maintenance and checks of a lake (spark_jobs)
        "compaction-refused": Rule(_WARNING, "a log that its policy would clean and that cannot be cleaned yet"),
        "compaction-unproven": Rule(_ERROR, "cleaned segments that did not pass their check; nothing was swapped"),
        "replacement-refused": Rule(_WARNING, "published offsets that were to be replaced and cannot be; they stay"),
        "index-not-rebuilt": Rule(_WARNING, "a segment whose indexes could not be written", _UNCHECKED),
        "recovery-refused": Rule(_ERROR, "an archived log that a broker would not start on; not written", _UNCHECKED),
        "slices-not-merged": Rule(_WARNING, "small archived slices that could not be joined; they stay"),
        "archive-not-deleted": Rule(_WARNING, "a file of the archive that could not be deleted; tried again later"),
        "expectation-failed": Rule(_ERROR, "published rows are not what ledger and batches say"),
        # the lake as it is now (spark_jobs.lake.delta.table_state, spark_jobs.lake_proof)
        "table-went-back": Rule(_ERROR, "a table has lost commits since the last run"),
        "table-missing": Rule(_ERROR, "a table that the last run saw is not there any more"),
        "foreign-commit": Rule(_INFO, "another program has committed to a table since the last run"),
        "table-file-missing": Rule(_ERROR, "a file that a table names is not there"),
        "table-file-size": Rule(_ERROR, "a file of a table has another size than its commit says"),
        "archive-file-missing": Rule(_ERROR, "a file of the archive that segments are kept in is not there"),
        "archive-file-changed": Rule(_ERROR, "a file of the archive has changed since it was placed"),
        "row-digest-differs": Rule(_ERROR, "the rows of a table file are not those that were written"),
        "page-checksum-differs": Rule(_ERROR, "a page of a table file does not match its checksum"),
        "rows-differ-from-archive": Rule(_ERROR, "rows of records are not what the archived bytes say"),
        "not-provable": Rule(_WARNING, "neither digest nor archive is left to compare published rows with"),
        "ledger-has-a-hole": Rule(_ERROR, "the offset ledger leaves out offsets of a log"),
        "rows-differ-from-ledger": Rule(_ERROR, "records does not hold the rows that the offset ledger counts"),
        "frontier-missing": Rule(_ERROR, "records has rows of a log whose published end is not recorded"),
        "withdrawn-rows": Rule(_INFO, "published rows that were deleted on purpose, as the table withdrawals says"),
        "commit-file-damaged": Rule(_ERROR, "a commit or checkpoint of a table that is gone, unreadable or repeated"),
        "lake-identity-differs": Rule(_ERROR, "lake.json names another cluster than the logs were taken from"),
        "stray-archive-file": Rule(_INFO, "a file in the archive that no segment names"),
        "rows-out-of-order": Rule(_INFO, "a data file whose rows are not in offset order; another engine wrote it"),
    }
)
"""Every rule id. A new check adds its row here; `found` refuses ids that are missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check has to say.

    rule: id from `RULES`. message: one sentence for a person, without keys or values of records.
    file: path as the caller named it; position and nbytes: bytes in that file.
    start_offset, end_offset: offsets concerned, end exclusive.
    """

    rule: str
    severity: Severity
    message: str
    file: str | None = None
    position: int | None = None
    nbytes: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None


def found(
    rule: str,
    message: str,
    *,
    file: str | None = None,
    position: int | None = None,
    nbytes: int | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
) -> Finding:
    """A finding with its rule's usual severity. ValueError for an id that is not in the table."""
    known = RULES.get(rule)
    if known is None:
        raise ValueError(f"no rule {rule!r} in the table of rules")
    return Finding(rule, known.severity, message, file, position, nbytes, start_offset, end_offset)


def exit_code(findings: Iterable[Finding]) -> int:
    """What a command that had these findings answers: 0 clean, 1 warnings, 2 damage found, 3 could not check.

    The highest wins: a check that could not be made is never outshone by one that was.
    """
    code = 0
    for finding in findings:
        rule = RULES.get(finding.rule)
        if finding.severity is Severity.ERROR:
            code = max(code, 3 if rule is not None and rule.outcome is Outcome.UNCHECKED else 2)
        elif finding.severity is Severity.WARNING:
            code = max(code, 1)
    return code
