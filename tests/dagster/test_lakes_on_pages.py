"""What a person finds on the pages after runs of the command line: every lake, wherever it lies, and only its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from pipelines.run.chains import INTAKE_JOB
from pipelines.run.run_request import RunRequest
from spark_jobs.lake.setup.registry import register
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory
from tests.dagster.conftest import loglake
from tests.dagster.fake_jobs import World
from tests.dagster.test_running import made
from tests.pages import Pages, open_pages, wait_for

pytestmark = pytest.mark.dagster

RUNS = "query { runsOrError { ... on Runs { results { jobName } } } }"
ASSETS = "query { assetNodes { assetKey { path } partitionKeys } }"
STATUS = """query($k: [AssetKeyInput!]) { assetNodes(assetKeys: $k) { assetPartitionStatuses {
  ... on DefaultPartitionStatuses { materializedPartitions failedPartitions unmaterializedPartitions } } } }"""


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two lakes at places of their own, of clusters that both have a topic of one name."""
    folder = tmp_path_factory.mktemp("lakes")
    for name, partitions in (("north", 2), ("south", 1)):
        source = LogDirectory(folder / f"{name}-logs")
        for number in range(partitions):
            source.partition(f"orders-{number}").append(4)
        source.high_watermarks(**{f"orders_{number}": 4 for number in range(partitions)})
        lake = folder / "elsewhere" / name
        done = loglake("run", source.path, "--lake", lake, LOGLAKE_HOME=str(folder / "home"))
        assert done.returncode == 0, done.stderr
    return folder / "home"


@pytest.fixture(scope="module")
def pages(lakes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with open_pages(lakes, tmp_path_factory.mktemp("pages")) as pages:
        yield pages


def keys_of(pages: Pages, lake: str, asset: str) -> list[str]:
    """Partition keys of an asset."""
    nodes = pages.ask(ASSETS)["assetNodes"]
    (found,) = [node["partitionKeys"] for node in nodes if node["assetKey"]["path"] == [lake, asset]]
    return found


def test_nothing_of_the_framework_is_on_the_screen_when_the_pages_start(pages: Pages) -> None:
    assert pages.log.read_text() == f"{pages.address}/\nCtrl-C ends it.\n"


def test_the_command_line_makes_no_run_on_the_pages(pages: Pages) -> None:
    assert pages.ask(RUNS)["runsOrError"]["results"] == []


def test_two_clusters_with_a_topic_of_one_name_share_no_status(pages: Pages) -> None:
    assert keys_of(pages, "north", "records") == ["orders-0", "orders-1"]
    assert keys_of(pages, "south", "records") == ["orders-0"]


@pytest.mark.long
def test_materialize_all_does_so_in_every_lake(pages: Pages) -> None:
    assets = [
        {"path": [lake, asset]}
        for lake in ("north", "south")
        for asset in ("archived_segments", "validated_segments", "records")
    ]

    state = pages.backfill(assetSelection=assets, allPartitions=True)

    assert state["status"] == "COMPLETED_SUCCESS"
    assert [run["status"] for run in state["runs"]] == ["SUCCESS", "SUCCESS"]
    for asset in assets:
        (node,) = pages.ask(STATUS, k=[asset])["assetNodes"]
        assert node["assetPartitionStatuses"]["unmaterializedPartitions"] == []


@pytest.mark.long
def test_a_lake_that_is_added_appears_by_itself(pages: Pages, lakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(lakes))
    register(str(lakes.parent / "later" / "east"))

    wait_for(lambda: any(node["assetKey"]["path"][0] == "east" for node in pages.ask(ASSETS)["assetNodes"]), pages)


@pytest.mark.long
def test_a_lake_that_is_added_appears_on_read_only_pages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    register(str(tmp_path / "west"))
    with open_pages(tmp_path / "home", tmp_path, "--read-only") as pages:
        register(str(tmp_path / "east"))

        wait_for(lambda: any(node["assetKey"]["path"][0] == "east" for node in pages.ask(ASSETS)["assetNodes"]), pages)


@pytest.mark.long
def test_the_pages_listen_on_this_machine_only_and_say_where_a_lake_is(lakes: Path, tmp_path: Path) -> None:
    nothing = loglake("ui", tmp_path / "no-lake", LOGLAKE_HOME=str(lakes))
    assert nothing.returncode == 64
    assert f"no lake at {tmp_path / 'no-lake'}" in nothing.stderr
    lake = lakes.parent / "elsewhere" / "south"
    with open_pages(tmp_path / "another home", tmp_path, str(lake), "--read-only") as pages:
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        addresses = {local for _, local, _, state, *_ in listening if state == "0A"}
        assert f"0100007F:{pages.port:04X}" in addresses
        assert f"00000000:{pages.port:04X}" not in addresses
        assert f"{pages.address}/locations/loglake/asset-groups/south/lineage" in pages.log.read_text()
        busy = loglake("ui", "--port", str(pages.port), LOGLAKE_HOME=str(lakes))
    assert busy.returncode == 64
    assert "--port" in busy.stderr


def test_a_run_that_chose_topic_partitions_is_on_the_pages_too(
    instance: dg.DagsterInstance, world: World, source: Path, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 3, "orders-1": 3}
    made(instance, tmp_path).run(
        INTAKE_JOB, str(tmp_path / "lake"), RunRequest((str(source),), logs=("orders-1",)), NO_POLICIES
    )

    assert instance.get_materialized_partitions(dg.AssetKey(["lake", "records"])) == {"orders-1"}
