"""A picture of logs along their offsets, as an SVG document: ledger states, segments, frontier, damage.

Each log is a strip from its first to its last offset, true to scale. Damage is at least a few pixels wide, has its
offsets written above the strip, and is listed below it where there is no room above. A strip is drawn in columns of
pixels, so that a ledger of any length gives a document of bounded size.

Topic names are input. They are escaped. Keys and values of records are not in a picture.
"""

from __future__ import annotations

import html
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from logcore.logs.model.offset_ledger import BLOCKING, LedgerRange, OffsetState

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
"""By ledger state: muted for normal states, strong for damage."""

DAMAGE = tuple(state for state in COLOURS if state in BLOCKING - {OffsetState.OPEN})
"""States that mean damage, the worst last."""

MAX_LOGS = 30
LISTED = 24
"""Damaged ranges that are listed below a strip at most."""

# Pixels, if not stated otherwise.
WIDTH, _LEFT, _RIGHT = 1000, 16, 16
_SPAN = WIDTH - _LEFT - _RIGHT
_STRIP, _SEGMENTS, _LINE, _SMALLEST = 26, 7, 15, 3.0
_LABEL_ROWS = 4
_LETTER = 6.3
"""Width of a character of a label; labels use digits mostly."""
_COLUMNS = 1200
"""Columns of all strips of a picture together; but each strip has at least 30."""


@dataclass(frozen=True, slots=True)
class LogPicture:
    """What a picture shows of one log.

    Attributes:
        name: Topic and partition.
        ranges: The ledger, by offset.
        segments: Base offsets of segments, ascending.
        high_watermark: None if it is not known.
        frontier: The first offset that is not published; None if nothing is, or there is no table.
        open_transactions: First offsets of open transactions, ascending.
    """

    name: str
    ranges: Sequence[LedgerRange]
    segments: Sequence[int] = ()
    high_watermark: int | None = None
    frontier: int | None = None
    open_transactions: Sequence[int] = ()

    @property
    def damage(self) -> list[LedgerRange]:
        """The damaged ranges, by offset; neighbours of one state and reason are joined."""
        joined: list[LedgerRange] = []
        for each in self.ranges:
            if str(each.state) not in DAMAGE:
                continue
            last = joined[-1] if joined else None
            if last and (last.end_offset, last.state, last.evidence) == (each.start_offset, each.state, each.evidence):
                joined[-1] = LedgerRange(last.start_offset, each.end_offset, each.state, evidence=each.evidence)
            else:
                joined.append(each)
        return joined


