"""Cluster ids as Kafka's own tools write them: any text, also in the ids of logs of topics without an id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.errors import LakeRefused, UsageError
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.spark.cycle import Lake

WRITTEN = {
    "MkU3OEVBNTcwNTJENDM2Qg\\=\\=": "MkU3OEVBNTcwNTJENDM2Qg==",
    "a+b/c d": "a+b/c d",
    "../../x": "../../x",
    "gr\\u00fcn\\ud83d\\udc0d": "grün\U0001f40d",
    "\\u001b[31m": "\x1b[31m",
}
"""As `meta.properties` has it, and what `java.util.Properties` makes of it."""


@pytest.fixture(autouse=True)
def _in_process():
    with without_spark():
        yield


def source_of(path: Path, cluster: str, *, topic_id: str | None = None) -> LogDirectory:
    """`orders-0` with 13 records, of which a broker of Windows wrote the files around."""
    source = LogDirectory(path, cluster=None)
    (path / "meta.properties").write_bytes(f"#\r\nnode.id=1\r\nversion=1\r\ncluster.id={cluster}\r\n".encode("latin-1"))
    source.partition("orders-0", topic_id).append(13)
    (path / "replication-offset-checkpoint").write_bytes(b"0\r\n1\r\norders 0 13\r\n")
    (path / "log-start-offset-checkpoint").write_bytes(b"0\r\n1\r\norders 0 2\r\n")
    return source


@pytest.mark.parametrize("written", WRITTEN)
def test_a_source_of_any_cluster_id_is_published(written: str, tmp_path: Path) -> None:
    source, lake = source_of(tmp_path / "source", written), Lake(tmp_path / "lake")
    lake.turn(source.path)
    assert json.loads((lake.path / "lake.json").read_text())["cluster"] == WRITTEN[written]
    assert sorted(lake.published("orders")) == list(range(2, 13))
    (log,) = lake.rows("logs")
    assert log["cluster"] == WRITTEN[written]
    topic, _, rest = log["log"].partition("@")
    assert topic == "orders"
    assert rest.count("/") == 1
    assert rest.isascii()
    assert rest.isprintable()
    lake.turn(source.path)
    assert len(lake.rows("records")) == 11
    assert {path.name for path in (lake.path / "archive").iterdir()} == {log["log"].rpartition("/")[0]}


def test_a_name_of_the_operator_counts_instead_of_the_id(tmp_path: Path) -> None:
    source, lake = source_of(tmp_path / "source", "a b"), Lake(tmp_path / "lake")
    lake.turn(source.path, cluster="mine")
    assert json.loads((lake.path / "lake.json").read_text())["cluster"] == "mine"
    assert len(lake.published("orders")) == 11


def test_a_refusal_names_the_file_that_states_the_cluster(tmp_path: Path) -> None:
    one, other, lake = source_of(tmp_path / "one", "A"), source_of(tmp_path / "other", "B\\="), Lake(tmp_path / "lake")
    lake.turn(one.path)
    with pytest.raises(LakeRefused) as refused:
        lake.turn(other.path)
    assert f"holds cluster A, this source is of cluster B= ({other.path}/meta.properties)" in str(refused.value)
    with pytest.raises(UsageError) as wrong:
        Lake(tmp_path / "new").turn(one.path, other.path)
    assert f"(A in {one.path}/meta.properties, B= in {other.path}/meta.properties)" in str(wrong.value)
