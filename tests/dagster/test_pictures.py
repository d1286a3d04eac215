"""What is shown is well-formed, escaped, and alarms by colour only where something is wrong."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from logcore.logs.model.offset_ledger import OffsetState
from pipelines.metadata.reporting import (
    escape,
    markdown_table,
    picture_metadata,
    picture_of,
    pictured,
    validation_metadata,
)
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.view.log_state import LogState
from tests.dagster.fake_jobs import blank


def log(topic: str, *ranges: tuple[OffsetState, int]) -> LogState:
    """A log whose ledger has these states with so many offsets each."""
    end, ledger = 0, []
    for state, offsets in ranges:
        ledger.append(LedgerRow(end, end + offsets, state, 0, log="l/0", topic=topic, log_id="l", partition=0))
        end += offsets
    row = blank(LogRow, log="l/0", topic=topic, partition=0, next_offset=end)
    return LogState("/lake", row, 1, 1, 1, 1, 1, 1, 0, (), (), tuple(ledger))


def test_the_picture_of_a_log_has_its_damage_frontier_and_high_watermark() -> None:
    state = log("orders", (OffsetState.PRESENT, 7), (OffsetState.CORRUPT, 2), (OffsetState.PRESENT, 1))
    first, *others = state.ledger
    published = replace(
        state, ledger=(replace(first, published=True), *others), row=replace(state.row, high_watermark=9)
    )

    picture = pictured(replace(published, segment_offsets=(0, 5)))

    assert (picture.name, picture.frontier, picture.high_watermark) == ("orders-0", 7, 9)
    assert picture.segments == (0, 5)
    assert "offsets [7, 9) corrupt" in picture_of([published])


def test_markdown_of_a_picture_holds_the_svg_and_its_figures() -> None:
    text = picture_metadata([log("orders", (OffsetState.PRESENT, 1234), (OffsetState.OPEN, 1))]).text
    assert text is not None
    match = re.match(r"!\[[^\]]+\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)\n\n", text)
    assert match is not None
    ET.fromstring(base64.b64decode(match[1]))
    assert "| orders-0 | 1,234 | 1 |" in text


def test_damaged_offsets_are_named_in_words_too() -> None:
    sound = log("orders", (OffsetState.PRESENT, 7), (OffsetState.OPEN, 1))
    hurt = log("orders", (OffsetState.PRESENT, 7), (OffsetState.CORRUPT, 2), (OffsetState.MISSING, 1))
    torn = log("orders", *[pair for _ in range(13) for pair in ((OffsetState.PRESENT, 1), (OffsetState.CORRUPT, 1))])

    assert validation_metadata(sound, None, 0)["damaged offsets"] == "none"
    assert validation_metadata(hurt, None, 0)["damaged offsets"] == "[7, 9) corrupt, [9, 10) missing"
    words = validation_metadata(torn, None, 0)["damaged offsets"]
    assert str(words).startswith("[1, 2) corrupt, [3, 4) corrupt, ")
    assert str(words).endswith("[19, 20) corrupt, and 3 more ranges")


@pytest.mark.parametrize(
    "text",
    ["a|b", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "`x`", "**b**", "a\nb", "\\|", "![i](u)"],
)
def test_no_text_in_a_cell_acts_as_markdown_or_html(text: str) -> None:
    (line,) = markdown_table(["what"], [[text]]).splitlines()[2:]

    assert not set("<>[]`*\\\n") & set(line)
    assert line.count("|") == 2
    assert escape(text) == line.removeprefix("| ").removesuffix(" |")


def test_a_long_table_says_how_much_of_it_is_not_shown() -> None:
    table = markdown_table(["n"], [[number] for number in range(1000)])

    assert table.endswith("… and 950 more rows")
    assert len(table.splitlines()) == 2 + 50 + 2
