"""A picture of the state of every offset: one bar per topic partition, as an SVG document.

Colours are muted for normal states and bold for alarming ones. Topic names are input and are escaped.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from spark_jobs.lake.view.ledger_states import ALARMING, MEANINGS
from spark_jobs.lake.view.log_state import LogState, states_seen

COLOURS: Mapping[str, str] = {
    "present": "#5b8fb9",
    "control": "#9fb3c2",
    "aborted": "#c2b59b",
    "open": "#a9c4a4",
    "compacted": "#d3d8dc",
    "empty": "#e2e5e8",
    "trimmed": "#eef0f1",
    "remote": "#f3d9a0",
    "unknown": "#f08c00",
    "missing": "#e8590c",
    "corrupt": "#c92a2a",
}
"""Muted for normal states, bold only for alarming ones."""

MAX_BARS = 40

# pixels
_BAR_LEFT, _BAR_WIDTH, _ROW, _SMALLEST = 210, 420, 22, 3


def ledger_picture(logs: Sequence[LogState]) -> str:
    """One horizontal bar per topic partition, with its offsets stacked by state, as an SVG document.

    A state is never narrower than a few pixels, however few offsets it has. At most :data:`MAX_BARS` bars are drawn,
    alarming ones first. The last line says how many are not drawn.
    """
    drawn = most_telling(logs)
    seen = states_seen(logs)
    height = 14 + _ROW * (len(drawn) + 1) + (_ROW if len(drawn) < len(logs) else 0)
    width = _BAR_LEFT + _BAR_WIDTH + 110
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">',
        "<title>Offsets of each topic partition by ledger state</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    x = 8.0
    for state in seen:
        weight = ' font-weight="700"' if state in ALARMING else ""
        lines.append(f'<rect x="{x:.0f}" y="8" width="10" height="10" fill="{COLOURS[state]}" stroke="#adb5bd"/>')
        lines.append(f'<text x="{x + 14:.0f}" y="17" fill="#343a40"{weight}>{html.escape(state)}</text>')
        x += 26 + 6.2 * len(state)
    for number, log in enumerate(drawn):
        y = 14 + _ROW * (number + 1)
        lines += _bar(log, y)
    if len(drawn) < len(logs):
        y = 14 + _ROW * (len(drawn) + 1)
        lines.append(
            f'<text x="8" y="{y + 12}" fill="#868e96">… and {len(logs) - len(drawn):,} more topic partitions</text>'
        )
    lines.append("</svg>")
    return "\n".join(lines)


def _bar(log: LogState, y: int) -> list[str]:
    offsets = log.offsets_by_state
    total = sum(offsets.values())
    name = log.topic_partition
    short = name if len(name) <= 32 else name[:15] + "…" + name[-16:]
    weight = ' font-weight="700"' if log.is_damaged else ""
    lines = [
        f'<text x="{_BAR_LEFT - 8}" y="{y + 12}" text-anchor="end" fill="#343a40"{weight}>{html.escape(short)}</text>',
        f'<rect x="{_BAR_LEFT}" y="{y + 2}" width="{_BAR_WIDTH}" height="13" fill="#f8f9fa" stroke="#ced4da"/>',
    ]
    x = float(_BAR_LEFT)
    for state, piece in _widths(offsets, total).items():
        lines.append(
            f'<rect x="{x:.1f}" y="{y + 2}" width="{piece:.1f}" height="13" fill="{COLOURS[state]}">'
            f"<title>{html.escape(f'{name}: {offsets[state]:,} offsets {state} ({MEANINGS[state]})')}</title></rect>"
        )
        x += piece
    label = f"{total:,} offset{'' if total == 1 else 's'}" if total else "no offsets"
    lines.append(f'<text x="{_BAR_LEFT + _BAR_WIDTH + 8}" y="{y + 12}" fill="#868e96">{label}</text>')
    return lines


def _widths(offsets: Mapping[str, int], total: int) -> dict[str, float]:
    if not total:
        return {}
    raw = {state: max(_BAR_WIDTH * count / total, _SMALLEST) for state, count in offsets.items()}
    scale = _BAR_WIDTH / sum(raw.values())
    return {state: width * scale for state, width in raw.items()}


def most_telling(logs: Sequence[LogState]) -> list[LogState]:
    """The logs to draw: in the given order, or the alarming ones first if there are too many."""
    if len(logs) <= MAX_BARS:
        return list(logs)
    return sorted(logs, key=lambda log: not log.is_damaged)[:MAX_BARS]
