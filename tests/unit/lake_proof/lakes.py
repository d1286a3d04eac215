"""Lakes for the tests of the proof: made by the real jobs, whose tasks run in this process instead of in Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from logcore.cli.main import main


def spread_here(
    _: object,
    tasks: Sequence[dict[str, Any]],
    work: Callable[[dict[str, Any]], dict[str, Any]],
    sizes: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """What ``spark_jobs.tasks.spread.spread`` does, task after task; values go through JSON as they do there."""
    return [json.loads(json.dumps(work(json.loads(json.dumps(task))))) for task in tasks]


@contextmanager
def without_spark() -> Iterator[None]:
    """Jobs that ask for a session get a value that only :func:`spread_here` takes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("spark_jobs.tasks.spread.spread", spread_here)
        patched.setattr("spark_jobs.machine.session.get_session", lambda *_: object())
        yield


@dataclass(frozen=True, slots=True)
class Verified:
    """What `loglake verify LAKE --format jsonl` said."""

    code: int
    findings: list[dict[str, Any]]
    summary: dict[str, Any]
    errors: str

    @property
    def rules(self) -> set[str]:
        return {each["rule"] for each in self.findings}

    def of(self, rule: str) -> list[dict[str, Any]]:
        return [each for each in self.findings if each["rule"] == rule]


def verify(capsys: pytest.CaptureFixture[str], path: str, *options: str) -> Verified:
    """One call of the command, in this process."""
    capsys.readouterr()
    code = main(["verify", path, "--format", "jsonl", *options])
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    summary = lines.pop()["summary"] if lines and "summary" in lines[-1] else {}
    return Verified(code, lines, summary, said.err)
