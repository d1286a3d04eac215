"""The page on the format says what the code does, and its worked examples are what they claim to be."""

import itertools
import re
import struct
from pathlib import Path

import pytest

import logcore
from logcore.records import batch as fields
from logcore.records import legacy
from logcore.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, crc_matches, read_header
from logcore.records.record import read_records, record_bytes
from logcore.segments.side_files import offset_index, time_index

PAGE = (Path(logcore.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")


def byte_table(title: str) -> list[tuple[int, int, str]]:
    """(offset, length, field) of the first byte table below a heading of FORMAT.md."""
    section = re.split(r"^## ", PAGE.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    return [(int(a), int(b), c) for a, b, c in re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", section, flags=re.M)]


def test_the_page_on_the_format_and_the_code_agree_on_the_batch() -> None:
    table = byte_table("Record batch, v2")
    *stored, skipped, shift = fields.BatchHeader.__slots__
    assert [field for _, _, field in table] == [
        re.sub(r"_(\w)", lambda match: match[1].upper(), name) for name in stored
    ]
    assert (skipped, shift) == ("skipped", "reader_shift")  # what the fields mean in their log
    assert [offset for offset, _, _ in table] == [
        fields.BASE_OFFSET_AT,
        fields.LENGTH_AT,
        fields.LEADER_EPOCH_AT,
        fields.MAGIC_AT,
        fields.CRC_AT,
        fields.ATTRIBUTES_AT,
        fields.LAST_OFFSET_DELTA_AT,
        fields.BASE_TIMESTAMP_AT,
        fields.MAX_TIMESTAMP_AT,
        fields.PRODUCER_ID_AT,
        fields.PRODUCER_EPOCH_AT,
        fields.BASE_SEQUENCE_AT,
        fields.RECORD_COUNT_AT,
    ]
    widths = [struct.calcsize(">" + code) for code in HEADER.format.replace(" ", "").removeprefix(">")]
    assert [length for _, length, _ in table] == widths
    assert sum(widths) == HEADER.size == HEADER_SIZE == 61
    assert LOG_OVERHEAD == 12


@pytest.mark.parametrize(
    ("title", "size"), [("Offset index", offset_index.ENTRY_SIZE), ("Time index", time_index.ENTRY_SIZE)]
)
def test_the_page_on_the_format_and_the_code_agree_on_index_entries(title: str, size: int) -> None:
    assert sum(length for _, length, _ in byte_table(title)) == size


@pytest.mark.parametrize(
    "title",
    [
        "Record batch, v2",
        "Control records",
        "Message, v0 and v1",
        "Codecs",
        "Offset index",
        "Time index",
        "Transaction index",
        "Producer snapshot",
    ],
)
def test_tables_on_the_page_leave_no_gaps(title: str) -> None:
    table = byte_table(title)
    assert len(table) >= 2
    for (offset, length, _), (following, _, _) in itertools.pairwise(table):
        assert following in (offset + length, 0)


def test_the_page_on_the_format_and_the_code_agree_on_messages() -> None:
    table = {field: (offset, length) for offset, length, field in byte_table("Message, v0 and v1")}
    assert list(table) == ["offset", "size", "crc", "magic", "attributes", "timestamp", "keyLength", "valueLength"]
    widths = [struct.calcsize(">" + code) for code in legacy.PREFIX.format.replace(" ", "").removeprefix(">")]
    assert [length for _, length in table.values()] == [*widths, 8, 4, 4]
    assert table["keyLength"][0] == legacy.FIXED_BYTES[1]
    assert table["timestamp"][0] == legacy.FIXED_BYTES[0]
    assert table["magic"][0] == legacy.CRC_FROM
    smallest = {magic: fixed - LOG_OVERHEAD + 8 for magic, fixed in legacy.FIXED_BYTES.items()}
    assert smallest == legacy.SMALLEST_SIZE_FIELD


def worked(title: str) -> list[bytes]:
    """The bytes of the examples below a heading: the first column of each block."""
    section = re.split(r"^##+ ", PAGE.split(f"\n### {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, flags=re.M | re.S)
    return [bytes.fromhex("".join(line.split(" ", 1)[0] for line in block.splitlines())) for block in blocks]


def test_the_worked_batch_is_valid_and_matches_the_page() -> None:
    (data,) = worked("A batch, byte by byte")
    header = read_header(data)
    assert header.size == len(data) == 81
    assert crc_matches(data, 0, header)
    rows = [(r.offset, r.timestamp, r.key, r.value) for r in read_records(data, 0, header)]
    assert rows == [(0, 1000, b"k1", b"v1"), (1, 1005, b"k2", None)]


def test_the_worked_segment_is_valid_and_matches_the_output_of_the_brokers_tool() -> None:
    (data,) = worked("A segment, byte by byte")
    assert len(data) == 194
    first, second = read_header(data), read_header(data, 83)
    assert (first.base_offset, first.size, first.crc) == (0, 83, 1293609450)
    assert (second.base_offset, second.size) == (1, 111)
    assert crc_matches(data, 0, first)
    assert crc_matches(data, 83, second)
    rows = [(r.offset, r.timestamp, r.key, r.value) for r in read_records(data, 0, first)]
    rows += [(r.offset, r.timestamp, r.key, r.value) for r in read_records(data, 83, second)]
    assert rows == [
        (0, 1590772932775, None, b"my test message"),
        (1, 1590779066167, None, b"next test message"),
        (2, 1590779066211, None, b"yet another message"),
    ]


def test_a_flipped_bit_of_the_worked_segment_fails_its_checksum() -> None:
    (data,) = worked("A segment, byte by byte")
    assert not crc_matches(data[:70] + bytes([data[70] ^ 1]) + data[71:], 0, read_header(data))


def test_the_worked_message_is_valid_and_matches_the_page() -> None:
    (data,) = worked("A message, byte by byte")
    header = read_header(data)
    assert header.size == len(data) == 38
    assert crc_matches(data, 0, header)
    rows = [(r.offset, r.timestamp, r.key, r.value) for r in read_records(data, 0, header)]
    assert rows == [(5, 1000, b"k1", b"v1")]


def test_the_worked_wrapper_is_valid_and_matches_the_page() -> None:
    data, inside = worked("A compressed message")
    header = read_header(data)
    assert header.size == len(data) == 112
    assert crc_matches(data, 0, header)
    assert record_bytes(data, 0, header) == inside
    assert [(r.offset, r.key, r.value) for r in read_records(data, 0, header)] == [
        (114, b"mi-6", b""),
        (115, b"mi-16", b""),
    ]
    for at in (0, 38):
        message = read_header(inside, at)
        assert crc_matches(inside, at, message)
