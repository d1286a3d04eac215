"""What transactions do to the nodes of a snapshot."""

import pytest

from logcore.errors import CorruptNodeError
from logcore.zookeeper.node_tree import NodeTree
from logcore.zookeeper.snapshots import Snapshot, read_snapshot
from logcore.zookeeper.transactions import ZooKeeperTransaction, read_transactions
from tests.zookeeper_files import (
    CLIENT,
    END_SESSION,
    ERROR,
    OPEN_SESSION,
    change,
    create,
    delete,
    log,
    multi,
    node,
    numbered,
    snapshot,
    transaction,
)

OTHER = 0x2000
CONTAINER, FOR_A_TIME = -(1 << 63), -(1 << 56) | 1_000


def tree_of(start: bytes | None, data: bytes) -> NodeTree:
    tree = NodeTree(Snapshot() if start is None else read_snapshot(start))
    for item in read_transactions(data):
        assert isinstance(item, ZooKeeperTransaction)
        tree.add(item)
    return tree


def contents(tree: NodeTree) -> dict[str, bytes | None]:
    return {path: each.data for path, each in tree.nodes.items()}


def test_nodes_are_created_changed_and_removed() -> None:
    tree = tree_of(None, numbered(create("/a", "1"), create("/b"), change("/a", "2", 9), delete("/b"), delete("/c")))
    assert {path: tuple(each) for path, each in tree.nodes.items()} == {"/a": (b"2", 1, 3, 3_000, 9, 0)}


def test_transactions_that_a_fuzzy_snapshot_has_change_nothing() -> None:
    start = snapshot(node("/new", "later", zxid=9), node("/a", "2", zxid=1, changed=8, version=2))
    done = (create("/a", "1"), change("/a", "2", 2), create("/gone"), delete("/gone"), create("/new", "first"))
    assert contents(tree_of(start, numbered(*done))) == {"/new": b"later", "/a": b"2"}


def test_of_several_at_once_all_count_or_none() -> None:
    both = multi(create("/a", "1"), change("/a", "2"))
    failed = multi((ERROR, b"\0\0\0\0"), create("/b"), (ERROR, b"\xff\xff\xff\x9b"))
    assert contents(tree_of(None, numbered(both, failed))) == {"/a": b"2"}


def test_the_end_of_a_session_removes_its_nodes_of_the_snapshot_and_of_the_log() -> None:
    start = snapshot(node("/old", owner=CLIENT), node("/other", owner=OTHER), sessions=(CLIENT, OTHER))
    data = numbered(create("/young", is_ephemeral=True), create("/stays"), END_SESSION)
    assert set(contents(tree_of(start, data))) == {"/other", "/stays"}


def test_nodes_of_a_session_that_is_not_open_are_removed_in_the_end() -> None:
    start = snapshot(node("/dead", owner=OTHER), node("/alive", owner=CLIENT), sessions=(CLIENT,))
    tree = tree_of(start, log())
    tree.remove_nodes_of_closed_sessions()
    assert set(contents(tree)) == {"/alive"}


def test_a_session_may_close_and_open_again_and_again_under_its_id() -> None:
    once = (OPEN_SESSION, create("/mine", "x", is_ephemeral=True), END_SESSION)
    tree = tree_of(None, numbered(*once * 50, OPEN_SESSION, create("/mine", "last", is_ephemeral=True)))
    tree.remove_nodes_of_closed_sessions()
    assert contents(tree) == {"/mine": b"last"}
    ended = tree_of(None, numbered(*once * 50))
    assert contents(ended) == {}


def test_containers_and_nodes_with_a_time_to_live_belong_to_no_session() -> None:
    start = snapshot(node("/c", owner=CONTAINER), node("/t", owner=FOR_A_TIME), sessions=())
    tree = tree_of(start, log())
    tree.remove_nodes_of_closed_sessions()
    assert set(contents(tree)) == {"/c", "/t"}


def test_a_transaction_whose_lengths_are_wrong_raises_an_error_of_ours() -> None:
    kind, body = create("/a", "1")
    for wrong in (body[:9], b"\x7f" + body[1:], b""):
        (item,) = read_transactions(log(transaction(1, (kind, wrong))))
        assert isinstance(item, ZooKeeperTransaction)
        with pytest.raises(CorruptNodeError):
            NodeTree(Snapshot()).add(item)
