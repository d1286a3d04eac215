"""What brokers and clients compressed, compressed again: the same bytes, but for a little zstd.

Up to 4.3 Kafka has libzstd 1.5.6, where here and in 4.4 it is 1.5.7: one batch in a hundred comes out otherwise.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from logcore.records.compression import Codec, compress
from logcore.records.model import MAGIC_V2
from logcore.records.record import record_bytes
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from tests.conformance.snapshots import snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

SNAPSHOTS = {
    "codecs-v2-3.9.2/logdir": 0,
    "codecs-v2-4.3.1/logdir": 0,
    "bigvalue-v2-4.3.1/logdir": 0,
    "compaction-3.9.2/after2": 1,
    "compaction-4.1.2/after2": 1,
    "compaction-4.4.0/after3": 0,
}
"""How many batches of zstd differ."""


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_compressing_again_gives_the_bytes_of_the_broker(corpus: Corpus, name: str):
    same: Counter[Codec] = Counter()
    other: Counter[Codec] = Counter()
    for path in sorted(corpus.directory(snapshot(name)).glob("*/*.log")):
        content = path.read_bytes()
        for batch in SegmentScan(content, base_offset=int(path.stem), sealed=False):
            assert isinstance(batch, ScannedBatch)
            header = batch.header
            if header.codec is Codec.NONE or header.magic != MAGIC_V2 or not header.record_count:
                continue
            plain = record_bytes(content, batch.position, header)
            stored = content[batch.position + 61 : batch.end]
            (same if compress(header.codec, plain) == stored else other)[header.codec] += 1
    print({codec.kafka_name: (same[codec], other[codec]) for codec in (*same, *other)})
    assert set(other) <= {Codec.ZSTD}
    assert other[Codec.ZSTD] == SNAPSHOTS[name]
    assert set(same) == {Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD}
