"""The process that decodes a log really dies: of the fast way, of one row, or always; on each executor alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.decode import decode_job
from spark_jobs.engine import job_engine
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.local_executor import LocalExecutor
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from tests.jobs.deadly_decoder import DEADLY, always_dies, dies_of_a_row, dies_unless_plain
from tests.jobs.decoded_lake import Decoded

pytestmark = pytest.mark.spark

ROWS = ((b"a", b"one"), (b"b", b"\xff"), (b"c", b"three"), (b"d", b"four"))
HALVINGS = 3
"""Of five rows until one is left."""


@pytest.fixture(params=["local", "spark"])
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Executor]:
    if request.param == "spark":
        yield SparkExecutor(get_session(str(tmp_path)))
        return
    local = LocalExecutor(2)
    yield local
    local.stop()


@pytest.fixture
def decode(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Decoded, Any]]:
    def run(work: Any, *more: tuple[bytes, bytes]) -> tuple[Decoded, Any]:
        lake = Decoded(tmp_path)
        lake.append_elsewhere("orders-1", 3)
        lake.append(*ROWS, *more)
        monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
        monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
        monkeypatch.setattr(decode_job, "decode_rows", work)
        topics: Any = lake.decode().plan.topics
        return lake, topics[0]

    return run


def deaths(lake: Decoded) -> list[str]:
    return Path(lake.path).with_name("deaths").read_text().split()


def test_a_log_whose_decoder_died_is_decoded_the_plain_way_and_the_report_says_so(decode: Any) -> None:
    lake, topic = decode(dies_unless_plain)
    assert topic.waits is None
    assert sorted(row["partition"] for row in lake.rows()) == [0, 0, 0, 1, 1, 1]
    assert [row["reason"] for row in lake.rows("undecoded")] == ["INVALID_UTF8"]
    assert set(deaths(lake)) == {"fast"}
    assert topic.retried.startswith("decoded row by row after a worker died: partition ")
    assert "partition 1 offsets [0, 3)" in topic.retried


@pytest.mark.long
def test_a_row_that_ends_its_worker_on_each_try_is_undecoded_and_all_others_are_decoded(decode: Any) -> None:
    lake, topic = decode(dies_of_a_row, (b"e", b"a " + DEADLY + b" value"))
    assert topic.waits is None
    assert topic.undecoded == {"DECODER_DIED": 1, "INVALID_UTF8": 1}
    assert sorted((row["partition"], row["offset"]) for row in lake.rows()) == [
        *((0, 0), (0, 2), (0, 3)),
        *((1, 0), (1, 1), (1, 2)),
    ]
    rows = [(row["offset"], row["part"], row["value"], row["reason"]) for row in lake.rows("undecoded")]
    assert rows == [(1, "value", b"\xff", "INVALID_UTF8"), (4, "value", b"a deadly value", "DECODER_DIED")]
    assert "partition 0 offsets [0, 5)" in topic.retried
    assert 2 <= len(deaths(lake)) <= 2 * 2 * (1 + HALVINGS)


@pytest.mark.long
def test_a_log_whose_worker_dies_without_decoding_waits_and_the_others_are_decoded(decode: Any) -> None:
    lake, topic = decode(always_dies)
    assert "partition 1 waits" in topic.waits
    assert "also when it did not decode the row" in topic.waits
    assert [(row["partition"], row["value"]) for row in lake.rows()] == [(0, "one"), (0, "three"), (0, "four")]
    assert "plain" in deaths(lake)
