"""``make bench``: how fast the bundled samples are read, codec by codec, on one core.

The figures are for comparing two versions on one machine. Each segment of the codecs sample is read again and again
until about a second has gone by; the best round counts.
"""

from __future__ import annotations

import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from logcore.columns.reference import decode
from logcore.segments.scan import ScannedBatch, scan
from tests.conftest import SAMPLES

SAMPLE = "codecs-v2-4.3.1"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS = 1.0


def best(work: Callable[[], int]) -> tuple[float, int]:
    """(seconds of the fastest round, what it returned)."""
    result = work()  # once unmeasured: libraries are loaded by their first use
    fastest, begun = float("inf"), time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest, result


def scan_all(segments: dict[int, bytes], *, decode_records: bool) -> int:
    """Number of batches found good."""
    return sum(
        isinstance(item, ScannedBatch)
        for base, data in segments.items()
        for item in scan(data, base_offset=base, sealed=True, decode=decode_records)
    )


def decode_all(segments: dict[int, bytes], batches: dict[int, list[ScannedBatch]]) -> int:
    """Number of rows."""
    place = {"topic": "t", "partition": 0, "log_id": "l", "segment_id": "s"}
    return sum(
        decode(segments[base], batch.position, batch.header, **place).num_rows
        for base, found in batches.items()
        for batch in found
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(SAMPLES / f"{SAMPLE}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        print(f"{'codec':8}{'KiB':>6}{'headers + CRC':>18}{'every record':>18}{'to Arrow':>18}")
        for codec in CODECS:
            files = sorted(Path(folder, "logdir", f"codec-{codec}-0").glob("*.log"))
            segments = {int(path.stem): path.read_bytes() for path in files}
            batches = {
                base: [i for i in scan(data, base_offset=base, sealed=True) if isinstance(i, ScannedBatch)]
                for base, data in segments.items()
            }
            size = sum(map(len, segments.values()))
            shallow, _ = best(lambda s=segments: scan_all(s, decode_records=False))
            deep, _ = best(lambda s=segments: scan_all(s, decode_records=True))
            arrow, rows = best(lambda s=segments, b=batches: decode_all(s, b))
            print(
                f"{codec:8}{size / 1024:6.0f}{size / shallow / 1e6:13.1f} MB/s{size / deep / 1e6:13.1f} MB/s"
                f"{rows / arrow:11.0f} rows/s"
            )


if __name__ == "__main__":
    main()
