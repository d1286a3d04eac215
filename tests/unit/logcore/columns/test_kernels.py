"""The compiled code itself: every kind of it, found again by any process, and not needed where it cannot be had."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from logcore.columns.cleaning import cleaned_batches, cleaning, keyed_batches, offset_map
from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.decoding import batch_table
from logcore.columns.decoding.batch_table import BatchTable
from logcore.columns.engines import Engine, decode_segment
from logcore.columns.kernels import library as loading
from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import Library
from logcore.columns.kernels.machine.processor import Processor, this_processor
from logcore.columns.kernels.machine.tables import checksum_tables
from logcore.columns.wanted import Place
from logcore.logs.compaction.cleaner import PlainCleaner
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.logs.model.broker_line import BrokerLine
from logcore.records.model import DEFAULT_LIMITS
from tests import handmade
from tests.conftest import REPOSITORY, Sample
from tests.daemons import WAIT_SECONDS

pytestmark = pytest.mark.slow

PLACE = Place("t", 0, "l", "s")
SAMPLES = ["codecs-v2-4.3.1", "transactions-4.4.0", "damaged"]


@pytest.fixture(scope="module")
def plain_library() -> Library:
    """The kernels for any processor of this family, without its instruction for CRC-32C; compiled once a machine."""
    triple = this_processor().triple
    name = "x86-64" if triple.startswith("x86_64") else "generic"
    return Library(Processor(triple, name, "", has_crc32c=False))


@pytest.fixture(params=["for this processor", "without the instruction"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Each kind of compiled code, in place of this machine's own."""
    found: Library = loading.library()
    if request.param == "without the instruction":
        found = request.getfixturevalue("plain_library")
        assert found is not loading.library()
    monkeypatch.setattr(batch_table, "library", lambda: found)
    return found


def rows_and_rest(data: bytes, base: int, engine: Engine) -> tuple[pa.Table, list[object], int]:
    walk = decode_segment(data, place=PLACE, base_offset=base, sealed=True, engine=engine)
    items = list(walk)
    tables = [item for item in items if isinstance(item, pa.RecordBatch)]
    rest = [item for item in items if not isinstance(item, pa.RecordBatch)]
    return pa.Table.from_batches(tables) if tables else pa.table({}), rest, walk.careful_steps


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLES)
def test_every_kind_of_code_gives_the_rows_of_the_reference(
    kernels: Library, sample: Callable[[str], Sample], name: str
) -> None:
    paths = sorted(sample(name).logdir.glob("*/*.log"))
    assert paths
    for path in paths:
        data, base = path.read_bytes(), int(path.stem)
        table, rest, careful = rows_and_rest(data, base, Engine.KERNELS)
        expected, expected_rest, _ = rows_and_rest(data, base, Engine.REFERENCE)
        assert table.equals(expected)
        assert rest == expected_rest
        assert name == "damaged" or careful == 0


@pytest.mark.long
def test_every_kind_of_code_cleans_alike(kernels: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cleaned_batches, cleaning, keyed_batches, offset_map):
        monkeypatch.setattr(module, "library", lambda: kernels)
    rows = [(b"k%d" % (number % 40), bytes([number]) * number) for number in range(200)]
    log = b"".join(
        handmade.simple_batch(first, rows[first : first + 20], base_timestamp=first) for first in range(0, 200, 20)
    )
    segment = SourceSegment(0, 200, log, 0, 0, 0)
    round = CleaningRound(0, 0, 200, 1000, 1_000_000, 500, 0, BrokerLine.V4_4)
    made = []
    for cleaner in (PlainCleaner(), CompiledCleaner()):
        sink = io.BytesIO()
        cleaner.build_map([segment], round)
        made.append((cleaner.clean([segment], sink), sink.getvalue()))
    assert made[0] == made[1]
    assert made[0][0].removed == 160


def found_batches(data: bytes, places: list[int]) -> list[bool]:
    """Whether a walk finds a batch at each place."""
    found, walk = [], BatchTable(data, 1 << 40, DEFAULT_LIMITS)
    for place in places:
        walk.fill(place, 0, place + 1)
        found.append(walk.count == 1)
    return found


