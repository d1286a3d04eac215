"""The process that decodes a log really dies: the log is decoded the plain way, or waits, on each executor alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.decode import job, plan
from spark_jobs.machine.session import get_session
from spark_jobs.tasks.executor import Executor
from spark_jobs.tasks.local.local_executor import LocalExecutor
from spark_jobs.tasks.spark_executor import SparkExecutor
from tests.jobs.deadly_decoder import always_dies, dies_unless_plain
from tests.jobs.decoded_lake import Decoded

pytestmark = pytest.mark.spark


@pytest.fixture(params=["local", "spark"])
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Executor]:
    if request.param == "spark":
        yield SparkExecutor(get_session(str(tmp_path)))
        return
    local = LocalExecutor(2)
    yield local
    local.stop()


@pytest.fixture
def decode(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], tuple[Decoded, Any]]:
    def run(work: Any) -> tuple[Decoded, Any]:
        lake = Decoded(tmp_path)
        lake.append_elsewhere("orders-1", 3)
        lake.append((b"a", b"one"), (b"b", b"\xff"))
        monkeypatch.setattr(plan, "IN_PROCESS_BYTES", 0)
        monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
        monkeypatch.setattr(job, "decode_rows", work)
        topics: Any = lake.decode().plan["topics"]
        return lake, topics[0]

    return run


def deaths(lake: Decoded) -> list[str]:
    return Path(lake.path).with_name("deaths").read_text().split()


def test_a_log_whose_decoder_died_is_decoded_the_plain_way_and_no_row_is_lost(decode: Any) -> None:
    lake, topic = decode(dies_unless_plain)
    assert topic["waits"] is None
    assert sorted(row["partition"] for row in lake.rows()) == [0, 1, 1, 1]
    assert [row["reason"] for row in lake.rows("undecoded")] == ["INVALID_UTF8"]
    assert set(deaths(lake)) == {"fast"}


def test_a_log_whose_plain_decoder_dies_too_waits_and_the_others_are_decoded(decode: Any) -> None:
    lake, topic = decode(always_dies)
    assert "partition 1 waits" in topic["waits"]
    assert [(row["partition"], row["value"]) for row in lake.rows()] == [(0, "one")]
    assert "plain" in deaths(lake)
