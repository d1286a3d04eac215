"""A picture of where the replicas of a cluster are, as an SVG document: a bar per broker and per log directory."""

from __future__ import annotations

import html
from collections.abc import Iterator

from spark_jobs.lake.view.cluster.placement import BrokerPlacement, DirectoryPlacement, Placement

MOST_BARS = 30
"""Brokers, and log directories, that are drawn at most."""
LEADS, FOLLOWS, OUT_OF_SYNC, BYTES = "#1864ab", "#a5c8e4", "#c92a2a", "#9fb3c2"

# Pixels.
WIDTH, _LEFT, _RIGHT, _BAR, _ROW = 1000, 16, 16, 12, 36
_SPAN = WIDTH - _LEFT - _RIGHT


def placement_picture(placement: Placement) -> str:
    """Draw brokers with their replicas, then the log directories that the sources have with their bytes."""
    brokers = placement.brokers[:MOST_BARS]
    found = [each for each in placement.directories if each.bytes is not None]
    directories = found[:MOST_BARS]
    body = [_text(_LEFT, 46, "Replicas of each broker, by the metadata", "#212529", bold=True)]
    y = 58
    most = max((each.replicas for each in brokers), default=0)
    for broker in brokers:
        body += _broker(broker, y, most)
        y += _ROW
    y = _more(body, len(placement.brokers) - len(brokers), "brokers", y)
    if directories:
        body.append(_text(_LEFT, y + 14, "Bytes in each log directory, at the sources", "#212529", bold=True))
        y += 26
    largest = max((each.bytes or 0 for each in directories), default=0)
    for directory in directories:
        body += _directory(directory, y, largest)
        y += _ROW
    y = _more(body, len(found) - len(directories), "log directories", y)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
            'font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>Replicas of {placement.partitions:,} partitions on {len(placement.brokers):,} brokers</title>",
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>',
            *_legend(),
            *body,
            "</svg>\n",
        ]
    )


def _legend() -> Iterator[str]:
    x = _LEFT
    for text, colour in (("leads", LEADS), ("follows", FOLLOWS), ("out of sync", OUT_OF_SYNC), ("bytes", BYTES)):
        yield f'<rect x="{x}" y="10" width="11" height="11" fill="{colour}" stroke="#adb5bd"/>'
        yield _text(x + 16, 20, text, "#343a40")
        x += 40 + 7 * len(text)
    yield f'<path d="M{x + 4} 8v15" stroke="#212529" stroke-width="2"/>'
    yield _text(x + 12, 20, "partitions whose preferred leader it is", "#343a40")


def _broker(each: BrokerPlacement, y: int, most: int) -> Iterator[str]:
    rack = "" if each.rack is None else f", rack {each.rack}"
    yield _text(
        _LEFT,
        y + 10,
        f"broker {each.broker} ({each.state}{rack}): {each.replicas:,} replicas, leads {each.leaders:,}, preferred "
        f"leader of {each.preferred:,}, {each.out_of_sync:,} out of sync",
        "#212529" if each.state == "active" and not each.out_of_sync else OUT_OF_SYNC,
    )
    scale = _SPAN / max(most, 1)
    x = float(_LEFT)
    follows = max(each.replicas - each.leaders - each.out_of_sync, 0)
    for count, colour in ((each.leaders, LEADS), (follows, FOLLOWS), (each.out_of_sync, OUT_OF_SYNC)):
        if count:
            yield f'<rect x="{x:.1f}" y="{y + 15}" width="{count * scale:.1f}" height="{_BAR}" fill="{colour}"/>'
            x += count * scale
    mark = _LEFT + each.preferred * scale
    yield f'<path d="M{mark:.1f} {y + 13}v{_BAR + 4}" stroke="#212529" stroke-width="2"/>'


def _directory(each: DirectoryPlacement, y: int, largest: int) -> Iterator[str]:
    of = "a broker that is not known" if each.broker is None else f"broker {each.broker}"
    path = each.path or ""
    short = path if len(path) <= 60 else "…" + path[-59:]
    text = f"{short} of {of}: {each.found or 0:,} topic partitions, {each.bytes or 0:,} bytes"
    yield _text(_LEFT, y + 10, text, "#212529")
    width = _SPAN * (each.bytes or 0) / max(largest, 1)
    yield f'<rect x="{_LEFT}" y="{y + 15}" width="{width:.1f}" height="{_BAR}" fill="{BYTES}"/>'


def _more(body: list[str], count: int, what: str, y: int) -> int:
    if count <= 0:
        return y
    body.append(_text(_LEFT, y + 10, f"… and {count:,} more {what}", "#868e96"))
    return y + 20


def _text(x: float, y: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}"{weight}>{html.escape(text)}</text>'
