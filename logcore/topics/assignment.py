"""Where the replicas of a cluster are, and where Kafka's rule would put them.

    brokers      ascending ids; if each broker has a rack, alternating between the racks (org.apache.kafka.admin
                 AdminUtils.getRackAlternatedBrokerList)
    first        replica of partition p: broker (start + p) of that list
    others       follow at a shift, which grows by one whenever the first replicas have gone around once; with racks
                 a rack is taken again only if all have a replica (AdminUtils.assignReplicasToBrokers)
    directory    a new replica goes to the log directory of its broker with the fewest replicas (LogManager)

A cluster draws start and shift at random for each topic. :func:`proposed` takes those that move the fewest replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, cycle

Assignment = tuple[tuple[int, ...], ...]
"""Broker ids by partition, the preferred leader first."""


def alternating(racks: Mapping[int, str | None]) -> tuple[int, ...]:
    """Return the brokers in the order in which the rule takes them, by their racks."""
    if None in racks.values():
        return tuple(sorted(racks))
    named = sorted({rack for rack in racks.values() if rack is not None})
    of_rack = [iter(sorted(broker for broker, rack in racks.items() if rack == name)) for name in named]
    order: list[int] = []
    for each in cycle(of_rack):
        order += [broker for broker in [next(each, None)] if broker is not None]
        if len(order) == len(racks):
            break
    return tuple(order)


def assignment(racks: Mapping[int, str | None], partitions: int, factor: int, start: int, shift: int) -> Assignment:
    """Return the replicas of a new topic by Kafka's rule.

    Args:
        racks: The rack of each broker. If one is None, racks do not count.
        partitions: How many.
        factor: Replicas of each, at most one a broker.
        start: Index of the first broker.
        shift: The first shift.

    Raises:
        ValueError: There are fewer brokers than replicas.
    """
    order = alternating(racks)
    count, has_racks = len(order), None not in racks.values()
    if not 1 <= factor <= count:
        raise ValueError(f"{factor} replicas cannot be on {count} brokers")
    number = len(set(racks.values())) if has_racks else 1
    made = []
    for partition in range(partitions):
        first = (partition + start) % count
        grown = (shift + partition // count) * number
        taken = [order[first]]
        for step in range(count * count):
            if len(taken) == factor:
                break
            broker = order[(first + 1 + (grown + step) % (count - 1)) % count]
            used = {racks[each] for each in taken}
            is_free = not has_racks or racks[broker] not in used or len(used) == number
            if broker not in taken and is_free:
                taken.append(broker)
        made.append(tuple(taken))
    return tuple(made)


def proposed(racks: Mapping[int, str | None], replicas: Sequence[tuple[int, ...]]) -> Assignment | None:
    """Return the placement of a topic by the rule, from its first broker on, that moves the fewest replicas.

    Args:
        racks: The rack of each broker.
        replicas: Broker ids by partition, the preferred leader first.

    Returns:
        The placement; None if the brokers are too few.
    """
    factor = max(map(len, replicas))
    if factor > len(racks):
        return None
    order = alternating(racks)
    first = replicas[0][0]
    start = order.index(first) if first in order else 0
    made = (assignment(racks, len(replicas), factor, start, shift) for shift in range(len(order)))
    return min(made, key=lambda each: _moved(each, replicas))


def _moved(assigned: Assignment, replicas: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """Replicas on other brokers, and partitions with another preferred leader."""
    pairs = list(zip(assigned, replicas, strict=True))
    return sum(len(set(new) - set(old)) for new, old in pairs), sum(new[0] != old[0] for new, old in pairs)


def faults(racks: Mapping[int, str | None], replicas: Sequence[tuple[int, ...]]) -> Iterator[tuple[int | None, str]]:
    """Yield what differs from the rule: the index of a partition, or None for the topic, and why.

    Args:
        racks: The rack of each broker.
        replicas: Broker ids by partition, the preferred leader first.
    """
    has_racks = None not in racks.values()
    number = len(set(racks.values()))
    for at, each in enumerate(replicas):
        unknown = sorted(set(each) - racks.keys())
        for broker in unknown:
            yield at, f"broker {broker} is not registered"
        used = {racks.get(broker) for broker in each}
        if has_racks and not unknown and len(used) < min(number, len(each)):
            names = ", ".join(sorted(map(str, used)))
            yield at, f"{len(each)} replicas are in {len(used)} of {number} racks: {names}"
    for what, placed in (
        ("replicas", Counter(chain.from_iterable(replicas))),
        ("preferred leaders", Counter(each[0] for each in replicas)),
    ):
        counts = {broker: placed[broker] for broker in racks}
        most, least = max(counts, key=lambda b: counts[b]), min(counts, key=lambda b: counts[b])
        if counts[most] - counts[least] > 1:
            yield None, f"broker {most} has {counts[most]} {what}, broker {least} has {counts[least]}"
