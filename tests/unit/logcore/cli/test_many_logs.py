"""One log of ten thousand that cannot be read is one line, and all others are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.cli.output import progress
from tests import handmade

pytestmark = pytest.mark.slow

COUNT, BAD = 10_000, 4711


@pytest.mark.long
def test_one_unreadable_log_of_ten_thousand_is_one_line_and_the_others_are_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FILE_SECONDS", 3600.0)  # no line of progress, however slow the machine is
    batch = handmade.simple_batch(0, [(b"k", b"v")])
    for number in range(COUNT):
        folder = tmp_path / f"topic{number // 100}-{number % 100}"
        folder.mkdir()
        segment = folder / f"{0:020d}.log"
        if number == BAD:
            segment.symlink_to(tmp_path / "nowhere")
        else:
            segment.write_bytes(batch)
    entries = [f"topic{number // 100} {number % 100} 1" for number in range(COUNT)]
    (tmp_path / "replication-offset-checkpoint").write_text("\n".join(["0", str(COUNT), *entries]) + "\n")

    assert main(["verify", str(tmp_path), "--format", "jsonl"]) == 3

    printed = capsys.readouterr()
    *findings, last = map(json.loads, printed.out.splitlines())
    errors = [each for each in findings if each["severity"] == "error"]
    assert len(errors) + printed.err.count("\n") == 1
    assert f"topic{BAD // 100}-{BAD % 100}" in f"{errors}{printed.err}"
    assert last["summary"]["records"] == COUNT - 1
