"""The cluster's tables and `from: cluster`, from the data of a ZooKeeper among the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig, JobReport, RetentionConfig
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.spark.archived import append_segment
from tests.spark.cycle import AS_OF_MS, Lake
from tests.zookeeper_files import as_json, change, node, numbered, snapshot, write

NEWEST = 1_700_000_004_000
"""The newest segment's time; the four segments are a second apart."""


class Sources:
    """A log directory of a broker before Kafka 2.8, and the data of its ZooKeeper."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = LogDirectory(folder / "source")
        orders = self.logs.partition("orders-0", None)
        for i in range(4):
            append_segment(orders, [(b"k%d" % (n % 3), b"v") for n in range(10)], 1_700_000_001_000 + 1000 * i)
        self.logs.high_watermarks(orders_0=40)
        self.lake = Lake(folder / "lake")
        self.lake.turn(self.logs.path, topics=("orders",))
        self.zookeeper = write(
            folder / "zookeeper",
            {
                "snapshot.8": snapshot(
                    node("/brokers/topics"),
                    node("/brokers/topics/orders", as_json(version=1, partitions={"0": [1], "1": [2]}), zxid=6),
                    node("/brokers/topics/others", as_json(version=1, partitions={"0": [2]}), zxid=7),
                    node("/config/topics/orders", settings("2000"), zxid=8),
                )
            },
        )

    def read(self, *, only_metadata: bool = False) -> JobReport:
        sources = str(self.logs.path), str(self.zookeeper)
        return launch.run(ClusterConfig(str(self.lake.path), "run", AS_OF_MS, sources, only_metadata=only_metadata))


def settings(retention_ms: str) -> str:
    return as_json(version=1, config={"cleanup.policy": "delete", "retention.ms": retention_ms})


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def test_topics_without_ids_have_rows_of_their_own_and_a_second_reading_writes_nothing(sources: Sources) -> None:
    sources.read()
    rows = sources.lake.rows("cluster_topics")
    assert [(row["topic"], row["topic_id"], row["valid_from_offset"], row["standing"]) for row in rows] == [
        ("orders", None, 6, "committed"),
        ("others", None, 7, "committed"),
    ]
    partitions = sources.lake.rows("cluster_partitions")
    assert [(row["topic"], row["partition"], row["replicas"]) for row in partitions] == [
        ("orders", 0, [1]),
        ("orders", 1, [2]),
        ("others", 0, [2]),
    ]
    sources.read()
    assert sources.lake.rows("cluster_topics") == rows


def test_a_setting_that_changed_ends_one_row_and_begins_another(sources: Sources) -> None:
    sources.read()
    write(sources.zookeeper, {"log.9": numbered(change("/config/topics/orders", settings("9000")), first=9)})
    sources.read()
    rows = [row for row in sources.lake.rows("cluster_topic_configs") if row["name"] == "retention.ms"]
    assert sorted((row["value"], row["valid_from_offset"], row["valid_to_offset"]) for row in rows) == [
        ("2000", 8, 9),
        ("9000", 9, None),
    ]


def test_retention_takes_the_settings_that_zookeeper_has(sources: Sources) -> None:
    sources.read(only_metadata=True)
    policies = sources.folder / "policies.yaml"
    policies.write_text("topics: {orders: {from: cluster}}")
    config = RetentionConfig(str(sources.lake.path), "retain", NEWEST + 500, read_policies(str(policies)))
    plan = launch.run(config).plan
    assert [segment.base_offset for log in plan.logs for segment in log.segments] == [0, 10]
