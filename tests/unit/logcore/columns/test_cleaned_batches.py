"""A rewritten batch equals the output of the library's one encoder, at every size where a codec changes its method."""

from __future__ import annotations

import random
from io import BytesIO

import pytest

from logcore.columns.cleaning import cleaned_batches
from logcore.columns.cleaning.cleaned_batches import BatchWriter
from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.logs.compaction.cleaner import PlainCleaner
from logcore.logs.compaction.cleaning_round import CleanedSegment
from logcore.records.compression import Codec, compress
from tests import handmade
from tests.unit.logcore.logs.compaction.one_round import a_round, segment

pytestmark = pytest.mark.slow

SIZES = [0, 1, 100, 16_300, 65_400, 65_520, 65_536, 66_000, 131_000, 131_072, 131_200, 262_100, 400_000]
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def a_log(codec: Codec, *, is_random: bool) -> bytes:
    """A log with one value of each size, after a record that cleaning removes."""
    chance = random.Random(5)
    words = [b"click", b"view", b"cart", b"buy", b"search", b'":{"', b"0", b"1"]
    data = b""
    for number, size in enumerate(SIZES):
        value = chance.randbytes(size) if is_random else b"".join(chance.choices(words, k=size // 3 + 1))[:size]
        rows = [
            handmade.record(0, b"old", b"goes", timestamp_delta=3),
            handmade.record(1, b"k%d" % number, value, timestamp_delta=80, headers=[(b"h", value[:9])]),
        ]
        body = compress(codec, b"".join(rows))
        data += handmade.batch(body=body, base_offset=2 * number, count=2, last_offset_delta=1, attributes=codec)
    return data + handmade.simple_batch(2 * len(SIZES), [(b"old", b"newest")])


def cleaned(cleaner: CompiledCleaner | PlainCleaner, log: bytes) -> tuple[bytes, CleanedSegment]:
    end, sink = 2 * len(SIZES) + 1, BytesIO()
    only = segment(0, log, next_base=end)
    cleaner.build_map([only], a_round(end))
    result = cleaner.clean([only], sink)
    return sink.getvalue(), result


@pytest.mark.parametrize("is_random", [False, True], ids=["text", "noise"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_bytes_of_the_plain_way_at_every_size(codec: Codec, is_random: bool) -> None:
    log = a_log(codec, is_random=is_random)
    found, result = cleaned(CompiledCleaner(), log)
    assert (found, result) == cleaned(PlainCleaner(), log)
    assert result.rebuilt == len(SIZES)


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_libraries_do_not_export_is_done_by_the_packages(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        function = reset = state = 0

        def close(self) -> None:
            """Nothing is held."""

    monkeypatch.setattr(cleaned_batches, "lz4_encoder", lambda: 0)
    monkeypatch.setattr(cleaned_batches, "ZstdEncoder", Missing)
    monkeypatch.setattr(cleaned_batches, "GzipEncoder", Missing)
    monkeypatch.setattr(cleaned_batches, "jvm_encoder", lambda: 0)
    log = a_log(codec, is_random=False)
    assert cleaned(CompiledCleaner(), log) == cleaned(PlainCleaner(), log)


def test_the_encoders_of_all_codecs_are_at_hand_here() -> None:
    assert set(BatchWriter()._native) == set(CODECS)
