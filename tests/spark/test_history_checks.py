"""The checks of the newest rows against the rows before them find the same on Spark as in the test's process."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import (
    DecodeConfig,
    ExpectationsConfig,
    IngestConfig,
    JobReport,
    PublishConfig,
    ValidateConfig,
)
from spark_jobs.expectations import row_history
from spark_jobs.machine.session import get_session
from spark_jobs.tasks.executor import Executor
from spark_jobs.tasks.spark_executor import SparkExecutor
from tests.crash import visible
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded
from tests.spark.cycle import AS_OF_MS

pytestmark = [pytest.mark.spark, pytest.mark.long]

POLICIES = "topics:\n  orders: {decode.key: bytes, decode.value: json, decode.value.schema: order.json}\n"
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "price": {"type": "number"}}}
WHOLE, WITHOUT = b'{"id":7,"price":1.5}', b'{"id":7}'
OF_SPARK: list[str] = []
"""Names of functions that Spark's workers ran for this test."""


class Counting:
    """Spark, and which functions it was given."""

    def __init__(self, session: Any) -> None:
        self.spark = SparkExecutor(session)

    def run(self, work: Any, tasks: Any, sizes: Any = None) -> list[Any]:
        OF_SPARK.extend([work.__name__] * len(tasks))
        return self.spark.run(work, tasks, sizes)


def written(tmp_path: Path) -> Decoded:
    """A lake with 100 rows, and ten newer ones: five without a price, and eight keys that are text."""
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    lake = Decoded(tmp_path, POLICIES)
    for turn, rows in enumerate(
        (
            [(struct.pack(">i", number), WHOLE) for number in range(100)],
            [
                (
                    b"customer-%d" % number if number >= 2 else struct.pack(">i", number),
                    WITHOUT if number % 2 else WHOLE,
                )
                for number in range(10)
            ],
        )
    ):
        lake.write(*rows)
        stated = (lake.path, f"run-{turn}", AS_OF_MS + turn)
        launch.run("ingest", IngestConfig(lake.path, (str(lake.source.path),), *stated[1:]))
        launch.run("validate", ValidateConfig(*stated))
        launch.run("publish", PublishConfig(*stated))
        launch.run("decode", DecodeConfig(*stated, str(lake.policies)))
    return lake


def checked(lake: Decoded, executor: Executor, monkeypatch: pytest.MonkeyPatch) -> JobReport:
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
    [log] = [row["log"] for row in visible.rows(Path(lake.path), "logs")]
    config = ExpectationsConfig(lake.path, "check", AS_OF_MS + 2, {log: (100, 110)}, str(lake.policies))
    return launch.run("expectations", config)


def test_shares_of_nulls_and_kinds_of_keys_are_those_that_this_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    lake = written(tmp_path)
    kept = Path(shutil.copytree(lake.path, tmp_path / "kept"))
    here = checked(lake, InProcessExecutor(), monkeypatch)
    shutil.rmtree(lake.path)
    kept.rename(lake.path)
    OF_SPARK.clear()
    there = checked(lake, Counting(get_session(lake.path)), monkeypatch)
    assert OF_SPARK.count(row_history.count_file.__name__) >= 4, "a file of records and one of the decoded table, twice"
    found = [
        {each["name"]: (each["success"], each["observed"]) for each in report.plan["expectations"]}
        for report in (here, there)
    ]
    assert found[0] == found[1]
    nulls, keys = found[1]["null_share_steady of orders"], found[1]["key_type_steady of orders"]
    assert nulls == (
        False,
        "value.price is null in 5 of 10 newest rows, before that in 0 of 100; first at partition 0, offset 101",
    )
    assert keys == (
        False,
        "8 of 10 newest keys are text, before that 0 of 100, and most were 4 bytes; first at partition 0, offset 102",
    )
    places = [[(each["rule"], each["start_offset"]) for each in report.findings] for report in (here, there)]
    assert places[0] == places[1]
    assert set(places[1]) == {("null-share-departs", 101), ("key-type-changed", 102)}
