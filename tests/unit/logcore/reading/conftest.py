"""A log directory, packed by hand."""

from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import LogDirectory


def transaction(base_offset: int, kind: int) -> bytes:
    """A record of a transaction, and the marker that ends it."""
    data = handmade.simple_batch(
        base_offset, [(b"k", b"v")], attributes=handmade.TRANSACTIONAL, producer_id=9, producer_epoch=0, base_sequence=0
    )
    return data + handmade.marker(base_offset + 1, kind, producer_id=9)


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    """`orders-0` with offsets 0 to 9, `orders-1` and `payments-0` with 0 to 4; the log start is 0 everywhere.

    The high watermarks are 8, 5 and 5. Offsets 2 and 3 of `orders-0` are an aborted transaction.
    """
    directory = LogDirectory(tmp_path / "logs")
    orders = directory.partition("orders-0")
    orders.append(2)
    orders.write(transaction(2, handmade.ABORT))
    orders.next_offset = 4
    orders.append(6)
    for name in ("orders-1", "payments-0"):
        directory.partition(name).append(5)
    directory.high_watermarks(orders_0=8, orders_1=5, payments_0=5)
    return directory
