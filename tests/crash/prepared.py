"""A source, and lakes as each job finds them, for steps under real Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from tests.broker_directory import LogDirectory
from tests.crash.alone import Step
from tests.crash.forks import JOBS, Forks, Turn
from tests.crash.scene import begin
from tests.crash.side_effects import Happening, Order


class Prepared:
    """A source, and by job a lake as that job finds it."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.source = LogDirectory(scratch / "source")
        begin(self.source)
        self.after: dict[str, dict[str, list[str]]] = {}
        forks = Forks(scratch)
        lake = scratch / "lake"
        for job in JOBS:
            if lake.is_dir():
                shutil.copytree(lake, scratch / f"before-{job}")
            ended = forks.run(Turn(str(lake), str(self.source.path), (job,)))
            assert ended.code == 0, ended.said
            self.after[job] = ended.tables
        forks.close()

    def step(self, job: str, name: str, happening: Happening) -> tuple[Step, Path]:
        """That job alone on a lake of its own; and the folder of marks."""
        lake, marks = self.scratch / f"lake-{name}", self.scratch / f"marks-{name}"
        marks.mkdir()
        if (self.scratch / f"before-{job}").is_dir():
            shutil.copytree(self.scratch / f"before-{job}", lake)
        else:
            lake.mkdir()  # made by the lease before there is a worker
        order = Order(str(lake), replace(happening, signals=str(marks)))
        return Step(Turn(str(lake), str(self.source.path), (job,)), order), marks
