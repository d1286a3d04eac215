"""The placement report for a terminal: brokers, log directories, partitions that need attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logcore.cli.output.aligned_table import aligned_table

if TYPE_CHECKING:
    from spark_jobs.lake.view.cluster.placement import Placement

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
