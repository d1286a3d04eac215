"""A lake is proved in parts, and a proof that was stopped goes on where it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.spark_jobs.lake_verification.harmed_files import files_of, segments_of, spans

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_the_parts_of_a_sample_together_are_the_whole_lake(lake, verified):
    segments_of(lake)[1].unlink()
    files_of(lake, topic="payments")[0].unlink()
    whole = verified(lake)
    parts = [verified(lake, "--sample", f"{n}/5") for n in range(1, 6)]
    for name in ("archive_files", "table_files", "table_bytes", "logs", "ledger_ranges", "rows"):
        assert sum(part.summary[name] for part in parts) == whole.summary[name], name
    said = sorted(json.dumps(each) for part in parts for each in part.findings)
    assert said == sorted(json.dumps(each) for each in whole.findings)
    assert all(part.summary["skipped"]["sample"] for part in parts)
    assert [verified(lake, "--sample", "2/5").findings] == [parts[1].findings]


def test_a_resumed_proof_proves_only_what_is_left_or_was_changed(lake, verified, tmp_path):
    segments_of(lake)[2].unlink()
    progress = tmp_path / "progress"
    whole = verified(lake, "--resume", str(progress))
    lines = progress.read_text().splitlines()
    things = [json.loads(line)["thing"] for line in lines if line.startswith('{"thing"')]
    assert len(things) == len(set(things))
    again = verified(lake, "--resume", str(progress))
    assert again.summary["skipped"]["resume"] == len(things)
    assert (again.code, sorted(map(json.dumps, again.findings))) == (2, sorted(map(json.dumps, whole.findings)))
    # killed in the middle of a line
    progress.write_text("\n".join(lines[:10]) + "\n" + lines[11][:30])
    left = verified(lake, "--resume", str(progress))
    assert 0 < left.summary["skipped"]["resume"] < len(things)
    assert sorted(map(json.dumps, left.findings)) == sorted(map(json.dumps, whole.findings))
    # changed since
    first = segments_of(lake)[0]
    first.write_bytes(bytes(first.stat().st_size))
    changed = verified(lake, "--resume", str(progress))
    assert spans(changed.of("archive-file-changed")) == {(0, 10)}
    assert changed.summary["skipped"]["resume"] == len(things) - 1


def test_the_progress_of_another_lake_or_in_the_lake_is_refused(lake, verified, tmp_path):
    progress = tmp_path / "progress"
    assert verified(lake, "--resume", str(progress)).code == 0
    other = Path(shutil.copytree(lake.path, tmp_path / "other"))
    assert verified(other, "--resume", str(progress)).code == 64
    assert verified(lake, "--resume", str(lake.path / "progress")).code == 64
    assert not (lake.path / "progress").exists()
    text = tmp_path / "text"
    text.write_text("my notes")
    assert verified(lake, "--resume", str(text)).code == 64
    assert text.read_text() == "my notes"
