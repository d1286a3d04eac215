"""The rows about transactions of one record: `loglake run` into a new lake.

Speed is records by processor time of all processes of the command, so that other work on the machine counts little.
Every record is compared with those that were packed by hand. Half of the batches are commit markers.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
from deltalake import DeltaTable

from tests.bench import transactional
from tests.bench.corpora import MIB, home
from tests.bench.results import Line, Unit, number, seconds
from tests.bench.rounds import MOST_SPREAD
from tests.bench.totals import Differ
from tests.bench.watched import Watched
from tests.bench.whole_runs import run

SMALL = "transactions-small"
_MOST_LEDGER_ROWS = 1000


def lines(count: int, rounds: int) -> Iterator[Line]:
    """Records a second, and rows of the ledger.

    :raises Differ: the table does not hold the records of the log.
    """
    taken: list[Watched] = []
    times: list[float] = []
    with tempfile.TemporaryDirectory(prefix="transactions-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        transactional.log_directory(source, count)
        for _ in range(rounds):
            shutil.rmtree(lake, ignore_errors=True)
            before = _processor_seconds()
            taken.append(run(source, lake))
            times.append(_processor_seconds() - before)
            _compare(lake, count)
        ledger_rows = DeltaTable(str(lake / "tables" / "offset_ledger")).to_pyarrow_dataset().count_rows()
    speeds = [count / each for each in times]
    yield Line(
        f"{SMALL}: `loglake run`, {count:,} transactions, by processor time",
        "",
        Unit.RECORDS_A_SECOND,
        median(speeds),
        min(speeds),
        max(speeds),
        f"processor {seconds(median(times))}, clock {seconds(median(each.seconds for each in taken))}",
        "",
        50_000,
        300_000,
        max(times) / min(times) > MOST_SPREAD,
    )
    yield Line(
        f"{SMALL}: the ledger, {count:,} transactions",
        "",
        Unit.ROWS,
        ledger_rows,
        ledger_rows,
        ledger_rows,
        "",
        "",
        _MOST_LEDGER_ROWS,
        None,
    )
    peaks = [each.together / MIB for each in taken]
    yield Line(
        f"{SMALL}: peak of RssAnon of all processes",
        "",
        Unit.MIB,
        max(peaks),
        min(peaks),
        max(peaks),
        f"largest worker {number(max(each.worker for each in taken) / MIB)} MiB",
        "",
    )


def _processor_seconds() -> float:
    """Of all child processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compare(lake: Path, count: int) -> None:
    seen = np.zeros(count, np.int64)
    table = DeltaTable(str(lake / "tables" / "records")).to_pyarrow_dataset()
    for rows in table.to_batches(columns=["offset", "key", "value"]):
        offsets = rows.column("offset").to_numpy()
        numbers = offsets // 2
        if not np.array_equal(numbers * 2, offsets) or (len(numbers) and int(numbers.max()) >= count):
            raise Differ("the table records has an offset that is none of a record")
        np.add.at(seen, numbers, 1)
        keys, values = transactional.expected(numbers)
        if not (
            rows.column("key").cast(keys.type).equals(keys) and rows.column("value").cast(values.type).equals(values)
        ):
            raise Differ("the table records has a key or value that differs from the log")
    if not (seen == 1).all():
        raise Differ(f"the table records lacks {(seen == 0).sum()} records and repeats {(seen > 1).sum()}")
