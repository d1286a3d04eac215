"""Notes about logs without a directory name some of them, and count the others."""

from __future__ import annotations

from logcore.logs.model.findings import found
from pipelines.command.summary import accepted_gone_lines, read_elsewhere_lines

NAMES = [f"orders-{partition}" for partition in range(1, 26)]
TWENTY = [", ".join(NAMES[start : start + 20]) for start in (0, 1)]


def test_the_note_about_accepted_logs_names_twenty() -> None:
    [note] = accepted_gone_lines(NAMES)
    assert note == f"note: on_gone accepts that these logs have no directory any more: {TWENTY[0]} and 5 more"
    [note] = accepted_gone_lines(NAMES[:20])
    assert note.endswith(f": {TWENTY[0]}")
    assert accepted_gone_lines([]) == []


def test_logs_that_are_read_elsewhere_have_one_note() -> None:
    lost = {name: found("log-directory-missing", f"No directory of {name}.", file=f"/logs/{name}") for name in NAMES}
    assert read_elsewhere_lines(lost) == [f"note: No directory of orders-1. The same holds for {TWENTY[1]} and 4 more."]
    first = dict([next(iter(lost.items()))])
    assert read_elsewhere_lines(first) == ["note: No directory of orders-1."]
    assert read_elsewhere_lines({}) == []
