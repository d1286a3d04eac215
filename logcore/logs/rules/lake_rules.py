"""Rules for lakes: maintenance and checks of a lake, and its present bytes.

The checks are in `spark_jobs`.
"""

from __future__ import annotations

from types import MappingProxyType

from logcore.logs.rules.rule import Outcome, Persistence, Rule, Severity

_INFO, _WARNING, _ERROR, _UNCHECKED = Severity.INFO, Severity.WARNING, Severity.ERROR, Outcome.UNCHECKED
_FOR_GOOD, _ONE_RUN, _WHILE_FILE_DIFFERS = Persistence.FOR_GOOD, Persistence.ONE_RUN, Persistence.WHILE_FILE_DIFFERS

_REPLACE = "`{run_of_log} --replace {offsets}` publishes again what the archive has."
_WITHDRAW = "If rows were deleted on purpose: `loglake withdraw {lake} --apply`."
RESTORE = "{restore}"
RESTORE_AND_VALIDATE = (
    "`loglake repair {lake} --archive --apply && loglake repair {lake} --rebuild findings --apply && {run}` restores "
    "the archive from the source and validates it again. If the source has other bytes now, add `--from COPY` after "
    "`--archive`, where COPY is a copy of the log directory."
)
"""What to do for archived bytes that were validated when they had changed: the findings stay until that is repeated."""
OF_A_TABLE = "{rows_again}"
"""What to do for a data file of a table."""

MAINTENANCE_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "compaction-refused": Rule(
            _WARNING,
            _FOR_GOOD,
            "A policy requires cleaning of this log, and the log cannot be cleaned yet.",
            "Do what the message says: most often the log has damage. The log stays as it is until then.",
        ),
        "compaction-unproven": Rule(
            _ERROR,
            _FOR_GOOD,
            "Cleaned segments did not pass their check; nothing was replaced.",
            "Run `loglake verify {lake}`. If it is clean, open an issue of Loglake with the message.",
        ),
        "replacement-refused": Rule(
            _WARNING,
            _ONE_RUN,
            "Published offsets should be replaced but cannot be; their rows stay.",
            "Do what the message says: the archive does not have the bytes, they are damaged, or the offsets are not "
            "final yet.",
        ),
        "index-not-rebuilt": Rule(
            _WARNING,
            _ONE_RUN,
            "The index files of an archived segment could not be written.",
            "Do what the message says, and type `{maintain} --apply` again.",
            _UNCHECKED,
        ),
        "recovery-refused": Rule(
            _ERROR,
            _ONE_RUN,
            "A broker would not start on this archived log, so it was not written.",
            "Do what the message says. The other logs are written.",
            _UNCHECKED,
        ),
        "slices-not-merged": Rule(
            _WARNING,
            _FOR_GOOD,
            "Small archived slices could not be joined; they stay.",
            "Nothing is lost. If the message names changed bytes: `loglake repair {lake} --archive --apply`.",
        ),
        "archive-not-deleted": Rule(
            _WARNING,
            _ONE_RUN,
            "A file of the archive could not be deleted; a later run tries again.",
            "Give the user permission to delete below `{lake}/archive`.",
        ),
        "expectation-failed": Rule(
            _ERROR,
            Persistence.UNTIL_EXPECTATIONS_MET,
            "Published rows differ from what ledger and batches say, or do not meet a suite that a policy names.",
            "`{lake}/data_docs` has the figures. If the message names an expectation of a suite, correct the data "
            f"where they are produced, or the suite. Otherwise: {_REPLACE}",
        ),
    }
)

