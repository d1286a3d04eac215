"""Every file of a small lake removed, emptied, cut, swapped and flipped: ``verify LAKE`` names it, or nothing changed.

"Nothing changed" is not taken on trust: the rows, the schemas and settings, the frontiers, the statistics that engines
skip by and the archived bytes are read again by deltalake and pyarrow and compared with those of the whole lake. And it
is allowed only for the classes of bytes that are listed here, each with its reason.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.commands import Commands
from tests.harm.changes import Answer, Change, Prover, verify
from tests.harm.place import TRANSACTIONAL, Place

pytestmark = pytest.mark.spark

STEP = 1 if os.environ.get("LOGLAKE_TEST_EVERY_BYTE") == "1" else 193
PROCESSES = 2

UNREAD = {
    "commit: commitInfo": "describes who committed, when and how; no reader of rows or state looks at it",
    "commit: add.modificationTime": "when the file was written; only a VACUUM of files that are gone looks at times",
    "commit: add.dataChange": "for readers of streams of changes, of which there are none below the newest version",
    "commit: remove": "of a file that no version which is kept names any more; its path decides, the rest is history",
    "commit: metaData.createdTime": "when the table was made; nobody decides anything by it",
    "commit: metaData.format.options": "empty, and not used by any reader",
    "commit: txn.lastUpdated": "when a frontier was written; used only where a retention is set for them",
    "commit: cdc": "none are written",
    "commit: blank": "a blank or a line's end between values, or one that became a blank",
    "parquet: header of a page": "encodings and sizes that repeat what the footer says, and statistics of a page",
    "parquet: footer": "what is left when rows, schema, statistics and the digest are as they were: who wrote it, "
    "encodings that are used nowhere, offsets that readers do not need",
    "parquet: between": "bytes that no column owns",
    "parquet: of earlier versions": "the newest version does not name it; earlier ones fail, as after VACUUM",
    "tables.json": "a memory for the cheap checks, never a truth: without it the next run looks again",
    "checksum": "a checksum of a version for Spark, which falls back to the log",
}
"""Classes of bytes whose change may go unnoticed, because nothing that can be read changes with them."""


@pytest.fixture(scope="module")
def small(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A lake of two logs with a few batches and a transaction, and the lake that it was one run before."""
    folder = tmp_path_factory.mktemp("small")
    source = LogDirectory(folder / "source")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    place = Place(folder, commands, source.path, {})
    orders.append(4)
    payments.append(2, **TRANSACTIONAL, base_sequence=0)
    payments.marker(7, handmade.COMMIT)
    source.high_watermarks(orders_0=4, payments_0=3)
    assert place.run().code == 0, place.done[-1].said
    earlier = Path(shutil.copytree(place.lake, folder / "earlier"))
    orders.append(3)
    payments.append(2)
    source.high_watermarks(orders_0=7, payments_0=5)
    assert place.run().code == 0, place.done[-1].said
    lake = folder / "proved"
    shutil.copytree(place.lake, lake)
    for name in (".dagster", "data_docs"):
        shutil.rmtree(lake / name, ignore_errors=True)
    return lake, earlier


def files(lake: Path) -> list[str]:
    """Every file that the claim is about: archive, tables with their logs, and the two descriptions."""
    found = [path for folder in ("archive", "tables") for path in (lake / folder).rglob("*") if path.is_file()]
    found += [lake / name for name in ("lake.json", "tables.json") if (lake / name).exists()]
    return sorted(str(path.relative_to(lake)) for path in found)


