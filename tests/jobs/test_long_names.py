"""A topic may have 249 characters; what is named after it is taken in, published and recovered all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import OptimizeConfig
from tests.broker_directory import TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

LONGEST = 249
CLUSTER = "c" * LONGEST
FIRST, SECOND = "t" * LONGEST, "t" * (LONGEST - 1) + "u"


@pytest.mark.parametrize("topic_id", [None, TOPIC_ID], ids=["without-topic-ids", "with-topic-ids"])
def test_topics_of_249_characters_are_published_each_from_its_own_folder(tmp_path: Path, lake: Lake, topic_id):
    source = LogDirectory(tmp_path / "source", cluster=None)
    logs = {topic: source.partition(f"{topic}-0", topic_id) for topic in (FIRST, SECOND)}
    if topic_id:
        logs[SECOND] = source.partition(f"{SECOND}-0", "CCCCCCCCCCCCCCCCCCCCCw")
    for number, log in enumerate(logs.values()):
        log.append(10 + number)
        log.roll()
        log.append(10)
    source.high_watermarks(**{f"{topic}_0": log.next_offset for topic, log in logs.items()})
    lake.turn(source.path, cluster=CLUSTER)
    for topic, log in logs.items():
        assert lake.published(topic) == log.rows
        log.append(5)
    source.high_watermarks(**{f"{topic}_0": log.next_offset for topic, log in logs.items()})
    lake.turn(source.path, cluster=CLUSTER)
    for topic, log in logs.items():
        assert lake.published(topic) == log.rows
    assert lake.rules() == {"no-meta-properties"}  # the source has no file that says its cluster
    folders = {(row["topic"], str(Path(row["path"]).parent.parent)) for row in lake.rows("segments")}
    assert len(folders) == len({folder for _, folder in folders}) == 2
    assert all((lake.path / folder).is_dir() for _, folder in folders)
    launch.run(OptimizeConfig(str(lake.path), "optimize", AS_OF_MS, apply=True))
    for topic, log in logs.items():
        assert lake.published(topic) == log.rows


def test_a_partition_directory_of_a_topic_of_249_characters_is_recovered(tmp_path: Path):
    source = LogDirectory(tmp_path / "source")
    log = source.partition(f"{FIRST}-12345")
    log.append(20)
    out = tmp_path / "out" / f"{FIRST}-12345"
    assert main(["recover", str(log.path), "--out", str(out)]) in (0, 1)
    assert sorted(path.name for path in out.glob("*.log")) == [path.name for path in log.segments()]
    assert out.joinpath(log.segments()[0].name).read_bytes() == log.segments()[0].read_bytes()
