"""Snapshots of ZooKeeper that were packed by hand: what they have, and what a cut or a changed byte does."""

import struct

import pytest

from logcore.zookeeper.snapshots import read_snapshot
from tests.zookeeper_files import CLIENT, node, snapshot

NODES = (
    node("/a", "x", zxid=2, changed=5, version=3, time_ms=77),
    node("/b", None, zxid=4, owner=CLIENT),
    node("/b/Straße", ""),
)
WHOLE = snapshot(*NODES, sessions=(CLIENT, 9))
NEW = snapshot(*NODES, is_new=True)


def test_a_snapshot_gives_its_sessions_and_nodes() -> None:
    read = read_snapshot(WHOLE)
    assert read.problem is None
    assert read.sessions == {CLIENT, 9}
    assert {path: tuple(each) for path, each in read.nodes.items()} == {
        "/a": (b"x", 2, 5, 77, 3, 0),
        "/b": (None, 4, 4, 1_000, 0, CLIENT),
        "/b/Straße": (b"", 1, 1, 1_000, 0, 0),
    }
    assert read.last_change == (5, 1_000)


def test_a_snapshot_with_digest_and_last_transaction_is_read_to_its_end() -> None:
    assert read_snapshot(NEW).problem is None
    wrong = bytearray(NEW)
    wrong[-16] ^= 1  # in the last transaction, after the first sum
    assert "Adler-32" in (read_snapshot(bytes(wrong)).problem or "")


@pytest.mark.parametrize("content", [WHOLE, NEW], ids=["old", "new"])
def test_each_changed_bit_is_a_problem(content: bytes) -> None:
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        assert read_snapshot(bytes(changed)).problem is not None, position


def test_a_snapshot_that_ends_anywhere_before_its_sum_is_half_of_one() -> None:
    for end in range(len(WHOLE)):
        read = read_snapshot(WHOLE[:end])
        assert read.problem is not None
        assert read.is_half
        assert read.nodes.items() <= read_snapshot(WHOLE).nodes.items()


def test_a_length_beyond_the_file_is_not_trusted() -> None:
    huge = struct.pack(">i", 2**31 - 1)
    assert "a number lies beyond the end" in (read_snapshot(WHOLE[:16] + huge + WHOLE[20:]).problem or "")
    read = read_snapshot(WHOLE.replace(struct.pack(">i", 2) + b"/a", huge + b"/a"))
    assert "a path of 2147483647 bytes reaches beyond the end" in (read.problem or "")
    assert not read.is_half
    read = read_snapshot(WHOLE.replace(struct.pack(">i", 1) + b"x", struct.pack(">i", -7) + b"x"))
    assert "a node of -7 bytes" in (read.problem or "")


def test_another_file_is_no_snapshot() -> None:
    assert "does not begin with ZKSN" in (read_snapshot(b"ZKLG" + WHOLE[4:]).problem or "")
