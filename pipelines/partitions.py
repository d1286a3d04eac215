"""The only partitions dimension of a lake: a key for each of its topic partitions.

Keys are Kafka's directory names (``orders-0``). Segments are data, not partitions: they roll by thousands. Each lake
has a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from spark_jobs.lake.view.log_state import natural_order
from spark_jobs.lake.view.registered_lakes import RegisteredLake


def topic_partitions(lake: RegisteredLake) -> dg.DynamicPartitionsDefinition:
    """The dimension of a lake."""
    return dg.DynamicPartitionsDefinition(name=f"topic_partitions/{lake.name}")


def register(instance: dg.DagsterInstance, lake: RegisteredLake, keys: Iterable[str]) -> None:
    """Add keys of a lake to the instance, in natural order (``orders-2`` before ``orders-10``). Known keys stay."""
    name = str(topic_partitions(lake).name)
    new = set(keys) - set(instance.get_dynamic_partitions(name))
    if new:
        instance.add_dynamic_partitions(name, sorted(new, key=natural_order))


def chosen_keys(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> tuple[str, ...] | None:
    """The partition keys for which this run was launched; None for a run over all keys."""
    if context.has_partition_key or context.has_partition_key_range:
        return tuple(context.partition_keys)
    return None
