"""Each rule that has a command is pasted by a test, or has a reason why not."""

from __future__ import annotations

import re
import shlex

from logcore.logs.rules import RULE_GROUPS, RULES
from logcore.logs.rules.advice import HarmedPlace, advice, maintain_command
from pipelines.run import check_definitions
from pipelines.run.check_definitions import CheckDefinition
from tests.jobs.advice.advised_lake import (
    OF_LOGS,
)
from tests.pasted_advice import commands_in

SHOWS_MORE = "The command shows more; the way out depends on what it shows."


OF_TABLES = "In tests/harm: what other engines do to tables."


PASTED = {
    *OF_LOGS,
    "corrupt-offsets",
    "missing-offsets",
    "transaction-outcome-lost",
    "trimmed-before-ingest",
    "high-watermark-beyond-log-end",
    "topic-recreated",
    "source-behind",
    "source-diverged",
    "archive-file-changed",
    "archive-file-missing",
    "archive-changed",
    "archive-unreadable",
    "changed-after-publishing",
    "slices-not-merged",
    "table-missing",
    "ledger-has-a-hole",
    "packed-segment",
    "log-start-fell",
    "log-lost",
    "offsets-not-archived",
}
"""Rules whose advice is pasted above, or is the same text as one that is."""


NOT_PASTED_HERE = {
    "wrapper-offset-zero": "tests/unit/logcore/cli/test_recover.py runs the command on such a log.",
    "snapshot-differs": "The same command as broken-snapshot, which is pasted above.",
    "index-missing": "Information: a broker builds it by itself.",
    "nothing-chosen": SHOWS_MORE,
    "not-a-segment": SHOWS_MORE,
    "unreadable": "COPY is a disk that still has the bytes; tests/jobs/test_late_segments.py fills from copies.",
    "delete-directory": SHOWS_MORE,
    "zookeeper-directory": SHOWS_MORE,
    "stray-directory": SHOWS_MORE,
    "copy-under-another-name": SHOWS_MORE,
    "remote-tier": "DIR is storage that only the operator knows; tests/jobs has remote storage.",
    "remote-metadata": SHOWS_MORE,
    "source-cleaned": "Words about later runs; nothing brings the records back.",
    "source-trimmed": SHOWS_MORE,
    "range-not-filled": "Words: no command moves batches at a source. tests/jobs/test_overlapping_segments.py does.",
    "offsets-given-up": "The same command as high-watermark-beyond-log-end, which is pasted above.",
    "second-source": "tests/unit/spark_jobs/ingest/test_moved_sources.py pastes the command.",
    "log-directory-missing": "tests/unit/spark_jobs/ingest/test_moved_sources.py runs the command.",
    "log-gone": "tests/unit/spark_jobs/ingest/test_moved_sources.py runs the command.",
    "log-not-judged": SHOWS_MORE,
    "output-mismatch": OF_TABLES,
    "table-file-damaged": OF_TABLES,
    "table-file-missing": OF_TABLES,
    "table-file-size": OF_TABLES,
    "table-went-back": OF_TABLES,
    "table-not-followed": "tests/jobs/test_unfollowed_tables.py runs the command.",
    "table-not-complete": "Information: the next run completes it.",
    "commits-not-kept": SHOWS_MORE,
    "rows-not-ours": "tests/harm/test_removed_rows.py pastes the command.",
    "rows-removed": "tests/spark deletes rows by deletion vectors and runs the command.",
    "row-digest-differs": OF_TABLES,
    "page-checksum-differs": OF_TABLES,
    "rows-differ-from-archive": OF_TABLES,
    "rows-differ-from-ledger": OF_TABLES,
    "frontier-missing": OF_TABLES,
    "withdrawn-rows": OF_TABLES,
    "commit-file-damaged": OF_TABLES,
    "rows-out-of-order": OF_TABLES,
    "stray-archive-file": OF_TABLES,
    "expectation-failed": OF_TABLES,
    "message-not-interpreted": SHOWS_MORE,
    "compaction-unproven": "A mistake in Loglake.",
    "archive-not-written": "Repeats a run after the cause is gone; tests/crash fills the disk.",
    "source-changed": "Repeats a run after the cause is gone.",
    "index-not-rebuilt": "Repeats a job after the cause is gone.",
}
"""Rules with a command that this file does not paste, each with the reason."""


