"""The findings of one read."""

import pytest

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.reading.read_options import Notes

FIRST, SECOND = found("unreadable", "a cannot be read."), found("zero-tail", "b ends with zeros.")


def test_each_finding_is_kept_once_in_order_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    notes = Notes()
    for finding in (FIRST, SECOND, FIRST):
        notes.say(finding)
    assert notes.findings == [FIRST, SECOND]
    assert capsys.readouterr() == ("", "")


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(LogError, match="nothing is done"):
        Notes().refuse("nothing is done")
