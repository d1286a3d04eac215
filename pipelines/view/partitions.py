"""The one partitions dimension: a key for every topic partition that any lake of this instance holds.

Keys are Kafka's directory names (``orders-0``). Segments are data, not partitions: they roll by thousands. The key
names no lake; which lake a chosen key means is found by :mod:`pipelines.view.lakes`.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

TOPIC_PARTITIONS = dg.DynamicPartitionsDefinition(name="topic_partitions")


def register(instance: dg.DagsterInstance, keys: Iterable[str]) -> None:
    """Make keys known to the instance, in natural order (``orders-2`` before ``orders-10``); known ones stay."""
    name = str(TOPIC_PARTITIONS.name)
    new = set(keys) - set(instance.get_dynamic_partitions(name))
    if new:
        instance.add_dynamic_partitions(name, sorted(new, key=natural_order))


def natural_order(key: str) -> tuple[str, int, str]:
    """Sort key of a topic partition's name: by topic, then by number."""
    topic, _, number = key.rpartition("-")
    return (topic, int(number), key) if number.isascii() and number.isdigit() else (key, -1, key)


def chosen_keys(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> tuple[str, ...] | None:
    """The partition keys that this run was launched for, or None for a run that looks at all there is."""
    if context.has_partition_key or context.has_partition_key_range:
        return tuple(context.partition_keys)
    return None
