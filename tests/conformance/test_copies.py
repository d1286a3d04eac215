"""`loglake compare` of three real brokers' copies, against what the brokers made of them afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import SNAPSHOTS

CASE = "replicas-4.4.0"
LOGS = ("rep-0", "rep-1", "rep-txn-0", "rep-div-0", "__transaction_state-0")
Captured = pytest.CaptureFixture[str]


def directories(corpus: Corpus, when: str) -> dict[str, Path]:
    chosen = (each for each in SNAPSHOTS if each.case == CASE and each.name.startswith(f"{when}-"))
    return {each.name.rpartition("-")[2]: corpus.directory(each) for each in chosen}


def batches(log: Path) -> list[bytes]:
    """The batches of a log as they are, by their sizes alone."""
    found: list[bytes] = []
    for path in sorted(log.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size = handmade.size_of(data, at)
            found.append(data[at : at + size])
            at += size
    return found


def below(log: Path, offset: int) -> list[bytes]:
    return [each for each in batches(log) if int.from_bytes(each[:8], "big") < offset]


def compared(corpus: Corpus, capsys: Captured, when: str) -> tuple[int, dict[str, dict[str, list[dict[str, Any]]]]]:
    code = main(["compare", *map(str, directories(corpus, when).values()), "--format", "jsonl"])
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        kinds = rows.setdefault(
            f"{row['topic']}-{row['partition']}", {"copy": [], "pair": [], "batch": [], "verdict": []}
        )
        kinds[row["kind"]].append(row)
    return code, rows


@pytest.mark.parametrize(("when", "code"), [("clean", 0), ("lag", 1), ("diverged", 2), ("truncated", 0)])
def test_each_pair_is_what_its_bytes_are(corpus: Corpus, capsys: Captured, when: str, code: int) -> None:
    exit_code, rows = compared(corpus, capsys, when)
    assert (exit_code, set(LOGS) - set(rows)) == (code, set())
    for kinds in rows.values():
        assert kinds["batch"] == []
        for pair in kinds["pair"]:
            left, right = (batches(Path(pair[side])) for side in ("left", "right"))
            same = 0
            while same < min(len(left), len(right)) and left[same] == right[same]:
                same += 1
            verdict = "equal" if left == right else "diverged" if same < min(len(left), len(right)) else "behind"
            assert pair["verdict"] == verdict, pair
            for side, ours in (("left", left), ("right", right)):
                cut = None if same == len(ours) else int.from_bytes(ours[same][:8], "big")
                assert pair[f"{side}_truncates_to"] == cut, pair
            first = None if verdict != "diverged" else int.from_bytes(left[same][:8], "big")
            assert pair["first_divergent_offset"] == first


def test_the_old_leader_was_cut_where_compare_says_and_took_the_rest_of_the_kept_copy(
    corpus: Corpus, capsys: Captured
) -> None:
    _, rows = compared(corpus, capsys, "diverged")
    before, after = directories(corpus, "diverged"), directories(corpus, "truncated")
    for log in LOGS[:4]:
        (pair,) = rows[log]["pair"]
        (verdict,) = rows[log]["verdict"]
        kept = Path(verdict["keep"])
        end = len(batches(kept))
        for path in after.values():
            assert batches(path / log)[:end] == batches(kept), log
        cut = pair["left_truncates_to"]
        if cut is not None:
            assert (kept, cut) == (before["n2"] / log, 47)
            assert below(after["n1"] / log, cut) == below(before["n1"] / log, cut)
            assert batches(after["n1"] / log) != batches(before["n1"] / log)
