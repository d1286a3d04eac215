"""A slow, obvious model of Kafka's replication of one partition: who has which batches, and what is committed.

It shares no code with the product, and counts in single batches: a log is a list of batches, one for each offset. What
a follower does with its leader's answer is the definition of KIP-101: it cuts its log back to the longest prefix that
is the same as its leader's. That is what the exchange of leader epochs computes in a broker.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests import handmade

TOPIC_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
Batch = tuple[int, bytes]
"""Leader epoch, and the value of its one record. The offset is the place in the log."""


@dataclass
class Replica:
    """A broker's copy. `epochs`: lines of its leader-epoch-checkpoint."""

    log: list[Batch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0
    is_up: bool = True

    def append(self, batch: Batch) -> None:
        if not self.epochs or batch[0] > self.epochs[-1][0]:
            self.epochs.append((batch[0], len(self.log)))
        self.log.append(batch)

    def truncate(self, end: int) -> None:
        if end < len(self.log):
            del self.log[end:]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < end]
        self.high_watermark = min(self.high_watermark, end)


@dataclass
class Partition:
    """The partition, as its controller sees it. `committed`: all that was ever below a leader's high watermark."""

    replicas: list[Replica]
    chance: random.Random
    leader: int | None = None
    epoch: int = -1
    in_sync: set[int] = field(default_factory=set)
    committed: list[Batch] = field(default_factory=list)
    _count: int = 0

    def elect(self, *, unclean: bool = False) -> None:
        """A new leader out of the replicas in sync that are up; an unclean election also takes another one."""
        up = [index for index, replica in enumerate(self.replicas) if replica.is_up]
        fit = [index for index in up if index in self.in_sync]
        is_unclean = not fit and unclean
        if is_unclean:
            fit = up
        if not fit:
            self.leader = None
            return
        self.leader = self.chance.choice(fit)
        self.in_sync = {self.leader} if self.leader not in self.in_sync else self.in_sync & set(up)
        self.epoch += 1
        leader = self.replicas[self.leader]
        leader.epochs.append((self.epoch, len(leader.log)))
        while len(leader.epochs) > 1 and leader.epochs[-2][1] >= len(leader.log):
            del leader.epochs[-2]
        if is_unclean:  # only then is anything lost that was committed
            self.committed = self.committed[: same_to(self.committed, leader.log)]

    def produce(self) -> None:
        if self.leader is not None:
            self._count += 1
            self.replicas[self.leader].append((self.epoch, b"value %d" % self._count))

    def fetch(self, index: int) -> None:
        """A follower cuts back to where it agrees with its leader, and takes some of what follows."""
        replica = self.replicas[index]
        if self.leader in (None, index) or not replica.is_up or self.leader is None:
            return
        leader = self.replicas[self.leader]
        replica.truncate(same_to(replica.log, leader.log))
        for batch in leader.log[len(replica.log) :][: self.chance.randint(1, 6)]:
            replica.append(batch)
        replica.high_watermark = max(replica.high_watermark, min(leader.high_watermark, len(replica.log)))
        if len(replica.log) >= max(leader.high_watermark, len(leader.log) - 2):
            self.in_sync.add(index)

    def commit(self) -> None:
        """The leader's high watermark is the lowest end of the replicas in sync."""
        if self.leader is None:
            return
        leader = self.replicas[self.leader]
        ends = [same_to(self.replicas[index].log, leader.log) for index in self.in_sync if index != self.leader]
        end = min([len(leader.log), *ends])
        if end > leader.high_watermark:
            leader.high_watermark = end
            self.committed = leader.log[:end]

    def shrink(self) -> None:
        if self.leader is not None:
            lost = [index for index in self.in_sync if index != self.leader and not self.replicas[index].is_up]
            self.in_sync -= set(lost)

    def stop(self, index: int) -> None:
        self.replicas[index].is_up = False
        if index == self.leader:
            if len(self.in_sync) > 1:
                self.in_sync.discard(index)
            self.elect()

    def start(self, index: int) -> None:
        self.replicas[index].is_up = True
        if self.leader is None:
            self.elect()


def same_to(ours: list[Batch], theirs: list[Batch]) -> int:
    """The end of the common prefix."""
    end = 0
    while end < min(len(ours), len(theirs)) and ours[end] == theirs[end]:
        end += 1
    return end


def history(seed: int, *, unclean: bool = False) -> Partition:
    """A random history of 2 to 4 replicas."""
    chance = random.Random(seed)
    partition = Partition([Replica() for _ in range(chance.randint(2, 4))], chance)
    everyone = range(len(partition.replicas))
    partition.in_sync = set(everyone)
    partition.elect()
    for _ in range(chance.randint(20, 120)):
        what = chance.random()
        index = chance.choice(everyone)
        if what < 0.4:
            partition.produce()
        elif what < 0.75:
            partition.fetch(index)
        elif what < 0.9:
            partition.shrink()
            partition.commit()
        elif what < 0.95:
            partition.stop(index)
            if unclean and partition.leader is None:
                partition.elect(unclean=True)
        else:
            partition.start(index)
    return partition


def write(replica: Replica, root: Path, broker: int, *, name: str = "orders-0", has_epochs: bool = True) -> Path:
    """Write a replica as a log directory: each batch has one record, and a segment begins at every tenth offset."""
    log = root / name
    log.mkdir(parents=True)
    (root / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id={broker}\n")
    lines = f"orders {name.rpartition('-')[2]} {replica.high_watermark}"
    (root / "replication-offset-checkpoint").write_text(f"0\n1\n{lines}\n")
    (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    if has_epochs:
        entries = "".join(f"{epoch} {start}\n" for epoch, start in replica.epochs)
        (log / "leader-epoch-checkpoint").write_text(f"0\n{len(replica.epochs)}\n{entries}")
    batches = [_packed(offset, epoch, value) for offset, (epoch, value) in enumerate(replica.log)]
    for base in range(0, max(len(batches), 1), 10):
        (log / f"{base:020d}.log").write_bytes(b"".join(batches[base : base + 10]))
    return log


def _packed(offset: int, epoch: int, value: bytes) -> bytes:
    return handmade.batch([handmade.record(0, b"k", value)], base_offset=offset, leader_epoch=epoch)


def batches_in(log: Path) -> list[Batch]:
    """What a partition directory holds, read with `struct` alone."""
    found: list[Batch] = []
    for path in sorted(log.glob("*.log")):
        content, at = path.read_bytes(), 0
        while at < len(content):
            length, epoch = struct.unpack(">ii", content[at + 8 : at + 16])
            end = at + 12 + length
            value = content[content.index(b"value ", at) : end]
            found.append((epoch, value[:-1]))  # the count of headers, 0, ends the record
            at = end
    return found
