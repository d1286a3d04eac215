"""`--placement` of `topics` and `cluster`: replicas by broker, rack and directory, what is wrong, what Kafka would do.

Rows of `topics`, by `kind`:

    broker, directory, problem    the fields of `BrokerPlacement`, `DirectoryPlacement`, `PlacedPartition`
    fault                         {"topic", "partition", "reason"}; `partition` is null for a fault of the whole topic
    reassignment                  {"version", "partitions"}, as kafka-reassign-partitions takes it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.record_lines import json_line
from logcore.topics.assignment import faults, proposed
from logcore.topics.cluster_states import ClusterState
from logcore.topics.placement import Placement, SourceDirectory, placement_of

Row = dict[str, Any]


def report(state: ClusterState, directories: Iterable[SourceDirectory], topics: Iterable[str], form: str) -> str:
    """Return the placement of a cluster.

    Args:
        state: The cluster.
        directories: The log directories at the sources.
        topics: Those whose placement is checked. Counts are those of all topics.
        form: text, jsonl or reassignment.
    """
    brokers = [row.fields for row in state.brokers.values()]
    of_topic = {
        str(topic.fields["topic"]): [row.fields for row in state.partitions_of(topic_id)]
        for topic_id, topic in state.topics.items()
    }
    partitions = [row | {"topic": topic} for topic, rows in sorted(of_topic.items()) for row in rows]
    placement = placement_of(partitions, brokers, directories)
    racks = {row["broker"]: row["rack"] for row in brokers}
    judged = list(_judged(racks, {topic: of_topic[topic] for topic in topics}))
    if form == "reassignment":
        return json.dumps({name: value for name, value in judged[-1].items() if name != "kind"}, indent=2) + "\n"
    if form == "jsonl":
        kinds = (("broker", placement.brokers), ("directory", placement.directories), ("problem", placement.problems))
        rows = [{"kind": kind, **asdict(each)} for kind, values in kinds for each in values]
        return "".join(map(json_line, [*rows, *judged]))
    lines = [[row["topic"], _or_dash(row["partition"]), row["reason"]] for row in judged[:-1]]
    moved = len(judged[-1]["partitions"])
    more = "; --format reassignment prints the plan" if moved else ""
    table = aligned_table(("topic", "partition", "unlike Kafka's rule"), lines) + "\n" if lines else ""
    return f"{placement_text(placement)}\n{table}partitions that Kafka's rule would move: {moved:,}{more}\n"


def _judged(racks: Mapping[int, str | None], topics: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Row]:
    moves: list[Row] = []
    for topic, partitions in topics.items():
        replicas = [tuple(row["replicas"]) for row in partitions]
        why = _why_not_judged(partitions) if racks else "no broker is registered"
        if why is not None:
            yield {"kind": "fault", "topic": topic, "partition": None, "reason": why}
            continue
        found = list(faults(racks, replicas))
        made = proposed(racks, replicas) if found else replicas
        if made is None:
            found.append((None, f"{max(map(len, replicas))} replicas cannot be on {len(racks)} brokers"))
        for at, reason in found:
            partition = None if at is None else partitions[at]["partition"]
            yield {"kind": "fault", "topic": topic, "partition": partition, "reason": reason}
        for row, new in zip(partitions, made or replicas, strict=True):
            if list(new) != list(row["replicas"]):
                moves.append({"topic": topic, "partition": row["partition"], "replicas": list(new)})
    yield {"kind": "reassignment", "version": 1, "partitions": moves}


def _why_not_judged(partitions: Sequence[Mapping[str, Any]]) -> str | None:
    if any(row["adding_replicas"] or row["removing_replicas"] for row in partitions):
        return "a reassignment is under way"
    return None if all(row["replicas"] for row in partitions) else "a partition has no replica"


LISTED = 50
"""Partitions that are named at most."""


def placement_text(placement: Placement) -> str:
    """Return the report, with a line break at its end."""
    if not placement.partitions and not placement.brokers:
        return "placement: not known, because no source had the log of __cluster_metadata\n"
    kinds = list(dict.fromkeys(each.problem for each in placement.problems))
    counts = "".join(f", {kind} {placement.count(kind):,}" for kind in kinds)
    parts = [
        f"placement: partitions {placement.partitions:,}, brokers {len(placement.brokers):,}{counts}",
        aligned_table(
            ("broker", "rack", "state", "replicas", "leaders", "preferred", "out of sync"),
            [
                (
                    str(each.broker),
                    each.rack or "-",
                    each.state,
                    *(f"{count:,}" for count in (each.replicas, each.leaders, each.preferred, each.out_of_sync)),
                )
                for each in placement.brokers
            ],
            numbers=(0, 3, 4, 5, 6),
        ).rstrip("\n"),
        aligned_table(
            ("broker", "directory", "replicas", "found", "bytes", "path"),
            [
                (
                    _name(each.broker),
                    each.directory or "-",
                    f"{each.replicas:,}",
                    _or_dash(each.found),
                    _or_dash(each.bytes),
                    each.path or "-",
                )
                for each in placement.directories
            ],
            numbers=(0, 2, 3, 4),
        ).rstrip("\n"),
    ]
    shown = placement.problems[:LISTED]
    if shown:
        rows = [
            (each.topic_partition, each.problem, _name(each.leader), _numbers(each.replicas), _numbers(each.isr))
            for each in shown
        ]
        parts.append(aligned_table(("partition", "problem", "leader", "replicas", "isr"), rows).rstrip("\n"))
    if len(shown) < len(placement.problems):
        parts.append(f"and {len(placement.problems) - len(shown):,} more partitions")
    return "\n\n".join(parts) + "\n"


def _name(broker: int | None) -> str:
    return "-" if broker is None else str(broker)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _numbers(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values)) or "-"
