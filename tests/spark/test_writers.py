"""Spark's own Parquet writer and ours put the same rows into the table: each is the other's oracle."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.archived_rows.records_file import WriteTask, write_records
from spark_jobs.contracts import PublishConfig
from spark_jobs.engine.session import get_session
from spark_jobs.lake.store.written_file import WriteResult
from tests.spark.cycle import AS_OF_MS, Lake
from tests.spark.spark_writer import write_records_with_spark

pytestmark = pytest.mark.spark


class SparkWriter:
    """Has Spark's own writer do the work of ``write_records``."""

    def __init__(self, lake: str, engine: str | None = None, job: str = "") -> None:
        self._lake = lake

    def run(
        self, work: Callable[[WriteTask], WriteResult], tasks: Sequence[WriteTask], sizes: Sequence[int] | None = None
    ) -> list[WriteResult]:
        assert work is write_records
        return write_records_with_spark(get_session(self._lake), self._lake, tasks)


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.rows("records"), key=lambda row: (row["log_id"], row["partition"], row["offset"]))


def statistics_of(lake: Lake) -> list[dict[str, Any]]:
    """What the table's statistics say of its files, whatever they are called."""
    actions = pa.table(DeltaTable(str(lake.path / "tables" / "records")).get_add_actions(flatten=True)).to_pylist()
    own = {"path", "size_bytes", "modification_time"}
    listed = [{name: value for name, value in sorted(action.items()) if name not in own} for action in actions]
    return sorted(listed, key=repr)


@pytest.mark.long
@pytest.mark.parametrize("name", ["timestamps-v2-4.4.0", "transactions-4.4.0", "codecs-v2-4.3.1"])
def test_both_writers_publish_the_same_rows_in_every_column(sample, tmp_path, monkeypatch, name):
    ours = Lake(tmp_path / "ours")
    ours.turn(sample(name).logdir, publish=False)
    theirs = Lake(Path(shutil.copytree(ours.path, tmp_path / "theirs")))
    for lake in (ours, theirs):
        if lake is theirs:
            monkeypatch.setattr(launch, "start_executor", SparkWriter)
        report = launch.run(PublishConfig(str(lake.path), "publish", AS_OF_MS))
        assert report.metrics["records"]
        assert not report.findings
    assert rows_of(theirs) == rows_of(ours)
    assert statistics_of(theirs) == statistics_of(ours)
    # nothing of Spark's committer is left, and no file that the table does not name
    folder = theirs.path / "tables" / "records"
    live = {str(folder / path) for path in DeltaTable(str(folder)).file_uris()}
    left = {str(path) for path in folder.rglob("*") if path.is_file() and "_delta_log" not in path.parts}
    assert left <= live | {path.removeprefix("file://") for path in live}
