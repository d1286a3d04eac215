"""A lake works under every name that a directory can have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ExpectationsConfig, OptimizeConfig, ReplaceConfig
from spark_jobs.errors import UsageError
from spark_jobs.lake.delta.tables import delta_location
from spark_jobs.lake.store import storage
from tests.broker_directory import LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake, states

pytestmark = pytest.mark.spark

HARD_NAMES = ["p%20c/lake #1?", "[a]{b}\\c", "e\u0301 日本 %2F"]


def copied(lake: Lake, to: Path) -> Lake:
    """The lake under a plain name, where deltalake reads it without any help of ours."""
    shutil.rmtree(to, ignore_errors=True)
    return Lake(Path(shutil.copytree(lake.path, to)))


@pytest.mark.long
@pytest.mark.parametrize("name", HARD_NAMES)
def test_a_lake_with_unusual_characters_in_its_path_takes_in_grows_replaces_and_is_optimized(tmp_path, name):
    source = LogDirectory(tmp_path / "source")
    orders = source.partition("orders-0")
    lake = Lake(tmp_path / name)
    for end in (10, 20, 30):
        orders.append(10, per_batch=2)
        source.high_watermarks(orders_0=end)
        reports = lake.turn(source.path)
        assert reports["publish"].metrics["records"] == 10
    assert copied(lake, tmp_path / "plain").published("orders") == orders.rows

    launch.run(OptimizeConfig(str(lake.path), "optimize", AS_OF_MS, apply=True))
    after = copied(lake, tmp_path / "plain")
    assert after.published("orders") == orders.rows
    assert states(after.ledger("orders")) == {"present": 30}

    log = after.rows("logs")[0]["log"]
    checked = ExpectationsConfig(str(lake.path), "expectations", AS_OF_MS, ranges={log: (0, 30)})
    assert launch.run(checked).findings == ()
    launch.run(ReplaceConfig(str(lake.path), "replace", AS_OF_MS))
    assert copied(lake, tmp_path / "plain").published("orders") == orders.rows
    top = Path(name).parts[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([top, "plain", "source"])


def test_folders_that_replace_tables_are_gone_when_the_process_ends(tmp_path):
    code = (
        "import sys; from spark_jobs.lake.delta.tables.table_creation import ensure_table;"
        "from spark_jobs.lake.delta.tables import delta_location as d;"
        "ensure_table(sys.argv[1], 'logs'); print(d.delta_uri(sys.argv[1] + '/tables/logs'))"
    )

    lake = tmp_path / "a%20b"
    done = subprocess.run([sys.executable, "-c", code, str(lake)], capture_output=True, text=True, check=True)
    stand_in = Path(done.stdout.strip())
    assert stand_in.is_absolute()
    assert not stand_in.parent.exists()
    assert (lake / "tables" / "logs" / "_delta_log" / f"{0:020d}.json").exists()


def test_a_link_to_an_unusual_path_is_seen_through(tmp_path):
    (tmp_path / "a%20b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a%20b")
    assert delta_location.delta_uri(str(tmp_path / "link")) != str(tmp_path / "link")
    assert delta_location.delta_uri(str(tmp_path / "plain")) == str(tmp_path / "plain")


@pytest.mark.parametrize("prefix", ["p%20c", "a[1]", "b\\c"])
def test_a_prefix_that_delta_does_not_find_again_is_refused(prefix):
    with pytest.raises(UsageError, match="Choose another prefix"):
        storage.absolute(f"s3://bucket/{prefix}/lake")
