"""Brings the history of a lake under the asset keys that carry its name: what ``loglake upgrade`` calls.

Earlier versions used the same keys for all lakes (``records``), with partition keys that several lakes could share.
Those assets stay readable in Dagster. Here the last materialization of each topic partition of a lake is recorded once
more under the lake's own key (``LAKE/records``), with its metadata, so that pages show which partitions exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipelines.command.history import check_outside_lakes
from pipelines.run.chains import INTAKE, MAINTENANCE
from spark_jobs.lake.view.registered_lakes import dagster_home, lake_path, read_registered

if TYPE_CHECKING:
    import dagster as dg

FIRST_RECORDED, FORMER_RUN = "first recorded", "run"
"""Metadata of a materialization that was recorded again: when it was recorded first, and in which run."""
EVENTS_A_QUERY = 1000


def carry_over(lake: str) -> Iterator[str]:
    """Record the history of a registered lake under its own keys; yield a line if there was something to record.

    It can be killed and called again: partitions that have a materialization under their own key are left out.

    Args:
        lake: Path or address of the lake.
    """
    folder = str(check_outside_lakes(dagster_home()))
    if not os.path.exists(os.path.join(folder, "dagster.yaml")):
        return
    from pipelines.command.instance import open_instance

    with open_instance(folder) as instance:
        carried = _carry_over(instance, lake_path(lake))
    if carried:
        yield f"{lake}: the history of {carried} topic partitions of assets is now under the name of the lake"


def _carry_over(instance: dg.DagsterInstance, lake: str) -> int:
    import dagster as dg

    from pipelines.catalog.names import asset_key
    from pipelines.partitions import register

    of = read_registered(lake)
    carried = 0
    for asset in [link.asset for link in (*INTAKE, *MAINTENANCE) if link.asset is not None]:
        own = asset_key(of, asset)
        known = instance.get_materialized_partitions(own)
        last = {key: event for key, event in _last_of(instance, dg.AssetKey(asset), lake).items() if key not in known}
        register(instance, of, last)
        for key, record in last.items():
            found = record.asset_materialization
            assert found is not None
            metadata = {
                **found.metadata,
                FIRST_RECORDED: dg.MetadataValue.timestamp(record.timestamp),
                FORMER_RUN: dg.MetadataValue.dagster_run(record.run_id),
            }
            instance.report_runless_asset_event(dg.AssetMaterialization(own, partition=key, metadata=metadata))
            carried += 1
    return carried


def _last_of(instance: dg.DagsterInstance, asset: dg.AssetKey, lake: str) -> dict[str, Any]:
    """The last materialization of each partition of a lake under a key that lakes shared."""
    last: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        found = instance.fetch_materializations(asset, limit=EVENTS_A_QUERY, cursor=cursor)
        for record in found.records:
            materialization = record.asset_materialization
            if materialization is None or materialization.partition is None or materialization.partition in last:
                continue
            place = materialization.metadata.get("lake")
            if place is not None and place.value == lake:
                last[materialization.partition] = record
        if not found.has_more:
            return last
        cursor = found.cursor
