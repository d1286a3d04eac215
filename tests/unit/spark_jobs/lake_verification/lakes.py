"""What `loglake verify LAKE` says, for the tests of the proof."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from logcore.cli.main import main


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
