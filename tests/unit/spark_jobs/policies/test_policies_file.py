"""Claims on policies.yaml: which topic it covers, and that every mistake is named with its place."""

from __future__ import annotations

import traceback

import pytest

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.topic_config import TopicConfig
from spark_jobs.errors import UsageError
from spark_jobs.policies.policies_file import parse_policies, read_policies, stated_webhook
from spark_jobs.policies.topic_policies import LakePolicy, TopicPolicy


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_policies(text, "p.yaml")
    return str(caught.value)


def test_the_first_pattern_that_matches_decides_alone():
    policies = parse_policies(
        """
topics:
  orders-eu: {cleanup.policy: compact}
  "orders-*": {cleanup.policy: delete, retention.ms: 10}
  "orders-us": {cleanup.policy: compact}
"""
    )
    assert policies.for_topic("orders-eu") == TopicPolicy("orders-eu", ("compact",))
    assert policies.for_topic("orders-us") == TopicPolicy("orders-*", ("delete",), retention_ms=10)


def test_a_topic_that_no_pattern_matches_has_no_policy():
    policies = parse_policies("topics: {orders: {cleanup.policy: delete}}")
    assert policies.for_topic("Orders") is None
    assert policies.for_topic("orders2") is None


def test_no_file_and_an_empty_file_have_no_policies(tmp_path):
    empty = tmp_path / "policies.yaml"
    empty.write_text("# nothing yet\n")
    assert read_policies(None).for_topic("orders") is None
    assert read_policies(str(empty)).topics == ()


def test_a_star_does_not_cover_internal_topics():
    policies = parse_policies('topics: {"*": {cleanup.policy: compact}, "__c*": {cleanup.policy: delete}}')
    assert policies.for_topic("__consumer_offsets").deletes
    assert policies.for_topic("__transaction_state") is None
    assert policies.for_topic("orders").compacts


@pytest.mark.parametrize(
    ("written", "compacts", "deletes"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ('"delete, compact"', True, True),
        ("[compact, delete]", True, True),
        ('""', False, False),
    ],
)
def test_cleanup_policy_is_written_as_in_kafka_or_as_a_list(written, compacts, deletes):
    policy = parse_policies(f"topics:\n  a:\n    cleanup.policy: {written}").for_topic("a")
    assert (policy.compacts, policy.deletes) == (compacts, deletes)


def test_every_setting_has_its_own_field():
    policy = parse_policies(
        """
topics:
  a:
    cleanup.policy: delete
    retention.ms: 1
    retention.bytes: "2"
    min.cleanable.dirty.ratio: 0.25
    min.compaction.lag.ms: 3
    delete.retention.ms: 4
    segment.bytes: 1024
    index.interval.bytes: 5
    file.delete.delay.ms: 6
    max.compaction.lag.ms: 7
    segment.index.bytes: 8
    producer.id.expiration.ms: 9
    log.cleaner.dedupe.buffer.size: 240
    compaction.spread.bytes: 10
    compat: 4.0
"""
    ).for_topic("a")
    assert policy == TopicPolicy(
        "a",
        ("delete",),
        retention_ms=1,
        retention_bytes=2,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=3,
        max_compaction_lag_ms=7,
        delete_retention_ms=4,
        segment_bytes=1024,
        segment_index_bytes=8,
        index_interval_bytes=5,
        file_delete_delay_ms=6,
        producer_id_expiration_ms=9,
        log_cleaner_dedupe_buffer_size=240,
        compaction_spread_bytes=10,
        compat="4.0",
    )


def test_maintenance_goes_by_kafkas_defaults_but_for_what_the_policy_says():
    text = "topics: {a: {cleanup.policy: compact, delete.retention.ms: 4, compat: 3.9}}"
    policy = parse_policies(text).for_topic("a")
    assert policy.config == TopicConfig(cleanup_policy=("compact",), delete_retention_ms=4, retention_ms=-1)
    assert policy.line is BrokerLine.V3_9


@pytest.mark.parametrize(("written", "read"), [("env:LOGIN", "env:LOGIN"), ("login.txt", "conf/login.txt")])
def test_credentials_of_a_registry_are_named_by_a_variable_or_a_path(written, read):
    text = "topics: {a: {decode.value: avro, decode.schemas: 'http://localhost', decode.schemas.credentials: '%s'}}"
    policy = parse_policies(text % written, "conf/policies.yaml").for_topic("a")
    assert policy.decode_schemas_credentials == read


