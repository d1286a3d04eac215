"""snappy-java's encoder is used where it is given and answers as a broker's does; otherwise the package's is."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import pytest
import snappy

from logcore.records import snappy_encoder
from logcore.records.compression import Codec, compress, decompress
from logcore.records.snappy_encoder import (
    LibraryLoader,
    compressed_block,
    is_the_brokers,
    jvm_encoder,
    largest_block,
    use_library,
)
from spark_jobs.engine.snappy_library import load_snappy_java
from tests.daemons import WAIT_SECONDS
from tests.in_process import InProcessExecutor

TEXT = b" ".join(b"%d" % (number * number) for number in range(20_000))
"""Of whose first 4,000 bytes the two make different blocks."""
CALLED = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
)


class Library:
    """As ctypes gives one, but that its only function is Python's."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        def called(_env: None, _class: None, source: int, size: int, target: int) -> int:
            block = answer(ctypes.string_at(source, size))
            ctypes.memmove(target, block, len(block))
            return len(block)

        self.Java_org_xerial_snappy_SnappyNative_rawCompress__JJJ = CALLED(called)


@pytest.fixture(autouse=True)
def given() -> Iterator[None]:
    """Each test begins with the library that PySpark has."""
    use_library(load_snappy_java)
    yield
    use_library(load_snappy_java)


def give(library: object) -> None:
    def load() -> ctypes.CDLL | None:
        return cast("ctypes.CDLL | None", library)

    use_library(load)


def xerial_blocks(stream: bytes) -> list[bytes]:
    blocks, position = [], 16
    while position < len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        blocks.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return blocks


def of_the_package(data: bytes) -> list[bytes]:
    return [bytes(snappy.compress(data[at : at + 32_768])) for at in range(0, len(data), 32_768)]


def test_it_is_at_hand_here() -> None:
    assert jvm_encoder()


@pytest.mark.parametrize("size", [0, 1, 15, 4000, 32_767, 32_768, 32_769, 100_000])
def test_its_blocks_hold_what_was_compressed(size: int) -> None:
    stream = compress(Codec.SNAPPY, TEXT[:size])
    assert b"".join(snappy.uncompress(block) for block in xerial_blocks(stream)) == TEXT[:size]
    assert decompress(Codec.SNAPPY, stream, size) == TEXT[:size]


def test_its_blocks_are_not_the_packages() -> None:
    assert xerial_blocks(compress(Codec.SNAPPY, TEXT[:4000])) != of_the_package(TEXT[:4000])


@pytest.mark.parametrize("load", [None, lambda: None, object], ids=["no loader", "no library", "no such function"])
def test_the_package_replaces_an_absent_library(load: LibraryLoader | None) -> None:
    use_library(load)
    assert jvm_encoder() == 0
    assert xerial_blocks(compress(Codec.SNAPPY, TEXT[:4000])) == of_the_package(TEXT[:4000])


@pytest.mark.parametrize(
    "answer",
    [lambda data: bytes(snappy.compress(data)), lambda data: b"", lambda data: data[:9]],
    ids=["another encoder", "nothing", "not snappy"],
)
def test_one_that_gives_another_answer_is_not_trusted(answer: Callable[[bytes], bytes]) -> None:
    give(Library(answer))
    assert jvm_encoder() == 0
    assert xerial_blocks(compress(Codec.SNAPPY, TEXT[:4000])) == of_the_package(TEXT[:4000])


def test_one_that_fails_is_not_trusted() -> None:
    failing = CALLED(lambda _env, _class, _source, _size, _target: -1)
    assert not is_the_brokers(ctypes.cast(failing, ctypes.c_void_p).value or 0)


def test_one_that_gives_the_brokers_answer_is_used() -> None:
    answers = []

    def answer(data: bytes) -> bytes:
        answers.append(len(data))
        return theirs[data]

    inside, probe = TEXT[:70_000], TEXT[:4000]
    blocks = [inside[at : at + 32_768] for at in range(0, len(inside), 32_768)]
    theirs = {each: compressed_block(each) for each in (probe, *blocks)}
    give(Library(answer))
    assert xerial_blocks(compress(Codec.SNAPPY, inside)) == [theirs[each] for each in blocks]
    assert answers == [4000, 32_768, 32_768, 70_000 - 65_536]


def test_an_empty_block_is_never_given_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would throw, and there is no JVM to throw in."""
    assert jvm_encoder()
    monkeypatch.setattr(snappy_encoder, "_called", lambda address, data: pytest.fail("was called"))
    assert snappy.uncompress(compressed_block(b"")) == b""


def test_what_cannot_be_made_smaller_fits_its_room() -> None:
    noise = b"".join(struct.pack(">I", number * 2_654_435_761 % 2**32) for number in range(8192))
    assert len(compressed_block(noise)) <= largest_block(len(noise))


def test_the_package_replaces_the_library_with_one_warning_that_says_what_to_install(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compress(Codec.SNAPPY, TEXT)
    assert caplog.messages == []
    use_library(None)
    compress(Codec.SNAPPY, TEXT)
    compress(Codec.SNAPPY, TEXT)
    assert len(caplog.messages) == 1
    assert "other bytes than a broker's, with the same records" in caplog.messages[0]
    assert "the extra `lake`" in caplog.messages[0]
    assert "make setup" in caplog.messages[0]


def test_it_is_loaded_once_and_not_before_something_is_compressed() -> None:
    loads = []

    def load() -> ctypes.CDLL | None:
        loads.append(1)
        return load_snappy_java()

    use_library(load)
    compress(Codec.GZIP, TEXT)
    assert loads == []
    compress(Codec.SNAPPY, TEXT)
    use_library(load)
    compress(Codec.SNAPPY, TEXT)
    assert loads == [1]


def test_importing_finds_and_loads_nothing() -> None:
    code = (
        "import sys; from logcore.records import compression, snappy_encoder; "
        "compression.compress(2, b'something'); "
        "print(snappy_encoder.jvm_encoder(), [name for name in sys.modules if name.startswith(('pyspark', 'spark_'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
    )
    assert done.stdout == "0 []\n"


def test_an_executor_hands_it_to_its_tasks() -> None:
    use_library(None)
    (stored,) = InProcessExecutor().run(partial(compress, Codec.SNAPPY), [TEXT[:4000]])
    use_library(load_snappy_java)
    assert xerial_blocks(stored) == [compressed_block(TEXT[:4000])] != of_the_package(TEXT[:4000])
