"""Links to directories are read by the names of the links, and each directory once."""

from pathlib import Path

import pytest

from logcore.logs.model.findings import exit_code
from logcore.storage.discovery import discover
from tests.unit.logcore.storage.partition_folder import TOPIC_ID, UUID, only, only_log, rules, segment


def test_a_partition_directory_that_is_a_link_is_read_by_the_name_of_the_link(root: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume" / "data"
    (root / "orders-0").rename(tmp_path / "orders")
    volume.parent.mkdir()
    (tmp_path / "orders").rename(volume)
    (root / "orders-0").symlink_to(volume)
    discovery = discover([str(root)])
    log = only_log(discovery)
    assert discovery.findings == ()
    assert (str(log.topic_partition), log.directory) == ("orders-0", f"{root}/orders-0")
    assert (log.high_watermark, log.log_start_offset, log.topic_id) == (99, 17, TOPIC_ID)
    assert [file.base_offset for file in log.segments] == [0, 40, 100]
    assert only_log(discover([f"{root}/orders-0"])) == log
    assert only_log(discover([str(root), str(volume.parent / "data")])) == log, "the same directory is taken once"


def test_a_log_directory_of_links_alone_is_one(tmp_path: Path) -> None:
    segment(tmp_path / "volume" / "0")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "orders-0").symlink_to(tmp_path / "volume" / "0")
    assert str(only_log(discover([str(tmp_path / "logs")])).topic_partition) == "orders-0"


@pytest.mark.parametrize("name", [f"orders-1.{UUID}-future", f"orders-1.{UUID}-delete"])
def test_a_link_out_of_use_is_set_aside_like_a_directory(root: Path, tmp_path: Path, name: str) -> None:
    (root / name).symlink_to(segment(tmp_path / "volume").parent)
    discovery = discover([str(root)])
    assert [str(log.topic_partition) for log in discovery.set_aside] == ["orders-1"]


def test_two_links_to_one_directory_are_one_log_and_that_is_reported(root: Path) -> None:
    (root / "payments-0").symlink_to(root / "orders-0")
    discovery = discover([str(root)])
    assert str(only_log(discovery).topic_partition) == "orders-0"
    finding = only(discovery, "several-copies")
    assert finding.file == f"{root}/payments-0"
    assert f"{root}/orders-0" in finding.message


def test_a_link_to_a_directory_that_is_no_partition_is_named_like_the_directory(root: Path, tmp_path: Path) -> None:
    segment(tmp_path / "elsewhere")
    (root / "data").symlink_to(tmp_path / "elsewhere")
    (root / "or ders-0").symlink_to(tmp_path / "elsewhere")
    (root / "note").symlink_to(tmp_path / "nowhere")
    assert rules(discover([str(root)])) == ["illegal-topic-name", "unread-segments"]


@pytest.mark.parametrize("has_root_files", [True, False])
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere", "a link to a missing target"),
        ("payments-0", "is a link to itself"),
        (".", "is a link to a directory that contains it"),
        ("..", "is a link to a directory that contains it"),
    ],
)
def test_a_link_that_leads_nowhere_or_back_is_one_clear_finding(
    root: Path, tmp_path: Path, target: str, words: str, has_root_files: bool
) -> None:
    place = root
    if not has_root_files:
        place = tmp_path / "bare"
        place.mkdir()
    (place / "payments-0").symlink_to(target)
    discovery = discover([str(place)])
    assert len(discovery.logs) == (1 if has_root_files else 0)
    assert rules(discovery) == ["unreadable"]
    assert discovery.findings[0].file == f"{place}/payments-0"
    assert words in discovery.findings[0].message
    assert exit_code(discovery.findings) == 3


def test_a_named_link_to_a_log_directory_is_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(root)
    assert len(discover([str(tmp_path / "current")]).logs) == 1
