"""`loglake` run in this process; its lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    """The lines of JSON that a command prints, which must end with exit code 0."""
    capsys.readouterr()
    code = main([*map(str, arguments), "--format", "jsonl"])
    assert code == 0, f"exit code {code}"
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def dumped(target: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    """The lines of ``loglake dump ... --format jsonl -o target``, which must end with exit code 0."""
    code = main(["dump", *map(str, arguments), "--format", "jsonl", "-o", str(target)])
    assert code == 0, f"exit code {code}"
    return [json.loads(line) for line in target.read_text().splitlines()]
