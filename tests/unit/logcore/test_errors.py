import pickle
import subprocess
import sys

import pytest

from logcore.errors import (
    CorruptIndexError,
    CorruptionReason,
    CorruptRecordError,
    InvalidRecordError,
    LogError,
    UnsupportedFormatError,
)
from tests.daemons import WAIT_SECONDS


def test_an_error_says_where_what_and_what_to_do_in_one_paragraph() -> None:
    error = CorruptRecordError(
        CorruptionReason.LENGTH,
        "the length field says 3",
        file="00000000000000000000.log",
        position=712,
        offset=40,
        topic_partition="orders-0",
        nearby=b"\x00\x01",
        advice="Run verify on the directory.",
    )
    assert str(error) == (
        "orders-0, file 00000000000000000000.log, position 712, offset 40: the length field says 3"
        " (bytes there: 0001) Run verify on the directory."
    )
    assert "\n" not in str(error)


def test_an_error_without_a_place_is_its_message() -> None:
    assert str(LogError("nothing is known")) == "nothing is known"


def test_zero_is_a_place() -> None:
    assert str(LogError("bad", position=0, offset=0)) == "position 0, offset 0: bad"


def test_a_place_is_filled_in_and_never_overwritten() -> None:
    error = CorruptRecordError(CorruptionReason.CRC, "bad", position=5)
    assert error.at(file="a.log", topic_partition="t-0", position=99, offset=7) is error
    assert (error.file, error.topic_partition, error.position, error.offset) == ("a.log", "t-0", 5, 7)


@pytest.mark.parametrize("kind", [InvalidRecordError, CorruptIndexError, UnsupportedFormatError])
def test_all_are_one_family_and_none_is_the_callers_mistake(kind: type[LogError]) -> None:
    assert issubclass(kind, LogError)
    assert not issubclass(kind, ValueError | TypeError)


def test_an_error_survives_the_way_between_processes() -> None:
    error = CorruptRecordError(CorruptionReason.CRC, "bad", file="a.log", position=5, advice="Look.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is CorruptRecordError
    assert (str(copy), copy.reason, copy.position, copy.args) == (str(error), CorruptionReason.CRC, 5, error.args)


def test_reasons_are_the_words_that_tables_store() -> None:
    stored = "LENGTH MAGIC CRC CODEC CODEC_STREAM OUTPUT_CAP COUNT VARINT RECORD_LENGTH RECORD_HEADER TRAILING_BYTES"
    stored += " TRUNCATED CONTROL ATTRIBUTES OFFSET_ORDER PACKED"
    assert {str(CorruptionReason[word]) for word in stored.split()} == set(stored.split())


LOADED = "; print([m for m in ('pyarrow', 'numpy', 'lz4', 'snappy', 'zstandard') if m in sys.modules])"


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, logcore" + LOADED
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    assert run.stdout.strip() == "[]"


def test_reading_uncompressed_batches_imports_no_codec_and_no_arrow() -> None:
    code = "import sys, logcore.records.record, logcore.records.builder" + LOADED
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    assert run.stdout.strip() == "[]"
