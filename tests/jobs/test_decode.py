"""`decode`: rows of `records` become rows of `decoded/<topic>` or of `undecoded/<topic>`, each exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.cli import main
from tests.jobs.decoded_lake import Decoded


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    return Decoded(tmp_path)


def test_every_row_is_decoded_or_undecoded_with_its_reason_and_bytes(lake: Decoded) -> None:
    lake.append((b"a", b"one"), (None, "zwölf".encode()), (b"c", None), (b"d", b"\xff!"), (b"\xfe", b"\xff"))
    report = lake.decode()
    assert [(r["offset"], r["key"], r["value"], r["is_tombstone"]) for r in lake.rows()] == [
        (0, "a", "one", False),
        (1, None, "zwölf", False),
        (2, "c", None, True),
    ]
    bad = lake.rows("undecoded")
    assert [(r["offset"], r["key"], r["value"], r["part"], r["reason"]) for r in bad] == [
        (3, b"d", b"\xff!", "value", "INVALID_UTF8"),
        (4, b"\xfe", b"\xff", "key", "INVALID_UTF8"),
    ]
    assert report.metrics == {"decoded": 3, "undecoded": 2, "waiting": 0}
    published = {row["offset"]: row for row in lake.lake.rows("records")}
    for row in [*lake.rows(), *bad]:
        same = ("log_id", "partition", "timestamp", "headers", "published_at")
        assert {name: row[name] for name in same} == {name: published[row["offset"]][name] for name in same}


def test_a_second_run_writes_nothing_and_new_rows_follow(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.decode()
    before = lake.versions()
    report = lake.decode()
    assert (lake.versions(), report.changed) == (before, ())
    lake.append((b"b", b"two"), (b"c", b"\xff"))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == ["one", "two"]
    assert [row["offset"] for row in lake.rows("undecoded")] == [2]


def test_without_a_policy_nothing_is_decoded(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.policies.write_text('topics:\n  "*":\n    salvage: permissive\n')
    assert lake.decode().plan == {"topics": []}
    assert lake.rows() == []


def test_the_command_says_for_each_topic_what_it_did(lake: Decoded, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    arguments = ["decode", str(lake.lake.path), "--policies", str(lake.policies)]
    assert main.main(arguments) == 1
    assert capsys.readouterr().out == "orders: 1 decoded, 1 undecoded, 1 INVALID_UTF8, 0 offsets left\n"
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == "orders: 0 decoded, 0 undecoded, 0 offsets left\n"
