"""The only partitions dimension of a lake: a key for each of its topic partitions.

Keys are Kafka's directory names (``orders-0``). Segments are data, not partitions: they roll by thousands. Each lake
has a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from spark_jobs.lake.view.log_state import natural_order
from spark_jobs.lake.view.registered_lakes import RegisteredLake, held_logs


def topic_partitions(lake: RegisteredLake) -> dg.DynamicPartitionsDefinition:
    """The dimension of a lake."""
    return dg.DynamicPartitionsDefinition(name=f"topic_partitions/{lake.name}")


def register(instance: dg.DagsterInstance, lake: RegisteredLake, keys: Iterable[str]) -> None:
    """Give the instance the keys of a lake: add new ones, and remove those of logs that are gone.

    New keys come in natural order (``orders-2`` before ``orders-10``). Events of a removed key stay.

    Args:
        keys: The topic partitions of the lake.
    """
    name = str(topic_partitions(lake).name)
    known, wanted = set(instance.get_dynamic_partitions(name)), set(keys)
    if wanted - known:
        instance.add_dynamic_partitions(name, sorted(wanted - known, key=natural_order))
    if known - wanted:
        # A run that is recorded late may have seen fewer logs than the lake has now.
        held = {str(log) for log in held_logs(lake.path).values()}
        for key in known - wanted - held:
            instance.delete_dynamic_partition(name, key)


def chosen_keys(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> tuple[str, ...] | None:
    """The partition keys for which this run was launched; None for a run over all keys."""
    if context.has_partition_key or context.has_partition_key_range:
        return tuple(context.partition_keys)
    return None
