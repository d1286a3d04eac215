"""What is measured in a process of its own: the first reading, and the memory of a stream. Prints a line of JSON.

python -m tests.bench.child first CORPUS MIB      milliseconds of importing, of the first and of the second reading
python -m tests.bench.child stream CORPUS MIB     peaks in bytes while all of it goes by, and before
"""

from __future__ import annotations

import json
import sys
import threading
import time


def first(name: str, mib: int) -> dict[str, float]:
    """Seconds."""
    begun = time.perf_counter()
    from tests.bench import corpora, readers

    imported = time.perf_counter()
    made = corpora.segment(corpora.named(name), mib)
    seconds = [readers.ours_from_file(made).seconds() for _ in range(2)]
    return {"import": imported - begun, "first": seconds[0], "second": seconds[1]}


def stream(name: str, mib: int) -> dict[str, float]:
    """Bytes, and the number of records that did not come."""
    from logcore.columns.engines import Engine
    from tests.bench import corpora, readers

    made = corpora.segment(corpora.named(name), mib)
    before, peak, done = _anonymous_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], _anonymous_bytes())

    import pyarrow as pa

    from logcore.storage.files import mapped_file

    watcher = threading.Thread(target=watch)
    watcher.start()
    records = 0
    content = mapped_file(str(made.path))
    for rows in readers.batches_of(content, Engine.KERNELS):
        records += rows.num_rows
    done.set()
    watcher.join()
    return {
        "before": before,
        "peak": max(peak[0], _anonymous_bytes()),
        "arrow_peak": pa.default_memory_pool().max_memory(),
        "size": len(content),
        "lost": made.totals.records - records,
    }


def _anonymous_bytes() -> int:
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"RssAnon:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status does not tell RssAnon")


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"first": first, "stream": stream}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))) + "\n")
