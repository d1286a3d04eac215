"""Lines of `dump`, as values."""

import json

import pytest

from logcore.cli.main import main

Captured = pytest.CaptureFixture[str]


def dump(capsys: Captured, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    assert main(["dump", "--format", "jsonl", *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
