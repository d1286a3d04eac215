"""A plot of the lag of groups over time, as an SVG document. Names of groups are input: they are escaped."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from spark_jobs.lake.view.cluster.group_lag import FoundLag

MOST_GROUPS = 8
"""Groups that are drawn at most: those with the greatest lag."""
COLOURS = ("#1864ab", "#c92a2a", "#2b8a3e", "#e8590c", "#5f3dc4", "#0b7285", "#a61e4d", "#5c940d")

# Pixels.
WIDTH, _LEFT, _RIGHT, _TOP, _PLOT, _LINE = 1000, 90, 16, 28, 240, 18


def drawn_groups(history: Sequence[FoundLag]) -> list[str]:
    """The groups to draw: by their greatest lag, then by name."""
    greatest: dict[str, int] = {}
    for found in history:
        for group, lag in found.lags.items():
            greatest[group] = max(lag, greatest.get(group, lag))
    return sorted(greatest, key=lambda group: (-greatest[group], group))[:MOST_GROUPS]


def lag_picture(history: Sequence[FoundLag]) -> str:
    """Draw a line per group, from the first run to the last one.

    Args:
        history: What the runs found, the oldest first.
    """
    groups = drawn_groups(history)
    left_out = len({group for found in history for group in found.lags}) - len(groups)
    height = _TOP + _PLOT + 34 + _LINE * (len(groups) + (left_out > 0)) + 8
    most = max((found.lags.get(group, 0) for found in history for group in groups), default=0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>Lag of {len(groups)} groups in {len(history)} runs</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            *_axes(history, most),
            *(line for at, group in enumerate(groups) for line in _group(group, at, history, most)),
            *([_text(_LEFT, _legend_y(len(groups)), f"… and {left_out:,} more groups", "#868e96")] if left_out else []),
            "</svg>\n",
        ]
    )


def _x(found: FoundLag, history: Sequence[FoundLag]) -> float:
    first, last = history[0].time_ms, history[-1].time_ms
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (found.time_ms - first) / max(last - first, 1)


def _y(lag: int, most: int) -> float:
    return _TOP + _PLOT - _PLOT * max(lag, 0) / max(most, 1)


def _axes(history: Sequence[FoundLag], most: int) -> Iterator[str]:
    yield f'<path d="M{_LEFT} {_TOP}V{_TOP + _PLOT}H{WIDTH - _RIGHT}" stroke="#868e96" fill="none"/>'
    for lag in sorted({0, most // 2, most}):
        y = _y(lag, most)
        yield f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#e9ecef"/>'
        yield _text(_LEFT - 8, y + 4, f"{lag:,}", "#495057", "end")
    yield _text(_LEFT, _TOP - 12, "lag in offsets, after each run that changed it", "#212529")
    for found, anchor in ((history[0], "start"), (history[-1], "end"))[: len(history)]:
        time = datetime.fromtimestamp(found.time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        yield _text(_x(found, history), _TOP + _PLOT + 18, time, "#495057", anchor)


def _group(group: str, at: int, history: Sequence[FoundLag], most: int) -> Iterator[str]:
    colour = COLOURS[at % len(COLOURS)]
    points = [(_x(found, history), _y(found.lags[group], most)) for found in history if group in found.lags]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" stroke="{colour}" stroke-width="2" fill="none"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points)
    last = next(found.lags[group] for found in reversed(history) if group in found.lags)
    short = group if len(group) <= 80 else group[:40] + "…" + group[-39:]
    y = _legend_y(at)
    yield f'<path d="M{_LEFT} {y - 4}h18" stroke="{colour}" stroke-width="3"/>'
    yield _text(_LEFT + 26, y, f"{short}: lag {last:,}", "#212529")


def _legend_y(at: int) -> int:
    return _TOP + _PLOT + 44 + _LINE * at


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{html.escape(text)}</text>'