WITHOUT_COMMAND = {
    "A good file has to come from a broker or a replica, in a place that only the operator knows.": """
        broken-partition-file broken-root-file checkpoint-beyond-log-end index-past-end leader-epoch-differs
        leader-epoch-regression metadata-log-starts-late no-high-watermark no-meta-properties no-segments
        oversized-segment remote-segment-missing remote-tier-unproven segment-without-batch snapshot-not-whole
        transaction-torn zookeeper-cut-off zookeeper-damaged zookeeper-transactions-missing""",
    "A path, a mount, a permission or another name: the message says which.": """
        archive-not-checked archive-not-deleted copies-undecided copy-absent empty-directory group-partitions-missing
        high-watermark-fell illegal-topic-name no-internal-topic no-remote-metadata
        not-a-log-directory path-not-found remote-storage-empty segments-not-named topic-ids-differ""",
    "Nothing is lost here: the cause is at a client, or in a newer Kafka.": """
        batch-outside-transaction control-batch-shape ignored-bytes inner-bytes-left inner-crc-differs
        inner-magic-differs last-offset-delta-short max-timestamp-differs message-not-read messages-below-log-end
        producer-epoch-regression producer-sequence sequence-duplicate sequence-gap unknown-attribute-bits
        unknown-control-type unusual-encoding""",
    "The message has the command, or the reason why there is none.": """
        compaction-refused lake-identity-differs recovery-refused remote-range-left-out remote-segment-unreadable
        replacement-refused several-copies source-gone""",
    "People decide: nothing shows what is right.": """
        commit-beyond-log-end incarnation-opened not-provable remote-orphan settings-in-doubt
        snapshots-at-one-offset transaction-hanging""",
}
"""Errors and warnings without a command, by the reason."""


IN_A_LAKE = HarmedPlace("/lake", "loglake run /logs --lake /lake", "/logs/t-0", topic="t", partition=0)


def test_each_rule_with_a_command_is_pasted_or_has_a_reason() -> None:
    with_command = {
        rule for rule in RULES if "`loglake " in advice(rule, IN_A_LAKE) + advice(rule, HarmedPlace(directory="/logs"))
    }
    assert {*PASTED, *NOT_PASTED_HERE} >= with_command
    assert not PASTED & {*NOT_PASTED_HERE}
    assert {*NOT_PASTED_HERE} <= with_command, "a reason for what has no command"
    without = {rule for rule in {*RULES} - with_command if RULES[rule].severity != "info"}
    reasons = [rule for rules in WITHOUT_COMMAND.values() for rule in rules.split()]
    assert sorted(without - PASTED) == sorted(reasons), "the message of the others has the command"


def test_the_command_of_maintenance_has_one_text() -> None:
    checks = [each for each in vars(check_definitions).values() if isinstance(each, CheckDefinition)]
    assert len(checks) > 20
    assert not [text for each in (*checks, *RULES.values()) if "--maintain" in (text := each.what_to_do)]
    assert advice("stray-archive-file", IN_A_LAKE).count(f"`{maintain_command('/lake')} --apply`") == 1


def test_a_lake_whose_sources_are_not_known_says_what_the_word_is() -> None:
    assert "LOGDIR is the log directory of the broker." in advice("missing-offsets", HarmedPlace(lake="/lake"))


ONLY_IN_A_LAKE = {
    *(*RULE_GROUPS["Maintenance of a lake"], *RULE_GROUPS["The state of a lake"], "changed-after-publishing"),
    *("topic-recreated", "source-diverged", "source-behind", "trimmed-before-ingest", "source-trimmed"),
    *("source-cleaned", "second-source", "log-gone", "offsets-given-up", "range-not-filled"),
    *("archive-unreadable", "archive-changed", "archive-not-written", "log-not-judged", "output-mismatch"),
    "table-file-damaged",
}


def test_advice_about_files_in_no_lake_names_no_lake() -> None:
    for rule in RULES:
        said = advice(rule, HarmedPlace(directory="/logs/t-0", topic="t", partition=0))
        assert rule in ONLY_IN_A_LAKE or not re.search(r"\b(LAKE|LOGDIR|policies\.yaml)\b|`loglake run", said), said


def test_commands_of_a_lake_have_no_word_that_loglake_knows() -> None:
    place = HarmedPlace(lake="/lake", run="loglake run /logs --lake /lake")
    for rule in RULES:
        for text in (advice(rule, IN_A_LAKE), advice(rule, place)):
            words = {word for line in commands_in(text) for word in shlex.split(line)}
            assert not words & {"LAKE", "SOURCE", "LOGDIR", "SRC", "OFFSETS"}, (rule, text)
