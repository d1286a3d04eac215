"""A log directory with one partition."""

from pathlib import Path

import pytest

from tests.unit.logcore.storage.partition_folder import TOPIC_ID, segment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory with one log and all root files."""
    path = tmp_path / "kafka-logs"
    orders = path / "orders-0"
    segment(orders, 40)
    segment(orders, 0)
    segment(orders, 100, b"")
    (orders / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (orders / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 40\n")
    (path / "replication-offset-checkpoint").write_text("0\n1\norders 0 99\n")
    (path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 17\n")
    (path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 100\n")
    (path / "meta.properties").write_text("version=1\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nnode.id=1\n")
    return path
