"""Whatever is wrong with a log, every command gives the same bytes and offsets the same state as `verify`.

`verify` says which bytes cannot be trusted. So the others may have no more, no fewer and no other batches than it, and
a salvage leaves none of those bytes in.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logcore
from logcore.cli.main import main
from logcore.logs.model.findings import Finding
from logcore.reading import segment_reading
from tests import handmade
from tests.fuzz import directory_mutants
from tests.fuzz.canonical import CANONICAL
from tests.fuzz.injuries import injuries, scene
from tests.fuzz.mutator import mutant
from tests.sampling import ONE_IN, SEED

DAMAGE = {"corrupt-bytes", "tail-hides-batches", "unreadable", "zero-tail"}
LOST = {"corrupt", "missing"}
UNEXPLAINED = {"no-explanation", "segments-removed", "no-remote-sign"}
"""Evidence of the ledger for offsets that `verify` reports as missing. Others are findings about a file."""
SOME = 12
MANY = 2_000 if ONE_IN == 1 else 200
"""`make test`, which draws some of the long tests, looks at a sample of each."""
Captured = pytest.CaptureFixture[str]


def damage(findings: list[Finding]) -> set[tuple[str, int | None, int | None]]:
    """Where the bytes of segments are damaged."""
    places = [(Path(each.file or "").name, each.position, each.nbytes) for each in findings if each.rule in DAMAGE]
    return {place for place in places if place[0].endswith(".log")}


def heard(read: Callable[..., Any]) -> tuple[list[Any], list[Finding]]:
    """What a read gives, and its findings."""
    said: list[Finding] = []
    result = read(on_finding=said.append)
    return list(result) if hasattr(result, "__next__") else [result], said


def check(directory: Path, capsys: Captured) -> str:
    """Compare what every command says of a partition directory. Returns what `verify` said of it."""
    log = logcore.open_partition(directory, show_all=True, high_watermark="log-end")
    report = log.validate()
    wrong = damage(list(report.findings))
    batches, said = heard(log.batches)
    assert damage(said) == wrong
    assert len(batches) == report.totals.batches
    for read in (log.records, log.transactions, lambda **on: log.offset_for_time(0, **on)):
        assert damage(heard(read)[1]) == wrong
    ledger, said = heard(log.ledger)
    assert damage(said) == wrong
    gone = [(each.start_offset, each.end_offset) for each in report.findings if each.rule == "missing-offsets"]
    unexplained = [(each.start_offset, each.end_offset) for each in ledger if each.evidence in UNEXPLAINED]
    errors = {each.rule for each in report.findings if each.severity == "error"}
    assert errors or not unexplained
    if errors <= {"missing-offsets"}:  # beside damage, what it took is not named twice
        assert sorted(gone) == unexplained
    spans = [(each.header.base_offset, each.header.next_offset) for each in batches]
    for each in ledger:
        inside = [span for span in spans if span[0] < each.end_offset and span[1] > each.start_offset]
        if each.state in LOST:
            assert inside == [], each
        elif each.state == "present":
            covered = sum(min(end, each.end_offset) - max(start, each.start_offset) for start, end in inside)
            assert covered == each.offsets, each

    to_the_end = ["--high-watermark", "log-end"]
    codes = {}
    for command, *options in (
        ("transactions", *to_the_end),
        ("ledger", *to_the_end),
        ("dump", "--all", *to_the_end),
        ("offsets", "--at", "0ms", *to_the_end),
    ):
        codes[command] = main([command, str(directory), *options])
    is_cut = "high-watermark-beyond-log-end" in {
        each.rule for each in logcore.open_partition(directory).validate().findings
    }
    codes["ls"] = main(["ls", str(directory)])  # it has no such option
    if is_cut:
        assert codes.pop("ls") in (2, 3)
    if any(each.rule in DAMAGE and (each.file or "").endswith((".log", ".log.swap")) for each in report.findings):
        assert set(codes.values()) <= {2, 3}, codes
    elif not any(each.state in LOST for each in ledger):
        assert 2 not in codes.values(), codes
    capsys.readouterr()
    return "damaged" if wrong else "sound"


def check_salvage(directory: Path, out: Path, capsys: Captured) -> str:
    """What a salvage leaves has no damage, and each good batch of the log."""
    log = logcore.open_partition(directory, show_all=True)
    before = {(each.header.base_offset, each.header.last_offset) for each in heard(log.batches)[0]}
    wrong = damage(list(log.validate().findings))
    code = main(["recover", "--salvage", str(directory), "--out", str(out / directory.name)])
    said = capsys.readouterr()
    if code not in (0, 1, 2) or not list((out / directory.name).glob("*.log")):
        return "refused"
    salvaged = logcore.open_partition(out / directory.name)
    report = salvaged.validate()
    errors = {each.rule for each in report.findings if each.severity == "error"}
    assert errors <= {"missing-offsets", "not-a-segment"}  # lost offsets were named; strangers are kept
    after = {(each.header.base_offset, each.header.last_offset) for each in heard(salvaged.batches)[0]}
    assert before <= after
    kept = [path.read_bytes() for path in (out / directory.name).glob("*.log")]
    for file, position, nbytes in wrong:
        if f"{file}, position {position}" not in said.out + said.err:  # then nothing of it is lost
            assert position is not None
            assert nbytes is not None
            stretch = (directory / file).read_bytes()[position : position + nbytes]
            assert any(stretch in content for content in kept), (file, position)
    return "salvaged"


def planted(root: Path, draw: random.Random) -> Path:
    """A batch with any injury between two sound ones, in the first of two segments."""
    around = scene(draw.choice(CANONICAL), draw.choice((0, 0, 3)))
    injured = draw.choice(list(injuries(around.batch.data))).data
    return _written(root, around.base_offset, around.segment(injured), around.successor + 1, draw)


def with_right_crc(root: Path, draw: random.Random) -> Path:
    """A mutant with a right checksum, first in a segment."""
    made = mutant(SEED, draw.randrange(1 << 30))
    base = made.segment_base
    return _written(root, base, made.data + handmade.simple_batch(base + 5_000, [(b"k", b"v")]), base + 5_001, draw)


def _written(root: Path, base: int, content: bytes, following: int, draw: random.Random) -> Path:
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    (directory / f"{base:020d}.log").write_bytes(content)
    if draw.random() < 0.7:
        (directory / f"{following:020d}.log").write_bytes(handmade.simple_batch(following, [(b"k", b"v")] * 2))
    return directory


def any_directory(root: Path, draw: random.Random) -> Path:
    """A directory of the fuzz campaign."""
    directory_mutants.make(SEED, draw.randrange(1 << 30), root)
    return root / directory_mutants.NAME


def with_gaps(root: Path, draw: random.Random) -> Path:
    """Gaps between batches, of which some show that the log was cleaned; the same of damaged batches shows nothing."""
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    offset = draw.choice((0, 7))
    path = directory / f"{offset:020d}.log"
    for _ in range(draw.randint(3, 12)):
        if draw.random() < 0.3:
            path = directory / f"{offset:020d}.log"
        base, span = offset + draw.choice((0, 0, 3)), draw.randint(1, 4)
        if draw.random() < 0.2:
            made = handmade.empty_batch(base, span - 1)
        elif draw.random() < 0.2:
            span = 1
            made = handmade.simple_batch(base, [(b"k", None)], attributes=handmade.DELETE_HORIZON)
        else:
            records = [handmade.record(at) for at in sorted(draw.sample(range(span), draw.choice((1, span))))]
            made = handmade.batch(records, base_offset=base, last_offset_delta=span - 1)
        if draw.random() < 0.1:
            made = handmade.flip(made, draw.choice((9, draw.randrange(21, len(made)))))  # 9: a far too large length
        offset = base + span
        with path.open("ab") as file:
            file.write(made)
    return directory


def after_the_end(root: Path, draw: random.Random) -> Path:
    """A closed segment with bytes after its last batch, which mostly has the offset before the next segment."""
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    base, two = draw.choice((0, 7, 1 << 40)), [(b"k", b"v")] * 2
    count = draw.randint(1, 6)
    own = [handmade.simple_batch(base + 2 * at, two) for at in range(count)]
    following = base + 2 * count + draw.choice((0, 0, 0, 3))
    after = b"".join(handmade.simple_batch(following + 2 * at, two) for at in range(draw.randint(1, 4)))
    kinds = [bytes(draw.randint(1, 5000)), draw.randbytes(draw.randint(1, 300)), after, after[: draw.randint(1, 200)]]
    kinds += [handmade.flip(after, draw.randrange(len(after))), after + bytes(30), draw.choice(own), own[0][:50]]
    (directory / f"{base:020d}.log").write_bytes(b"".join(own) + draw.choice(kinds))
    (directory / f"{following:020d}.log").write_bytes(after)
    return directory


def a_byte_too_many(root: Path, draw: random.Random) -> Path:
    """In any place of a batch of the active segment, whose last batch may be cut."""
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    base, fields = (
        draw.choice((0, 7)),
        {"leader_epoch": draw.choice((0, 1, 2, 9)), "base_sequence": draw.choice((-1, 5))},
    )
    rows = [[(b"k", b"value")] * draw.choice((1, 3, 20)) for _ in range(draw.randint(5, 20))]
    batches = []
    for each in rows:
        batches.append(handmade.simple_batch(base, each, **fields))
        base += len(each)
    hurt = draw.randrange(len(batches) - 1)
    at = draw.choice((draw.randrange(12), draw.randrange(len(batches[hurt]))))
    batches[hurt] = batches[hurt][:at] + draw.randbytes(1) + batches[hurt][at:]
    content = b"".join(batches)
    first = base - sum(map(len, rows))
    (directory / f"{first:020d}.log").write_bytes(content[: len(content) - draw.choice((0, 1, 30))])
    return directory


KINDS = pytest.mark.parametrize(
    "make", [planted, with_right_crc, any_directory, with_gaps, after_the_end, a_byte_too_many]
)


def agreed(
    make: Callable[[Path, random.Random], Path],
    count: int,
    root: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> Counter[str]:
    """Check this many directories, half of them by kernels."""
    said: Counter[str] = Counter()
    for number in range(count):
        draw = random.Random(f"{SEED} {make.__name__} {number}")
        monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0 if number % 2 else 1 << 20)
        for step in _steps(make(root / str(number), draw), root / f"{number}-out", capsys):
            said[step] += 1
    return said


def _steps(directory: Path, out: Path, capsys: Captured) -> Iterator[str]:
    try:
        logcore.open_partition(directory)
    except logcore.LogError:
        yield "not a log"
        return
    yield check(directory, capsys)
    out.mkdir()
    yield check_salvage(directory, out, capsys)


@KINDS
def test_all_commands_agree(
    make: Callable[[Path, random.Random], Path], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = agreed(make, SOME, tmp_path, capsys, monkeypatch)
    assert said["damaged"] + said["sound"] > 0


@pytest.mark.parametrize("bit", [0, 7], ids=["too large", "negative"])
def test_a_cleaned_batch_after_a_damaged_length_explains_the_gap_before_it(
    tmp_path: Path, capsys: Captured, bit: int
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    two = [(b"k", b"v")] * 2
    parts = [handmade.simple_batch(base, two) for base in (0, 10)]
    parts += [handmade.flip(handmade.simple_batch(12, two), 8, bit)]
    parts += [handmade.empty_batch(20, 3), handmade.simple_batch(24, two)]
    (directory / f"{0:020d}.log").write_bytes(b"".join(parts))
    check(directory, capsys)
    ranges = logcore.open_partition(directory, high_watermark="log-end").ledger(on_finding=str)
    assert (2, 10, "compacted") in [(each.start_offset, each.end_offset, each.state) for each in ranges]


@pytest.mark.long
@KINDS
def test_all_commands_agree_on_thousands(
    make: Callable[[Path, random.Random], Path], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = agreed(make, MANY, tmp_path, capsys, monkeypatch)
    print(make.__name__, dict(said))
    assert said["damaged"] > 0
