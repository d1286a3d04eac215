"""A log of one-record batches, as many as wanted, in one file of `batches`; and the log pass over it, watched.

``python -m tests.unit.spark_jobs.validate.many_batches COUNT`` writes such a file, looks at the log in this process and
prints seconds, growth of anonymous memory in MB and the ledger, as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake.table_specs import BATCHES
from spark_jobs.validate.batch_stream import BatchFile, SegmentPlace
from spark_jobs.validate.log_pass import LogFacts, LogTask, ValidatedLog, validate_log

CHUNK = 65_536
CLIENTS = 12
"""Idempotent producers that take turns, as today's clients are by default."""


def write_batches(path: Path, count: int) -> None:
    """Rows of one segment: batches of one record each, offsets from 0 on."""
    with pq.ParquetWriter(path, BATCHES, compression="zstd") as writer:
        for start in range(0, count, CHUNK):
            offsets = np.arange(start, min(start + CHUNK, count), dtype=np.int64)
            size = len(offsets)
            known = {
                "segment_id": pa.repeat("s", size),
                "log": pa.repeat("l", size),
                "position": pa.array(offsets * 70),
                "size": pa.repeat(pa.scalar(70, pa.int64()), size),
                "base_offset": pa.array(offsets),
                "last_offset": pa.array(offsets),
                "producer_id": pa.array(offsets % CLIENTS),
                "producer_epoch": pa.repeat(pa.scalar(0, pa.int32()), size),
                "record_count": pa.repeat(pa.scalar(1, pa.int32()), size),
                "leader_epoch": pa.repeat(pa.scalar(0, pa.int32()), size),
                "is_transactional": pa.repeat(False, size),
                "is_control": pa.repeat(False, size),
                "verdict": pa.repeat("ok", size),
            }
            columns = [known.get(field.name, pa.nulls(size, field.type)) for field in BATCHES]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=BATCHES))


def task(path: Path, count: int) -> LogTask:
    """The log pass's task over that file, the high watermark ten offsets below the end."""
    facts = LogFacts("orders-0", 0, 0, count - 10, count, None, False, ())
    return LogTask(facts, (SegmentPlace("s", 0, count, "nowhere", 0),), (BatchFile(str(path), 0),))


class Watch:
    """The most anonymous memory that this process held, in KB, looked at every few milliseconds."""

    def __init__(self) -> None:
        self.peak = self._now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.002):
            self.peak = max(self.peak, self._now())

    @staticmethod
    def _now() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1])


def main(count: int) -> None:
    """Write the batches, read them, print the result."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batches.parquet")
        # Elsewhere: what a writer leaves in this process's pools would hide what the log pass takes.
        writer = multiprocessing.get_context("spawn").Process(target=write_batches, args=(path, count))
        writer.start()
        writer.join()
        given = task(path, count)
        before = Watch._now()
        start = time.perf_counter()
        with Watch() as watch:
            result = validate_log(given)
        seconds = time.perf_counter() - start
        told = {"seconds": round(seconds, 2), "peak_mb": watch.peak // 1024, "grown_mb": (watch.peak - before) // 1024}
        judged = isinstance(result, ValidatedLog)
        failed, ledger = (None, result.ledger) if judged else (result.message, None)
        print(json.dumps(told | {"failed": failed, "ledger": ledger}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