@pytest.mark.parametrize(
    ("place", "credentials", "says"),
    [
        ("_schemas", "env:LOGIN", "for the address of a registry"),
        ("http://localhost", "env:", "neither a path"),
        ("http://localhost", "env:hid den", "neither a path"),
        ("http://localhost", "user:hidden", "neither a path"),
        ("http://localhost", "Bearer hidden", "neither a path"),
        ("http://localhost", "", "neither a path"),
    ],
)
def test_credentials_without_an_address_or_a_place_are_refused(place, credentials, says):
    text = (
        f"topics: {{a: {{decode.value: avro, decode.schemas: '{place}', decode.schemas.credentials: '{credentials}'}}}}"
    )
    said = refusal(text)
    assert says in said
    assert "hid" not in said


def test_a_policy_of_taking_and_publishing_alone_removes_nothing():
    policy = parse_policies(
        """
topics:
  a:
    on_truncate: follow
    on_recreate: append
    salvage: permissive
    active.min.growth: 1
    publish.min.bytes: 2
    publish.max.delay: 3
"""
    ).for_topic("a")
    assert policy == TopicPolicy(
        "a",
        (),
        on_truncate="follow",
        on_recreate="append",
        salvage="permissive",
        active_min_growth=1,
        publish_min_bytes=2,
        publish_max_delay_ms=3,
    )
    assert not policy.deletes
    assert not policy.compacts


def test_what_is_not_stated_never_removes_anything():
    policy = parse_policies("topics: {a: {cleanup.policy: delete}}").for_topic("a")
    assert (policy.retention_ms, policy.retention_bytes) == (-1, -1)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.hours: 5", "line 4, column 5", "retention.hours"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms: 7m", "line 4, column 19", "'7m'"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.bytes: 7d", "line 4, column 22", "KiB"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms: 1_000", "line 4", "plain digits"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms: 1:30", "line 4", "plain digits"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms:", "line 4", "retention.ms"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms: [1]", "line 4", "one number"),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms: -2", "line 4", "-1.."),
        ("topics:\n  a:\n    cleanup.policy: delete\n    retention.ms: " + "9" * 5000, "line 4", "plain digits"),
        ("topics:\n  a: {cleanup.policy: compact, min.cleanable.dirty.ratio: 1.5}", "line 2", "0..1"),
        ("topics:\n  a: {cleanup.policy: compact, segment.bytes: 13}", "line 2", "segment.bytes"),
        ("topics:\n  a: {cleanup.policy: purge}", "line 2, column 23", "'purge'"),
        ("topics:\n  a: {cleanup.policy: }", "line 2", "cleanup.policy"),
        ("topics:\n  a: {retention.ms: 5}", "line 2, column 3", "does not state its cleanup.policy"),
        ("topics:\n  a: {salvage: strict, retention.ms: 5}", "line 2, column 3", "does not state its cleanup.policy"),
        ("topics:\n  a: {}", "line 2, column 3", "does not state its cleanup.policy"),
        ("topics:\n  a: {on_truncate: forget}", "line 2, column 20", "known are stop, follow"),
        ("topics:\n  a: {on_recreate: [append]}", "line 2, column 20", "known are stop, append"),
        ("topics:\n  a: {salvage: }", "line 2", "known are strict, permissive"),
        ("topics:\n  a: {publish.max.delay: 5MiB}", "line 2, column 26", "'5MiB'"),
        ("lake: {ingest: every 10 s}", "line 1, column 16", "60000.."),
        ("lake: {ingest: sometimes}", "line 1, column 16", "every 5 min"),
        ("lake: {ingest: every 36 h}", "line 1, column 16", "whole days, such as 'every 2 d'"),
        ("lake: {nightly: always}", "line 1, column 17", "known are plan, apply"),
        ("lake: {nightli: apply}", "line 1, column 8", "did you mean nightly?"),
        ("topics:\n  a: {parquet.codec: gzip}", "line 2, column 22", "known are zstd, lz4, snappy, none"),
        ("topics:\n  a: {parquet.level: 23}", "line 2, column 22", "-7..22"),
        ("topics:\n  a: {parquet.level: 3, parquet.codec: lz4}", "line 2, column 3", "parquet.codec is lz4"),
        ("topics:\n  a: {cleanup.policy: delete}\n  a: {cleanup.policy: compact}", "line 3, column 3", "twice"),
        ("topics:\n  a b: {cleanup.policy: delete}", "line 2, column 3", "matches no topic"),
        ("topics:\n  - a", "line 2, column 3", "must be a mapping"),
        ("topic:\n  a: {cleanup.policy: delete}", "line 1, column 1", "'topics'"),
        ("topics: {a: {cleanup.policy: delete", "line 1", "not YAML"),
        ("topics: {a: !!python/object/apply:os.getcwd []}", "line 1", "mapping"),
        ("topics: {a: \x00}", "p.yaml", "not YAML"),
        ("[" * 100_000, "p.yaml", "not YAML"),
    ],
)
def test_a_mistake_is_refused_with_its_place(text, place, words):
    message = refusal(text)
    assert "p.yaml" in message
    assert place in message
    assert words in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lake:\n  alerts.webhook: ftp://127.0.0.1/hidden", "line 2, column 19: alerts.webhook is not an http"),
        ("lake: {alerts.webhook: hooks/hidden}", "line 1, column 24: alerts.webhook is not an http or https address"),
        ("topics: {a: {decode.schemas: 'user:hidden@a'}}", "column 30: decode.schemas is neither the name of a topic"),
        (
            "lake: {alerts.webhook:https://127.0.0.1/hidden}",
            "column 8: an address is not a setting of the lake; did you mean",
        ),
        ("lake: {ingest: 'https://127.0.0.1/hidden'}", "column 16: ingest is an address: known are"),
        ("lake: {nightly: 'https://127.0.0.1/hidden'}", "column 17: nightly is an address; known are plan, apply"),
        ("topics: {a: {cleanup.policy: 'https://127.0.0.1/hidden'}}", "cleanup.policy has an address; known are"),
        ("topics: {'https://127.0.0.1/hidden': {}}", "column 10: an address matches no topic"),
        ("topics: {'https://127.0.0.1/hidden': {retention.ms: 1}}", "the policy of an address does not state"),
        ("topics: {'https://127.0.0.1/hidden': [], 'https://127.0.0.1/hidden': {}}", "'topics' has an address twice"),
        ("https://127.0.0.1/hidden: {}", "line 1, column 1: an address is not known here"),
    ],
)
def test_a_refused_text_that_may_hold_a_secret_is_not_shown(text, says):
    message = refusal(text)
    assert says in message
    assert "hidden" not in message


