"""Where this reader and Kafka's differ on bytes whose checksum is right: all of it, each with its test.

No broker writes any of these. Kafka's reader is laxer in what it does not need to look at; where it is stricter, it
fails for lack of memory, or on a stream that nothing asks for. A disagreement that fits none of these is a bug in one
of the two.
"""

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import zstandard

from tests.fuzz import streams
from tests.fuzz.mutator import Mutant, repaired
from tests.fuzz.opinions import Opinion, ours

_RELATIVE_MAX = (1 << 31) - 1


class Difference(NamedTuple):
    """One documented difference. `fits` sees the mutant, our opinion and Kafka's."""

    name: str
    why: str
    decided: str
    """What we do, and why."""
    fits: Callable[[Mutant, Opinion, Opinion], bool]


def explanation(mutant: Mutant, mine: Opinion, theirs: Opinion) -> Difference | None:
    """The first documented difference that explains why the two opinions are not equal."""
    return next((difference for difference in DIFFERENCES if difference.fits(mutant, mine, theirs)), None)


def agree(mine: Opinion, theirs: Opinion) -> bool:
    """Both refuse, for whatever reason, or both read the same."""
    if mine.refusal is not None or theirs.refusal is not None:
        return mine.refusal is not None and theirs.refusal is not None
    return mine == theirs


def _codec(data: bytes) -> int:
    return (data[22] if data[16] == 2 else data[17]) & 7


def _count(data: bytes) -> int:
    return int(struct.unpack_from(">i", data, 57)[0])


def is_short(data: bytes) -> bool:
    """Whether a v2 batch counts more records than offsets up to its last one."""
    return _count(data) > int(struct.unpack_from(">i", data, 23)[0]) + 1


def _only_kafka_reads(mine: Opinion, theirs: Opinion) -> bool:
    return mine.refusal is not None and theirs.refusal is None


