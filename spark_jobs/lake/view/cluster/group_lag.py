"""The lag of consumer groups, as the last run of a lake found it.

A commit beyond the end of a log counts as no lag: it is a finding of its own, and takes nothing from the lag of other
partitions.
"""

from __future__ import annotations

from spark_jobs.lake.delta.tables.snapshots import read_rows

TABLE = "cluster_group_offsets"


def group_lags(lake: str) -> dict[str, int]:
    """Return the lag of each group over all its partitions, offsets; the greatest first, then by name.

    Raises:
        TableUnreadable: The table is damaged.
    """
    rows = read_rows(lake, TABLE, ["group", "lag"])
    lags: dict[str, int] = {}
    for group, lag in zip(rows["group"].to_pylist(), rows["lag"].to_pylist(), strict=True):
        if lag is not None:
            lags[str(group)] = lags.get(str(group), 0) + max(lag, 0)
    return dict(sorted(lags.items(), key=lambda each: (-each[1], each[0])))
