"""What the fuzzers found, smallest first, so that it stays found: each was read wrongly by an engine once."""

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available
from logcore.errors import CorruptionReason
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.fuzz import streams
from tests.fuzz.engines_compared import equal, outcome

ENGINES = list(available())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("key", [None, b"", b"abc", b"\xff\xff\0\0"])
def test_a_control_batch_without_a_control_key_is_damage_where_control_records_are_wanted(
    engine: Engine, key: bytes | None
) -> None:
    # The kernels looked at the key only where they did not give the record out.
    found = outcome(handmade.control_batch(0, key, b"v"), 0, engine)
    assert [item.reason for item in found if isinstance(item, Stretch)] == [CorruptionReason.CONTROL]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("more", [b"", streams.lz4_stream(handmade.record(1))[7:-4]])
def test_a_stored_lz4_block_of_nothing_ends_the_stream(engine: Engine, more: bytes) -> None:
    # The kernels read on after it, as liblz4 does. Kafka does not, so what follows are bytes after the stream.
    stream = streams.lz4_stream(handmade.record(0))[:-4] + b"\0\0\0\x80" + more + bytes(4)
    count = 2 if more else 1
    data = handmade.batch(body=stream, attributes=streams.LZ4, count=count, last_offset_delta=count - 1)
    found = outcome(data, 0, engine)
    assert [item.reason for item in found if isinstance(item, Stretch)] == ([CorruptionReason.COUNT] if more else [])
    assert sum(item.num_rows for item in found if isinstance(item, pa.Table)) == count % 2
    assert equal(found, outcome(data, 0, Engine.REFERENCE))
