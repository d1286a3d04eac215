"""What a job says when its lake fails under it."""

from __future__ import annotations

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig
from spark_jobs.errors import JobError

LINES = (
    "Kernel error -> Generic S3 error",
    "\x1b[31m↳\x1b[0m error sending request",
    "\x1b[31m↳\x1b[0m operation timed out",
)


def test_a_native_error_of_several_coloured_lines_becomes_one_line(tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("\n".join(LINES))

    monkeypatch.setattr(launch, "_run_once", fails)
    with pytest.raises(JobError) as refused:
        launch.run(IngestConfig(str(tmp_path / "lake"), (str(tmp_path),), "run", 0))
    said = str(refused.value)
    assert "\n" not in said
    assert "\x1b" not in said
    assert "Generic S3 error error sending request operation timed out. What was written before is kept" in said
