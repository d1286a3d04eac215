"""State tables are written by our own writer: every file has its digest, and rows that stay keep all their columns."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions
from spark_jobs.lake.delta.files import live_files, row_digest
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import open_table, read_rows, table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table, spec_of
from spark_jobs.lake.table_specs import LOGS, TABLES


def _logs(**next_offsets: int) -> pa.Table:
    rows = [dict.fromkeys(LOGS.names) | {"log": f"{log}/0", "next_offset": end} for log, end in next_offsets.items()]
    return pa.Table.from_pylist(rows, schema=LOGS)


def _content(lake: str) -> dict[str, int]:
    rows = read_rows(lake, "logs", ["log", "next_offset"]).to_pylist()
    assert len({row["log"] for row in rows}) == len(rows)
    return {row["log"]: row["next_offset"] for row in rows}


def _files(lake: str) -> list[Path]:
    return [Path(table_uri(lake, "logs"), file.path) for file in live_files.newest_files(lake, "logs")]


def _user_adds_a_column(lake: str) -> None:
    table = DeltaTable(table_uri(lake, "logs"))
    table.alter.add_columns([Field("owner", PrimitiveType("string"))])
    table = DeltaTable(table_uri(lake, "logs"))
    table.update({"owner": "concat('team of ', log)"})


def test_every_commit_of_a_state_table_adds_files_whose_rows_have_the_digest_of_footer_and_commit(tmp_path):
    lake = str(tmp_path)
    commits.append(lake, "logs", _logs(a=1, b=2), "run")
    commits.replace(lake, "logs", ("log", ["a/0"]), _logs(a=5), "run")
    commits.delete(lake, "logs", ("log", ["b/0"]), "run")
    digests = {}
    for version in (1, 2, 3):
        commit = delta_log.read_commit(lake, "logs", version)
        assert commit is not None
        assert {added.path for added in commit.added} == set(commit.digests)
        digests |= commit.digests
    assert len(digests) == 3
    for path, digest in digests.items():
        full = Path(table_uri(lake, "logs"), path)
        assert row_digest.of_rows(pq.ParquetFile(full).iter_batches(), LOGS) == digest == row_digest.of_file(str(full))
    assert _content(lake) == {"a/0": 5}


def test_only_files_that_lose_rows_are_rewritten(tmp_path):
    lake = str(tmp_path)
    commits.append(lake, "logs", _logs(a=1, m=2), "run")
    commits.append(lake, "logs", _logs(x=3), "run")
    commits.append(lake, "logs", _logs(b=4, z=5), "run")
    before = set(_files(lake))
    commits.replace(lake, "logs", ("log", ["m/0", "n/0"]), _logs(m=7, n=8), "run")
    assert len(before & set(_files(lake))) == 2
    assert _content(lake) == {"a/0": 1, "m/0": 7, "x/0": 3, "b/0": 4, "z/0": 5, "n/0": 8}


def test_a_file_without_statistics_is_searched(tmp_path):
    lake = str(tmp_path)
    ensure_table(lake, "logs")
    table = DeltaTable(table_uri(lake, "logs"))
    table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "next_offset"})
    write_deltalake(table_uri(lake, "logs"), _logs(a=1, b=2), mode="append")
    assert "log" not in live_files.newest_files(lake, "logs")[0].least
    commits.delete(lake, "logs", ("log", ["b/0"]), "run")
    assert _content(lake) == {"a/0": 1}


def test_a_delete_of_rows_that_are_not_there_commits_nothing(tmp_path):
    lake = str(tmp_path)
    commits.append(lake, "logs", _logs(a=1), "run")
    expected = TableVersions.of(lake, "logs")
    commits.delete(lake, "logs", ("log", ["b/0"]), "run", expected)
    assert delta_log.newest_version(lake, "logs") == 1
    commits.append(lake, "logs", _logs(b=1), "run", expected=expected)


def test_a_column_of_the_user_survives_replace_delete_and_append(tmp_path):
    lake = str(tmp_path)
    commits.append(lake, "logs", _logs(a=1, b=2, c=3), "run")
    _user_adds_a_column(lake)
    commits.replace(lake, "logs", ("log", ["b/0"]), _logs(b=4), "run")
    commits.delete(lake, "logs", ("log", ["c/0"]), "run")
    commits.append(lake, "logs", _logs(d=5), "run")
    table = open_table(lake, "logs")
    assert table is not None
    rows = table.to_pyarrow_table().to_pylist()
    assert {row["log"]: row["owner"] for row in rows} == {"a/0": "team of a/0", "b/0": None, "d/0": None}
    assert spec_of("logs", table).schema.names == [*LOGS.names, "owner"]
    assert spec_of("logs", table).statistics == TABLES["logs"].statistics


def _gone(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _of_other_types(path: Path) -> None:
    pq.write_table(pa.table({"log": [[1]], "next_offset": ["x"]}), path)


@pytest.mark.parametrize("harm", [_gone, _cut, _zeroed, _of_other_types])
def test_a_damaged_file_of_a_state_table_is_named_with_the_command_that_repairs_it(tmp_path, harm):
    lake = str(tmp_path)
    commits.append(lake, "logs", _logs(a=1, b=2), "run")
    (path,) = _files(lake)
    harm(path)
    version = delta_log.newest_version(lake, "logs")
    for use in (
        lambda: read_rows(lake, "logs"),
        lambda: read_rows(lake, "logs", ["log"], [("log", "==", "a/0")]),
        lambda: commits.replace(lake, "logs", ("log", ["a/0"]), _logs(a=4), "run"),
        lambda: commits.delete(lake, "logs", ("log", ["a/0"]), "run"),
    ):
        command = f"loglake repair {lake} --rebuild logs --apply"
        with pytest.raises(TableUnreadable, match=rf"(?s)^Table logs: .*`{command}`"):
            use()
    assert delta_log.newest_version(lake, "logs") == version
    with pytest.raises(TableUnreadable, match=path.name):
        commits.delete(lake, "logs", ("log", ["a/0"]), "run")


@pytest.mark.parametrize("content", [b"{", b"\x00" * 50, b'{"add": {}}\n', b"[]\n", b'{"add": 1}\n'])
def test_a_damaged_commit_of_a_state_table_is_one_of_our_errors(tmp_path, content):
    lake = str(tmp_path)
    commits.append(lake, "logs", _logs(a=1), "run")
    Path(table_uri(lake, "logs"), "_delta_log", f"{1:020d}.json").write_bytes(content)
    for use in (
        lambda: read_rows(lake, "logs"),
        lambda: live_files.newest_files(lake, "logs"),
        lambda: delta_log.newest_version(lake, "logs"),
        lambda: commits.append(lake, "logs", _logs(b=1), "run"),
    ):
        with pytest.raises(TableUnreadable, match=f"loglake repair {lake} --rebuild logs --apply"):
            use()
    with contextlib.suppress(TableUnreadable):  # they look at what they need alone
        delta_log.read_commit(lake, "logs", 1)
        delta_log.read_history(lake, "logs")


@pytest.mark.long
@pytest.mark.slow
def test_the_log_of_a_table_gets_a_checkpoint_after_a_hundred_commits_and_readers_need_no_more(tmp_path):
    lake = str(tmp_path)
    for number in range(101):
        commits.append(lake, "logs", _logs(**{f"l{number}": number}), "run", [Guard("id", number or None, number + 1)])
    table = open_table(lake, "logs")
    assert table is not None
    assert table.version() == 101
    assert delta_log.commits_since_checkpoint(lake, "logs", 101) == 2, "version 99 has it"
    for version in range(99):
        Path(delta_log.commit_file(lake, "logs", version)).unlink()
    assert len(_content(lake)) == 101
    assert commits.versions(lake, "logs", ["id"]) == {"id": 101}
