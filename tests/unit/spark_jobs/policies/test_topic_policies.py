"""`from: cluster`: lines of the file win, what the cluster did not say is not done, and doubt removes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logcore.topics.topic_settings import TopicSetting, TopicSettings
from spark_jobs.errors import UsageError
from spark_jobs.policies.policies_file import Policies, parse_policies
from spark_jobs.policies.topic_policies import TopicPolicy

DAY = 86_400_000


def said(doubt: str | None = None, topic_id: str | None = "A", **settings: str) -> TopicSettings:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    rows = {name: TopicSetting(name, value, at, is_committed=False) for at, (name, value) in enumerate(named.items())}
    return TopicSettings("orders", topic_id, rows, doubt)


def policy(lines: str, cluster: TopicSettings | None, topic_id: str | None = "A") -> TopicPolicy:
    policies = parse_policies(f"topics: {{orders: {{{lines}}}}}")
    policies = replace(policies, cluster={} if cluster is None else {"orders": cluster})
    found = policies.for_log("orders", topic_id)
    assert found is not None
    return found


EVERYTHING = said(
    cleanup_policy="compact,delete",
    retention_ms="1000",
    retention_bytes="2000",
    min_cleanable_dirty_ratio="0.25",
    min_compaction_lag_ms="3",
    max_compaction_lag_ms="9223372036854775807",
    delete_retention_ms="4",
    segment_bytes="5000",
    segment_index_bytes="6000",
    index_interval_bytes="7",
    file_delete_delay_ms="8",
    compression_type="zstd",
)


def test_each_setting_that_the_cluster_said_is_taken() -> None:
    found = policy("from: cluster", EVERYTHING)
    assert found.cleanup_policy == ("compact", "delete")
    assert (found.retention_ms, found.retention_bytes, found.min_cleanable_dirty_ratio) == (1000, 2000, 0.25)
    assert (found.min_compaction_lag_ms, found.max_compaction_lag_ms, found.delete_retention_ms) == (3, 2**63 - 1, 4)
    assert (found.segment_bytes, found.segment_index_bytes, found.index_interval_bytes) == (5000, 6000, 7)
    assert (found.file_delete_delay_ms, found.doubt, found.withheld) == (8, None, ())


def test_a_line_of_the_file_wins() -> None:
    lines = "from: cluster, cleanup.policy: delete, retention.ms: 1d, segment.bytes: 1GiB"
    found = policy(lines, EVERYTHING)
    assert (found.cleanup_policy, found.retention_ms, found.segment_bytes) == (("delete",), DAY, 1 << 30)
    assert found.retention_bytes == 2000


def test_a_line_with_the_default_wins_too() -> None:
    assert policy("from: cluster, retention.ms: -1", EVERYTHING).retention_ms == -1
    assert policy("from: cluster, cleanup.policy: []", EVERYTHING).cleanup_policy == ()


def test_what_the_cluster_did_not_say_means_never() -> None:
    nothing = policy("from: cluster", said())
    assert (nothing.cleanup_policy, nothing.retention_ms, nothing.retention_bytes) == ((), -1, -1)
    assert nothing.doubt is None
    without_limits = policy("from: cluster", said(cleanup_policy="delete"))
    assert (without_limits.deletes, without_limits.retention_ms, without_limits.retention_bytes) == (True, -1, -1)
    without_policy = policy("from: cluster", said(retention_ms="1"))
    assert (without_policy.cleanup_policy, without_policy.retention_ms) == ((), 1)


def test_without_from_nothing_is_taken() -> None:
    assert policy("cleanup.policy: delete", EVERYTHING) == TopicPolicy("orders", ("delete",))


@pytest.mark.parametrize(
    ("cluster", "topic_id", "why"),
    [
        (None, "A", "does not name the topic"),
        (said("Records are lost.", cleanup_policy="delete", retention_ms="1"), "A", "Records are lost."),
        (said(cleanup_policy="delete", retention_ms="1"), "B", "recreated"),
        (said(cleanup_policy="delete", retention_ms="soon"), "A", "retention.ms, offset 1"),
        (said(cleanup_policy="purge", retention_ms="1"), "A", "cleanup.policy, offset 0"),
    ],
)
def test_in_doubt_nothing_is_removed(cluster: TopicSettings | None, topic_id: str, why: str) -> None:
    found = policy("from: cluster", cluster, topic_id)
    assert (found.cleanup_policy, found.retention_ms, found.retention_bytes) == ((), -1, -1)
    assert why in str(found.doubt)


def test_in_doubt_a_stated_delete_has_only_the_stated_limits_and_nothing_is_compacted() -> None:
    doubtful = said("Records are lost.", retention_bytes="1", min_compaction_lag_ms="9")
    found = policy('from: cluster, cleanup.policy: "compact,delete", retention.ms: 1d', doubtful)
    assert (found.cleanup_policy, found.withheld) == (("delete",), ("compact",))
    assert (found.retention_ms, found.retention_bytes) == (DAY, -1)
    assert found.may_have_gaps
    assert not found.compacts


def test_a_topic_id_that_is_not_known_is_in_doubt() -> None:
    found = policy("from: cluster", EVERYTHING, None)
    assert (found.deletes, found.compacts, "is not known" in str(found.doubt)) == (False, False, True)


def test_the_policy_remembers_the_lines_of_the_file() -> None:
    policies = parse_policies("topics:\n  orders:\n    from: cluster\n    retention.ms: 5\n")
    assert policies.topics[0].lines == (("settings_from", 3), ("retention_ms", 4))
    assert policies.are_from_cluster
    assert not Policies().are_from_cluster


def test_only_the_cluster_can_be_named() -> None:
    with pytest.raises(UsageError, match="from is 'broker'; known are cluster"):
        parse_policies("topics: {orders: {from: broker}}")
