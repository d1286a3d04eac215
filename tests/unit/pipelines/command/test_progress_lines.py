"""Lines of progress are rare, say what is done of what, and leave a terminal clean for the results."""

from __future__ import annotations

import io
import itertools

import pytest

from pipelines.command.progress_lines import ProgressLines, described
from spark_jobs.launch import TaskProgress

GIB = 1 << 30


@pytest.fixture(autouse=True)
def a_terminal_that_can_renew_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def after(done: int) -> TaskProgress:
    return TaskProgress("segments", done, 20, done * GIB // 4, 5 * GIB)


@pytest.mark.parametrize(
    ("progress", "seconds", "expected"),
    [
        (
            TaskProgress("segments", 3, 20, 3 * GIB, 8 * GIB),
            10.0,
            "3 of 20 segments, 3.0 of 8.0 GiB, 322 MB/s, 17 s left",
        ),
        (TaskProgress("logs", 1, 1000, None, None), 10.0, "1 of 1,000 logs"),
        (TaskProgress("pieces", 0, 2, 0, 900), 0.0, "0 of 2 pieces, 0.0 of 900.0 B"),
        (TaskProgress("pieces", 1, 2, 0, 0), 1.0, "1 of 2 pieces"),
        (
            TaskProgress("segments", 1, 2, 1 << 52, 1 << 53),
            1e9,
            "1 of 2 segments, 4096.0 of 8192.0 TiB, 5 MB/s, 11574 days 1 h left",
        ),
    ],
)
def test_a_line_says_tasks_and_bytes_of_all_and_the_speed(progress, seconds, expected):
    assert described(progress, seconds) == expected


def test_the_engine_is_reported_once_and_again_if_it_is_another():
    out = io.StringIO()
    lines = ProgressLines(out, Clock())
    for engine in ("local: why", "local: why", "spark: why"):
        lines.job_starts("ingest", engine)
        lines.job_ended()
    assert out.getvalue() == "job engine local: why\njob engine spark: why\n"


@pytest.mark.parametrize(("out", "least"), [(Terminal(), 2.0), (io.StringIO(), 10.0)])
def test_lines_are_at_least_two_seconds_apart_and_a_short_job_has_none(out, least):
    clock = Clock()
    lines = ProgressLines(out, clock)
    lines.job_starts("ingest", "local: why")
    printed_at = []
    for _ in range(400):
        before = len(out.getvalue())
        lines.progressed(after(1))
        if len(out.getvalue()) > before:
            printed_at.append(clock.now)
        clock.now += 0.1
    assert printed_at[0] >= 100 + least
    assert min(later - earlier for earlier, later in itertools.pairwise(printed_at)) >= least
    assert len(printed_at) >= 30 / least - 2


def test_in_a_file_each_line_is_one_of_its_own():
    out, clock = io.StringIO(), Clock()
    lines = ProgressLines(out, clock)
    lines.job_starts("ingest", "local: why")
    for done in (4, 8):
        clock.now += 10
        lines.progressed(after(done))
    lines.job_ended()
    assert out.getvalue().splitlines()[1:] == [
        "ingest: 4 of 20 segments, 1.0 of 5.0 GiB, 107 MB/s, 40 s left",
        "ingest: 8 of 20 segments, 2.0 of 5.0 GiB, 107 MB/s, 30 s left",
    ]


def test_on_a_terminal_one_line_is_written_again_and_removed_at_the_end():
    out, clock = Terminal(), Clock()
    lines = ProgressLines(out, clock)
    lines.job_starts("validate", "local: why")
    for done in (4, 8):
        clock.now += 10
        lines.progressed(after(done))
    lines.job_ended()
    written = out.getvalue().removeprefix("job engine local: why\n")
    assert "\n" not in written
    assert written.split("\r\x1b[2K")[1:] == [
        "validate: 4 of 20 segments, 1.0 of 5.0 GiB, 107 MB/s, 40 s left",
        "validate: 8 of 20 segments, 2.0 of 5.0 GiB, 107 MB/s, 30 s left",
        "",
    ]
