"""The policies `parquet.codec` and `parquet.level`: they change how files of records are stored, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, OptimizeConfig, PublishConfig, ReplaceConfig, ValidateConfig
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, Lake

IN_FILES = {"zstd": "ZSTD", "lz4": "LZ4", "snappy": "SNAPPY", "none": "UNCOMPRESSED"}


class Policed:
    """A source of one log, its lake, and the policies that its runs follow."""

    def __init__(self, folder: Path) -> None:
        self.source, self.lake = LogDirectory(folder / "source"), Lake(folder / "lake")
        self.orders: Partition = self.source.partition("orders-0")
        self.path = folder / "policies.yaml"
        self.runs = 0

    def say(self, *settings: str) -> None:
        self.path.write_text("topics:\n  orders:\n" + "".join(f"    {each}\n" for each in settings))

    def grow(self, isolation_level: str = "read_committed") -> None:
        self.orders.append(40)
        self.source.high_watermarks(orders_0=self.orders.next_offset)
        self.runs += 1
        lake, run_id, policies = str(self.lake.path), f"run-{self.runs}", str(self.path)
        launch.run(IngestConfig(lake, (str(self.source.path),), run_id, AS_OF_MS, policies=read_policies(policies)))
        launch.run(ValidateConfig(lake, run_id, AS_OF_MS, policies=read_policies(policies)))
        publish = PublishConfig(
            lake, run_id, AS_OF_MS, policies=read_policies(policies), isolation_level=isolation_level
        )
        launch.run(publish)

    def table(self, name: str = "records") -> DeltaTable:
        return DeltaTable(str(self.lake.path / "tables" / name))

    def codecs(self, name: str = "records") -> Counter[str]:
        """Number of live files by the codec of their values."""
        found: Counter[str] = Counter()
        for path in self.table(name).file_uris():
            metadata = pq.read_metadata(path)
            columns = [metadata.row_group(0).column(at) for at in range(metadata.num_columns)]
            found.update(column.compression for column in columns if column.path_in_schema == "value")
        return found

    def is_proved(self) -> bool:
        return main(["verify", str(self.lake.path)]) == 0


@pytest.fixture
def policed(tmp_path: Path) -> Policed:
    return Policed(tmp_path)


@pytest.mark.parametrize("codec", IN_FILES)
def test_publish_writes_files_of_the_codec_that_the_policy_names(policed: Policed, codec: str) -> None:
    policed.say(f"parquet.codec: {codec}")
    policed.grow("read_uncommitted")
    assert policed.codecs() == policed.codecs("records_uncommitted") == {IN_FILES[codec]: 1}
    assert policed.lake.published("orders") == policed.orders.rows
    assert policed.is_proved()


@pytest.mark.long
def test_files_of_earlier_policies_stay_right_and_a_merge_follows_the_present_one(policed: Policed) -> None:
    for codec in IN_FILES:
        policed.say(f"parquet.codec: {codec}")
        policed.grow()
    assert policed.codecs() == dict.fromkeys(IN_FILES.values(), 1)
    assert policed.is_proved()
    version = policed.table().version()
    lake, policies = str(policed.lake.path), str(policed.path)
    policed.say("parquet.codec: lz4")
    launch.run(ReplaceConfig(lake, "replace", AS_OF_MS, start_offset=0, policies=read_policies(policies)))
    assert policed.table().version() == version, "another codec is no difference of rows"
    launch.run(OptimizeConfig(lake, "optimize", AS_OF_MS, apply=True, policies=read_policies(policies)))
    assert policed.codecs() == {"LZ4": 1}
    assert policed.lake.published("orders") == policed.orders.rows
    assert policed.is_proved()


def test_a_replacement_writes_files_of_the_present_codec(policed: Policed) -> None:
    policed.say("parquet.codec: zstd")
    policed.grow()
    policed.table().delete("offset = 3")
    policed.say("parquet.codec: snappy")
    config = ReplaceConfig(
        str(policed.lake.path), "replace", AS_OF_MS, start_offset=0, policies=read_policies(str(policed.path))
    )
    launch.run(config)
    assert policed.codecs() == {"SNAPPY": 1}
    assert policed.lake.published("orders") == policed.orders.rows


def test_a_level_changes_the_bytes_of_a_file_and_not_the_digest_of_its_rows(tmp_path: Path) -> None:
    sizes, digests = set(), set()
    for level in (-7, 19):
        policed = Policed(tmp_path / str(level))
        policed.say(f"parquet.level: {level}")
        policed.grow()
        (path,) = policed.table().file_uris()
        sizes.add(Path(path).stat().st_size)
        digests.add(pq.read_metadata(path).metadata[b"loglake.rows"])
    assert len(sizes) == 2
    assert len(digests) == 1
