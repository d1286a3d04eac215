"""`decode`: rows of `records` become rows of `decoded/<topic>` or of `undecoded/<topic>`, each exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, ReplaceConfig
from spark_jobs.decode import decode_job, decode_task, decoding
from spark_jobs.engine import job_engine
from spark_jobs.engine.executor import WorkerDied
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.decoded import followed_topics
from spark_jobs.lake.delta.table import Table
from spark_jobs.outlines import FollowingOutline
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import OTHER_TOPIC_ID
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded
from tests.spark.cycle import AS_OF_MS


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    return Decoded(tmp_path)


def test_every_row_is_decoded_or_undecoded_with_its_reason_and_bytes(lake: Decoded) -> None:
    lake.append((b"a", b"one"), (None, "zwölf".encode()), (b"c", None), (b"d", b"\xff!"), (b"\xfe", b"\xff"))
    report = lake.decode()
    assert [(r["offset"], r["key"], r["value"], r["is_tombstone"]) for r in lake.rows()] == [
        (0, "a", "one", False),
        (1, None, "zwölf", False),
        (2, "c", None, True),
    ]
    bad = lake.rows("undecoded")
    assert [(r["offset"], r["key"], r["value"], r["part"], r["reason"]) for r in bad] == [
        (3, b"d", b"\xff!", "value", "INVALID_UTF8"),
        (4, b"\xfe", b"\xff", "key", "INVALID_UTF8"),
    ]
    assert report.metrics == {"decoded": 3, "undecoded": 2, "waiting": 0}
    published = {row["offset"]: row for row in lake.lake.rows("records")}
    for row in [*lake.rows(), *bad]:
        same = ("log_id", "partition", "timestamp", "headers", "published_at")
        assert {name: row[name] for name in same} == {name: published[row["offset"]][name] for name in same}


def test_a_second_run_writes_nothing_and_new_rows_follow(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.decode()
    before = lake.versions()
    report = lake.decode()
    assert (lake.versions(), report.changed) == (before, ())
    lake.append((b"b", b"two"), (b"c", b"\xff"))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == ["one", "two"]
    assert [row["offset"] for row in lake.rows("undecoded")] == [2]


def test_without_a_policy_nothing_is_decoded(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.policies.write_text('topics:\n  "*":\n    salvage: permissive\n')
    assert lake.decode().plan == FollowingOutline(())
    assert lake.rows() == []


def test_the_command_says_for_each_topic_what_it_did(lake: Decoded, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    arguments = ["decode", str(lake.lake.path), "--policies", str(lake.policies)]
    assert main.main(arguments) == 1
    assert capsys.readouterr().out == "orders: 1 decoded, 1 undecoded, 1 INVALID_UTF8, 0 offsets left\n"
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == "orders: 0 decoded, 0 undecoded, 0 offsets left\n"


def test_a_choice_that_matches_no_topic_is_refused_with_the_nearest_name(
    lake: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.append((b"a", b"one"))
    for command in ("decode", "latest"):
        chosen = [command, lake.path, "--policies", str(lake.policies), "--topic", "ordrs"]
        assert main.main(chosen) == 64
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == (
            "",
            "error: --topic 'ordrs' matches no topic; the nearest names are orders.\n",
        )
    lake.policies.write_text("topics: {payments: {decode.value: string}}")
    assert main.main(["decode", lake.path, "--policies", str(lake.policies), "--topic", "orders"]) == 0
    assert capsys.readouterr().out.startswith("no policy decodes a chosen topic: set decode.value")


def test_a_log_whose_worker_died_twice_waits_and_the_others_are_decoded(lake: Decoded, monkeypatch, capsys) -> None:
    lake.append_elsewhere("orders-1", 3)
    lake.append((b"a", b"one"))
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    monkeypatch.setattr(launch, "start_executor", lambda *_: Deadly())
    assert main.main(["decode", lake.path, "--policies", str(lake.policies)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("orders: 1 decoded, 0 undecoded, 3 offsets left; partition 1 waits: the worker that ")
    assert "was ended by SIGSEGV" in said
    assert [(row["partition"], row["value"]) for row in lake.rows()] == [(0, "one")]
    monkeypatch.undo()
    lake.decode()
    assert sorted(row["partition"] for row in lake.rows()) == [0, 1, 1, 1]


def test_a_replacement_with_a_log_that_cannot_be_decoded_replaces_nothing(lake: Decoded, monkeypatch) -> None:
    lake.append_elsewhere("orders-1", 3)
    lake.append((b"a", b"one"))
    lake.decode()
    before = lake.versions()
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    monkeypatch.setattr(launch, "start_executor", lambda *_: Deadly())
    report = lake.decode(replace=("orders",))
    assert "nothing was replaced" in str(report.plan)
    assert lake.versions() == before


class Deadly(InProcessExecutor):
    """The workers of partition 1 die."""

    def run(self, work, tasks, sizes=None):
        others = {at: task for at, task in enumerate(tasks) if not task.span.partition}
        results = {at: super(Deadly, self).run(work, [task])[0] for at, task in others.items()}
        died = {at: "was ended by SIGSEGV" for at, task in enumerate(tasks) if task.span.partition}
        raise WorkerDied("died", died, results)


def test_replacement_writes_all_rows_once_under_the_new_policy(lake: Decoded, capsys) -> None:
    lake.append((b"a", b"\x00\x01"), (b"b", None))
    lake.decode()
    lake.append((b"c", b"\x00\x02"))
    lake.policies.write_text("topics:\n  orders:\n    decode.value: short\n")
    before = lake.versions()
    assert main.main(["decode", lake.path, "--policies", str(lake.policies)]) == 1
    assert "waits: its policy or a schema differs" in capsys.readouterr().out
    assert lake.versions() == before
    arguments = ["decode", lake.path, "--policies", str(lake.policies), "--replace", "orders"]
    assert main.main(arguments) == 0
    assert [(row["offset"], row["key"], row["value"]) for row in lake.rows()] == [
        (0, b"a", 1),
        (1, b"b", None),
        (2, b"c", 2),
    ]
    lake.append((b"d", b"\x00\x03"))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == [1, None, 2, 3]


@pytest.mark.parametrize("is_small", [True, False])
def test_a_topic_whose_published_rows_were_replaced_is_decoded_again_or_waits_if_it_is_large(
    lake: Decoded, is_small: bool, monkeypatch
) -> None:
    lake.append((b"a", b"one"), (b"b", b"two"), (b"c", b"\xff"))
    lake.decode()
    DeltaTable(str(lake.lake.path / "tables" / "records")).delete('"offset" = 0')
    lake.append((b"c", b"three"))
    if not is_small:
        monkeypatch.setattr(decode_job, "FOLLOW_BYTES", 0)
    report = lake.decode()
    assert "replaced or removed rows of it" in str(report.plan)
    if is_small:
        assert report.metrics == {"decoded": 2, "undecoded": 1, "waiting": 0}
    else:
        assert [row["value"] for row in lake.rows()] == ["one", "two"]
        lake.decode(replace=("orders",))
    assert [row["value"] for row in lake.rows()] == ["two", "three"]
    assert [row["offset"] for row in lake.rows("undecoded")] == [2]
    before = lake.versions()
    assert not lake.decode().changed
    assert lake.versions() == before


def test_rows_that_are_published_again_are_decoded_again(lake: Decoded) -> None:
    lake.append((b"a", b"one"), (b"b", b"two"))
    lake.decode()
    DeltaTable(str(lake.lake.path / "tables" / "records")).delete('"offset" = 0')
    lake.decode()
    assert [row["value"] for row in lake.rows()] == ["two"]
    launch.run(ReplaceConfig(lake.path, "replace", AS_OF_MS, start_offset=0))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == ["one", "two"]


def test_many_commits_without_rows_of_a_topic_are_read_once(lake: Decoded, monkeypatch) -> None:
    lake.append((b"a", b"one"))
    lake.decode()
    monkeypatch.setattr(followed_topics, "UNSEEN_COMMITS", 2)
    for name in ("payments-0", "payments-1"):
        lake.append_elsewhere(name, 1, OTHER_TOPIC_ID)
        lake.publish()
    lake.decode(topics=("orders",))
    seen = lake.table().transaction_version("decoded/orders/records")
    assert seen == DeltaTable(str(lake.lake.path / "tables" / "records")).version()
    before = lake.versions()
    lake.decode(topics=("orders",))
    assert lake.versions() == before
    assert [row["value"] for row in lake.rows()] == ["one"]


def test_an_unforeseen_error_of_a_schema_holds_up_its_own_topic_only(lake: Decoded, monkeypatch) -> None:
    lake.append((b"a", b"one"))
    lake.append_elsewhere("payments-0", 1, OTHER_TOPIC_ID)
    lake.publish()
    real = decode_job.TopicFormats.of

    def fails(policy: object, topic: str) -> object:
        if topic == "payments":
            raise TypeError("planted-value")
        return real(policy, topic)

    monkeypatch.setattr(decode_job.TopicFormats, "of", fails)
    report = lake.decode()
    waits = {topic.topic: topic.waits for topic in report.plan.topics}
    assert waits["orders"] is None
    assert "its schema cannot be used (TypeError)" in waits["payments"]
    assert "planted-value" not in str(report.plan)
    assert [row["value"] for row in lake.rows()] == ["one"]


def test_rows_in_parts_and_in_many_tasks_are_the_rows_of_one_task(lake: Decoded, monkeypatch) -> None:
    for number in range(4):
        lake.append((b"a", b"one %d" % number), (b"b", b"\xff"), (b"c", None))
    monkeypatch.setattr(decode_job, "TASK_BYTES", 1)
    monkeypatch.setattr(decode_task, "BATCH_BYTES", 1)
    lake.decode()
    assert len(lake.table().file_uris()) == 8  # a task for each row
    many = lake.rows(), lake.rows("undecoded")
    monkeypatch.setattr(decode_job, "TASK_BYTES", 1 << 20)
    monkeypatch.setattr(decode_job, "TASK_ROWS", 2)
    lake.decode(replace=("orders",))
    assert len(lake.table().file_uris()) == 8  # two tasks for each file of three rows
    assert (lake.rows(), lake.rows("undecoded")) == many
    monkeypatch.undo()
    lake.decode(replace=("orders",))
    assert len(lake.table().file_uris()) == 1
    assert (lake.rows(), lake.rows("undecoded")) == many
    assert [row["offset"] for row in lake.rows()] == [0, 2, 3, 5, 6, 8, 9, 11]


def test_the_same_plan_is_committed_once(lake: Decoded) -> None:
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    config = DecodeConfig(lake.path, "decode", AS_OF_MS, read_policies(str(lake.policies)))
    planned = decode_job.plan(config)
    decode_job.apply(planned, config, None)
    with pytest.raises(ConcurrentChange, match="the plan was made at None"):
        decode_job.apply(planned, config, None)
    assert [row["value"] for row in lake.rows()] == ["one"]
    assert [row["offset"] for row in lake.rows("undecoded")] == [1]


def test_a_run_that_ended_between_the_two_commits_is_continued_without_rows_twice(lake: Decoded, monkeypatch) -> None:
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    commit = Table.commit

    def only_undecoded(self: Table, *arguments, **options) -> None:
        if self.kind == "decoded":
            raise KeyboardInterrupt
        commit(self, *arguments, **options)

    monkeypatch.setattr(Table, "commit", only_undecoded)
    with pytest.raises(KeyboardInterrupt):
        lake.decode()
    monkeypatch.undo()
    lake.append((b"c", b"\xfe"))
    assert lake.decode().metrics == {"decoded": 1, "undecoded": 2, "waiting": 0}
    assert [row["value"] for row in lake.rows()] == ["one"]
    assert [row["offset"] for row in lake.rows("undecoded")] == [1, 2]


def test_a_protobuf_schema_is_compiled_again_only_if_it_or_an_import_has_changed(tmp_path: Path, monkeypatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(decoding, "compiled_schema", lambda path: compiled.append(path) or "text")
    schema, imported = tmp_path / "order.proto", tmp_path / "below" / "other.proto"
    imported.parent.mkdir()
    for file in (schema, imported):
        file.write_text("a")
    for expected in (1, 1):
        assert decoding._schema("protobuf", str(schema)) == "text"
        assert len(compiled) == expected
    imported.write_text("ab")
    decoding._schema("protobuf", str(schema))
    assert len(compiled) == 2
    monkeypatch.setattr(decoding, "_MOST_FOLDERS", 1)
    for expected in (3, 4):
        decoding._schema("protobuf", str(schema))
        assert len(compiled) == expected


def test_a_topic_that_waits_without_a_table_has_all_its_offsets_left(lake: Decoded, capsys) -> None:
    lake.append((b"a", b"one"), (b"b", b"two"), (b"c", b"three"))
    lake.policies.write_text("topics: {orders: {decode.value: avro}}")
    for more in ([], ["--dry-run"]):
        assert main.main(["decode", lake.path, "--policies", str(lake.policies), *more]) == 1
        said = capsys.readouterr().out
        assert said.startswith("orders: waits: ")
        assert said.endswith(" (3 offsets left)\n")
