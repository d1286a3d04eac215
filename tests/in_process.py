"""Tasks without Spark: one after another in this process, their values as JSON as on the way to a worker and back."""

from __future__ import annotations

import json
from collections.abc import Sequence

from spark_jobs.tasks.executor import Values, Work


class InProcessExecutor:
    """An executor for tests that need no JVM."""

    def run(self, tasks: Sequence[Values], work: Work, sizes: Sequence[int] | None = None) -> list[Values]:
        """As :meth:`spark_jobs.tasks.executor.Executor.run`."""
        return [json.loads(json.dumps(work(json.loads(json.dumps(task))))) for task in tasks]
