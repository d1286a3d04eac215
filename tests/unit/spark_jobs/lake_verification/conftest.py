"""A small lake that the real jobs made, once; each test harms a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.in_process import without_spark
from tests.spark.cycle import Lake
from tests.unit.spark_jobs.lake_verification.lakes import Verified, verify


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Partition]:
    """Offsets 0-29 of orders-0 in three segments and three files, 30-34 above the high watermark; twelve of
    payments-0, eight of them in an aborted and four in a committed transaction."""
    folder = tmp_path_factory.mktemp("lake_verification")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    transactional = {"producer_id": 9, "producer_epoch": 0, "attributes": handmade.TRANSACTIONAL}
    payments.append(8, per_batch=8, base_sequence=0, **transactional)
    payments.marker(9, 0)
    payments.append(4, per_batch=4, base_sequence=8, **transactional)
    payments.marker(9, 1)
    with without_spark():
        for end in (10, 20, 30):
            if end > 10:
                orders.roll()
            orders.append(10 if end < 30 else 15)
            source.high_watermarks(orders_0=end, payments_0=14)
            lake.turn(source.path)
    return folder, orders


@pytest.fixture
def orders(made_once: tuple[Path, Partition]) -> Partition:
    return made_once[1]


@pytest.fixture
def lake(made_once: tuple[Path, Partition], tmp_path: Path) -> Lake:
    """A copy of that lake."""
    return Lake(Path(shutil.copytree(made_once[0] / "lake", tmp_path / "lake")))


@pytest.fixture
def verified(capsys: pytest.CaptureFixture[str]) -> Callable[..., Verified]:
    """Runs `loglake verify` on a lake and reads its lines."""

    def run(lake: Lake | Path, *options: str) -> Verified:
        path = lake if isinstance(lake, Path) else lake.path
        return verify(capsys, str(path), *options)

    return run
