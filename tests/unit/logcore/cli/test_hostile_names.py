"""Names of groups, topics and clients that somebody else chose: one form of each, and none that a terminal obeys."""

from __future__ import annotations

import json
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.terminal_escapes import OBEYED, text_escaped

Captured = pytest.CaptureFixture[str]
SEED = 20_261_128
R = "\N{REPLACEMENT CHARACTER}"
PIECES = {
    **{text.encode(): text for text in ("billing", "grö", "日本", "\U0001f40d", " ", '"', "\\", ",", "-", "=")},
    **{text.encode(): text for text in ("\x1b[31m", "\n", "\r", "\t", "\0", "\x7f", "\x9b2J", "\x85", "\u2028")},
    **{text.encode(): text for text in ("\u202e", "\u2066", "\u200b", "\u061c", "\ufeff", "\xad", "\u3000", "\ue000")},
    # Printed by a JVM; an ASCII letter ends each malformed sequence.
    b"\xffA": f"{R}A",
    b"\xc2A": f"{R}A",
    b"\xc0\x80A": f"{R}{R}A",
    b"\xed\xa0\x80A": f"{R}A",
    b"\xe0\xa0A": f"{R}A",
    b"\xf0\x90\x80A": f"{R}A",
    b"\xf5\x80\x80\x80A": f"{R * 4}A",
}
"""Bytes of a part of a name, and its text in Java."""


@dataclass
class Partition:
    """Commits of one partition: by group, then by topic, the last offset."""

    commits: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    rows: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)

    def commit(self, group: tuple[bytes, str], topic: tuple[bytes, str], offset: int, said: tuple[bytes, str]) -> None:
        key = struct.pack(">h", 1) + string(group[0]) + string(topic[0]) + struct.pack(">i", 0)
        self.rows.append((key, struct.pack(">hqi", 3, offset, -1) + string(said[0]) + struct.pack(">q", 1000)))
        self.commits.setdefault(group[1], {})[topic[1]] = offset, said[1]


def string(content: bytes) -> bytes:
    return struct.pack(">h", len(content)) + content


def name(chance: random.Random) -> tuple[bytes, str]:
    parts = chance.choices(list(PIECES.items()), k=chance.randrange(5))
    return b"".join(part for part, _ in parts), "".join(text for _, text in parts)


def partition(chance: random.Random) -> Partition:
    made = Partition()
    groups, topics = [name(chance) for _ in range(3)], [name(chance) for _ in range(2)]
    for offset in range(chance.randrange(1, 6)):
        made.commit(chance.choice(groups), chance.choice(topics), offset, name(chance))
    return made


def written(folder: Path, partitions: dict[int, Partition]) -> Path:
    folder.mkdir()
    lines = [f"__consumer_offsets {number} {len(made.rows)}\n" for number, made in partitions.items()]
    (folder / "replication-offset-checkpoint").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    for number, made in partitions.items():
        (folder / f"__consumer_offsets-{number}").mkdir()
        content = handmade.simple_batch(0, made.rows) if made.rows else b""
        (folder / f"__consumer_offsets-{number}" / f"{0:020d}.log").write_bytes(content)
    return folder


def said_of(numbers: list[int], total: int | None = None) -> str:
    """What is said of the partitions that are there; `total` as far as the cluster's metadata says."""
    names = f"partition{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    if total is None and numbers == list(range(len(numbers))):
        return (
            f"info group-partitions-unknown: Of __consumer_offsets the paths have {names}. Whether the topic has more, "
            "with more groups, is not known without __cluster_metadata.\n"
        )
    of = f"at least {numbers[-1] + 1}" if total is None else str(total)
    return (
        f"warning group-partitions-missing: Of __consumer_offsets the paths have {names}, of {of}. The groups of all "
        "other partitions are missing here.\n"
    )


def check(folder: Path, capsys: Captured, partitions: dict[int, Partition]) -> None:
    """Compare `groups` as text and JSON, and the decoded records, with what was packed."""
    numbers = sorted(partitions)
    code = 0 if numbers == list(range(len(numbers))) else 1
    assert main(["groups", str(folder)]) == code
    said = capsys.readouterr()
    expected = ""
    for number in numbers:
        for group, offsets in sorted(partitions[number].commits.items()):
            expected += f"{text_escaped(group) or chr(34) * 2}  Classic  Empty  0 members\n"
            for topic, (offset, _) in sorted(offsets.items()):
                expected += f"  {text_escaped(topic) or chr(34) * 2}-0  offset {offset}\n"
    assert said.out == expected
    assert said.err == said_of(numbers)
    assert main(["groups", str(folder), "--format", "jsonl"]) == code
    out = capsys.readouterr().out
    assert not (OBEYED - {"\n"}) & set(out)
    found = [json.loads(line) for line in out.splitlines()]
    assert [
        (
            line["coordinator_partition"],
            line["group"],
            [(o["topic"], o["offset"], o["metadata"]) for o in line["offsets"]],
        )
        for line in found
    ] == [
        (number, group, [(topic, *commit) for topic, commit in sorted(offsets.items())])
        for number in numbers
        for group, offsets in sorted(partitions[number].commits.items())
    ]
    assert main(["dump", "--decode", str(folder), "--format", "jsonl"]) == 0
    out = capsys.readouterr().out
    assert not (OBEYED - {"\n"}) & set(out)
    keys = [json.loads(line)["key"]["data"] for line in out.splitlines()]
    assert {key["group"] for key in keys} == {group for made in partitions.values() for group in made.commits}


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_groups_of_any_name_in_some_partitions_are_listed_and_the_others_named(
    count: int, tmp_path: Path, capsys: Captured
) -> None:
    chance = random.Random(SEED)
    for number in range(count):
        there = (
            chance.sample(range(12), chance.randrange(1, 4)) if chance.random() < 0.7 else range(chance.randrange(1, 4))
        )
        partitions = {each: partition(chance) for each in there}
        check(written(tmp_path / str(number), partitions), capsys, partitions)


def test_the_partitions_of_one_of_three_disks_are_named(tmp_path: Path, capsys: Captured) -> None:
    made = Partition()
    for group in (b"billing", b"gr\xfcn", b"", b'evil\x1b[31m\n,"'):
        made.commit((group, group.decode(errors="replace")), (b"orders", "orders"), 4, (b"", ""))
    check(written(tmp_path / "disk", {7: made, 10: Partition()}), capsys, {7: made, 10: Partition()})


def test_a_group_that_is_not_there_is_named_without_what_a_terminal_obeys(tmp_path: Path, capsys: Captured) -> None:
    made = Partition()
    made.commit((b"evil\x1b[31m", ""), (b"orders", ""), 4, (b"", ""))
    folder = written(tmp_path / "disk", {0: made})
    assert main(["groups", str(folder), "--group", "evil\x1b[32m\n"]) == 0
    err = capsys.readouterr().err
    assert err.endswith("--group 'evil\\x1b[32m\\n' matches no group; the nearest names are evil\\x1b[31m.\n")
    made.commit((b"", ""), (b"orders", ""), 4, (b"", ""))
    assert main(["groups", str(written(tmp_path / "again", {0: made})), "--group", "nope"]) == 0
    assert capsys.readouterr().err.endswith('matches no group; there are "", evil\\x1b[31m.\n')
    assert main(["groups", str(folder), "--group", "evil\x1b[31m"]) == 0
    assert capsys.readouterr().out.startswith("evil\\x1b[31m  Classic")
