"""Lakes of tiered cases: the records of the joined log are what the broker's consumer received."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import Corpus
from tests.conformance.lakes import TABLE_OF, CorpusLake
from tests.conformance.remote_lakes import LAYOUTS, MODES, TIERED, run_all, stored_as, with_private_key
from tests.conformance.snapshots import Snapshot
from tests.conformance.test_tables import accounted, same_as_consumed
from tests.in_process import without_spark


@pytest.fixture(autouse=True)
def in_process(tmp_path: Path) -> Iterator[None]:
    with with_private_key(tmp_path), without_spark():
        yield


def check(lake: CorpusLake, corpus: Corpus, snapshot: Snapshot) -> None:
    for isolation_level, table in TABLE_OF.items():
        assert lake.has(table)
        same_as_consumed(corpus, snapshot, isolation_level, lake.consumed(isolation_level))
    accounted(lake)


def versions(lake: CorpusLake) -> dict[str, int]:
    return {path.name: len(list((path / "_delta_log").glob("*.json"))) for path in (lake.path / "tables").iterdir()}


FAST = ("files-copy", "both-reference")


@pytest.mark.parametrize("snapshot", TIERED, ids=str)
@pytest.mark.parametrize(
    ("layout", "mode"),
    [
        pytest.param(
            layout,
            mode,
            id=f"{layout}-{mode}",
            marks=() if f"{layout}-{mode}" in FAST else pytest.mark.long,
        )
        for layout in LAYOUTS
        for mode in MODES
    ],
)
def test_the_tables_have_what_the_brokers_consumer_received(
    corpus: Corpus, snapshot: Snapshot, layout: str, mode: str, tmp_path: Path
) -> None:
    case, lake = corpus.case(snapshot), CorpusLake(tmp_path / "lake")
    remote = stored_as(layout, case / "remote", tmp_path / "stored")
    run_all(str(lake.path), str(case / "logdir"), "first", str(remote), mode=mode)
    check(lake, corpus, snapshot)
    assert not [row for row in lake.rows("offset_ledger") if row["state"] == "remote"]
    paths = [row["path"] for row in lake.rows("segments")]
    assert all(path.startswith("/") == (mode == "reference") for path in paths)
    before = versions(lake)
    run_all(str(lake.path), str(case / "logdir"), "second", str(remote), mode=mode)
    run_all(str(lake.path), str(case / "logdir"), "third", mode=mode)
    assert versions(lake) == before


@pytest.mark.long
@pytest.mark.parametrize("snapshot", TIERED, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["files", "both"])
def test_the_tables_are_the_same_if_the_storage_is_given_later(
    corpus: Corpus, snapshot: Snapshot, layout: str, mode: str, tmp_path: Path
) -> None:
    case, lake = corpus.case(snapshot), CorpusLake(tmp_path / "lake")
    remote = stored_as(layout, case / "remote", tmp_path / "stored")
    run_all(str(lake.path), str(case / "logdir"), "first", mode=mode)
    assert [row for row in lake.rows("offset_ledger") if row["state"] == "remote"]
    run_all(str(lake.path), str(case / "logdir"), "second", str(remote), mode=mode)
    check(lake, corpus, snapshot)
    at_once = CorpusLake(tmp_path / "at-once")
    run_all(str(at_once.path), str(case / "logdir"), "first", str(remote), mode=mode)
    kept = ("log", "start_offset", "end_offset", "state", "records", "gaps")

    def ledger(of: CorpusLake) -> list[tuple[object, ...]]:
        rows: list[list[Any]] = []
        for row in sorted(of.rows("offset_ledger"), key=lambda row: (row["log"], row["start_offset"])):
            if rows and rows[-1][0] == row["log"] and rows[-1][3] == row["state"]:
                rows[-1][2] = row["end_offset"]
                rows[-1][4] += row["records"]
                rows[-1][5] += row["gaps"]
            else:
                rows.append([row[name] for name in kept])
        return [tuple(row) for row in rows]

    assert ledger(lake) == ledger(at_once)


@pytest.mark.parametrize("snapshot", TIERED[-1:], ids=str)
def test_without_the_metadata_topic_the_tables_are_the_same(corpus: Corpus, snapshot: Snapshot, tmp_path: Path) -> None:
    case, lake = Path(shutil.copytree(corpus.case(snapshot), tmp_path / "case")), CorpusLake(tmp_path / "lake")
    for directory in (case / "logdir").glob("__remote_log_metadata-*"):
        shutil.rmtree(directory)
    run_all(str(lake.path), str(case / "logdir"), "first", str(case / "remote"))
    for isolation_level in TABLE_OF:
        same_as_consumed(corpus, snapshot, isolation_level, lake.consumed(isolation_level))
    assert "no-remote-metadata" in {row["rule"] for row in lake.rows("findings")}
