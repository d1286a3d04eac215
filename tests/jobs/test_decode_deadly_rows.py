"""Rows that end the process that decodes them, in jobs: each is undecoded, once, and no other row is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.decode import decode_job
from spark_jobs.engine import job_engine
from spark_jobs.lake.delta.table import Table
from tests.in_process import InProcessExecutor
from tests.jobs.deadly_decoder import DEADLY, MortalExecutor
from tests.jobs.decoded_lake import Decoded
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag

DIED = "DECODER_DIED"
ROWS = 40
NAME = avro({"name": "name", "type": "string"})
OTHER = avro({"name": "name", "type": "long"})


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> MortalExecutor:
    made = MortalExecutor()
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    monkeypatch.setattr(launch, "start_executor", lambda *_: made)
    return made


def places(lake: Decoded, kind: str) -> list[int]:
    return [row["offset"] for row in lake.rows(kind)]


def killed_before_the_second_commit(decode: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    real = Table.commit

    def only_undecoded(self: Table, *arguments: Any, **options: Any) -> None:
        if self.kind == "decoded":
            raise KeyboardInterrupt
        real(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "commit", only_undecoded)
        with pytest.raises(KeyboardInterrupt):
            decode()


@pytest.mark.parametrize("seed", range(6))
def test_deadly_rows_anywhere_are_undecoded_and_all_others_are_decoded(
    tmp_path: Path, executor: MortalExecutor, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    drawn = random.Random(seed)
    monkeypatch.setattr(decode_job, "TASK_ROWS", drawn.choice([7, 1000]))
    deadly = {drawn.randrange(ROWS): drawn.choice(["key", "value", "both"]) for _ in range(drawn.randint(1, 4))}
    rows = [
        (DEADLY if deadly.get(at) in ("key", "both") else b"k", DEADLY if deadly.get(at) in ("value", "both") else b"v")
        for at in range(ROWS)
    ]
    lake = Decoded(tmp_path)
    lake.append(*rows[:25])
    lake.append(*rows[25:])
    topics: Any = lake.decode().plan.topics
    assert topics[0].waits is None
    assert topics[0].undecoded == {DIED: len(deadly)}
    assert places(lake, "decoded") == [at for at in range(ROWS) if at not in deadly]
    found = [(row["offset"], row["part"], row["reason"], row["key"], row["value"]) for row in lake.rows("undecoded")]
    assert found == [(at, "value" if deadly[at] == "value" else "key", DIED, *rows[at]) for at in sorted(deadly)]
    halvings = 6  # of 40 offsets
    assert executor.tried <= 10 + len(deadly) * 4 * (halvings + 2)


def test_a_row_stays_given_up_if_the_run_was_killed_between_its_commits(
    tmp_path: Path, executor: MortalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Decoded(tmp_path)
    lake.append((b"a", b"one"), (b"b", DEADLY), (DEADLY, b"x"), (b"c", b"\xff"), (b"d", b"five"))
    killed_before_the_second_commit(lake.decode, monkeypatch)
    before = lake.rows("undecoded")
    assert [(row["offset"], row["reason"]) for row in before] == [(1, DIED), (2, DIED), (3, "INVALID_UTF8")]
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())  # nothing is deadly any more
    lake.append((b"e", b"six"))
    lake.decode()
    assert places(lake, "decoded") == [0, 4, 5]
    assert lake.rows("undecoded") == before
    lake.decode(replace=("orders",))
    assert places(lake, "decoded") == [0, 1, 2, 4, 5]
    assert places(lake, "undecoded") == [3]


def test_a_row_that_an_earlier_run_decoded_is_not_given_up(
    tmp_path: Path, executor: MortalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Decoded(tmp_path)
    lake.append((b"a", b"one"), (b"b", DEADLY))
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    killed_before_the_second_commit(lake.decode, monkeypatch)
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
    topics: Any = lake.decode().plan.topics
    assert "the worker that decoded offset 1 died. An earlier run decoded it" in topics[0].waits
    assert lake.rows() == []
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    lake.decode()
    assert places(lake, "decoded") == [0, 1]


def test_a_deadly_value_keeps_the_id_of_its_schema_and_a_stop_after_it_holds(
    tmp_path: Path, executor: MortalExecutor
) -> None:
    lake = Registered(tmp_path)
    lake.register(1, NAME)
    lake.register(2, OTHER, version=2)
    lake.append(
        *((b"k", named(1, text(name))) for name in ("a", "deadly", "c")),
        *((b"k", named(2, zigzag(7))), (b"k", named(1, text("deadly"))), (b"k", named(1, text("f")))),
    )
    assert "partition 0 waits at offset 3" in str(lake.said())
    assert lake.values() == [{"name": "a"}, {"name": "c"}]
    assert lake.reasons() == [(1, 1, DIED)]
    lake.policy("    on_schema_change: undecoded\n")
    assert lake.said() is None
    assert lake.values() == [{"name": "a"}, {"name": "c"}, {"name": "f"}]
    assert lake.reasons() == [(1, 1, DIED), (3, 2, "INCOMPATIBLE_SCHEMA"), (4, 1, DIED)]


def test_the_line_of_a_topic_says_what_was_decoded_again(
    tmp_path: Path, executor: MortalExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    from logcore.cli.main import main

    lake = Decoded(tmp_path)
    lake.append((b"a", b"one"), (b"b", DEADLY))
    assert main(["decode", lake.path, "--policies", str(lake.policies)]) == 1
    said = capsys.readouterr().out
    assert "orders: 1 decoded, 1 undecoded, 1 DECODER_DIED, 0 offsets left" in said
    assert "decoded row by row after a worker died: partition 0 offsets [0, 2)" in said