def padded(batches: list[bytes], shift: int) -> tuple[bytes, list[int]]:
    """All of them with zeros between, and where they begin."""
    data, places = bytearray(shift), []
    for batch in batches:
        places.append(len(data))
        data += batch + bytes(16)
    return bytes(data), places


@pytest.mark.parametrize("form", ["v2", "v1"])
def test_checksums_of_every_length_at_every_alignment(kernels: Library, form: str) -> None:
    """From 768 bytes on three streams run side by side; what is left goes by eights, then by ones."""
    draw = random.Random(0)
    content = draw.randbytes(2048)
    if form == "v2":
        # Its checksum is of 40 bytes of header and what follows.
        good = [handmade.batch(body=content[:size], count=0) for size in range(2001)]
        crc_at = handmade.CRC_AT
    else:
        good = [handmade.message(0, None, content[:size]) for size in range(2001)]
        crc_at = handmade.MESSAGE_CRC_AT
    bad = []
    for batch in good:
        at = draw.choice([*range(crc_at, crc_at + 4), *range(crc_at + 10, len(batch))])
        # Not the fields that decide where the batch ends and what it is.
        bad.append(handmade.flip(batch, max(at, 27) if at > crc_at + 3 and form == "v2" else at, draw.randrange(8)))
    for shift in range(8):
        assert all(found_batches(*padded(good, shift)))
        assert not any(found_batches(*padded(bad, shift)))


