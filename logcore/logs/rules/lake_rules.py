"""Rules for lakes: maintenance and checks of one, and a lake as its bytes are now.

The checks are in `spark_jobs`.
"""

from __future__ import annotations

from types import MappingProxyType

from logcore.logs.rules.rule import Outcome, Rule, Severity

_INFO, _WARNING, _ERROR, _UNCHECKED = Severity.INFO, Severity.WARNING, Severity.ERROR, Outcome.UNCHECKED

_REPLACE = (
    "Publish again what the archive holds: `loglake run SRC --lake LAKE --replace ..`. `--topic` and `--partition` "
    "choose logs."
)
_RESTORE = "Restore it: `loglake repair LAKE --archive --from COPY --apply`."
_OF_A_TABLE = (
    "For `records`: `loglake run SRC --lake LAKE --replace ..`. For another table: "
    "`loglake repair LAKE --rebuild TABLE --apply`, then `loglake run`."
)

MAINTENANCE_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "compaction-refused": Rule(
            _WARNING,
            "A policy would clean this log, and it cannot be cleaned yet.",
            "Do what the message says: most often the log has damage. The log stays as it is until then.",
        ),
        "compaction-unproven": Rule(
            _ERROR,
            "Cleaned segments did not pass their check; nothing was replaced.",
            "Prove the lake with `loglake verify LAKE`. If it is clean, report the message as an error of Loglake.",
        ),
        "replacement-refused": Rule(
            _WARNING,
            "Published offsets were to be replaced and cannot be; their rows stay.",
            "Do what the message says: the archive does not hold the bytes, they are damaged, or the offsets are not "
            "decided yet.",
        ),
        "index-not-rebuilt": Rule(
            _WARNING,
            "The index files of an archived segment could not be written.",
            "Do what the message says, and run `loglake run SRC --lake LAKE --maintain --apply` again.",
            _UNCHECKED,
        ),
        "recovery-refused": Rule(
            _ERROR,
            "A broker would not start on this archived log, so it was not written.",
            "Do what the message says. The other logs are written.",
            _UNCHECKED,
        ),
        "slices-not-merged": Rule(
            _WARNING,
            "Small archived slices could not be joined; they stay.",
            "Nothing is lost. If the message names changed bytes: `loglake repair LAKE --archive --from COPY --apply`.",
        ),
        "archive-not-deleted": Rule(
            _WARNING,
            "A file of the archive could not be deleted; a later run tries again.",
            "Give the user permission to delete below `LAKE/archive`.",
        ),
        "expectation-failed": Rule(
            _ERROR,
            "Published rows are not what ledger and batches say.",
            f"Look at the figures in `LAKE/data_docs`. {_REPLACE}",
        ),
    }
)

LAKE_STATE_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "table-went-back": Rule(
            _ERROR,
            "A table has lost commits since the last run.",
            "`loglake run SRC --lake LAKE` writes again what is missing; for `records` add `--replace ..`.",
        ),
        "table-missing": Rule(
            _ERROR,
            "A table that the last run saw is gone.",
            "Restore its directory from a backup, or make it again: `loglake repair LAKE --rebuild TABLE --apply`, "
            "then `loglake run`.",
        ),
        "foreign-commit": Rule(
            _INFO,
            "Another program has committed to a table since the last run.",
            "Nothing, if it was meant. Changed rows are reported by rules of their own.",
        ),
        "table-file-missing": Rule(_ERROR, "A file that a table names is gone.", _OF_A_TABLE),
        "table-file-size": Rule(_ERROR, "A file of a table has another size than its commit says.", _OF_A_TABLE),
        "archive-file-missing": Rule(_ERROR, "A file of the archive is gone.", _RESTORE),
        "archive-file-changed": Rule(_ERROR, "A file of the archive has changed since it was written.", _RESTORE),
        "row-digest-differs": Rule(_ERROR, "The rows of a table file are not those that were written.", _OF_A_TABLE),
        "page-checksum-differs": Rule(_ERROR, "A page of a table file does not match its checksum.", _OF_A_TABLE),
        "rows-differ-from-archive": Rule(_ERROR, "Rows of `records` are not what the archived bytes say.", _REPLACE),
        "not-provable": Rule(
            _WARNING,
            "Neither a digest nor the archive is left to compare published rows with.",
            "Nothing can be repaired. Keep the archive as long as rows are to be provable.",
        ),
        "ledger-has-a-hole": Rule(
            _ERROR,
            "The offset ledger leaves out offsets of a log, so the log is not published.",
            "`loglake repair LAKE --rebuild offset_ledger --apply`, then `loglake run SRC --lake LAKE`.",
        ),
        "rows-differ-from-ledger": Rule(
            _ERROR,
            "`records` does not hold the rows that the offset ledger counts.",
            "`loglake run SRC --lake LAKE --replace ..` puts them back. For rows that were deleted on purpose: "
            "`loglake withdraw LAKE --apply`.",
        ),
        "frontier-missing": Rule(
            _ERROR,
            "`records` has rows of a log whose published end is not recorded.",
            "`loglake repair LAKE --frontiers --apply`.",
        ),
        "withdrawn-rows": Rule(
            _INFO,
            "Published rows were deleted on purpose, as the table `withdrawals` says.",
            "Nothing. `loglake run SRC --lake LAKE --replace A..B --include-withdrawn` brings them back.",
        ),
        "commit-file-damaged": Rule(
            _ERROR,
            "A commit or checkpoint of a table is gone, unreadable or repeated.",
            "Restore the file from a backup, or make the table again: `loglake repair LAKE --rebuild TABLE --apply`, "
            "then `loglake run`.",
        ),
        "lake-identity-differs": Rule(
            _ERROR,
            "`lake.json` names another cluster than the logs were taken from.",
            "Write the cluster's name that the message gives into `lake.json`.",
        ),
        "stray-archive-file": Rule(
            _INFO,
            "No segment names this file of the archive.",
            "Nothing: `loglake run SRC --lake LAKE --maintain --apply` deletes it after seven days.",
        ),
        "rows-out-of-order": Rule(
            _INFO,
            "Another engine wrote a data file whose rows are not in offset order.",
            "Nothing. `loglake run SRC --lake LAKE --maintain --apply` puts the rows in order.",
        ),
    }
)
