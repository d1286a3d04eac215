"""Planted into the data source of Spark."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CORPUS = "tests/conformance/test_spark_source.py"
SPARK = "tests/spark/test_data_source.py"

FAULTS = (
    Fault(
        "rows of aborted transactions are in a read_committed read",
        "spark_jobs/data_source/log_readers.py",
        "chosen = reads.log.choose(OffsetRange(start, None if is_open else end), wanted)",
        "chosen = reads.log.choose(OffsetRange(start, None if is_open else end), wanted)\n"
        "    chosen = replace(chosen, wanted=replace(chosen.wanted, visible=((start, end),)))",
        (CORPUS, "-k", "transactions-4.4.0"),
    ),
    Fault(
        "a part of a log takes the next one's first row",
        "spark_jobs/data_source/log_readers.py",
        "    start, end = bounds\n",
        "    start, end = bounds[0], bounds[1] + 1\n",
        (CORPUS, "-k", "codecs-v2-4.3.1"),
    ),
    Fault(
        "damage is left out in silence",
        "spark_jobs/data_source/log_ranges.py",
        "return Reports(_fail if self._fails else _warn)",
        "return Reports(_warn)",
        (SPARK, "-k", "damage_ends_a_read"),
    ),
    Fault(
        "rows after the damage are read in the mode strict",
        "spark_jobs/data_source/log_ranges.py",
        'if options.mode == "permissive" or options.fail_on_data_loss:',
        "if options.paths:",
        (SPARK, "-k", "damage_ends_a_read"),
    ),
    Fault(
        "a pushed filter on a time takes one millisecond too many",
        "spark_jobs/data_source/log_readers.py",
        "return self._of_times(_micros(value) // 1000 + 1, None)",
        "return self._of_times(_micros(value) // 1000, None)",
        (SPARK, "-m", "long", "-k", "pushed_filters"),
    ),
    Fault(
        "a stream reads on after its log was cut",
        "spark_jobs/data_source/log_ranges.py",
        "    if low <= offset <= high:\n        return offset\n",
        "    return offset\n",
        (SPARK, "-m", "long", "-k", "cut_or_is_gone"),
    ),
)