LAKE_STATE_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "table-went-back": Rule(
            _ERROR,
            _ONE_RUN,
            "A table has lost commits since the last run.",
            "`{again}` writes again what is missing.",
        ),
        "table-missing": Rule(
            _ERROR,
            _ONE_RUN,
            "A table that the last run saw is gone.",
            "{made_again}",
        ),
        "table-not-complete": Rule(
            _INFO,
            _ONE_RUN,
            "The first run that makes a table did not end, or a table of a topic was removed before a run with this "
            "version saw it.",
            "The next run completes it if the table is due: `{run}`.",
        ),
        "foreign-commit": Rule(
            _INFO,
            _ONE_RUN,
            "Another program has committed to a table since the last run.",
            "Nothing, if it was intended. Changed rows have rules of their own.",
        ),
        "commits-not-kept": Rule(
            _WARNING,
            _ONE_RUN,
            "Commits since the last run are gone from a table's log. Any program may have made them.",
            "`loglake verify {lake}` compares the rows with the archive.",
        ),
        "table-file-missing": Rule(_ERROR, _ONE_RUN, "A file that a table names is gone.", OF_A_TABLE),
        "table-file-size": Rule(_ERROR, _ONE_RUN, "A file of a table has another size than in its commit.", OF_A_TABLE),
        "archive-file-missing": Rule(_ERROR, _ONE_RUN, "A file of the archive is gone.", RESTORE),
        "archive-file-changed": Rule(
            _ERROR, _ONE_RUN, "A file of the archive has changed since it was written.", RESTORE
        ),
        "archive-not-checked": Rule(
            _WARNING,
            _ONE_RUN,
            "The archive refers to bytes at their source that cannot be read now.",
            "Make the source or the remote storage readable on this machine, with its key, and verify again.",
        ),
        "rows-removed": Rule(
            _ERROR,
            _ONE_RUN,
            "A table has fewer rows than Loglake wrote: another program removed some, perhaps by a deletion vector.",
            "`{rebuild}` makes the table again.",
        ),
        "rows-not-ours": Rule(
            _ERROR,
            _ONE_RUN,
            "Another program wrote rows into `segments` or `logs`, which say what the lake has. Nothing proves them.",
            "`{rebuild}` restores the version before.",
        ),
        "row-digest-differs": Rule(
            _ERROR, _ONE_RUN, "The rows of a table file are not those that were written.", OF_A_TABLE
        ),
        "page-checksum-differs": Rule(
            _ERROR, _ONE_RUN, "A page of a table file does not match its checksum.", OF_A_TABLE
        ),
        "rows-differ-from-archive": Rule(
            _ERROR,
            _WHILE_FILE_DIFFERS,
            "Rows of `records` differ from the archived bytes.",
            f"{_REPLACE} {_WITHDRAW}",
        ),
        "not-provable": Rule(
            _WARNING,
            _WHILE_FILE_DIFFERS,
            "Neither a digest nor the archive is left to compare published rows with.",
            "Nothing can be repaired. Keep the archive as long as rows must be verifiable.",
        ),
        "ledger-has-a-hole": Rule(
            _ERROR,
            Persistence.WHILE_LEDGER_HAS_HOLE,
            "The offset ledger does not cover all offsets of a log, so the log is not published.",
            "`loglake repair {lake} --rebuild offset_ledger --apply && {run}` derives it again from the archive.",
        ),
        "offsets-not-archived": Rule(
            _ERROR,
            Persistence.WHILE_LEDGER_HAS_HOLE,
            "The offset ledger has offsets that no segment of the archive has, as after a loss of `segments`.",
            "If a copy of the log has the offsets, `{run} --fill-from COPY` takes them; COPY is its log directory. "
            "Else restore the tables of the lake from a backup. Until then the files of the archive stay, and "
            "`records` keeps its rows.",
        ),
        "transaction-accepted": Rule(
            _INFO,
            Persistence.UNTIL_PUBLISHED,
            "A transaction hung, and the options of a run of maintenance said to publish what waits for it.",
            "Nothing: its records are in the table records_uncommitted. If it is aborted or committed, runs go on.",
        ),
        "rows-differ-from-ledger": Rule(
            _ERROR,
            Persistence.WHILE_ROWS_DIFFER,
            "`records` does not have the rows that the offset ledger counts.",
            f"`{{run}} --replace ..` writes them again. {_WITHDRAW}",
        ),
        "frontier-missing": Rule(
            _ERROR,
            _ONE_RUN,
            "`records` has rows of a log whose published end is not recorded.",
            "`loglake repair {lake} --frontiers --apply` records it again.",
        ),
        "withdrawn-rows": Rule(
            _INFO,
            _ONE_RUN,
            "Published rows were deleted on purpose or expired, as the table `withdrawals` records.",
            "Nothing. `{run_of_log} --replace {offsets} --include-withdrawn` brings them back.",
        ),
        "commit-file-damaged": Rule(
            _ERROR,
            _ONE_RUN,
            "A commit or checkpoint of a table is gone, unreadable or repeated.",
            "`{rebuild}` makes the table again, or restore the file from a backup.",
        ),
        "lake-identity-differs": Rule(
            _ERROR,
            _ONE_RUN,
            "`lake.json` names another cluster than that of the logs.",
            "Write the cluster's name that the message gives into `lake.json`.",
        ),
        "stray-archive-file": Rule(
            _INFO,
            _ONE_RUN,
            "No segment names this file of the archive.",
            "Nothing: `{maintain} --apply` deletes it after seven days.",
        ),
        "rows-out-of-order": Rule(
            _INFO,
            _WHILE_FILE_DIFFERS,
            "Another engine wrote a data file whose rows are not in offset order.",
            "Nothing has to be repaired. `{run_of_log} --replace ..` writes them again in order.",
        ),
    }
)
