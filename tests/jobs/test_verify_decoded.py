"""`loglake verify` of a lake names a harmed decoded table, and the command that writes it again repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.cli import main
from spark_jobs.lake.decoded.topic_tables import REMEMBERED_FILE, remembered_tables, topic_table
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.jobs.decoded_lake import Decoded
from tests.spark.cycle import Lake


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


def overwrite_values(lake: Decoded) -> None:
    lake.table().update(updates={"value": "'harmed'"}, predicate='"offset" = 3')


def double_a_row_and_lose_one(lake: Decoded) -> None:
    rows = lake.table().to_pyarrow_table().sort_by("offset")
    write_deltalake(lake.table(), pa.concat_tables([rows.slice(1), rows.slice(1, 1)]), mode="overwrite")


def overwrite_a_reason(lake: Decoded) -> None:
    lake.table("undecoded").update({"reason": "'OTHER'"})


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("harm", [overwrite_values, double_a_row_and_lose_one, overwrite_a_reason])
def test_rows_of_another_program_are_named_until_the_table_is_written_again(
    lake: Decoded, harm: Callable[[Decoded], None], goes_on: bool, capsys
) -> None:
    harm(lake)
    if goes_on:  # our next commit does not hide the one of the other program
        lake.append((b"e", b"three"))
        lake.decode()
    assert main.main(["verify", lake.path]) == 2
    kind = "undecoded" if harm is overwrite_a_reason else "decoded"
    expected = (
        f"row-digest-differs: Table {kind}/orders: it has rows that another program wrote, and nothing proves them. "
        f"Run `loglake decode {lake.path} --replace orders` to write it again."
    )
    assert expected in capsys.readouterr().out
    (topic,) = DecodedTopic.all_of(lake.path, read_policies(str(lake.policies)))
    (said,) = topic.changed_tables("decode", "decoded", "undecoded")
    assert said == (
        f"{kind}/orders has rows that another program wrote, and nothing proves them. "
        f"`loglake decode {lake.path} --replace orders` writes it again"
    )
    lake.decode(replace=("orders",))
    assert main.main(["verify", lake.path]) == 0, capsys.readouterr().out
    assert topic.changed_tables("decode", "decoded", "undecoded") == []


def test_files_that_another_program_merged_are_no_damage(lake: Decoded, capsys) -> None:
    lake.table().optimize.compact()
    assert len(lake.table().file_uris()) == 1
    assert main.main(["verify", lake.path]) == 0
    assert "another program wrote rows" not in capsys.readouterr().out


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize(
    "gone",
    [
        ("decoded",),
        ("undecoded",),
        ("decoded/orders/_delta_log", "undecoded/orders/_delta_log"),
        ("decoded", "undecoded"),
    ],
)
def test_a_table_that_is_gone_is_named_and_decoding_again_repairs_it(
    lake: Decoded, gone: tuple[str, ...], is_remembered: bool, capsys
) -> None:
    tables = Path(lake.path) / "tables"
    if not is_remembered:  # as a lake of an earlier version: it may be a decode that did not end
        (Path(lake.path) / REMEMBERED_FILE).unlink()
    for each in gone:
        shutil.rmtree(tables / each)
    assert main.main(["verify", lake.path]) == (2 if is_remembered else 0)
    said = sorted(line for line in capsys.readouterr().out.splitlines() if ": Table " in line)
    without_trace = not is_remembered and gone == ("decoded", "undecoded")
    assert len(said) == (0 if without_trace else len(gone))
    for each, line in zip(gone, said, strict=False):
        rule = "error table-missing" if is_remembered else "info table-not-complete"
        assert line.startswith(f"{rule}: Table {each.partition('/')[0]}/orders: ")
        assert f"Run `loglake decode {lake.path} --replace orders` to write it again." in line
        assert (f"delete {Path(lake.path) / REMEMBERED_FILE}" in line) == is_remembered
    lake.decode(replace=("orders",))
    assert main.main(["verify", lake.path]) == 0, capsys.readouterr().out
    assert len(lake.rows()) == 3


@pytest.mark.parametrize("at", [0, 1])
def test_a_first_decode_that_was_killed_at_a_commit_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, capsys
) -> None:
    lake, commits = Decoded(tmp_path), []
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    real = Table.commit

    def killed(table: Table, *arguments: Any, **more: Any) -> None:
        if len(commits) == at:
            raise KeyboardInterrupt
        commits.append(table.name)
        real(table, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.decode()
    # No run is recorded in this lake, so a lease that was left would count as that of a killed first run.
    (Path(lake.path) / "lease.json").unlink()
    assert main.main(["verify", lake.path]) == 0
    assert "info table-not-complete: Table decoded/orders: the job that begins it did not end." in (
        capsys.readouterr().out
    )
    lake.decode()
    assert main.main(["verify", lake.path]) == 0
    assert "table-not-complete" not in capsys.readouterr().out
    assert len(lake.rows()) == 1


def test_a_lake_of_an_earlier_version_is_remembered_by_its_next_decode(lake: Decoded) -> None:
    (Path(lake.path) / REMEMBERED_FILE).unlink()
    lake.append((b"e", b"three"))
    lake.decode()
    assert remembered_tables(lake.path) == {"decoded/orders", "undecoded/orders"}


@pytest.mark.parametrize("topic", ["_delta_log", "..."])
def test_a_topic_with_the_name_of_a_log_has_tables_like_any_other(tmp_path: Path, topic: str, capsys) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    partition = source.partition(f"{topic}-0")
    partition.roll()
    partition.write(handmade.simple_batch(0, [(b"a", b"one")], leader_epoch=0))
    source.high_watermarks(**{f"{topic}_0": 1})
    lake.turn(source.path)
    policies = tmp_path / "policies.yaml"
    policies.write_text(f'topics:\n  "{topic}":\n    decode.value: string\n    latest: delete\n')
    assert main.main(["decode", str(lake.path), "--policies", str(policies)]) == 0, capsys.readouterr()
    assert main.main(["latest", str(lake.path), "--policies", str(policies)]) == 0, capsys.readouterr()
    for kind in ("decoded", "latest"):
        assert topic_table(str(lake.path), kind, topic).open().to_pyarrow_table()["offset"].to_pylist() == [0]
    assert main.main(["verify", str(lake.path)]) == 0, capsys.readouterr().out


def test_only_the_decoded_tables_of_chosen_topics_are_verified(lake: Decoded, capsys) -> None:
    flip(lake)
    assert main.main(["verify", lake.path, "--topic", "orders"]) == 2
    assert "table-file-damaged" in capsys.readouterr().out
