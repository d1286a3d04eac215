"""Damaged on purpose: nothing but the damaged place is lost, it is named with its position, and every byte is counted.

What was damaged is read from `case.json`; the undamaged state (`base`) was read by a real consumer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance import ours
from tests.conformance.snapshots import SNAPSHOTS, Snapshot, snapshot
from tests.property.reading import test_commands_agree as commands_agree

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

DAMAGED = [
    entry
    for entry in SNAPSHOTS
    if entry.case.startswith(("recovery-damage", "recovery-fatal")) and entry.name.startswith("before")
]

_FLIP = re.compile(r"byte (\d+) \(batch at (\d+), size (\d+)\) of (\S+) xor 0x5a")
_CUT = re.compile(r"active log cut (\d+) bytes into its last batch \(of \d+\)")
_ADDED = re.compile(r"(\d+) bytes appended to the active log: (\w+)\.\.\.")
_EPOCH = range(12, 16)


@dataclass(frozen=True, slots=True)
class Damage:
    """What became unreadable: bytes of one file. rule: of its finding; None for damage that cannot be seen."""

    rule: str | None = None
    file: str = ""
    position: int = 0
    nbytes: int = 0
    lost_from: int | None = None
    """Batches of that file from this position on are lost; None if none are."""
    lost_to: int = 0


def active(log: ours.Log) -> ours.Segment:
    return log.segments[-1]


def expected(what: str, base: ours.Log, damaged: ours.Log) -> Damage:
    """What a stated damage must do."""
    file, size = active(damaged).name, active(damaged).accounting.file_size
    original = active(base).accounting.file_size
    if flip := _FLIP.fullmatch(what):
        byte, position, nbytes, file = int(flip[1]), int(flip[2]), int(flip[3]), flip[4]
        field = byte - position
        end = next(segment for segment in damaged.segments if segment.name == file).accounting.file_size
        if field in _EPOCH:
            # the batches after it show it, if there are any
            return Damage("leader-epoch-regression" if position + nbytes < end else "unseen-epoch", file)
        return Damage("corrupt-bytes", file, position, nbytes, position, position + nbytes)
    if cut := _CUT.fullmatch(what):
        left = int(cut[1])
        return Damage("torn-tail" if left else None, file, size - left, left, size - left, original)
    if what == "cut 1 bytes off the active log":
        position = active(base).batches[-1].scanned.position
        return Damage("torn-tail", file, position, original - 1 - position, position, original)
    if added := _ADDED.fullmatch(what):
        zeros = not int(added[2], 16)
        # what begins at no offset that may follow is no write under way
        return Damage("zero-padding" if zeros else "tail-hides-batches", file, original, int(added[1]))
    return Damage()


def removed_segments(what: str) -> set[str]:
    return set(re.findall(r"\S+\.log(?=\s|$)", what)) if what.startswith("removed ") else set()


def stated_damage(corpus: Corpus, damaged: Snapshot) -> dict[str, str]:
    """Directory and what was done to it, in the words of the case."""
    facts = corpus.facts(damaged)
    return facts.get("what") or {"d-x-0": facts["snapshots"][damaged.name]["damage"]}


@pytest.mark.parametrize("damaged", DAMAGED, ids=str)
def test_nothing_but_the_damaged_place_is_lost_and_it_is_named(corpus: Corpus, damaged: Snapshot):
    logs, base = corpus.logs(damaged), corpus.logs(snapshot(f"{damaged.case}/base"))
    what = stated_damage(corpus, damaged)
    assert set(what) <= set(logs) == set(base)
    for name, log in logs.items():
        words = what.get(name, "undamaged")
        damage = expected(words, base[name], log)
        gone = removed_segments(words)
        kept = {
            segment.name: [
                batch
                for batch in segment.batches
                if damage.file != segment.name
                or damage.lost_from is None
                or not damage.lost_from <= batch.scanned.position < damage.lost_to
            ]
            for segment in base[name].segments
            if segment.name not in gone
        }
        found = {segment.name: segment.batches for segment in log.segments}
        if words.startswith("empty segment file"):
            assert found.pop(words.split()[3]) == []
        if damage.rule in ("leader-epoch-regression", "unseen-epoch"):
            # the epoch is not under the crc: its batch stays good, and only what follows shows that it is not
            assert [b.records for batches in found.values() for b in batches] == [
                b.records for batches in kept.values() for b in batches
            ], name
        else:
            assert found == kept, (name, words)
        for segment in log.segments:
            accounting = segment.accounting
            assert accounting.file_size == (
                accounting.valid + accounting.quarantined + accounting.tail + accounting.padding
            ), (name, segment.name)
            assert accounting.valid == sum(batch.header.size for batch in segment.batches)
        said = ours.findings(log)
        if damage.rule in (None, "unseen-epoch"):
            assert said == [], (name, words)
        elif damage.rule == "leader-epoch-regression":
            assert [(rule, file) for rule, file, _, _ in said] == [(damage.rule, damage.file)], (name, words)
        else:
            wanted = [(damage.rule, damage.file, damage.position, damage.nbytes)]
            if damage.rule == "torn-tail" and damage.position == 0:
                wanted.append(("segment-without-batch", damage.file, 0, damage.nbytes))
            assert said == wanted, (name, words)


@pytest.mark.long
@pytest.mark.parametrize("damaged", DAMAGED, ids=str)
def test_all_commands_agree_about_a_damaged_directory(
    corpus: Corpus, damaged: Snapshot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for directory in sorted(corpus.directory(damaged).glob("d-*-[0-9]")):
        commands_agree.check(directory, capsys)
        commands_agree.check_salvage(directory, tmp_path, capsys)


HEALTHY = [
    entry for entry in SNAPSHOTS if not entry.case.startswith(("recovery-", "crash-")) and entry.name != "remote"
]


@pytest.mark.parametrize("healthy", HEALTHY, ids=str)
def test_files_that_a_broker_left_in_order_have_no_finding(corpus: Corpus, healthy: Snapshot):
    for name, log in corpus.logs(healthy).items():
        assert ours.findings(log) == [], name
