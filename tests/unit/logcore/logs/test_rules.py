"""Each rule of the catalogue says how long a lake counts its findings."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from logcore.logs.rules import RULES, Outcome, Persistence, Rule

STOPPING = {"topic-recreated", "source-diverged", "source-behind", "packed-segment", "tail-hides-batches"}
"""A log stops growing by these, and by those of UNREADABLE."""
UNREADABLE = {"unreadable", "source-changed", "segments-not-named", "archive-not-written"}
ABOUT_A_RANGE = {"transaction-outcome-lost", "corrupt-offsets", "missing-offsets", "trimmed-before-ingest"}
OF_FOREIGN_FILES = {"rows-differ-from-archive", "rows-out-of-order", "not-provable"}
ABOUT_ROWS = {
    *("expectation-failed", "rows-differ-from-ledger", "ledger-has-a-hole", "offsets-not-archived"),
    *OF_FOREIGN_FILES,
}
OF_ONE_RUN = {"second-source", "replacement-refused", "high-watermark-fell", "bytes-after-segment", "log-gone"}
OF_ONE_RUN.add("range-not-filled")

NEVER_CHECKED = {
    *("path-not-found", "nothing-chosen", "not-a-log-directory", "empty-directory", "not-a-segment"),
    *("illegal-topic-name", "archive-unreadable", "log-not-judged", "index-not-rebuilt", "recovery-refused"),
    *("remote-segment-unreadable", "remote-storage-empty", "copies-undecided", "source-gone"),
    "zookeeper-directory",
}
"""Something could not be checked, and no log stops for it: the next run tries again."""

ABOUT_THE_WHOLE_LAKE = {
    *("table-went-back", "table-missing", "foreign-commit", "commits-not-kept", "table-file-missing"),
    "table-file-size",
    *(
        "archive-file-missing",
        "archive-file-changed",
        "archive-not-checked",
        "row-digest-differs",
        "rows-removed",
        "rows-not-ours",
        "page-checksum-differs",
    ),
    *("frontier-missing", "withdrawn-rows", "commit-file-damaged", "lake-identity-differs", "stray-archive-file"),
    *("archive-not-deleted", "table-file-rebuilt", "table-not-complete"),
    "table-not-followed",
}
"""No finding of these has a log, so none counts for one."""

ABOUT_A_SOURCE = {
    *("no-segments", "unknown-directory", "delete-directory", "future-directory", "stray-directory", "leftover-file"),
    "zookeeper-directory",
    "log-directory-missing",
    "log-lost",
    "unread-segments",
    *(
        "interrupted-swap",
        "oversized-segment",
        "broken-root-file",
        "broken-partition-file",
        "corrupt-index",
        "no-high-watermark",
        "no-meta-properties",
    ),
    *("no-remote-metadata", "remote-metadata", "remote-segment-missing", "remote-orphan", "other-remote-objects"),
    *("remote-overlap", "several-copies", "topic-ids-differ", "copy-under-another-name", "log-start-fell"),
}
"""Reported by each look at a source path, and about no log of the lake."""

BESIDE_SEGMENTS = {
    *("leader-epoch-differs", "producer-sequence", "producer-epoch-regression", "index-missing"),
    *("index-partial-entry", "index-zeroed", "leader-epochs-unproven", "index-past-end", "offset-index-differs"),
    *("time-index-differs", "transaction-index-differs", "broken-snapshot", "snapshot-not-whole", "snapshot-differs"),
    *("checkpoint-beyond-log-end", "copy-absent"),
}
"""Reported by commands for logs; no job checks for them."""

ABOUT_INTERNAL_TOPICS = {
    *("message-not-read", "message-not-interpreted", "no-internal-topic", "commit-beyond-log-end"),
    "commit-below-log-start",
    *("group-partitions-missing", "group-partitions-unknown", "coordinator-partitions-missing"),
    *("transaction-torn", "transaction-hanging"),
    *("metadata-log-starts-late", "metadata-transaction-open", "settings-in-doubt", "snapshots-at-one-offset"),
    *("zookeeper-damaged", "zookeeper-cut-off", "zookeeper-transactions-missing"),
}
"""Reported by what reads internal topics; no job checks for them."""

UNTIL_SOMETHING = {
    "remote-tier": Persistence.WHILE_REMOTE,
    "remote-tier-unproven": Persistence.WHILE_REMOTE,
    "remote-range-left-out": Persistence.WHILE_REMOTE,
    "output-mismatch": Persistence.UNTIL_PUBLISHED,
    "transaction-accepted": Persistence.UNTIL_PUBLISHED,
    "high-watermark-beyond-log-end": Persistence.UNTIL_LOG_END_PASSED,
}


def rules_with(*persistences: Persistence) -> set[str]:
    return {name for name, rule in RULES.items() if rule.persistence in persistences}


def test_no_rule_can_leave_out_how_long_its_findings_count():
    (persistence,) = [field for field in fields(Rule) if field.name == "persistence"]
    assert persistence.default is MISSING
    assert persistence.default_factory is MISSING
    assert all(isinstance(rule.persistence, Persistence) for rule in RULES.values())


def test_findings_about_a_stopped_log_are_of_the_rules_that_stop_one():
    assert rules_with(Persistence.WHILE_STOPPED) == STOPPING | UNREADABLE
    unchecked = {name for name, rule in RULES.items() if rule.outcome is Outcome.UNCHECKED}
    assert unchecked == UNREADABLE | NEVER_CHECKED


def test_findings_about_a_range_of_the_ledger():
    assert rules_with(Persistence.WHILE_IN_LEDGER) == ABOUT_A_RANGE


def test_findings_about_rows():
    assert rules_with(Persistence.WHILE_ROWS_DIFFER) == {"rows-differ-from-ledger"}
    assert rules_with(Persistence.WHILE_LEDGER_HAS_HOLE) == {"ledger-has-a-hole", "offsets-not-archived"}
    assert rules_with(Persistence.UNTIL_EXPECTATIONS_MET) == {"expectation-failed"}
    assert rules_with(Persistence.WHILE_FILE_DIFFERS) == OF_FOREIGN_FILES


def test_findings_of_one_run():
    of_a_look = NEVER_CHECKED | ABOUT_THE_WHOLE_LAKE | ABOUT_A_SOURCE | BESIDE_SEGMENTS | ABOUT_INTERNAL_TOPICS
    assert rules_with(Persistence.ONE_RUN) == OF_ONE_RUN | of_a_look


@pytest.mark.parametrize(("rule", "persistence"), UNTIL_SOMETHING.items())
def test_findings_that_end_with_something_of_their_own(rule: str, persistence: Persistence):
    others = {other for other, same in UNTIL_SOMETHING.items() if same is persistence}
    assert rules_with(persistence) == {rule, *others}


def test_all_others_count_for_good_or_until_their_segment_is_replaced():
    bounded = STOPPING | UNREADABLE | ABOUT_A_RANGE | ABOUT_ROWS | UNTIL_SOMETHING.keys()
    of_one_run = OF_ONE_RUN | NEVER_CHECKED | ABOUT_THE_WHOLE_LAKE | ABOUT_A_SOURCE | BESIDE_SEGMENTS
    of_one_run |= ABOUT_INTERNAL_TOPICS
    others = RULES.keys() - bounded - of_one_run
    assert rules_with(Persistence.FOR_GOOD, Persistence.UNTIL_REPLACED) == others
    assert {"source-cleaned", "incarnation-opened", "compaction-refused"} <= rules_with(Persistence.FOR_GOOD)
    assert {"corrupt-bytes", "torn-tail", "sequence-gap"} <= rules_with(Persistence.UNTIL_REPLACED)


def test_each_way_to_count_says_for_a_person_how_long():
    texts = [persistence.value for persistence in Persistence]
    assert len(set(texts)) == len(texts)
    assert all(text[0].islower() and not text.endswith(".") for text in texts)