def ledger_picture(logs: Sequence[LogPicture]) -> str:
    """Draw one strip per log, one below the other.

    At most :data:`MAX_LOGS` logs are drawn, damaged ones first. The last line says how many are not.
    """
    drawn = most_telling(logs)
    columns = max(30, min(_SPAN, _COLUMNS // max(len(drawn), 1)))
    listed = max(3, min(LISTED, 2 * LISTED // max(len(drawn), 1)))
    y, body = 34, []
    for log in drawn:
        lines, height = _log(log, y, columns, listed)
        body += lines
        y += height
    if not logs:
        body.append(_text(_LEFT, 20, "no topic partitions", "#868e96"))
    if len(drawn) < len(logs):
        body.append(_text(_LEFT, y + 10, f"… and {len(logs) - len(drawn):,} more topic partitions", "#868e96"))
        y += 22
    title = "Ledger states by offset of " + (html.escape(logs[0].name) if len(logs) == 1 else f"{len(logs):,} logs")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
            'font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>',
            *_legend(drawn),
            *body,
            "</svg>\n",
        ]
    )


def most_telling(logs: Sequence[LogPicture]) -> list[LogPicture]:
    """The logs to draw: in the given order, or the damaged ones first if there are too many."""
    if len(logs) <= MAX_LOGS:
        return list(logs)
    return sorted(logs, key=lambda log: not any(str(each.state) in DAMAGE for each in log.ranges))[:MAX_LOGS]


def _legend(logs: Sequence[LogPicture]) -> Iterator[str]:
    seen = {str(each.state) for log in logs for each in log.ranges}
    x = float(_LEFT)
    for state in (state for state in COLOURS if state in seen):
        weight = ' font-weight="700"' if state in DAMAGE else ""
        yield f'<rect x="{x:.0f}" y="10" width="11" height="11" fill="{COLOURS[state]}" stroke="#adb5bd"/>'
        yield f'<text x="{x + 16:.0f}" y="20" fill="#343a40"{weight}>{state}</text>'
        x += 34 + (8.2 if state in DAMAGE else 7.0) * len(state)


def _log(log: LogPicture, y: int, columns: int, most: int) -> tuple[list[str], int]:
    """The lines of one log from ``y`` on, and its height."""
    damage = log.damage
    if not log.ranges:
        return [_name(log, y, "no offsets", is_damaged=False)], 28
    scale = _Scale(log.ranges[0].start_offset, log.ranges[-1].end_offset)
    labels, left = _labels(damage, scale, most)
    rows = 1 + max((row for row, _, _ in labels), default=-1)
    top = y + 24 + rows * _LINE + (6 if rows else 0)
    lines = [_name(log, y, _summary(log, damage), is_damaged=bool(damage))]
    lines += _strip(log, damage, scale, top, columns)
    for row, x, each in labels:
        line = y + 24 + row * _LINE
        middle = scale.middle(each)
        lines.append(f'<path d="M{middle:.1f} {line + 3}V{top}" stroke="{COLOURS[each.state]}" fill="none"/>')
        lines.append(
            f'<text x="{x:.1f}" y="{line}" fill="{COLOURS[each.state]}" font-weight="700">{_label(each)}</text>'
        )
    bottom = top + _STRIP + _SEGMENTS + 2
    lines += _axis(scale, bottom)
    bottom += 20
    marks, height = _marks(log, scale, top, bottom)
    lines += marks
    bottom += height
    if left:
        listed, height = _list(damage, bottom, most)
        lines += listed
        bottom += height
    return lines, bottom - y + 18


@dataclass(frozen=True, slots=True)
class _Scale:
    """Offsets as pixels from the left."""

    start: int
    end: int

    def x(self, offset: int) -> float:
        inside = min(max(offset, self.start), self.end)
        return _LEFT + _SPAN * (inside - self.start) / max(self.end - self.start, 1)

    def middle(self, each: LedgerRange) -> float:
        left, width = self.wide(each)
        return left + width / 2

    def wide(self, each: LedgerRange) -> tuple[float, float]:
        """Left end and width of a range that has to be seen."""
        left = self.x(each.start_offset)
        width = max(self.x(each.end_offset) - left, _SMALLEST)
        return min(left, _LEFT + _SPAN - width), width


def _name(log: LogPicture, y: int, summary: str, *, is_damaged: bool) -> str:
    short = log.name if len(log.name) <= 70 else log.name[:34] + "…" + log.name[-35:]
    colour = COLOURS["corrupt"] if is_damaged else "#868e96"
    weight = 700 if is_damaged else 400
    return (
        f'<text x="{_LEFT}" y="{y + 8}" fill="#212529" font-size="13" font-weight="700">{html.escape(short)}'
        f'<tspan dx="12" font-size="12" font-weight="{weight}" fill="{colour}">{html.escape(summary)}</tspan></text>'
    )


def _summary(log: LogPicture, damage: Sequence[LedgerRange]) -> str:
    offsets = log.ranges[-1].end_offset - log.ranges[0].start_offset
    if not damage:
        return _count(offsets, "offset")
    counts = Counter[str]()
    for each in damage:
        counts[str(each.state)] += each.offsets
    states = ", ".join(f"{counts[state]:,} {state}" for state in reversed(DAMAGE) if counts[state])
    return f"{_count(len(damage), 'damaged range')}: {states} of {_count(offsets, 'offset')}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _strip(log: LogPicture, damage: Sequence[LedgerRange], scale: _Scale, top: int, columns: int) -> Iterator[str]:
    """States, then segments below them."""
    width = _SPAN / columns
    yield f'<rect x="{_LEFT}" y="{top}" width="{_SPAN}" height="{_STRIP}" fill="#f8f9fa"/>'
    paths: dict[str, list[str]] = {}
    for first, last, state in _pieces(log.ranges, scale, columns):
        paths.setdefault(state, []).append(f"M{_LEFT + first * width:.4g} {top}h{(last - first) * width:.4g}v{_STRIP}")
    for state, pieces in paths.items():
        closed = "".join(f"{piece}h-{piece.rpartition('h')[2].partition('v')[0]}z" for piece in pieces)
        yield f'<path class="{state}" d="{closed}" fill="{COLOURS[state]}"/>'
    shown, last_right = [], -1.0
    for each in damage:  # never narrower than a few pixels, and drawn above the other states
        left, wide = scale.wide(each)
        if left + wide > last_right + width:
            shown.append((left, wide, each))
            last_right = left + wide
    if len(damage) <= LISTED:
        for left, wide, each in shown:
            yield (
                f'<rect class="{each.state}" x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{_STRIP}" '
                f'fill="{COLOURS[each.state]}"><title>{_sentence(each)}</title></rect>'
            )
    else:
        for state in DAMAGE:
            parts = [
                f"M{x:.1f} {top}h{wide:.1f}v{_STRIP}h-{wide:.1f}z" for x, wide, each in shown if each.state == state
            ]
            if parts:
                yield f'<path class="{state}" d="{"".join(parts)}" fill="{COLOURS[state]}"/>'
    yield f'<rect x="{_LEFT}" y="{top}" width="{_SPAN}" height="{_STRIP}" fill="none" stroke="#868e96"/>'
    yield from _segments(log, scale, top + _STRIP, max(2.0, width / 2))


def _pieces(ranges: Sequence[LedgerRange], scale: _Scale, columns: int) -> Iterator[tuple[int, int, str]]:
    """Columns [first, last) of one state each: the state of most of the offsets of a column. Damage comes later."""
    # Exact for every offset: all lengths are in parts of an offset, so that a column has `span` of them. Offsets count
    # from the start of the log, and no float is involved.
    span = max(scale.end - scale.start, 1)
    ends = [each.end_offset for each in ranges]
    begun, state = 0, ""
    for column in range(columns):
        low, high = column * span, (column + 1) * span
        counts = Counter[str]()
        at = bisect_left(ends, scale.start + low // columns + 1)
        while at < len(ranges) and (begins := (ranges[at].start_offset - scale.start) * columns) < high:
            stops = (ranges[at].end_offset - scale.start) * columns
            counts[str(ranges[at].state)] += min(stops, high) - max(begins, low)
            at += 1
        now = counts.most_common(1)[0][0] if counts else ""
        if now != state:
            if state:
                yield begun, column, state
            begun, state = column, now
    if state:
        yield begun, columns, state


def _segments(log: LogPicture, scale: _Scale, top: int, apart: float) -> Iterator[str]:
    """A thin band with a tick where a segment begins; of segments closer than ``apart`` pixels some have none."""
    inside = [base for base in log.segments if base < scale.end]
    if not inside:
        return
    path, last = [], -10.0
    for base in inside:
        x = scale.x(base)
        if x - last >= apart:
            path.append(f"M{x:.4g} {top + 1}v{_SEGMENTS}")
            last = x
    yield (
        f'<rect x="{scale.x(inside[0]):.1f}" y="{top + 1}" width="{_LEFT + _SPAN - scale.x(inside[0]):.1f}" '
        f'height="{_SEGMENTS}" fill="#e9ecef"><title>{_count(len(inside), "segment")}</title></rect>'
    )
    yield f'<path d="{"".join(path)}" stroke="#495057" fill="none"/>'


def _labels(
    damage: Sequence[LedgerRange], scale: _Scale, most: int
) -> tuple[list[tuple[int, float, LedgerRange]], int]:
    """Row, left end and range of each label that has room above the strip, and how many have none.

    The line of a label goes down through the rows below it, so no label may lie in its way.
    """
    placed: list[tuple[int, float, LedgerRange]] = []
    if len(damage) > most:
        return [], len(damage)
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_LABEL_ROWS)]
    left_over = 0
    for each in damage:
        width = _LETTER * len(_label(each)) + 10
        middle = scale.middle(each)
        x = min(max(middle - width / 2, _LEFT), WIDTH - _RIGHT - width)
        for row in range(_LABEL_ROWS):  # row 0 is the lowest
            is_free = all(right <= x or left >= x + width for left, right in taken[row])
            below = [span for lower in taken[:row] for span in lower]
            is_clear = all(right < middle - 2 or left > middle + 2 for left, right in below)
            crossed = any(
                x - 2 < scale.middle(other) < x + width + 2 for other_row, _, other in placed if other_row > row
            )
            if is_free and is_clear and not crossed:
                taken[row].append((x, x + width))
                placed.append((row, x, each))
                break
        else:
            left_over += 1
    rows = 1 + max((row for row, _, _ in placed), default=-1)
    return [(rows - 1 - row, x, each) for row, x, each in placed], left_over


def _label(each: LedgerRange) -> str:
    """``offsets 4..6 corrupt``, the end exclusive; ``offset 4 corrupt`` of one."""
    if each.offsets == 1:
        return f"offset {each.start_offset:,} {each.state}"
    return f"offsets [{each.start_offset:,}, {each.end_offset:,}) {each.state}"


def _sentence(each: LedgerRange) -> str:
    why = f" ({html.escape(each.evidence)})" if each.evidence else ""
    return f"{_label(each)}{why}, {_count(each.offsets, 'offset')}"


def _axis(scale: _Scale, top: int) -> Iterator[str]:
    """Round offsets below the strip, and the end of the log."""
    step = _round_step(max(scale.end - scale.start, 1) / 6)
    ticks = [scale.start, *range((scale.start // step + 1) * step, scale.end, step), scale.end]
    ends = scale.x(scale.end) - _LETTER * len(f"{scale.end:,}") - 12
    last = -math.inf
    for offset in ticks:
        x, text = scale.x(offset), f"{offset:,}"
        half = _LETTER * len(text) / 2
        anchor, left = "middle", x - half
        if offset == scale.start:
            anchor, left = "start", x
        elif offset == scale.end:
            anchor, left = "end", x - 2 * half
        if left < last + 8 or (offset != scale.end and left + 2 * half > ends):
            continue
        last = left + 2 * half
        yield f'<path d="M{x:.1f} {top}v4" stroke="#868e96"/>'
        yield f'<text x="{x:.1f}" y="{top + 15}" text-anchor="{anchor}" font-size="11" fill="#495057">{text}</text>'


def _round_step(least: float) -> int:
    power: int = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    return next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= least)


def _marks(log: LogPicture, scale: _Scale, top: int, bottom: int) -> tuple[list[str], int]:
    """Frontier, high watermark and open transactions: a mark on the strip each, and a text line below."""
    marks: list[tuple[int, str, str, str]] = []
    if log.frontier is not None:
        marks.append((log.frontier, "#1864ab", "", f"published up to {log.frontier:,}"))
    if log.high_watermark is not None:
        marks.append((log.high_watermark, "#5f3dc4", "4 3", f"high watermark {log.high_watermark:,}"))
    if log.open_transactions:
        first = log.open_transactions[0]
        many = "" if len(log.open_transactions) == 1 else f" (the first of {len(log.open_transactions):,})"
        marks.append((first, "#2b8a3e", "1 2", f"open transaction from {first:,} on{many}"))
    lines, x = [], float(_LEFT)
    for offset, colour, dash, text in marks:
        at = max(scale.x(offset) - 1.25, _LEFT)  # it ends where the offset begins
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        lines.append(
            f'<path d="M{at:.1f} {top - 5}v{_STRIP + _SEGMENTS + 7}" stroke="{colour}" stroke-width="2.5"{dashes}>'
            f"<title>{text}</title></path>"
        )
        lines.append(f'<path d="M{x:.0f} {bottom + 8}h18" stroke="{colour}" stroke-width="2.5"{dashes}/>')
        lines.append(_text(x + 24, bottom + 12, text, colour))
        x += 24 + 6.8 * len(text) + 24
    return lines, 20 if marks else 0


def _list(damage: Sequence[LedgerRange], top: int, most: int) -> tuple[list[str], int]:
    """The damaged ranges as text, in two or three columns."""
    shown = damage[:most]
    entries = [_list_entry(each) for each in shown]
    across = 3 if max(map(len, entries)) <= 44 else 2
    rows = math.ceil(len(shown) / across)
    lines = [
        _text(_LEFT + at // rows * _SPAN / across, top + 14 + at % rows * _LINE, entry, COLOURS[each.state])
        for at, (each, entry) in enumerate(zip(shown, entries, strict=True))
    ]
    height = 6 + rows * _LINE
    if len(shown) < len(damage):
        more = f"… and {len(damage) - len(shown):,} more damaged ranges, the last: {_label(damage[-1])}"
        lines.append(_text(_LEFT, top + height + 10, more, "#495057"))
        height += _LINE
    return lines, height


def _list_entry(each: LedgerRange) -> str:
    text = _label(each) + (f" ({each.evidence})" if each.evidence else "")
    return text if len(text) <= 70 else text[:69] + "…"


def _text(x: float, y: float, text: str, colour: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{html.escape(text)}</text>'
