"""Where the replicas of a cluster are: by broker and by log directory, and the partitions that need attention.

From the partitions and brokers of a cluster's metadata, and from the log directories that were found at its sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NO_LEADER, UNDER_REPLICATED, NOT_PREFERRED = "no leader", "under-replicated", "not led by the preferred leader"
"""What is wrong with a partition, the worst first."""
_NOBODY = -1
_NOT_PLACED = {
    "AAAAAAAAAAAAAAAAAAAAAA": "not stated",
    "AAAAAAAAAAAAAAAAAAAAAQ": "not assigned yet",
    "AAAAAAAAAAAAAAAAAAAAAg": "lost",
}
"""Reserved ids of directories (org.apache.kafka.common DirectoryId: MIGRATING, UNASSIGNED, LOST)."""

_Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SourceDirectory:
    """A log directory at a source.

    Attributes:
        path: Where it is.
        broker: Id of its broker; None if meta.properties does not state it.
        directory_id: Id of the directory; None before Kafka 3.7.
        replicas: Topic partitions in it.
        bytes: Of their segments.
    """

    path: str
    broker: int | None
    directory_id: str | None
    replicas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BrokerPlacement:
    """What a broker has.

    Attributes:
        broker: Its id.
        rack: None where none is set.
        state: `active`, `fenced`, `shutting down`, or `not registered`.
        replicas: Replicas that are assigned to it.
        leaders: Partitions that it leads.
        preferred: Partitions whose preferred leader it is.
        out_of_sync: Its replicas that are not in sync.
    """

    broker: int
    rack: str | None
    state: str
    replicas: int
    leaders: int
    preferred: int
    out_of_sync: int


@dataclass(frozen=True, slots=True)
class DirectoryPlacement:
    """What a log directory has.

    Attributes:
        broker: Id of its broker; None if it is not known.
        directory: Its id, or what Kafka says in place of one; empty where nothing is stated.
        replicas: Replicas that the metadata assigns to it.
        path: Where it is at the sources; None if they do not have it.
        found: Topic partitions that are there; None without a path.
        bytes: Of their segments; None without a path.
    """

    broker: int | None
    directory: str
    replicas: int
    path: str | None = None
    found: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """A partition that needs attention.

    Attributes:
        topic_partition: Its name.
        problem: The worst that is wrong with it.
        leader: None if there is none.
        replicas: Brokers; the first is the preferred leader.
        isr: Brokers in sync.
    """

    topic_partition: str
    problem: str
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """The replicas of the clusters in a lake.

    Attributes:
        partitions: How many there are.
        brokers: By id.
        directories: By broker and path.
        problems: By kind, the worst first, then by name.
    """

    partitions: int
    brokers: tuple[BrokerPlacement, ...]
    directories: tuple[DirectoryPlacement, ...]
    problems: tuple[PlacedPartition, ...]

    def count(self, problem: str) -> int:
        """Return how many partitions have a problem as their worst one."""
        return sum(each.problem == problem for each in self.problems)


def placement_of(
    partitions: Sequence[_Row], brokers: Sequence[_Row], directories: Iterable[SourceDirectory]
) -> Placement:
    """Return the placement.

    Args:
        partitions: Fields of partitions as in `ClusterState`, with `topic`; rows of `cluster_partitions` have the same.
        brokers: Fields of brokers as in `ClusterState`, or rows of `cluster_brokers`.
        directories: The log directories at the sources.
    """
    replicas, leaders, preferred, lagging = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    assigned = Counter[tuple[int, str]]()
    problems: list[PlacedPartition] = []
    for row in partitions:
        placed, isr, leader = _brokers(row, "replicas"), _brokers(row, "isr"), _whole(row["leader"])
        replicas.update(placed)
        lagging.update(set(placed) - set(isr))
        preferred.update(placed[:1])
        leaders.update([leader] if leader != _NOBODY else [])
        ids = row["directories"] if isinstance(row["directories"], list) else []
        assigned.update((broker, str(ids[at]) if at < len(ids) else "") for at, broker in enumerate(placed))
        problem = _problem(placed, isr, leader, _brokers(row, "adding_replicas"))
        if problem is not None:
            name = f"{row['topic']}-{row['partition']}"
            problems.append(PlacedPartition(name, problem, None if leader == _NOBODY else leader, placed, isr))
    registered = {_whole(row["broker"]): row for row in brokers}
    order = (NO_LEADER, UNDER_REPLICATED, NOT_PREFERRED)
    return Placement(
        len(partitions),
        tuple(
            BrokerPlacement(
                broker,
                _text(registered.get(broker), "rack"),
                _state(registered.get(broker)),
                *(counts[broker] for counts in (replicas, leaders, preferred, lagging)),
            )
            for broker in sorted({*registered, *replicas, *leaders})
        ),
        tuple(_directories(assigned, directories)),
        tuple(sorted(problems, key=lambda each: (order.index(each.problem), each.topic_partition))),
    )


def _problem(replicas: Sequence[int], isr: Sequence[int], leader: int, adding: Sequence[int]) -> str | None:
    """The worst that is wrong. Replicas that a reassignment adds do not count as missing (kafka.cluster
    OngoingReassignmentState).
    """
    if leader == _NOBODY:
        return NO_LEADER
    if len(set(isr)) < len(set(replicas) - set(adding)):
        return UNDER_REPLICATED
    return NOT_PREFERRED if replicas and leader != replicas[0] else None


def _directories(assigned: Counter[tuple[int, str]], found: Iterable[SourceDirectory]) -> Iterable[DirectoryPlacement]:
    """Directories that the metadata or the sources name. Those of sources come with path and bytes."""
    left = dict(assigned)
    made = []
    for each in found:
        key = (-1 if each.broker is None else each.broker, each.directory_id or "")
        count = left.pop(key, 0)
        made.append(DirectoryPlacement(each.broker, key[1], count, each.path, each.replicas, each.bytes))
    made += [DirectoryPlacement(broker, _NOT_PLACED.get(name, name), count) for (broker, name), count in left.items()]
    return sorted(made, key=lambda each: (-1 if each.broker is None else each.broker, each.path or "", each.directory))


def _state(row: _Row | None) -> str:
    if row is None:
        return "not registered"
    if row["is_in_controlled_shutdown"]:
        return "shutting down"
    return "fenced" if row["is_fenced"] else "active"


def _brokers(row: _Row, column: str) -> tuple[int, ...]:
    value = row[column]
    return tuple(int(each) for each in value) if isinstance(value, list) else ()


def _whole(value: object) -> int:
    return value if isinstance(value, int) else _NOBODY


def _text(row: _Row | None, column: str) -> str | None:
    value = None if row is None else row[column]
    return value if isinstance(value, str) else None