@pytest.mark.parametrize("size", [1, 7, 8, 767, 768, 769, 1535, 1536, 1537, 2303, 2304, 10_000])
def test_no_bit_of_a_batch_escapes_its_checksum(kernels: Library, size: int) -> None:
    draw = random.Random(size)
    batch = handmade.batch(body=draw.randbytes(size), count=0)
    bits = [draw.randrange(27 * 8, len(batch) * 8) for _ in range(200)]
    data, places = padded([handmade.flip(batch, bit // 8, bit % 8) for bit in bits], 0)
    assert not any(found_batches(data, places))


@pytest.mark.parametrize("block", [8, 256, 1024])
def test_the_tables_match_zeros_and_single_bytes(block: int) -> None:
    tables = list(checksum_tables(block))
    assert len(tables) == 4 * 256 + 2 * 8 * 256
    shift, castagnoli, ieee = tables[:1024], tables[1024:3072], tables[3072:]

    def raw(crc: int, data: bytes, table: list[int]) -> int:
        for byte in data:
            crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
        return crc

    for table, checksum in ((castagnoli, handmade.crc32c), (ieee, handmade.crc32)):
        for data in (b"", b"a", b"123456789", bytes(range(256))):
            assert raw(0xFFFFFFFF, data, table) ^ 0xFFFFFFFF == checksum(data)
        for lane in range(8):
            assert table[256 * lane : 256 * lane + 256] == [
                raw(0, bytes([value]) + bytes(lane), table) for value in range(256)
            ]
    draw = random.Random(block)
    for _ in range(20):
        crc = draw.randrange(1 << 32)
        joined = 0
        for lane in range(4):
            joined ^= shift[256 * lane + (crc >> 8 * lane & 0xFF)]
        assert joined == raw(crc, bytes(block), castagnoli)


def test_the_cpu_is_identified_by_its_features(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as llvm

    modern = dict.fromkeys(("sse4.2", "crc32", "avx2", "bmi2", "fma"), True)
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    cases: list[tuple[dict[str, bool], bool]] = [
        (modern, True),
        ({name: True for name in modern if name != "crc32"}, True),
        (modern | {"crc32": False}, False),
        (modern | {"avx2": False}, False),
        ({name: True for name in modern if name != "bmi2"}, False),
        ({}, False),
    ]
    for features, has_crc32c in cases:
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda features=features: features)
        found = this_processor()
        assert (found.has_crc32c, found.name) == (has_crc32c, "x86-64-v3" if has_crc32c else "x86-64")

    def unknown() -> None:
        raise RuntimeError

    monkeypatch.setattr(llvm, "get_host_cpu_features", unknown)
    assert not this_processor().has_crc32c
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    assert this_processor() == Processor("aarch64-unknown-linux-gnu", "generic", "", has_crc32c=False)


# In processes of their own.


def ran(code: str, *arguments: str, path: str = "", **environment: str) -> dict[str, object]:
    """What a new interpreter printed as its last line of JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": path or str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


DECODED = """
import hashlib, json, sys
for hidden in sys.argv[2].split():
    sys.modules[hidden] = None
if sys.argv[3:]:
    import logcore.storage.machine.object_code as kept
    kept._shared_folders = list  # what setup left in the environment
import logcore
from logcore.columns.engines import available, decode_segment, default_engine
from logcore.columns.wanted import Place
data = open(sys.argv[1], "rb").read()
rows = [row for item in decode_segment(data, place=Place("t", 0, "l", "s"), base_offset=0, sealed=True)
        for row in item.to_pylist()]
print(json.dumps({
    "engine": default_engine(), "available": available(), "rows": len(rows),
    "digest": hashlib.sha256(repr(rows).encode()).hexdigest(),
    "modules": sorted({"numba", "pyarrow"} & set(sys.modules)), "from": logcore.__file__,
}))
"""


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("segment") / "0.log"
    parts = [handmade.simple_batch(at, [(b"k", b"%d" % at)] * 10) for at in range(0, 100, 10)]
    parts += [handmade.wrapper_v1([100, 105]), handmade.message_v0(106, None, b"v")]
    parts.append(handmade.batch([handmade.record(0, headers=[(b"h", None)])], base_offset=107))
    path.write_bytes(b"".join(parts))
    return path


@pytest.fixture(scope="module")
def by_kernels(segment: Path) -> dict[str, object]:
    loading.library().load(Work.DECODE.value)
    found = ran(DECODED, str(segment), "")
    assert (found["engine"], found["rows"]) == ("kernels", 104)
    return found


def test_kernels_that_are_cached_are_loaded_without_their_compiler(by_kernels: dict[str, object]) -> None:
    assert by_kernels["modules"] == ["pyarrow"]


def test_lines_are_written_without_pyarrow_too(segment: Path) -> None:
    loading.library().load(Work.WRITE_LINES.value)
    code = """
import json, sys
from logcore.cli.main import main
status = main(["dump", "--format", "jsonl", sys.argv[1], "-o", sys.argv[2]])
print(json.dumps({"status": status, "modules": sorted({"numba", "pyarrow"} & set(sys.modules))}))
"""
    named = segment.parent / "orders-0" / "00000000000000000000.log"
    named.parent.mkdir()
    named.write_bytes(segment.read_bytes())
    assert ran(code, str(named), str(segment.parent / "out.jsonl")) == {"status": 0, "modules": []}
    assert len((segment.parent / "out.jsonl").read_text().splitlines()) == 104


@pytest.mark.parametrize("hidden", ["llvmlite", "llvmlite numba"])
def test_without_a_compiler_the_reference_gives_the_same_rows(
    by_kernels: dict[str, object], segment: Path, hidden: str
) -> None:
    found = ran(DECODED, str(segment), hidden)
    assert found["available"] == ["reference"]
    assert (found["engine"], found["digest"]) == ("reference", by_kernels["digest"])


def test_without_numba_the_cached_kernels_work_and_others_are_not_made(
    by_kernels: dict[str, object], segment: Path, tmp_path: Path
) -> None:
    found = ran(DECODED, str(segment), "numba")
    assert (found["engine"], found["digest"]) == ("kernels", by_kernels["digest"])
    found = ran(DECODED, str(segment), "numba", "unprimed", LOGLAKE_HOME=str(tmp_path))
    assert (found["engine"], found["digest"]) == ("reference", by_kernels["digest"])


def test_from_a_zip_the_same_cached_kernels_are_used(
    by_kernels: dict[str, object], segment: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        for path in sorted((REPOSITORY / "logcore").rglob("*.*")):
            if path.suffix in (".py", ".txt"):
                archive.write(path, path.relative_to(REPOSITORY))
    found = ran(DECODED, str(segment), "", path=str(tmp_path / "shipped.zip"))
    assert "shipped.zip" in str(found["from"])
    assert (found["engine"], found["digest"], found["modules"]) == ("kernels", by_kernels["digest"], ["pyarrow"])
