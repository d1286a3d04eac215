"""Findings while a command reads: each is reported once, and very many cost no more than their number."""

import pytest

from logcore.cli.output.command_notes import CommandNotes as Notes
from logcore.logs.model.findings import Finding, found

Captured = pytest.CaptureFixture[str]


def damage(position: int) -> Finding:
    return found("corrupt-bytes", f"bytes from position {position}", position=position)


def test_a_finding_is_reported_once(capsys: Captured) -> None:
    notes = Notes()
    for position in (1, 2, 1, 2, 1):
        notes.say(damage(position))
    assert notes.findings == [damage(1), damage(2)]
    assert capsys.readouterr().err == (
        "error corrupt-bytes: bytes from position 1\nerror corrupt-bytes: bytes from position 2\n"
    )


def test_a_refusal_has_no_rule(capsys: Captured) -> None:
    Notes().refuse("orders-0 is not read.")
    assert capsys.readouterr().err == "error: orders-0 is not read.\n"


def test_the_number_of_comparisons_does_not_grow_faster_than_that_of_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    compared = 0
    real = Finding.__eq__

    def counted(self: Finding, other: object) -> bool:
        nonlocal compared
        compared += 1
        return real(self, other)

    monkeypatch.setattr(Finding, "__eq__", counted)
    notes = Notes()
    for position in [*range(2000), *range(2000)]:
        notes.say(damage(position))
    assert len(capsys.readouterr().err.splitlines()) == 2000
    assert compared < 10_000
