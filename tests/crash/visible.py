"""What a lake shows to any reader, between any two steps of any writer."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

TABLES = (
    "logs",
    "segments",
    "validations",
    "batches",
    "findings",
    "quarantine",
    "transactions",
    "offset_ledger",
    "records",
    "records_uncommitted",
    "log_actions",
)
OF_A_TOPIC = ("decoded/orders", "undecoded/orders", "latest/orders")
"""Tables of the topic that most tests have."""
OF_THE_CLUSTER = (
    "cluster_offset_commits",
    "cluster_group_offsets",
    "cluster_groups",
    "cluster_topics",
    "cluster_transactional_ids",
)
OF_THE_RUN = {"run_id", "archived_by"}


def rows(lake: Path, name: str) -> list[dict[str, Any]]:
    """All rows of a table; none where it was never created."""
    path = lake / "tables" / name
    if not (path / "_delta_log").is_dir() or not any((path / "_delta_log").glob("*.json")):
        return []
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def tables(lake: Path) -> dict[str, list[str]]:
    """Every table's rows as text, without what names the run; sorted, so that equal means equal as sets of rows."""
    return {
        name: sorted(repr(sorted((k, v) for k, v in row.items() if k not in OF_THE_RUN)) for row in rows(lake, name))
        for name in (*TABLES, *OF_A_TOPIC, *OF_THE_CLUSTER)
    }


def joined_ledger(lake: Path) -> list[str]:
    """Ranges of the ledger as text. Neighbours that differ in nothing are joined: a frontier once lay between them."""
    ranges: list[dict[str, Any]] = []
    for row in sorted(rows(lake, "offset_ledger"), key=lambda row: (row["log"], row["start_offset"])):
        last = ranges[-1] if ranges else row
        differ = {name for name in row if row[name] != last[name]} - {"start_offset", "end_offset", "records", "gaps"}
        if ranges and not differ and last["end_offset"] == row["start_offset"]:
            sums = {name: last[name] + row[name] for name in ("records", "gaps")}
            ranges[-1] = last | sums | {"end_offset": row["end_offset"]}
        else:
            ranges.append(row)
    return sorted(repr(sorted(row.items())) for row in ranges)


def check(lake: Path) -> None:
    """Nothing half done can be seen: fails with what is."""
    for name in TABLES:
        rows(lake, name)  # every file that a table names can be read
    recorded = [row["run_id"] for row in rows(lake, "runs")]
    assert len(set(recorded)) == len(recorded), "a run has two rows"
    _segments_are_whole(lake)
    published = rows(lake, "records")
    places = [(row["log_id"], row["partition"], row["offset"]) for row in published]
    assert len(set(places)) == len(places), "an offset is published twice"
    _rows_end_at_frontiers(lake, published)


def _segments_are_whole(lake: Path) -> None:
    for row in rows(lake, "segments"):
        if row.get("deleted_ms") is not None:
            assert row["retired_ms"] is not None, f"{row['path']} is live and said to be deleted"
            continue
        content = (lake / row["path"]).read_bytes()
        assert len(content) == row["size"], f"{row['path']} is not whole"
        assert hashlib.sha256(content).hexdigest() == row["digest"], f"{row['path']} holds other bytes"


def _rows_end_at_frontiers(lake: Path, published: list[dict[str, Any]]) -> None:
    """The table holds every present record below a log's frontier, and none at or above it."""
    ledger = rows(lake, "offset_ledger")
    table = (
        DeltaTable(str(lake / "tables" / "records")) if (lake / "tables" / "records" / "_delta_log").is_dir() else None
    )
    for log in {row["log"] for row in ledger}:
        frontier = (None if table is None else table.transaction_version(f"records/{log}")) or 0
        ranges = [row for row in ledger if row["log"] == log]
        early = [row for row in ranges if row["published"] and row["end_offset"] > frontier]
        assert not early, f"{log}: published, says the ledger, above the frontier {frontier}"
        present = [row for row in ranges if row["state"] == "present" and row["end_offset"] <= frontier]
        counted = sum(row["records"] for row in present)
        mine = [row["offset"] for row in published if f"{row['log_id']}/{row['partition']}" == log]
        assert all(offset < frontier for offset in mine), f"{log}: rows at or above its frontier {frontier}"
        assert len(mine) == counted, f"{log}: {len(mine)} rows where the ledger counts {counted} below {frontier}"
