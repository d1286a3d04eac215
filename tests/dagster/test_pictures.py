"""What is shown is well-formed, escaped, and alarms by colour only where something is wrong."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET

import pytest

from logcore.logs.model.offset_ledger import OffsetState
from pipelines.metadata.picture import COLOURS, ledger_picture
from pipelines.metadata.reporting import escape, markdown_table, picture_metadata
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.view.ledger_states import ALARMING, STATES
from spark_jobs.lake.view.log_state import LogState
from tests.dagster.fake_jobs import blank

SVG = "{http://www.w3.org/2000/svg}"


def log(topic: str, *ranges: tuple[OffsetState, int]) -> LogState:
    """A log whose ledger has these states with so many offsets each."""
    end, ledger = 0, []
    for state, offsets in ranges:
        ledger.append(LedgerRow(end, end + offsets, state, 0, log="l/0", topic=topic, log_id="l", partition=0))
        end += offsets
    row = blank(LogRow, log="l/0", topic=topic, partition=0, next_offset=end)
    return LogState("/lake", row, 1, 1, 1, 1, 1, 1, 0, (), (), tuple(ledger))


def bars(svg: str, state: str) -> list[ET.Element]:
    """The drawn pieces of a state, without the legend's square."""
    pieces = [e for e in ET.fromstring(svg).iter(f"{SVG}rect") if e.get("fill") == COLOURS[state]]
    return [e for e in pieces if e.find(f"{SVG}title") is not None]


def test_the_pieces_of_a_bar_are_as_wide_as_their_share_of_offsets() -> None:
    svg = ledger_picture([log("orders", (OffsetState.PRESENT, 750), (OffsetState.ABORTED, 250))])

    (present,), (aborted,) = bars(svg, "present"), bars(svg, "aborted")
    assert float(present.get("width", 0)) == pytest.approx(3 * float(aborted.get("width", 0)))
    assert float(aborted.get("x", 0)) == pytest.approx(float(present.get("x", 0)) + float(present.get("width", 0)))


def test_one_corrupt_offset_in_a_million_can_be_seen() -> None:
    svg = ledger_picture([log("orders", (OffsetState.PRESENT, 1_000_000), (OffsetState.CORRUPT, 1))])

    (corrupt,) = bars(svg, "corrupt")
    assert float(corrupt.get("width", 0)) >= 2.5


def test_a_log_that_alarms_is_drawn_however_many_do_not() -> None:
    many = [log(f"topic{number}", (OffsetState.PRESENT, 10)) for number in range(500)]
    svg = ledger_picture([*many, log("hurt", (OffsetState.MISSING, 3))])

    assert len(bars(svg, "missing")) == 1
    assert len(bars(svg, "present")) == 39
    assert "… and 461 more topic partitions" in svg
    assert len(svg) < 60_000


def test_a_log_without_offsets_is_a_bar_without_pieces() -> None:
    svg = ledger_picture([log("empty")])

    assert "no offsets" in svg
    assert all(bars(svg, state) == [] for state in STATES)


def test_a_topic_name_cannot_break_out_of_the_picture() -> None:
    evil = "</text><script>alert(1)</script>&\"'"
    svg = ledger_picture([log(evil, (OffsetState.CORRUPT, 1))])

    root = ET.fromstring(svg)
    assert [element for element in root.iter() if "script" in element.tag] == []
    shown = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any(text.endswith(f"{evil}-0"[-16:]) for text in shown)


def test_only_alarming_states_have_a_strong_colour() -> None:
    for state in STATES:
        red, green, blue = (int(COLOURS[state][i : i + 2], 16) for i in (1, 3, 5))
        saturation = (max(red, green, blue) - min(red, green, blue)) / max(red, green, blue)
        assert (saturation > 0.7) == (state in ALARMING), state


def test_markdown_of_a_picture_holds_the_svg_and_its_figures() -> None:
    text = picture_metadata([log("orders", (OffsetState.PRESENT, 1234), (OffsetState.OPEN, 1))]).text
    assert text is not None
    match = re.match(r"!\[[^\]]+\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)\n\n", text)
    assert match is not None
    ET.fromstring(base64.b64decode(match[1]))
    assert "| orders-0 | 1,234 | 1 |" in text


@pytest.mark.parametrize(
    "text",
    ["a|b", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "`x`", "**b**", "a\nb", "\\|", "![i](u)"],
)
def test_nothing_said_in_a_cell_acts_as_markdown_or_html(text: str) -> None:
    (line,) = markdown_table(["what"], [[text]]).splitlines()[2:]

    assert not set("<>[]`*\\\n") & set(line)
    assert line.count("|") == 2
    assert escape(text) == line.removeprefix("| ").removesuffix(" |")


def test_a_long_table_says_how_much_of_it_is_not_shown() -> None:
    table = markdown_table(["n"], [[number] for number in range(1000)])

    assert table.endswith("… and 950 more rows")
    assert len(table.splitlines()) == 2 + 50 + 2