def _offsets_contradict(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if not _only_kafka_reads(mine, theirs) or mine.refusal not in ("COUNT", "OFFSET_ORDER"):
        return False
    offsets = [row.offset for row in theirs.rows]
    rise = all(low < high for low, high in pairwise(offsets))
    inside = all(theirs.base_offset <= offset <= theirs.last_offset for offset in offsets)
    room = theirs.last_offset - theirs.base_offset + 1
    return not rise or not inside or room < max(len(offsets), 1) or theirs.base_offset < 0


def _leaves_the_segment(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if not _only_kafka_reads(mine, theirs) or mine.refusal != "OFFSET_ORDER":
        return False
    offsets = [theirs.base_offset, theirs.last_offset]
    return any(not 0 <= offset - mutant.segment_base <= _RELATIVE_MAX for offset in offsets)


def _counts_none(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return (
        _only_kafka_reads(mine, theirs)
        and mutant.magic == 2
        and _count(mutant.data) == 0
        and mine.refusal in ("TRAILING_BYTES", "CODEC_STREAM")
        and theirs.rows == ()
    )


def _stream_parts(mutant: Mutant) -> tuple[bytes, bytes]:
    """The bytes before the compressed stream, and the stream."""
    data = mutant.data
    if mutant.magic == 2:
        return data[:61], data[61:]
    at = 26 if mutant.magic else 18
    at += 4 + max(struct.unpack_from(">i", data, at)[0], 0)
    return data[: at + 4], data[at + 4 :]


def _with_stream(mutant: Mutant, stream: bytes) -> bytes:
    front, _ = _stream_parts(mutant)
    if mutant.magic < 2:
        front = front[:-4] + struct.pack(">i", len(stream))
    return repaired(front + stream)


def _explains(mutant: Mutant, stream: bytes, theirs: Opinion, *, sound: bool = True) -> bool:
    """Whether our opinion of the mutant with this stream instead is Kafka's of the mutant, or differs as documented.

    `sound`: the stream must be one that we decompress, or trying every length of it would try every length of those.
    """
    other = mutant._replace(data=_with_stream(mutant, stream))
    mine = ours(other.data, other.segment_base)
    if sound and mine.refusal == "CODEC_STREAM":
        return False
    return agree(mine, theirs) or explanation(other, mine, theirs) is not None


def _bytes_after_the_stream(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if not _only_kafka_reads(mine, theirs) or mine.refusal != "CODEC_STREAM":
        return False
    _, stream = _stream_parts(mutant)
    return any(_explains(mutant, stream[:length], theirs) for length in range(len(stream) - 1, 0, -1))


def _gzip_flags(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if not _only_kafka_reads(mine, theirs) or mine.refusal != "CODEC_STREAM" or _codec(mutant.data) != 1:
        return False
    _, stream = _stream_parts(mutant)
    parts = stream.split(b"\x1f\x8b\x08")
    known = b"\x1f\x8b\x08".join([parts[0], *(bytes([part[0] & 0x1F]) + part[1:] for part in parts[1:] if part)])
    return known != stream and _explains(mutant, known, theirs, sound=False)


def _block_of_nothing(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if _codec(mutant.data) != 3:
        return False
    _, stream = _stream_parts(mutant)
    if mine.refusal is None:
        return theirs.refusal is not None and b"\1\0\0\0\0" in stream
    if theirs.refusal is not None or mine.refusal not in ("CODEC_STREAM", "TRAILING_BYTES", "COUNT"):
        return False
    nothing = [at for at in range(7, len(stream) - 3) if stream[at : at + 4] in (b"\0\0\0\x80", b"\1\0\0\0")]
    return any(_explains(mutant, stream[:at] + bytes(4), theirs) for at in nothing)


def _cut_zstd_frame(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if not _only_kafka_reads(mine, theirs) or mine.refusal != "CODEC_STREAM" or _codec(mutant.data) != 4:
        return False
    _, stream = _stream_parts(mutant)
    plain = b""
    while stream:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            plain += frame.decompress(stream)
        except zstandard.ZstdError:
            return False
        stream = frame.unused_data
    return not frame.eof and _explains(mutant, streams.zstd_stream(plain), theirs)


def _counted_by_the_broker(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    if mine.refusal is not None or theirs.refusal is not None or mutant.magic != 2 or not is_short(mutant.data):
        return False
    return mine._replace(base_offset=theirs.base_offset) == theirs and mine.base_offset < theirs.base_offset


def _no_control_key(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return _only_kafka_reads(mine, theirs) and theirs.control and mine.refusal == "CONTROL"


def _foreign_inner_magic(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return _only_kafka_reads(mine, theirs) and mutant.magic < 2 and mine.refusal == "MAGIC"


def _denied_by_its_last_message(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return (
        _only_kafka_reads(mine, theirs)
        and mutant.magic == 0
        and _codec(mutant.data) != 0
        and mine.refusal == "OFFSET_ORDER"
        and theirs.rows[-1].offset != theirs.last_offset
    )


def _never_assigned(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return (
        mine.refusal is None
        and theirs.refusal is None
        and mutant.magic < 2
        and _codec(mutant.data) != 0
        and mutant.data[:8] == bytes(8)
        and theirs.last_offset == 0
        and mine._replace(last_offset=0) == theirs
    )


def _kafkas_memory(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return (
        mine.refusal is None and theirs.refusal == "OutOfMemoryError" and mutant.magic < 2 and _codec(mutant.data) != 0
    )


def _nothing_to_decompress(mutant: Mutant, mine: Opinion, theirs: Opinion) -> bool:
    return (
        mine.refusal is None
        and theirs.refusal == "KafkaException"
        and mutant.magic == 2
        and _codec(mutant.data) != 0
        and _count(mutant.data) == 0
        and len(mutant.data) == 61
    )


DIFFERENCES = (
    Difference(
        "a last offset delta that is too small",
        "Kafka's reader counts the records up from the base offset; the log counts up to the last offset",
        "read, with the warning `last-offset-delta-short`: the records have Kafka's offsets",
        _counted_by_the_broker,
    ),
    Difference(
        "offsets contradict the batch",
        "Kafka's record reader compares offsets with nothing: not each other, not 0, not the batch's span and count",
        "damage: a table needs an offset of its own for each record",
        _offsets_contradict,
    ),
    Difference(
        "offsets leave the segment",
        "Kafka reads the batch without a segment. We place it in a segment, and its offsets do not fit the segment's "
        "name",
        "damage: the log has other batches there, and a consumer skips these records",
        _leaves_the_segment,
    ),
    Difference(
        "bytes of a batch that counts no records",
        "Kafka does not look at the record section when the count is 0",
        "damage: no broker stores it, and records would vanish without a word",
        _counts_none,
    ),
    Difference(
        "bytes behind the stream",
        "Kafka reads one byte more than the records need. It trusts the decompressor that the stream has ended; "
        "java.util.zip, the LZ4 frame reader and snappy-java ignore bytes after it",
        "damage: what follows begins like a further stream",
        _bytes_after_the_stream,
    ),
    Difference(
        "reserved flags of a gzip header",
        "RFC 1952 2.3.1.2: a reader must refuse them; java.util.zip ignores them",
        "damage: only a flipped bit of a producer makes them",
        _gzip_flags,
    ),
    Difference(
        "an LZ4 block of nothing",
        "Kafka takes a block that gives no bytes for the end of the stream; liblz4 reads on to the end mark",
        "as it is: no writer makes such a block",
        _block_of_nothing,
    ),
    Difference(
        "a zstd frame cut behind the records",
        "zstd-jni gives what a frame cut short has given so far, and then says that the stream has ended",
        "damage: a frame that is cut is a loss in a real log",
        _cut_zstd_frame,
    ),
    Difference(
        "a control record without a control key",
        "Kafka parses the key of a control record only where it acts on it",
        "damage: it could decide a transaction",
        _no_control_key,
    ),
    Difference(
        "a message inside a wrapper with a magic of no message format",
        "Kafka's iterator over a wrapper takes any magic byte there",
        "damage: no broker stores it",
        _foreign_inner_magic,
    ),
    Difference(
        "a v0 wrapper whose offset is not that of its last message",
        "Kafka trusts the offset of the wrapper; the checksum does not cover it",
        "damage: only this shows a flipped bit in the offset",
        _denied_by_its_last_message,
    ),
    Difference(
        "a wrapper whose offset was never assigned",
        "Kafka says that such a wrapper ends at offset 0, below the records it gives",
        "read, with the warning `wrapper-offset-zero`",
        _never_assigned,
    ),
    Difference(
        "more memory than Kafka has",
        "Kafka allocates what a message inside a wrapper declares before it sees that the bytes are not there",
        "read: we need less memory",
        _kafkas_memory,
    ),
    Difference(
        "a codec set on an emptied batch",
        "Kafka opens the stream although nothing is counted; compaction clears the codec, so nobody has seen it",
        "read: nothing has to be decompressed",
        _nothing_to_decompress,
    ),
)
