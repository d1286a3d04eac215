"""What Hypothesis draws: records as values, and batches as bytes packed by hand."""

import gzip

from hypothesis import strategies as st

from logcore.records.batch import TimestampType
from logcore.records.record import Record
from tests import handmade

maybe_bytes = st.none() | st.binary(max_size=40)
header_pairs = st.lists(st.tuples(st.binary(max_size=10), maybe_bytes), max_size=4)


@st.composite
def rising_records(draw: st.DrawFn) -> list[Record]:
    """One to eight records with rising offsets, gaps between them, and any timestamps that a broker takes."""
    offset = draw(st.integers(0, 1 << 40))
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        rows.append(
            Record(
                offset,
                draw(st.integers(-1, 1 << 45)),
                TimestampType.CREATE_TIME,
                draw(maybe_bytes),
                draw(maybe_bytes),
                tuple(draw(header_pairs)),
            )
        )
        offset += draw(st.integers(1, 1 << 20))
    return rows


@st.composite
def batch_bytes(draw: st.DrawFn) -> bytes:
    """A sound batch, uncompressed or gzipped, packed by hand."""
    records = [
        handmade.record(
            delta,
            draw(maybe_bytes),
            draw(maybe_bytes),
            timestamp_delta=draw(st.integers(-(1 << 40), 1 << 40)),
            headers=draw(header_pairs),
        )
        for delta in range(draw(st.integers(0, 4)))
    ]
    attributes = draw(st.sampled_from([0, 0x08, 0x10, 0x20, 0x40, 0x78]))
    fields = {"base_offset": draw(st.integers(0, 1 << 62)), "base_timestamp": draw(st.integers(-1, 1 << 62))}
    if records and draw(st.booleans()):
        body = gzip.compress(b"".join(records), mtime=0)
        fields |= {"count": len(records), "last_offset_delta": len(records) - 1}
        return handmade.batch((), body=body, attributes=attributes | 1, **fields)
    return handmade.batch(records, attributes=attributes, **fields)


@st.composite
def injured_batch_bytes(draw: st.DrawFn) -> bytes:
    """A batch with a few bytes overwritten, its length made to fit again, its checksum wrong or right."""
    data = draw(batch_bytes())
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(8, len(data) - 1))
        data = handmade.patch(data, position, draw(st.binary(min_size=1, max_size=4)))
    if draw(st.booleans()):
        data = handmade.cut(data, draw(st.integers(61, len(data))))
    if draw(st.booleans()):
        data = handmade.patch(data, 8, (len(data) - 12).to_bytes(4, "big"))
    return handmade.fix_crc(data) if draw(st.booleans()) else data
