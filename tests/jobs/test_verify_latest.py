"""`loglake verify` names a table of the latest rows that differs from `records`; the command it names repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import write_deltalake

from logcore.cli import main
from tests import handmade
from tests.jobs.test_latest import Kept


@pytest.fixture(params=["delete", "soft-delete"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Kept:
    made = Kept(tmp_path, request.param)
    made.append(0, [(b"a", b"one"), (b"b", b"x"), (b"a", b"two"), (None, b"no key"), (b"c", b"3")])
    made.append(1, [(b"a", b"elsewhere")])
    made.publish()
    made.run()
    made.append(0, [(b"b", None), (b"d", b"4")])
    made.publish()
    made.run()
    return made


def lose_a_row(lake: Kept) -> None:
    lake.table.delete('"offset" = 2')


def repeat_a_row(lake: Kept) -> None:
    rows = lake.table.to_pyarrow_table()
    write_deltalake(lake.table, rows.filter([offset == 4 for offset in rows["offset"].to_pylist()]), mode="append")


def bring_an_old_row_back(lake: Kept) -> None:
    rows = lake.table.to_pyarrow_table().to_pylist()
    old = next(row for row in rows if (row["partition"], row["key"]) == (0, b"a")) | {"offset": 0, "value": b"one"}
    table = lake.table.to_pyarrow_table()
    lake.table.delete('"offset" = 2')
    write_deltalake(lake.table, table.from_pylist([old], schema=table.schema), mode="append")


def flip_a_bit(lake: Kept) -> None:
    path = Path(lake.table.file_uris()[0])
    path.write_bytes(handmade.flip(path.read_bytes(), 40))


def test_a_sound_table_has_no_finding_and_its_files_are_counted(lake: Kept, capsys) -> None:
    path = str(lake.lake.path)
    assert main.main(["verify", path]) == 0, capsys.readouterr().out
    capsys.readouterr()
    for file in lake.table.file_uris():
        Path(file).unlink()
    assert main.main(["verify", path]) == 2
    assert f"Run `loglake latest {path} --replace orders` to write it again." in capsys.readouterr().out


def test_values_that_another_program_wrote_are_named_until_the_table_is_written_again(lake: Kept, capsys) -> None:
    path = str(lake.lake.path)
    lake.table.update({"value": "NULL"})
    assert main.main(["verify", path]) == 2
    assert (
        "row-digest-differs: Table latest/orders: it has rows that another program wrote, and nothing proves them. Run "
        f"`loglake latest {path} --replace orders` to write it again."
    ) in capsys.readouterr().out
    lake.run(replace=("orders",))
    assert main.main(["verify", path]) == 0, capsys.readouterr().out


def test_a_table_that_is_gone_is_named_and_the_command_writes_it_again(lake: Kept, capsys) -> None:
    path = str(lake.lake.path)
    shutil.rmtree(Path(path) / "tables" / "latest")
    assert main.main(["verify", path]) == 2
    said = capsys.readouterr().out
    assert "table-missing: Table latest/orders: it was there and is gone." in said
    assert f"Run `loglake latest {path} --replace orders` to write it again." in said
    lake.run(replace=("orders",))
    assert main.main(["verify", path]) == 0, capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(
    ("harm", "rule", "says"),
    [
        (lose_a_row, "row-digest-differs", "it lacks 1 of the newest rows below offset 7 of records, and has 0 others"),
        (
            repeat_a_row,
            "row-digest-differs",
            "it lacks 0 of the newest rows below offset 7 of records, and has 1 other",
        ),
        (bring_an_old_row_back, "row-digest-differs", "it lacks 1 of the newest rows below offset 7 of records, and"),
        (flip_a_bit, "table-file-damaged", "are not those that were written"),
    ],
)
def test_each_harm_is_named_and_the_command_repairs_it(
    lake: Kept, harm: Callable[[Kept], None], rule: str, says: str, capsys
) -> None:
    harm(lake)
    assert main.main(["verify", str(lake.lake.path)]) == 2
    lines = [line for line in capsys.readouterr().out.splitlines() if rule in line and line.startswith("error")]
    repair = f"loglake latest {lake.lake.path} --replace orders"
    assert any(says in line and repair in line for line in lines), lines
    lake.run(replace=("orders",))
    assert main.main(["verify", str(lake.lake.path)]) < 2
