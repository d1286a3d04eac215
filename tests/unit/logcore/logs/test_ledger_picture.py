"""A picture of a log names its damaged offsets, is true to scale, and stays small however long the ledger is."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET

import pytest

from logcore.logs.ledger.ledger_picture import COLOURS, DAMAGE, LISTED, LogPicture, ledger_picture
from logcore.logs.model.offset_ledger import LedgerRange, OffsetState

SVG = "{http://www.w3.org/2000/svg}"
STRIP = (16.0, 984.0)
"""Left and right end of a strip, pixels."""


def log(name: str, *ranges: tuple[str, int], **more: object) -> LogPicture:
    """A log whose ledger has these states with so many offsets each."""
    at, made = 0, []
    for state, offsets in ranges:
        made.append(LedgerRange(at, at + offsets, OffsetState(state)))
        at += offsets
    return LogPicture(name, made, **more)  # type: ignore[arg-type]


def texts(svg: str) -> str:
    """All texts that a person reads, one a line."""
    return "\n".join("".join(each.itertext()) for each in ET.fromstring(svg).iter(f"{SVG}text"))


def spans(svg: str, state: str) -> list[tuple[float, float]]:
    """Left and right end of each drawn piece of a state."""
    found = []
    for each in ET.fromstring(svg).iter():
        if each.get("class") == state and each.tag == f"{SVG}rect":
            left = float(each.get("x", 0))
            found.append((left, left + float(each.get("width", 0))))
        if each.get("class") == state and each.tag == f"{SVG}path":
            for left, width in re.findall(r"M([\d.]+) \d+h([\d.]+)", each.get("d", "")):
                found.append((float(left), float(left) + float(width)))
    return found


def test_pieces_lie_where_their_offsets_are() -> None:
    svg = ledger_picture([log("orders-0", ("present", 500), ("aborted", 250), ("present", 250))])

    (aborted,) = spans(svg, "aborted")
    width = STRIP[1] - STRIP[0]
    assert aborted == pytest.approx((STRIP[0] + width / 2, STRIP[0] + width * 3 / 4), abs=1.5)
    assert len(spans(svg, "present")) == 2


@pytest.mark.parametrize("first", [0, 2**31, 2**53, 2**60, 2**63 - 1 - 1_000])
def test_pieces_lie_where_their_offsets_are_however_large_the_offsets_are(first: int) -> None:
    ledger = [
        LedgerRange(first, first + 500, OffsetState.PRESENT),
        LedgerRange(first + 500, first + 750, OffsetState.ABORTED),
        LedgerRange(first + 750, first + 1_000, OffsetState.PRESENT),
    ]

    svg = ledger_picture([LogPicture("orders-0", ledger)])

    width = STRIP[1] - STRIP[0]
    (aborted,) = spans(svg, "aborted")
    assert aborted == pytest.approx((STRIP[0] + width / 2, STRIP[0] + width * 3 / 4), abs=1.5)
    assert sum(right - left for left, right in spans(svg, "present")) == pytest.approx(width * 3 / 4, abs=2)


@pytest.mark.parametrize(
    ("before", "damaged", "label"),
    [
        (4, 2, "offsets [4, 6) corrupt"),
        (1_000_000_000, 1, "offset 1,000,000,000 corrupt"),
        (0, 3, "offsets [0, 3) corrupt"),
    ],
)
def test_damaged_offsets_are_written_and_can_be_seen(before: int, damaged: int, label: str) -> None:
    ranges = [("present", before)] if before else []
    svg = ledger_picture([log("orders-0", *ranges, ("corrupt", damaged), ("present", 1_000_000_000))])

    assert label in texts(svg)
    (drawn,) = spans(svg, "corrupt")
    assert drawn[1] - drawn[0] >= 3
    assert STRIP[0] <= drawn[0] < drawn[1] <= STRIP[1]


def test_damage_at_the_end_of_a_log_is_inside_the_strip() -> None:
    (drawn,) = spans(ledger_picture([log("orders-0", ("present", 1_000_000), ("missing", 1))]), "missing")

    assert drawn[1] <= STRIP[1] + 0.1


def test_all_of_a_few_damaged_ranges_are_named_even_where_they_are_close() -> None:
    ranges = [pair for _ in range(LISTED) for pair in (("present", 2), ("missing", 1))]
    svg = ledger_picture([log("orders-0", *ranges, ("present", 1_000_000))])

    words = texts(svg)
    assert [number for number in range(LISTED) if f"offset {3 * number + 2} missing" not in words] == []


def test_adjacent_damage_of_two_states_is_named_twice() -> None:
    words = texts(ledger_picture([log("orders-0", ("present", 1_000_000), ("unknown", 4), ("corrupt", 1))]))

    assert "offsets [1,000,000, 1,000,004) unknown" in words
    assert "offset 1,000,004 corrupt" in words


def test_of_many_damaged_ranges_the_first_and_the_last_are_named_and_all_are_counted() -> None:
    ranges = [pair for _ in range(5_000) for pair in (("present", 9), ("corrupt", 1))]

    words = texts(ledger_picture([log("orders-0", *ranges)]))

    assert "5,000 damaged ranges: 5,000 corrupt of 50,000 offsets" in words
    assert "offset 9 corrupt" in words
    assert f"and {5_000 - LISTED:,} more damaged ranges, the last: offset 49,999 corrupt" in words


@pytest.mark.parametrize("states", [("present", "corrupt"), ("present", "aborted"), tuple(COLOURS)])
@pytest.mark.parametrize("logs", [1, 4, pytest.param(60, marks=pytest.mark.slow)])
def test_ten_thousand_ranges_of_each_log_take_at_most_200_kilobytes(states: tuple[str, ...], logs: int) -> None:
    chosen = random.Random(logs)
    ranges = [(states[at % len(states)], chosen.randint(1, 1_000)) for at in range(10_000)]
    picture = log("orders-0", *ranges, segments=tuple(range(0, 5_000_000, 250)), high_watermark=9, frontier=5)

    svg = ledger_picture([picture] * logs)

    assert len(svg.encode()) <= 200_000
    ET.fromstring(svg)


def test_frontier_high_watermark_open_transaction_and_segments_are_shown() -> None:
    svg = ledger_picture(
        [
            log(
                "orders-0",
                ("present", 60),
                ("open", 40),
                frontier=50,
                high_watermark=90,
                open_transactions=(60, 70),
                segments=(0, 25, 50),
            )
        ]
    )

    words = texts(svg)
    assert "published up to 50" in words
    assert "high watermark 90" in words
    assert "open transaction from 60 on (the first of 2)" in words
    assert "3 segments" in svg
    assert "#1864ab" in svg


def test_a_log_without_damage_says_nothing_of_damage() -> None:
    svg = ledger_picture([log("orders-0", ("present", 10), ("open", 2))])

    assert "damaged" not in svg
    assert not any(COLOURS[state] in svg for state in DAMAGE)


def test_logs_without_offsets_and_no_logs_are_pictures_too() -> None:
    assert "no offsets" in texts(ledger_picture([log("empty-0")]))
    assert "no topic partitions" in texts(ledger_picture([]))


def test_a_damaged_log_is_drawn_however_many_are_not() -> None:
    many = [log(f"topic-{number}", ("present", 10)) for number in range(500)]

    words = texts(ledger_picture([*many, log("hurt-0", ("missing", 3), ("present", 1))]))

    assert "hurt-0" in words
    assert "offsets [0, 3) missing" in words
    assert "… and 471 more topic partitions" in words


def test_a_topic_name_cannot_break_out_of_the_picture() -> None:
    evil = "</text><script>alert(1)</script>&\"'"

    root = ET.fromstring(ledger_picture([log(evil, ("corrupt", 1))]))

    assert [element for element in root.iter() if "script" in element.tag] == []
    assert any(evil in "".join(each.itertext()) for each in root.iter(f"{SVG}text"))


def test_only_damage_has_a_strong_colour() -> None:
    assert set(COLOURS) == {str(state) for state in OffsetState}
    assert DAMAGE == ("unknown", "missing", "corrupt")
    for state, colour in COLOURS.items():
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        saturation = (max(red, green, blue) - min(red, green, blue)) / max(red, green, blue)
        assert (saturation > 0.7) == (state in DAMAGE), state


def test_equal_input_gives_equal_bytes() -> None:
    ranges = [("present", 7), ("unknown", 1), ("compacted", 9)]

    assert ledger_picture([log("orders-0", *ranges)]) == ledger_picture([log("orders-0", *ranges)])
