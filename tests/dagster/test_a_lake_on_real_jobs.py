"""One lake on real jobs, from its first run to a backfill on Dagster's pages: tests of one story, in its order."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.dagster.conftest import loglake
from tests.pages import Pages, open_pages

pytestmark = [pytest.mark.dagster, pytest.mark.spark]


@dataclass
class Place:
    """A source with three sound logs and a damaged one, and the lake it was taken into."""

    source: LogDirectory
    lake: Path
    home: Path
    first: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """After the first run."""
    folder = tmp_path_factory.mktemp("run")
    source = LogDirectory(folder / "kafka-logs")
    for number in range(3):
        source.partition(f"orders-{number}").append(12)
    payments = source.partition("payments-3", OTHER_TOPIC_ID)
    payments.append(15)
    first = payments.segments()[0]
    whole = first.read_bytes()
    first.write_bytes(handmade.flip(whole, handmade.size_of(whole) + 80))
    payments.roll()
    payments.append(5)
    source.high_watermarks(orders_0=12, orders_1=12, orders_2=12, payments_3=20)
    lake = folder / "lake"
    home = folder / "home"
    return Place(source, lake, home, loglake("run", source.path, "--lake", lake, LOGLAKE_HOME=str(home)))


def versions(lake: Path) -> dict[str, int]:
    """Version of each table."""
    return {p.parent.name: DeltaTable(str(p.parent)).version() for p in lake.glob("tables/*/_delta_log")}


def test_a_run_prints_a_line_a_topic_partition_the_damage_and_where_the_tables_are(place: Place) -> None:
    done = place.first

    assert done.returncode == 2, done.stderr  # damage found
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert " ".join(rows["topic"]) == "topic partition segments batches records findings present corrupt published to"
    assert rows["orders-0"] == ["orders-0", "1", "3", "12", "0", "12", "12"]
    assert rows["payments-3"][:4] == ["payments-3", "2", "3", "15"]
    assert rows["payments-3"][-1] == "5"
    (damage,) = [line for line in done.stdout.splitlines() if line.startswith("damage:")]
    assert "payments-3" in damage
    assert "offsets [5, 10)" in damage
    assert "00000000000000000000.log" in damage
    assert str(place.lake / "tables" / "records") in done.stdout
    assert "nothing new" not in done.stdout
    assert done.stderr == ""


def test_a_rerun_says_nothing_new_starts_no_jvm_moves_no_table_and_answers_the_same(
    place: Place, tmp_path: Path
) -> None:
    java, before = tmp_path / "bin" / "java", versions(place.lake)
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)

    done = loglake(
        "run", place.source.path, "--lake", place.lake, LOGLAKE_HOME=str(place.home), JAVA_HOME=str(tmp_path)
    )

    assert done.returncode == 2, done.stderr
    assert done.stdout.splitlines()[-1].startswith("nothing new; open: 1 damaged log")
    assert done.stdout.splitlines()[:3] == place.first.stdout.splitlines()[:3]
    assert not (tmp_path / "started").exists()
    assert versions(place.lake) == before
    assert {"records", "offset_ledger", "findings"} <= set(before)


@pytest.mark.long
def test_only_what_is_chosen_counts_for_the_answer(place: Place) -> None:
    sound = loglake("run", place.source.path, "--lake", place.lake, "--topic", "orders", LOGLAKE_HOME=str(place.home))
    damaged = loglake(
        "run", place.source.path, "--lake", place.lake, "--partition", "payments-3", LOGLAKE_HOME=str(place.home)
    )

    assert sound.returncode == 0, sound.stderr
    assert "orders-0" in sound.stdout
    assert "payments-3" not in sound.stdout
    assert damaged.returncode == 2
    assert "orders-0" not in damaged.stdout


@pytest.mark.long
def test_a_missing_path_is_reported_and_the_rest_continues(place: Place, tmp_path: Path) -> None:
    home = str(tmp_path / "home")  # a lake of its own: a missing source stays registered, and later runs fail
    done = loglake("run", place.source.path, tmp_path / "not-mounted", "--lake", tmp_path / "lake", LOGLAKE_HOME=home)

    assert done.returncode == 3
    assert "not-mounted" in done.stderr
    assert "Traceback" not in done.stderr
    assert "orders-0" in done.stdout


@pytest.fixture
def pages(place: Place, tmp_path: Path) -> Iterator[Pages]:
    """The pages on the command line's instance."""
    with open_pages(place.home, tmp_path) as pages:
        yield pages


@pytest.mark.long
def test_a_backfill_of_two_topic_partitions_takes_in_and_publishes_those_and_no_others(
    pages: Pages, place: Place
) -> None:
    for number in range(3):
        grown = place.source.partition(f"orders-{number}")
        grown.next_offset = 12
        grown.append(5)
    place.source.high_watermarks(orders_0=17, orders_1=17, orders_2=17, payments_3=20)
    assets = ("archived_segments", "validated_segments", "records")

    chosen = {
        "assetSelection": [{"path": [place.lake.name, name]} for name in assets],
        "partitionNames": ["orders-0", "orders-1"],
    }
    state = pages.backfill(**chosen)

    assert state["status"] == "COMPLETED_SUCCESS"
    (run,) = state["runs"]  # neighbours are one run, and so one Spark session
    assert run["status"] == "SUCCESS"
    rows = DeltaTable(str(place.lake / "tables" / "records")).to_pyarrow_table(columns=["topic", "partition", "offset"])
    ends: dict[str, int] = {}
    for row in rows.to_pylist():
        name = f"{row['topic']}-{row['partition']}"
        ends[name] = max(ends.get(name, 0), row["offset"] + 1)
    assert ends == {"orders-0": 17, "orders-1": 17, "orders-2": 12, "payments-3": 5}
    assert rows.num_rows == 17 + 17 + 12 + 5
    with dg.DagsterInstance.from_config(str(place.home / "dagster")) as instance:
        for asset in assets:
            events = instance.fetch_materializations(dg.AssetKey([place.lake.name, asset]), limit=100).records
            keys = [event.partition_key for event in events if event.run_id == run["id"]]
            assert sorted(keys) == ["orders-0", "orders-1"]
