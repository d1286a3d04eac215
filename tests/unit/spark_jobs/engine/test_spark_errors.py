"""What the error of a job says of an error of Spark: one line, and no frame of a Java stack."""

from __future__ import annotations

import pytest

from spark_jobs.engine.spark_executor import _reason

JAVA = """Job aborted due to stage failure: Task 0 failed 4 times
\tat org.apache.spark.Scheduler.abort(Scheduler.scala:1)
Driver stacktrace:
Caused by: java.io.IOException: Cannot run program "./loglake/bin/python": error=2
\t... 28 more
Caused by: java.io.IOException: error=2
\t... 30 more"""
PYTHON = """Traceback (most recent call last):
  File "worker.py", line 1
ValueError: not found
\tat org.apache.spark.api.python.Runner.read(Runner.scala:1)
\t... 3 more"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JAVA, 'java.io.IOException: Cannot run program "./loglake/bin/python": error=2'),
        (PYTHON, "ValueError: not found"),
        ("", "RuntimeError"),
    ],
    ids=["the first cause of Java", "the last line of Python", "nothing is said"],
)
def test_an_error_of_spark_is_one_line(text, said):
    assert _reason(RuntimeError(text)) == said