def whole_files(lake: Path, earlier: Path) -> Iterator[Change]:
    """What happens to files as a whole."""
    names = files(lake)
    for name in names:
        for kind in ("remove", "empty", "cut"):
            yield Change(name, kind)
        before = earlier / name
        if before.exists() and before.read_bytes() != (lake / name).read_bytes():
            yield Change(name, "earlier")
        path = Path(name)
        beside = [
            other
            for other in names
            if other < name and Path(other).suffix == path.suffix and Path(other).parts[:2] == path.parts[:2]
        ]
        if beside and (lake / beside[-1]).read_bytes() != (lake / name).read_bytes():
            yield Change(name, "swap", other=beside[-1])
        if path.suffix == ".json" and path.parent.name == "_delta_log":
            last = max(
                int(Path(other).stem) for other in names if Path(other).parent == path.parent if other[-5:] == ".json"
            )
            yield Change(name, "repeat", other=str(path.with_name(f"{last + 1:020d}.json")))


def flips(lake: Path) -> Iterator[Change]:
    """Bits of every `STEP`-th byte, over all files one after the other, so that no file is always hit at its begin."""
    at = 0
    for name in files(lake):
        size = (lake / name).stat().st_size
        while at < size:
            yield Change(name, "flip", at=at)
            at += STEP
        at -= size


def class_of(lake: Path, change: Change) -> str:
    """What kind of bytes a change is about, as `UNREAD` names them."""
    path = Path(change.path)
    if change.path == "tables.json":
        return "tables.json"
    if path.suffix == ".crc":
        return "checksum"
    if path.suffix == ".parquet" and change.path not in live_files(lake):
        return "parquet: of earlier versions"
    if change.kind != "flip":
        return f"{change.kind} {path.parts[0]} {path.suffix}"
    data = (lake / path).read_bytes()
    if path.parent.name == "_delta_log":
        return f"commit: {key_at(data, change.at)}"
    if path.suffix == ".parquet":
        return f"parquet: {part_at(lake / path, change.at)}"
    return change.path


@functools.cache
def live_files(lake: Path) -> frozenset[str]:
    """The data files that the newest versions name, relative to the lake."""
    tables = [folder for folder in (lake / "tables").iterdir() if (folder / "_delta_log").is_dir()]
    named = {table: pa.table(DeltaTable(table).get_add_actions()).column("path").to_pylist() for table in tables}
    return frozenset(f"tables/{table.name}/{path}" for table, paths in named.items() for path in paths)


def key_at(data: bytes, at: int) -> str:
    """The listed class of a byte in a commit: by the action, and the field below it, that it belongs to."""
    begin = data.rfind(b"\n", 0, at) + 1
    if at >= len(data) or data[at : at + 1].isspace():
        return "blank"
    line, inside = data[begin:].split(b"\n", 1)[0].decode(), at - begin
    keys: list[str] = []
    decoder = json.JSONDecoder()

    def walk(position: int, path: list[str]) -> int:
        if line[position] != "{":
            _, end = decoder.raw_decode(line, position)
            if position <= inside < end:
                keys[:] = path
            return end
        start, position = position, position + 1
        while line[position] != "}":
            key, end = decoder.raw_decode(line, position)
            if position <= inside < end:
                keys[:] = [*path, key]
            assert line[end] == ":"
            position = walk(end + 1, [*path, key])
            if line[position] == ",":
                position += 1
        if start <= inside <= position and not keys:
            keys[:] = path
        return position + 1

    walk(0, [])
    name = ".".join(keys)
    listed = [each.removeprefix("commit: ") for each in UNREAD if each.startswith("commit: ")]
    return next((each for each in listed if name == each or name.startswith(f"{each}.")), name)


def part_at(path: Path, at: int) -> str:
    """Where in a Parquet file a byte lies."""
    import pyarrow.parquet as pq

    size = path.stat().st_size
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    if at < 4 or at >= size - 4:
        return "magic"
    if at >= size - 8:
        return "length of the footer"
    if at >= size - 8 - length:
        return "footer"
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            first = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                first = min(first, column.dictionary_page_offset)
            if first <= at < first + column.total_compressed_size:
                return "header of a page" if _in_header(path, first, column.total_compressed_size, at) else "page"
    return "between"


