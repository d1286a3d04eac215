"""The one table of codecs says what Kafka's CompressionType says, and everything else takes its numbers from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from logcore.columns.kernels import codec_numbers
from logcore.columns.kernels.cleaning.cleaning_frames import RewriteFrame
from logcore.columns.kernels.decoding.decoding_frames import InflateFrame
from logcore.records.compression import CODECS, Codec, compress, decompress, reserved_codec
from tests.conftest import REPOSITORY

KAFKAS = [(0, "none", 0), (1, "gzip", 0), (2, "snappy", 0), (3, "lz4", 0), (4, "zstd", 2)]
"""org.apache.kafka.common.record.CompressionType: id and name; and the first magic, which is 2 for zstd (KIP-110)."""
NAMES = {"gzip", "snappy", "lz4", "zstd"}
TABLE = "logcore/records/compression.py"


def test_the_table_is_kafkas() -> None:
    assert [(int(number), spec.name, spec.first_magic) for number, spec in CODECS.items()] == KAFKAS
    assert [number for number, spec in CODECS.items() if spec.codec is not number] == []


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_format_allows_the_codecs_it_was_released_with_or_got_later(magic: int) -> None:
    allowed = [int(codec) for codec in Codec if codec.is_allowed(magic)]
    assert allowed == ([0, 1, 2, 3, 4] if magic == 2 else [0, 1, 2, 3])


def test_numbers_without_a_row_are_reserved() -> None:
    assert [(int(codec), codec.kafka_name) for codec in Codec if codec.is_reserved] == [
        (5, "reserved-5"),
        (6, "reserved-6"),
        (7, "reserved-7"),
    ]
    assert reserved_codec(6) == "codec 6 is reserved; Kafka has written 0 to 4"


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 4])
def test_each_codec_reads_what_it_wrote(number: int, magic: int) -> None:
    data = b"the same words, the same words, " * 3000
    stored = compress(number, data, magic=magic)
    assert (len(stored) < len(data)) is (number > 0)
    assert decompress(number, stored, len(data), magic=magic) == data


def test_the_kernels_numbers_are_kafkas() -> None:
    kernels = codec_numbers
    assert [kernels.NONE, kernels.GZIP, kernels.SNAPPY, kernels.LZ4, kernels.ZSTD] == [0, 1, 2, 3, 4]
    assert (kernels.MASK, kernels.NUMBERS) == (0b111, 8)
    assert (kernels.OF_MESSAGES, kernels.OF_BATCHES) == (0b01111, 0b11111)
    assert [codec for codec in Codec if codec.is_allowed(0) != codec.is_allowed(1)] == []


def test_every_number_of_a_codec_has_a_place_in_the_frames() -> None:
    inflate, rewrite = InflateFrame(), RewriteFrame()
    for each in (inflate.decoders, inflate.states, rewrite.encoders, rewrite.states, rewrite.resets):
        assert len(each) == 8


def literals_of_codecs(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that compare a codec with a number, mask attributes by 7, or name a codec in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = [node.left, *node.comparators]
            # A negative number means no codec, or several.
            is_sign = isinstance(node.ops[0], ast.GtE | ast.Lt) and _number(sides[1]) == 0
            is_codec = any(isinstance(side, ast.Name | ast.Attribute) and _last_name(side) == "codec" for side in sides)
            if is_codec and not is_sign and any(number is not None and number >= 0 for number in map(_number, sides)):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            sides = [node.left, node.right]
            words = ast.unparse(node).lower()
            # Attributes lie at 17 in a message, and their lower byte at 22 in a batch, whose two begin at 21.
            of_attributes = "attributes" in words or any(f" + {place})" in words for place in (17, 21, 22))
            if of_attributes and any(_number(side) == 7 for side in sides):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.lineno, repr(node.value)


def _last_name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _number(node: ast.AST) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


@pytest.mark.parametrize(
    "code",
    [
        "codec > 4",
        "header.codec == 3",
        "1 != codec",
        "attributes & 7",
        "table[row + batch_row.ATTRIBUTES] & 0b111",
        "nb.int64(byte(source, at + 17)) & 7",
        "names = ['none', 'gzip']",
    ],
)
def test_a_literal_in_any_form_is_found(code: str) -> None:
    assert len(list(literals_of_codecs(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code", ["codec == codecs.LZ4", "codec < 0", "self.codec >= 0", "codec == -2", "attributes & 8", "bits & 7"]
)
def test_what_is_no_literal_is_not_found(code: str) -> None:
    assert list(literals_of_codecs(ast.parse(code))) == []


def test_no_other_module_knows_a_codecs_number_or_name() -> None:
    found = {}
    for path in sorted((REPOSITORY / "logcore").rglob("*.py")):
        name = str(path.relative_to(REPOSITORY))
        if name != TABLE and (lines := list(literals_of_codecs(ast.parse(path.read_text())))):
            found[name] = lines
    assert found == {}
