"""`loglake verify` of a lake names a harmed decoded table, and the command that writes it again repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs.lake.delta.state.table_checks import cheap_check
from spark_jobs.lake.delta.state.tables_file import record_state
from tests import handmade
from tests.jobs.decoded_lake import Decoded


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    made = Decoded(tmp_path)
    made.append((b"a", b"one"), (b"b", b"\xff"), (b"c", None))
    made.decode()
    made.append((b"d", b"two"))
    made.decode()
    return made


def data_file(lake: Decoded, kind: str = "decoded") -> Path:
    return sorted((Path(lake.path) / "tables" / kind / "orders").glob("*.parquet"))[0]


def flip(lake: Decoded) -> None:
    file = data_file(lake)
    file.write_bytes(handmade.flip(file.read_bytes(), 40))


def cut(lake: Decoded) -> None:
    file = data_file(lake, "undecoded")
    file.write_bytes(file.read_bytes()[:-1])


def lose_file(lake: Decoded) -> None:
    data_file(lake).unlink()


def lose_a_row(lake: Decoded) -> None:
    lake.table().delete('"offset" = 2')


def harm_the_log(lake: Decoded) -> None:
    (commit,) = (Path(lake.path) / "tables" / "decoded" / "orders" / "_delta_log").glob("*1.json")
    commit.write_text("{")


def test_a_sound_lake_is_clean_and_files_of_decoded_tables_are_counted(lake: Decoded, capsys) -> None:
    assert main.main(["verify", lake.path]) == 0, capsys.readouterr().out
    counted = int(capsys.readouterr().out.split(" table files")[0].split()[-1])
    logs = (Path(lake.path) / "tables").rglob("_delta_log")
    assert counted == sum(len(DeltaTable(str(log.parent)).file_uris()) for log in logs)


@pytest.mark.parametrize(
    ("harm", "rule", "says"),
    [
        (flip, "table-file-damaged", "are not those that were written"),
        (cut, "table-file-size", "its commit records"),
        (lose_file, "table-file-missing", "is gone"),
        (lose_a_row, "row-digest-differs", "it has 2 decoded and 1 undecoded rows below offset 4, where records has 4"),
        (harm_the_log, "commit-file-damaged", "cannot be read"),
    ],
)
def test_each_harm_is_named_and_decoding_again_repairs_it(
    lake: Decoded, harm: Callable[[Decoded], None], rule: str, says: str, capsys
) -> None:
    harm(lake)
    assert main.main(["verify", lake.path]) == 2
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if rule in line and line.startswith("error"))
    assert says in line
    assert f"un `loglake decode {lake.path} --replace orders` to write it again." in line
    if harm is harm_the_log:
        assert "Remove its directory" in line
        shutil.rmtree(Path(lake.path) / "tables" / "decoded" / "orders")
    lake.decode(replace=("orders",))
    assert main.main(["verify", lake.path]) == 0, capsys.readouterr().out
    assert len(lake.rows()) == 3


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize(
    ("gone", "why"),
    [
        (("decoded",), "undecoded/orders is there"),
        (("undecoded",), "decoded/orders is there"),
        (("decoded/orders/_delta_log", "undecoded/orders/_delta_log"), "its directory has files"),
        (("decoded", "undecoded"), None),
    ],
)
def test_a_table_that_is_gone_is_named_and_decoding_again_repairs_it(
    lake: Decoded, gone: tuple[str, ...], why: str | None, is_remembered: bool, capsys
) -> None:
    tables = Path(lake.path) / "tables"
    if not is_remembered:  # as a lake of an earlier version
        (Path(lake.path) / "tables.json").unlink()
    for each in gone:
        shutil.rmtree(tables / each)
    expected = 2 if is_remembered or why is not None else 0  # without any trace nothing can be known
    assert main.main(["verify", lake.path]) == expected
    said = sorted(line for line in capsys.readouterr().out.splitlines() if "table-missing" in line)
    assert len(said) == (len(gone) if expected else 0)
    for each, line in zip(gone, said, strict=False):
        assert f"Table {each.partition('/')[0]}/orders: it is gone, but" in line
        assert ("the last run recorded it" if is_remembered else why) in line
        assert f"Run `loglake decode {lake.path} --replace orders` to write it again." in line
    lake.decode(replace=("orders",))
    assert main.main(["verify", lake.path]) == 0, capsys.readouterr().out
    assert len(lake.rows()) == 3


def test_the_next_run_names_a_table_that_is_gone_once(lake: Decoded) -> None:
    shutil.rmtree(Path(lake.path) / "tables" / "decoded")
    gone = [each.message for each in cheap_check(lake.path) if each.rule == "table-missing"]
    assert len(gone) == 1
    assert gone[0].startswith("table decoded/orders: it was there after the run ")
    record_state(lake.path, "later", 5)
    assert not [each for each in cheap_check(lake.path) if each.rule == "table-missing"]


def test_only_the_decoded_tables_of_chosen_topics_are_verified(lake: Decoded, capsys) -> None:
    flip(lake)
    assert main.main(["verify", lake.path, "--topic", "orders"]) == 2
    assert "table-file-damaged" in capsys.readouterr().out
