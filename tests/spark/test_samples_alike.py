"""Real log directories become the same tables in one process, and with fused tasks in worker processes and on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.local_executor import LocalExecutor
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from spark_jobs.ingest.intake_results import IntakeResults
from tests import sampling
from tests.conftest import Sample
from tests.crash import visible
from tests.in_process import InProcessExecutor

pytestmark = pytest.mark.spark

AS_OF_MS = 1_900_000_000_000
SAMPLES = ("codecs-v2-4.3.1", "damaged", "internal-topics-4.4.0", "timestamps-v2-4.4.0", "transactions-4.4.0")
EVERY_SAMPLE = os.environ.get("LOGLAKE_TEST_EVERY_ROUND") == "1"


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalExecutor]:
    executor = LocalExecutor(2)
    yield executor
    executor.stop()


def load(
    place: Path, source: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch, *, fused: bool = True
) -> dict[str, list[str]]:
    """The tables after one load."""
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
    lake = str(place / "lake")
    publish = PublishConfig(lake, "run", AS_OF_MS, include_internal=True, isolation_level="read_uncommitted")
    jobs = (IngestConfig(lake, (str(source),), "run", AS_OF_MS), ValidateConfig(lake, "run", AS_OF_MS), publish)
    with IntakeResults() if fused else nullcontext() as results:
        for config in jobs:
            launch.run(config, results=results)
    return visible.tables(place / "lake")


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLES if EVERY_SAMPLE else sampling.drawn(SAMPLES, 1, "samples alike"))
def test_a_sample_gives_the_same_tables_everywhere(
    tmp_path, monkeypatch, workers, sample: Callable[[str], Sample], name
):
    """One sample in `make test`, all in `make test-long`."""
    source = sample(name).logdir
    used = {"yes": 0, "no": 0}
    taken = IntakeResults.taken

    def count(self: IntakeResults, work: object, tasks: list[object]) -> dict[int, object]:
        found = taken(self, work, tasks)
        used["yes"] += len(found)
        used["no"] += len(tasks) - len(found)
        return found

    monkeypatch.setattr(IntakeResults, "taken", count)
    expected = load(tmp_path / "process", source, InProcessExecutor(), monkeypatch, fused=False)
    for place, executor in {"workers": workers, "spark": SparkExecutor(get_session())}.items():
        used.update(yes=0, no=0)
        assert load(tmp_path / place, source, executor, monkeypatch) == expected
        assert used["yes"], "nothing was fused"
        assert used["no"], "everything was fused: no result had to be made after all"
    assert expected["segments"]
    assert expected["validations"]
