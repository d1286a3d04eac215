"""What the plans of maintenance say, as sentences: what is done to which log, how much, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logcore.cli.output.terminal import size_text
from spark_jobs.lake.view.open_transactions import duration

LISTED = 20
"""Maximum number of entries of one kind shown of a plan."""

_Item = Mapping[str, Any]
_Sentence = Callable[[str, _Item], str]
"""Takes the topic partition of an entry and the entry. An empty text: there is nothing to say."""


def described_plan(plan: _Item, names: Mapping[str, str]) -> list[str]:
    """Return the lines of a plan; none if nothing is due.

    Args:
        plan: As a job reports it.
        names: Topic partitions by log key.
    """
    lines: list[str] = []
    for entry, value in plan.items():
        sentence = _SENTENCES.get(entry)
        if sentence is None or not value:
            continue
        items = value if isinstance(value, list | tuple) else [value]
        said = [sentence(_name(item, names), item) for item in items[:LISTED]]
        lines += filter(None, said)
        lines += [f"and {len(items) - LISTED:,} more"] if len(items) > LISTED else []
    return lines


def _name(item: _Item, names: Mapping[str, str]) -> str:
    log = item.get("log", "")
    return str(item.get("topic_partition") or names.get(log, log))


def _of_log(name: str, item: _Item) -> str:
    size = size_text(item["bytes"])
    if "log_start_offset" in item:
        segments, start = item["segments"], item["log_start_offset"]
        deleted = f"delete {_counted(len(segments), 'segment')}, {size}, below offset {start}"
        return f"{name}: {deleted}. The last one: {segments[-1]['why']}. {_stay(item)}"
    if "end_offset" in item:
        dirty = f"[{item['first_dirty']}, {item['end_offset']}), {item['dirty_ratio']:.0%} of the bytes"
        return f"{name}: compact {_counted(len(item['segments']), 'segment')}, {size}; not compacted yet: {dirty}"
    return f"{name}: write the missing index files of {_counted(item['segments'], 'segment')} of {size}"


def _stay(item: _Item) -> str:
    why = "; ".join(item["why_it_stays"])
    return "No segment stays" if item["stays"] is None else f"The segment at offset {item['stays']} stays: {why}"


def _merge(_: str, item: _Item) -> str:
    log = f", {item['topic']}-{item['partition']}" if "log" in item else ""
    figures = f"{size_text(item['bytes'])}, {_counted(item['rows'], 'row')}"
    return f"table {item['table']}{log}: merge {_counted(item['files'], 'file')} into {item['into']:,} ({figures})"


def _files(item: _Item, what: str) -> str:
    return f"{what}: {_counted(item['count'], 'file')}, {size_text(item['bytes'])}" if item["count"] else ""


def _kept(_: str, item: _Item) -> str:
    reasons = "; ".join(dict.fromkeys(each["reason"] for each in item["segments"]))
    return f"keep the files of {_counted(item['count'], 'retired segment')}: {reasons}" if item["count"] else ""


def _mergeable(_: str, item: _Item) -> str:
    joined = f"join the slices of {_counted(item['count'], 'segment')}, {size_text(item['bytes'])}"
    return joined if item["count"] else ""


def _unfinished(_: str, item: _Item) -> str:
    counts = ((len(item["segments"]), "retired segment"), (len(item["ledgers"]), "ledger"))
    said = " and ".join(_counted(count, what) for count, what in counts if count)
    return f"finish what a stopped run began: {said}" if said else ""


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


_SENTENCES: Mapping[str, _Sentence] = {
    "logs": _of_log,
    "nothing_due": lambda name, item: f"{name}: nothing is deleted. {_stay(item)}",
    "in_doubt": lambda name, item: f"{name}: nothing is deleted, because its settings are in doubt: {item['why']}",
    "passed": lambda name, item: f"{name}: is not compacted: {item['reason']}",
    "unfinished": _unfinished,
    "deletable": lambda _, item: _files(item, "delete the archived files of retired segments"),
    "orphans": lambda _, item: _files(item, "delete files of the archive that belong to no segment"),
    "kept": _kept,
    "mergeable": _mergeable,
    "skipped": lambda name, item: (
        f"{name}: the segment at offset {item['base_offset']} gets no index files: {item['reason']}"
    ),
    "merges": _merge,
    "left": lambda _, item: f"table {item['table']}: its files stay as they are: {item['why']}",
    "vacuum": lambda _, item: _files(item, f"delete files of tables, unused for {duration(item['floor_ms'])}"),
    "checkpoints": lambda _, item: f"write checkpoints of the tables {', '.join(item)}",
}
"""By the entry of a plan. What is not here is a detail of another entry, or of no use to a reader."""