def test_no_trace_of_a_text_that_is_no_yaml_shows_it():
    text = "lake:\n  alerts.webhook: https://127.0.0.1/hidden: [\n"
    with pytest.raises(UsageError) as refused:
        parse_policies(text)
    assert "hidden" not in "".join(traceback.format_exception(refused.value))


def test_a_note_about_a_variable_shows_nothing_of_an_address():
    assert parse_policies("lake: {alerts.webhook: 'https://127.0.0.1/?of=env:hidden'}").unset_notes() == []


def test_a_file_that_is_not_there_is_the_callers_mistake(tmp_path):
    with pytest.raises(UsageError, match=r"gone\.yaml can't be read"):
        read_policies(str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("lake: {alerts.webhook: 'http://127.0.0.1/b,c'}\ntopics: {a: {on_gon: warn}}", "http://127.0.0.1/b,c"),
        ("lake:\n  ingest: evry\n  alerts.webhook: http://127.0.0.1/b,c  # ours\n", "http://127.0.0.1/b,c"),
        ("lake:\n  alerts.webhook: http://127.0.0.1/b,c\n ingest: [\n", "http://127.0.0.1/b,c"),
        ("lake:\n# ours\n  alerts.webhook: http://127.0.0.1/\n ingest: [\n", "http://127.0.0.1/"),
        ('topics: [\nlake: {alerts.webhook: "env:HOOK"}\n', "env:HOOK"),
        ("lake:\n  # alerts.webhook: http://127.0.0.1/\n  ingest: [\n", None),
        ("lake: {alerts.webhook: gopher}", None),
        ("lake:\n  ingest: [\ntopics:\n  a:\n    alerts.webhook: http://127.0.0.1/a\n", None),
        ("lake:\n  alerts.webhook: http://127.0.0.1/a\n  alerts.webhook: http://127.0.0.1/b\n  ingest: [\n", None),
        ("lake: {alerts.webhook: 'http://127.0.0.1/a', alerts.webhook: 'http://127.0.0.1/b'}", None),
        ("lake:\n  alerts.webhook: gopher\ntopics: {a: {alerts.webhook: 'http://127.0.0.1/a'}}", None),
        ("topics: {}", None),
    ],
)
def test_the_webhook_is_read_where_other_lines_have_mistakes(tmp_path, text, address):
    (tmp_path / "policies.yaml").write_text(text)
    assert stated_webhook(str(tmp_path / "policies.yaml")) == address
    assert stated_webhook(str(tmp_path / "none.yaml")) is None


