"""A code location of somebody else, as docs/dagster.md shows: a lake from Loglake, and an asset of its own."""

from __future__ import annotations

import os

import dagster as dg
from deltalake import DeltaTable

from loglake import loglake_assets


class Shop(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A resource that has a plain name."""

    lake: str


@dg.asset(deps=[dg.AssetKey(["shop", "records"])], automation_condition=dg.AutomationCondition.eager())
def orders_total(launcher: Shop) -> dg.MaterializeResult[None]:
    """How many records there are."""
    rows = DeltaTable(f"{launcher.lake}/tables/records").to_pyarrow_table(columns=["offset"]).num_rows
    return dg.MaterializeResult(metadata={"dagster/row_count": rows})


@dg.definitions
def defs() -> dg.Definitions:
    """The lake, and what is made of it."""
    path = os.environ["SHOP_LAKE"]
    mine = dg.Definitions(assets=[orders_total], resources={"launcher": Shop(lake=path)})
    return dg.Definitions.merge(loglake_assets(path, sources=[os.environ["SHOP_LOGS"]]), mine)
