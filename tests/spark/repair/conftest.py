"""Copies of a lake of which a part is published."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID
from tests.spark.cycle import Lake
from tests.spark.repair.repaired_lakes import Made


@pytest.fixture
def made(tmp_path: Path, made_once: Path) -> Made:
    # Taken from where it always was: a log is kept to the directory it was first taken from.
    shutil.rmtree(made_once / "source", ignore_errors=True)
    shutil.copytree(made_once / "kept", made_once / "source")
    copy = Made(made_once)
    copy.lake = Lake(Path(shutil.copytree(made_once / "lake", tmp_path / "lake")))
    return copy


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orders-0: 0-29 published of 40. payments-0: 0-4, then an aborted transaction at 5-9 with its marker at 10, then
    11-15; all published but 15. hurt-0: 0-4, then a batch that is damaged, then 10-14."""
    made = Made(tmp_path_factory.mktemp("repaired"))
    orders, payments = made.source.partition("orders-0"), made.source.partition("payments-0", OTHER_TOPIC_ID)
    for _ in range(4):
        orders.append(10, per_batch=5)
        orders.roll()
    payments.append(5)
    payments.append(5, producer_id=7, producer_epoch=0, base_sequence=0, attributes=handmade.TRANSACTIONAL)
    payments.marker(7, handmade.ABORT)
    payments.append(4)
    payments.append(1)
    hurt = made.source.partition("hurt-0", "DDDDDDDDDDDDDDDDDDDDDA")
    hurt.append(5)
    hurt.write(handmade.flip(handmade.simple_batch(5, [(b"k", b"v")] * 5, leader_epoch=0), 70))
    hurt.next_offset = 10
    hurt.append(5)
    made.source.high_watermarks(orders_0=30, payments_0=15, hurt_0=15)
    shutil.copytree(made.source.path, made.folder / "kept")
    made.lake.turn(made.source.path)
    assert made.offsets() == set(range(30))
    assert made.offsets("payments") == {0, 1, 2, 3, 4, 11, 12, 13, 14}
    return made.folder