def test_a_file_that_is_no_text_is_the_callers_mistake(tmp_path):
    (tmp_path / "p.yaml").write_bytes(b"topics: \xff")
    with pytest.raises(UsageError, match="UTF-8"):
        read_policies(str(tmp_path / "p.yaml"))


@pytest.mark.parametrize(
    ("stated", "places"),
    [
        ("tier", ("/etc/lake/tier",)),
        ("[../tier, /srv/more]", ("/etc/tier", "/srv/more")),
        ("s3://bucket/tier", ("s3://bucket/tier",)),
    ],
)
def test_remote_storage_is_a_place_or_a_list_of_places_beside_the_file(stated: str, places: tuple[str, ...]):
    assert parse_policies(f"lake: {{remote: {stated}}}", "/etc/lake/policies.yaml").lake.remote == places


@pytest.mark.parametrize("stated", ["[]", "", "{a: b}", "[a, a]", "[a, [b]]"])
def test_remote_storage_that_is_no_list_of_places_is_refused(stated: str):
    assert "remote must be directories" in refusal(f"lake:\n  remote: {stated}\n")


def test_times_and_sizes_may_have_units():
    policy = parse_policies(
        """
topics:
  a:
    cleanup.policy: delete
    retention.ms: 7d
    retention.bytes: 64MiB
    delete.retention.ms: 90 s
    publish.max.delay: 5 min
    segment.bytes: 1024
"""
    ).for_topic("a")
    assert policy == TopicPolicy(
        "a",
        ("delete",),
        retention_ms=7 * 24 * 60 * 60 * 1000,
        retention_bytes=64 * 1024 * 1024,
        delete_retention_ms=90_000,
        publish_max_delay_ms=300_000,
        segment_bytes=1024,
    )


def test_every_mistake_of_a_file_is_named_with_its_place():
    message = refusal(
        """topics:
  a:
    cleanup.policy: purge
    retention.hours: 5
  "b c":
    cleanup.policy: delete
  d: {retention.ms: 1}
lake:
  nightly: sometimes
"""
    )
    places = [line.split(":")[0] for line in message.splitlines()]
    assert places == [
        "p.yaml, line 3, column 21",
        "p.yaml, line 4, column 5",
        "p.yaml, line 5, column 3",
        "p.yaml, line 7, column 3",
        "p.yaml, line 9, column 12",
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [("every 5 min", 300_000), ("every 1h", 3_600_000), ("on closed segments", "on closed segments"), ("by hand",) * 2],
)
def test_ingest_has_a_pace(written, read):
    policies = parse_policies(f"lake: {{ingest: {written}}}")
    assert policies.lake == LakePolicy(ingest=read)
    assert policies.stated == {"ingest"}


def test_a_lake_without_settings_is_watched_by_the_sensor_and_its_nightly_schedule_acts():
    assert parse_policies("topics: {}").lake == LakePolicy("on closed segments", "apply", "auto")


def test_a_missing_cleanup_policy_is_named_with_the_other_mistakes_of_the_entry() -> None:
    with pytest.raises(UsageError) as refused:
        parse_policies("topics:\n  a: {retention.ms: 5, decode.value: jsn}\n")
    assert "does not state its cleanup.policy" in str(refused.value)
    assert "decode.value" in str(refused.value)
    for text in ("{cleanup.policy: wrong, retention.ms: 5}", "{nothing: 1}", "{salvage: wrong}"):
        with pytest.raises(UsageError) as refused:
            parse_policies(f"topics:\n  a: {text}\n")
        assert len(str(refused.value).splitlines()) == 1