def _in_header(path: Path, start: int, length: int, at: int) -> bool:
    """Whether a byte of a column chunk is in a page's Thrift header; pages follow one another."""
    data, position = path.read_bytes(), start
    while position < start + length:
        size, header = _thrift_page(data, position)
        if position <= at < position + header:
            return True
        position += header + size
    return False


def _thrift_page(data: bytes, position: int) -> tuple[int, int]:
    """Compressed size of the page, and length of its header: the compact protocol, as far as a page header needs it."""
    begin, compressed = position, 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(kind: int) -> None:
        nonlocal position
        if kind in (4, 5, 6):
            varint()
        elif kind == 3:
            position += 1
        elif kind == 7:
            position += 8
        elif kind == 8:
            position += varint()
        elif kind == 12:
            struct(0)

    def struct(depth: int) -> None:
        nonlocal position, compressed
        field = 0
        while True:
            byte = data[position]
            position += 1
            if byte == 0:
                return
            delta, kind = byte >> 4, byte & 15
            field = field + delta if delta else (varint() >> 1)
            if depth and field == 3 and kind == 5:
                value = varint()
                compressed = (value >> 1) ^ -(value & 1)
            else:
                skip(kind)

    struct(1)
    return compressed, position - begin


@pytest.mark.long
def test_the_whole_lake_is_clean(small: tuple[Path, Path]) -> None:
    code, said = verify(small[0])
    assert code == 0, said
    assert (small[0] / "tables.json").exists()


def wrong(change: Change, answer: Answer, lake: Path, unread: Counter[str]) -> str | None:
    """What is wrong with an answer."""
    if answer.code >= 1 and answer.names_it:
        return None
    if answer.code == 0 and answer.same:
        name = class_of(lake, change)
        unread[name] += 1
        return None if name in UNREAD else f"{change}: nothing said; nothing changed either, but `{name}` is not listed"
    what = "something readable changed" if answer.code == 0 else "not named"
    return f"{change} ({class_of(lake, change)}): exit code {answer.code}, {what}: {answer.said[-400:]}"


def all_answers(lake: Path, earlier: Path, changes: list[Change], scratch: Path) -> tuple[list[str], Counter[str]]:
    """Every change in one of several processes; what is wrong, and what went unnoticed by class."""
    unread: Counter[str] = Counter()

    def some(first: int) -> list[str]:
        folder = scratch / f"process-{first}"
        folder.mkdir()
        prover = Prover(lake, earlier, folder)
        found = [wrong(change, prover.make(change), lake, unread) for change in changes[first::PROCESSES]]
        prover.close()
        return [each for each in found if each]

    with ThreadPoolExecutor(PROCESSES) as pool:
        return [each for group in pool.map(some, range(PROCESSES)) for each in group], unread


@pytest.mark.long
def test_a_file_that_is_gone_emptied_cut_swapped_or_repeated_is_named(small: tuple[Path, Path], tmp_path: Path) -> None:
    changes = list(whole_files(*small))
    found, unread = all_answers(*small, changes, tmp_path)
    print(f"{len(files(small[0]))} files, {len(changes)} changes; nothing readable changed: {dict(unread)}")
    assert not found, f"{len(found)} of {len(changes)}:\n" + "\n".join(found[:40])
    assert {change.kind for change in changes} == {"remove", "empty", "cut", "earlier", "swap", "repeat"}


@pytest.mark.long
def test_a_flipped_bit_is_named_or_changes_nothing_that_can_be_read(small: tuple[Path, Path], tmp_path: Path) -> None:
    changes = list(flips(small[0]))
    found, unread = all_answers(*small, changes, tmp_path)
    print(f"{len(changes)} flipped bytes, every {STEP}th; nothing readable changed: {dict(unread)}")
    assert not found, f"{len(found)} of {len(changes)}:\n" + "\n".join(found[:40])
    assert sum(unread.values()) < len(changes) / 2
