"""The only partitions dimension: a key for every topic partition in any lake of this instance.

Keys are Kafka's directory names (``orders-0``). Segments are data, not partitions: they roll by thousands. The key
names no lake; :mod:`spark_jobs.lake.view.registered_lakes` finds the lake of a chosen key.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from spark_jobs.lake.view.log_state import natural_order

TOPIC_PARTITIONS = dg.DynamicPartitionsDefinition(name="topic_partitions")


def register(instance: dg.DagsterInstance, keys: Iterable[str]) -> None:
    """Add keys to the instance, in natural order (``orders-2`` before ``orders-10``). Known keys stay."""
    name = str(TOPIC_PARTITIONS.name)
    new = set(keys) - set(instance.get_dynamic_partitions(name))
    if new:
        instance.add_dynamic_partitions(name, sorted(new, key=natural_order))


def chosen_keys(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> tuple[str, ...] | None:
    """The partition keys for which this run was launched; None for a run over all keys."""
    if context.has_partition_key or context.has_partition_key_range:
        return tuple(context.partition_keys)
    return None
