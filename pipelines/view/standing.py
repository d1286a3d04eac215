"""Which findings still say something: about bytes that feed a log, offsets that still alarm, a log that still waits.

A finding is written once and stays in the table as history. What it speaks of may be over: a log grows again, rows that
were refused are published, a damaged slice was replaced by better bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logcore.logs.model.findings import RULES, Outcome
from logcore.logs.model.offset_ledger import EVIDENCE_REMOTE, first_hole
from pipelines.view.expectations import Stand, read_results
from pipelines.view.harm import differing_files
from spark_jobs.lake.delta.tables import read_rows, table_uri
from spark_jobs.lake.ledger.frontier import read_frontiers, read_ledger
from spark_jobs.lake.published.completeness import Difference, differences
from spark_jobs.lake.segments.archive import CUT_BACK, FILLED, LogRow
from spark_jobs.lake.store import storage

Row = Mapping[str, Any]

ALARMING = ("unknown", "missing", "corrupt")
"""Ledger states that mean damage; all others are ordinary life of a log."""

STOPPING = frozenset({"topic-recreated", "source-diverged", "source-behind"})
"""Rules by which a log stops growing, besides those for what could not be read at all."""

ABOUT_A_RANGE = frozenset({"corrupt-offsets", "missing-offsets"})
"""Rules that say of a ledger range what other findings say of the bytes in it, with their place."""

DIFFERS, HOLE, FAILED = "rows-differ-from-ledger", "ledger-has-a-hole", "expectation-failed"
"""Rules whose findings stand as long as the last look at table and ledger says the same."""

OF_FOREIGN_FILES = frozenset({"rows-differ-from-archive", "rows-out-of-order", "not-provable"})
"""Rules on files that other engines wrote: as long as the file is live and its remembered answer says so."""

ABOUT_ROWS = frozenset({FAILED, DIFFERS, HOLE, *OF_FOREIGN_FILES})
"""Rules on published rows and on the ledger itself: other checks' matter."""

OF_ONE_RUN = frozenset({"second-source", "replacement-refused"})
"""Rules on what one run was told: of no later one."""


def alarming_ranges(lake: str) -> list[Row]:
    """Ranges of the offset ledger that are unknown, missing or corrupt."""
    columns = ["log", "topic", "partition", "start_offset", "end_offset", "state", "evidence"]
    return list(read_rows(lake, "offset_ledger", columns, [("state", "in", list(ALARMING))]).to_pylist())


def standing_findings(
    lake: str, logs: Mapping[str, LogRow], ranges: Sequence[Row], *, errors_only: bool = False
) -> list[Row]:
    """Findings on these logs that still stand; ``ranges`` as :func:`alarming_ranges` gives them."""
    where: list[tuple[str, str, object]] = [("severity", "==", "error")] if errors_only else []
    found = [f for f in read_rows(lake, "findings", where=where).to_pylist() if f["log"] in logs]
    if not found:
        return []
    refused = sorted({f["log"] for f in found if f["rule"] == "output-mismatch"})
    published = read_frontiers(lake, refused) if refused else {}
    gone = _segments_without_say(lake) if any(f["segment_id"] for f in found) else set()
    mended = _mended(lake, found)
    return [
        f
        for f in found
        if f["segment_id"] not in gone
        and stands(f["rule"], logs[f["log"]], f["end_offset"], published.get(f["log"]))
        and (f["rule"] not in ABOUT_A_RANGE or any(overlap(f, r) for r in ranges))
        and f["finding_id"] not in mended
    ]


def _mended(lake: str, found: Sequence[Row]) -> set[str]:
    """Findings on differences between table and ledger, and on holes in a ledger, that are there no more."""
    mended: set[str] = set()
    differing = [f for f in found if f["rule"] == DIFFERS]
    if differing:
        now = {(d.log, told(d)) for d in differences(lake, sorted({f["log"] for f in differing}))}
        mended |= {f["finding_id"] for f in differing if (f["log"], f["message"]) not in now}
    failed = [f for f in found if f["rule"] == FAILED]
    if failed:
        kept = read_results(lake, Stand.now(lake))
        mended |= {f["finding_id"] for f in failed if f["log"] in kept and kept[f["log"]].is_met}
    compared = [f for f in found if f["rule"] in OF_FOREIGN_FILES]
    if compared:
        files = {storage.join(table_uri(lake, "records"), path) for path in differing_files(lake)}
        mended |= {f["finding_id"] for f in compared if f["file"] not in files}
    holes = [f for f in found if f["rule"] == HOLE]
    if holes:
        ledger = read_ledger(lake, sorted({f["log"] for f in holes}))
        mended |= {f["finding_id"] for f in holes if first_hole(ledger.get(f["log"], ())) is None}
    return mended


def told(difference: Difference) -> str:
    """What a finding says of rows that are not those that the ledger counts."""
    place = f"{difference.topic}-{difference.partition}, offsets {difference.start_offset}..{difference.end_offset}"
    return f"{place}: {difference.found} rows, the ledger counts {difference.expected} ({difference.what})"


def stands(rule: str, row: LogRow, end_offset: int | None = None, published_to: int | None = None) -> bool:
    """Whether a finding of a log still says something about it, by the log's state alone.

    Why a log once stopped is history when it goes on; so is a high watermark that the log has reached meanwhile, and
    rows that were refused once and published later. That a path was left alone, or a replacement refused, is of the
    run that asked for it.
    """
    if rule in OF_ONE_RUN:
        return False
    if rule == "output-mismatch":
        return end_offset is None or end_offset > (published_to or 0)
    if rule == "remote-tier":  # until offsets that lie there were found elsewhere
        return any(why == EVIDENCE_REMOTE for _, _, why in row.gap_evidence)
    if rule == "high-watermark-fell":  # until the source has come past where it once was
        return end_offset is None or row.high_watermark is None or row.high_watermark <= end_offset
    if rule == "high-watermark-beyond-log-end":
        return end_offset is None or end_offset > row.next_offset
    known = RULES.get(rule)
    could_not_look = known is not None and known.outcome is Outcome.UNCHECKED
    return rule == row.stopped if could_not_look or rule in STOPPING else True


def overlap(one: Row, other: Row) -> bool:
    """Whether two things of one log have an offset in common; without an end, the first offset is meant."""
    if one["log"] != other["log"] or one["start_offset"] is None or other["start_offset"] is None:
        return False
    ends = [each["end_offset"] or each["start_offset"] + 1 for each in (one, other)]
    return bool(one["start_offset"] < ends[1] and other["start_offset"] < ends[0])


def _segments_without_say(lake: str) -> set[str]:
    """Segments whose bytes feed no log any more: what was found in them is nobody's damage."""
    rows = read_rows(lake, "segments", ["segment_id"], [("retired_because", "in", [CUT_BACK, FILLED])])
    return set(rows["segment_id"].to_pylist())
