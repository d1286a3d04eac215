"""`loglake query FOLDER`: which tables of a folder are views. delta-rs writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from logcore.cli import main
from spark_jobs.errors import UsageError
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.storage import StoredFile
from spark_jobs.lake_commands.query import query_command

Captured = pytest.CaptureFixture[str]


def table(path: Path, rows: int) -> None:
    write_deltalake(str(path), pa.table({"a": range(rows)}))


def count(folder: Path, view: str, capsys: Captured) -> int:
    assert main.main(["query", str(folder), f"select count(*) as n from {view}", "--format", "jsonl"]) == 0
    return int(json.loads(capsys.readouterr().out)["n"])


def refused(folder: Path, code: int, capsys: Captured) -> str:
    assert main.main(["query", str(folder), "select 1"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("first", "second", "others", "name"),
    [("Sales", "sales", [], "sales"), ("a/b", "a_b", ["c/b"], "a_b"), ("x/T", "x/t", [], "x_t")],
)
def test_two_tables_that_would_be_one_view_are_refused(
    first: str, second: str, others: list[str], name: str, tmp_path: Path, capsys: Captured
) -> None:
    for rows, folder in enumerate([first, second, *others], start=1):
        table(tmp_path / folder, rows)
    said = refused(tmp_path, 64, capsys)
    assert f"{tmp_path}/{first} and {tmp_path}/{second} would both be the view {name}." in said
    assert "Name one of the folders instead." in said
    assert count(tmp_path / second, Path(second).name, capsys) == 2


def test_a_folder_that_is_not_there_is_not_one_without_tables(tmp_path: Path, capsys: Captured) -> None:
    assert "there is no such folder" in refused(tmp_path / "sale", 64, capsys)
    (tmp_path / "file").touch()
    assert "there is no such folder" in refused(tmp_path / "file", 64, capsys)
    assert "there is no Delta table in it" in refused(tmp_path, 64, capsys)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_folder_that_cannot_be_read_is_an_error_with_its_path(
    is_linked: bool, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    table(folder / "sales", 3)
    table((tmp_path if is_linked else folder) / "closed" / "orders", 3)
    if is_linked:
        (folder / "link").symlink_to(tmp_path / "closed" / "orders")
    closed = str(folder / "link" / "_delta_log" if is_linked else folder / "closed")
    name, real = ("stat", os.stat) if is_linked else ("scandir", os.scandir)

    def denied(path: str, **rest: object) -> object:  # a mode does not keep root from reading
        if str(path) == closed:
            raise PermissionError(13, "Permission denied", closed)
        return real(path, **rest)  # type: ignore[operator]

    monkeypatch.setattr(os, name, denied)
    assert f"{closed} can't be read: Permission denied. It may have Delta tables." in refused(folder, 3, capsys)


def test_a_link_to_a_table_is_a_view_and_a_link_to_a_folder_above_is_none(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "folder"
    table(folder / "sales", 3)
    table(tmp_path / "elsewhere" / "stored", 4)
    (folder / "orders").symlink_to(tmp_path / "elsewhere" / "stored")
    (folder / "again").symlink_to(tmp_path / "elsewhere" / "stored")
    (folder / "latest").symlink_to(folder / "sales")
    (folder / "above").symlink_to(folder)
    (folder / "itself").symlink_to(folder / "itself")
    (folder / "lost").symlink_to(tmp_path / "nothing")
    assert [view.name for view in query_command.delta_folders(str(folder))] == ["again", "sales"]
    assert count(folder, "again", capsys) == 4
    assert count(folder, "sales", capsys) == 3


@pytest.mark.parametrize("is_remote", [False, True])
def test_nothing_below_a_table_is_a_table(is_remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "s3://bucket/folder" if is_remote else str(tmp_path)
    for name in ("t", "t/copies/old", "t-1", "u/v"):
        (tmp_path / name / "_delta_log").mkdir(parents=True)
        (tmp_path / name / "_delta_log" / f"{0:020d}.json").touch()
    if is_remote:
        names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")]
        stored = [StoredFile(f"{folder}/{name}", 0, 0, 0) for name in names]
        monkeypatch.setattr(storage, "files_below", lambda _: iter(stored))
    assert {view.name: view.uri for view in query_command.delta_folders(folder)} == {
        "t": f"{folder}/t",
        "t-1": f"{folder}/t-1",
        "v": f"{folder}/u/v",
    }


def test_an_address_below_which_is_nothing_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "files_below", lambda _: iter(()))
    with pytest.raises(UsageError, match="there is no such folder"):
        query_command.delta_folders("s3://bucket/folder")
