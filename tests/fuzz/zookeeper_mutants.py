"""Damaged files of ZooKeeper: each mutant ends without an error, and says nothing that the whole file does not say.

    python -m tests.fuzz.zookeeper_mutants [--mutants 1000000] [--seed N]

A mutant is a function of (seed, number): a snapshot or a log with bytes changed, cut out, doubled or put in. What can
be read of it goes through everything that follows: the tree of nodes, the state of the cluster, the old groups.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from dataclasses import dataclass, field

from logcore.errors import CorruptNodeError
from logcore.zookeeper.kafka_nodes import UnreadNodes, chroots, cluster_state
from logcore.zookeeper.node_tree import NodeTree
from logcore.zookeeper.old_consumers import old_groups
from logcore.zookeeper.snapshots import Snapshot, read_snapshot
from logcore.zookeeper.transactions import BadStretch, read_transactions
from tests.zookeeper_files import (
    END_SESSION,
    OPEN_SESSION,
    as_json,
    change,
    create,
    delete,
    multi,
    numbered,
    small_cluster,
    snapshot,
)

_TOPIC = as_json(version=1, partitions={"0": [1]})
SNAPSHOTS = (snapshot(*small_cluster()), snapshot(*small_cluster(), is_new=True), snapshot())
LOGS = (
    numbered(OPEN_SESSION, create("/brokers/topics/t", _TOPIC), change("/brokers/topics/t", _TOPIC), END_SESSION),
    numbered(create("/consumers/g/ids/m", "x", is_ephemeral=True), multi(create("/a"), delete("/a")), END_SESSION),
)
_NUMBERS = (0, 1, -1, 5, 1 << 15, (1 << 31) - 1, -(1 << 31))


@dataclass(slots=True)
class Results:
    """What became of the mutants.

    Attributes:
        mutants: How many.
        whole: Those that could be read without a problem.
        wrong: Each claim that does not hold, with the mutant's number.
    """

    mutants: int = 0
    whole: int = 0
    wrong: list[str] = field(default_factory=list)


def mutant(chance: random.Random, data: bytes) -> bytes:
    """The bytes with one to three changes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at, length = chance.randrange(len(changed) + 1), chance.choice((1, 4, 40))
        way = chance.randrange(6)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            changed[at : at + 4] = struct.pack(">i", chance.choice(_NUMBERS))
        elif way == 2:
            del changed[at : at + length]
        elif way == 3:
            changed[at:at] = changed[at : at + length]
        elif way == 4:
            changed[at:at] = chance.randbytes(length)
        else:
            del changed[at:]
        if not changed:
            break
    return bytes(changed)


def _follow(tree: NodeTree) -> None:
    tree.remove_nodes_of_closed_sessions()
    for chroot in chroots(tree.nodes) or [""]:
        cluster_state(tree.nodes, chroot, UnreadNodes())
        old_groups(tree.nodes, chroot, UnreadNodes())


def _snapshot_is_right(data: bytes, changed: bytes) -> bool | None:
    """Whether a whole snapshot says what the one it was made from says; None: it is not whole."""
    read = read_snapshot(changed)
    nodes = dict(read.nodes)
    _follow(NodeTree(read))
    return None if read.problem is not None else nodes == read_snapshot(data).nodes


def _log_is_right(data: bytes, changed: bytes) -> bool | None:
    """Whether all transactions are those of the log that it was made from; None: some bytes are bad."""
    known, tree, is_whole, is_right = set(read_transactions(data)), NodeTree(Snapshot()), True, True
    for item in read_transactions(changed):
        if isinstance(item, BadStretch):
            is_whole = False
            is_right &= 0 <= item.start < max(item.end, 1) <= max(len(changed), 1)
            continue
        is_right &= item in known
        try:
            tree.add(item)
        except CorruptNodeError:
            is_right = False
    _follow(tree)
    return None if is_right and not is_whole else is_right


def run(seed: int, count: int) -> Results:
    """Look at so many mutants."""
    results = Results()
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        of_snapshot = chance.random() < 0.5
        data = chance.choice(SNAPSHOTS if of_snapshot else LOGS)
        changed = mutant(chance, data)
        results.mutants += 1
        try:
            is_right = (_snapshot_is_right if of_snapshot else _log_is_right)(data, changed)
        except Exception as error:  # noqa: BLE001 whatever it is, the mutant found it
            results.wrong.append(f"seed {seed}, mutant {number}: {error!r}")
            continue
        results.whole += is_right is True
        if is_right is False:
            results.wrong.append(f"seed {seed}, mutant {number}: it says what the whole file does not say")
    return results


def main(arguments: list[str]) -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    results = run(chosen.seed, chosen.mutants)
    sys.stdout.write("\n".join([*results.wrong[:50], f"{results.mutants} mutants, {len(results.wrong)} wrong"]) + "\n")
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
