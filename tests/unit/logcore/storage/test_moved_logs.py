"""A broker moves a log between its own log directories; a copy elsewhere is no such move."""

from pathlib import Path

import pytest

from logcore.storage.broker_state import is_moved_by_its_broker
from tests.broker_directory import LogDirectory

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"


def properties(directory: Path, **values: str) -> None:
    lines = ["version=1", *(f"{name.replace('_', '.')}={value}" for name, value in values.items())]
    (directory / "meta.properties").write_text("\n".join(lines) + "\n")


@pytest.fixture
def disks(tmp_path: Path) -> tuple[LogDirectory, LogDirectory]:
    """Two log directories of one broker; the log is in the second one now."""
    first, second = LogDirectory(tmp_path / "disk-1"), LogDirectory(tmp_path / "disk-2")
    properties(first.path, cluster_id=CLUSTER, node_id="1", directory_id="a")
    properties(second.path, cluster_id=CLUSTER, node_id="1", directory_id="b")
    second.partition("orders-0").append(5)
    return first, second


def is_moved(disks: tuple[LogDirectory, LogDirectory]) -> bool:
    return is_moved_by_its_broker(str(disks[0].path / "orders-0"), str(disks[1].path / "orders-0"))


def test_a_log_that_is_gone_from_one_directory_and_lies_in_another_of_its_broker_was_moved(
    disks: tuple[LogDirectory, LogDirectory],
) -> None:
    assert is_moved(disks)
    (disks[0].path / "orders-0.478272f0a33c41a18c274462e3ef6713-delete").mkdir()
    assert is_moved(disks)


def test_a_log_that_still_lies_where_it_was_is_not_moved(disks: tuple[LogDirectory, LogDirectory]) -> None:
    (disks[0].path / "orders-0").symlink_to("nowhere")
    assert not is_moved(disks), "a volume that is not mounted"
    (disks[0].path / "orders-0").unlink()
    disks[0].partition("orders-0")
    assert not is_moved(disks)


@pytest.mark.parametrize(
    "values",
    [
        {"cluster_id": CLUSTER, "node_id": "2", "directory_id": "b"},
        {"cluster_id": "BBBBBBBBBBBBBBBBBBBBBB", "node_id": "1", "directory_id": "b"},
        {"cluster_id": CLUSTER, "directory_id": "b"},
        {"cluster_id": CLUSTER, "node_id": "1", "directory_id": "a"},
    ],
    ids=["another broker", "another cluster", "no broker stated", "a copy of the same directory"],
)
def test_what_lies_with_another_broker_or_in_a_copy_was_not_moved(
    disks: tuple[LogDirectory, LogDirectory], values: dict[str, str]
) -> None:
    properties(disks[1].path, **values)
    assert not is_moved(disks)


def test_brokers_before_kraft_state_their_id_by_another_name_and_no_directory(
    disks: tuple[LogDirectory, LogDirectory],
) -> None:
    for disk in disks:
        properties(disk.path, cluster_id=CLUSTER, broker_id="7")
    assert is_moved(disks)


def test_a_missing_log_directory_does_not_show_a_moved_log(disks: tuple[LogDirectory, LogDirectory]) -> None:
    (disks[0].path / "meta.properties").unlink()
    disks[0].path.rmdir()
    assert not is_moved(disks)
