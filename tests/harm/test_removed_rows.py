"""Rows that another engine removed from any table are an error with a command that mends it, in `verify` and in `run`.

The oracle is the lake before: its rows, and exit code 0. Rows are removed by delta-rs, with a whole file, or by a
deletion vector: of Spark, or packed by hand (``deletion_vectors``).
"""

from __future__ import annotations

import random
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql import SparkSession

from pipelines.run.run_request import RunRequest
from tests import handmade, pasted_advice, sampling
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.harm.deletion_vectors import actions, hide
from tests.harm.small_lake import SmallLake
from tests.harm.test_copied_lakes import VARIANTS

POLICIES = 'topics:\n  "*":\n    decode.value: string\n    decode.key: string\n    latest: delete\n'
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
OF_TOPICS = ("decoded/orders", "decoded/payments", "undecoded/payments", "latest/orders", "latest/payments")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """A lake of two runs, with tables of topics and rows that do not decode. Shared: never run it again."""
    folder = tmp_path_factory.mktemp("original")
    source = LogDirectory(folder / "source")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    (folder / "policies.yaml").write_text(POLICIES)
    request = RunRequest((str(source.path),), policies=str(folder / "policies.yaml"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LOGLAKE_HOME", str(folder / "home"))
        lake = SmallLake(folder / "lake", request)
        for _ in range(2):
            orders.append(12)
            orders.roll()
            payments.append(5, **TRANSACTIONAL, base_sequence=payments.next_offset)
            payments.marker(7, handmade.COMMIT)
            payments.write(
                handmade.simple_batch(payments.next_offset, [(b"x", b"\xff"), (b"y", b"\xfe")], leader_epoch=0)
            )
            payments.next_offset += 2
            source.high_watermarks(orders_0=orders.next_offset, payments_0=payments.next_offset)
            done = lake.run()
            assert done.code == 0, done.said
        done = lake.verify()
        assert done.code == 0, done.said
        yield lake


def rows_of(table: Path) -> list[Any]:
    """All rows by Delta's own reader, in order."""
    reader = QueryBuilder().register("t", DeltaTable(str(table))).execute("SELECT * FROM t")
    return sorted(map(repr, pa.RecordBatchReader.from_stream(reader).read_all().to_pylist()))


def numbers(table: Path) -> dict[str, int]:
    """Rows of each live file by its name in the log."""
    return {path: pq.read_metadata(table / path).num_rows for path in actions(table)[1]}


def by_delta_rs(table: Path, chance: random.Random) -> None:
    """Some rows of one file, which delta-rs then writes again without them."""
    path, count = chance.choice(sorted(numbers(table).items()))
    first = pq.read_table(table / path).slice(chance.randrange(count), 1).to_pylist()[0]
    column = next(name for name in ("offset", "segment_id", "start_offset", "log", "run_id") if name in first)
    value = first[column]
    DeltaTable(str(table)).delete(f'"{column}" = {value!r}')


def with_a_file(table: Path, chance: random.Random) -> None:
    """All rows of one file."""
    path = chance.choice(sorted(numbers(table)))
    version, adds, _ = actions(table)
    commit = table / "_delta_log" / f"{version + 1:020d}.json"
    size = adds[path]["size"]
    commit.write_text(
        '{"commitInfo":{"timestamp":1,"operation":"DELETE","engineInfo":"Apache-Spark/4.2.0"}}\n'
        f'{{"remove":{{"path":"{path}","deletionTimestamp":1,"dataChange":true,"size":{size}}}}}\n'
    )


def by_deletion_vector(table: Path, chance: random.Random) -> None:
    """Some rows of one file, or all."""
    path, count = chance.choice(sorted(numbers(table).items()))
    hide(table, {path: chance.sample(range(count), chance.randint(1, count))})


WAYS: dict[str, Callable[[Path, random.Random], None]] = {
    "delta-rs": by_delta_rs,
    "a whole file": with_a_file,
    "a deletion vector": by_deletion_vector,
}


def commands_in(said: str) -> list[list[str]]:
    """The commands that the output names."""
    printed = [shlex.split(line) for line in pasted_advice.commands_in(said)]
    return [words for words in printed if words[1] in ("decode", "latest", "repair")]


def mended_by(lake: SmallLake, command: Sequence[str]) -> None:
    more = ["--policies", str(lake.request.policies)] if command[1] in ("decode", "latest") else []
    done = lake.loglake(*command[1:], *more)
    assert done.code <= 1, done.said  # rows that cannot be decoded are a warning


@pytest.mark.parametrize("name", OF_TOPICS)
@pytest.mark.parametrize("way", WAYS)
def test_rows_removed_from_a_table_of_a_topic_are_an_error_until_they_are_written_again(
    name: str, way: str, original: SmallLake, tmp_path: Path
) -> None:
    lake = original.copied(tmp_path / "lake")
    before = rows_of(lake.table(name))
    WAYS[way](lake.table(name), random.Random(name))
    assert len(rows_of(lake.table(name))) < len(before)
    verified = lake.verify()
    ran = [lake.run() for _ in range(2)]
    for done in (verified, *ran):
        assert done.code == 2, done.said
        assert name in done.said
        [command] = {tuple(each) for each in commands_in(done.said)}
    mended_by(lake, command)
    assert rows_of(lake.table(name)) == before
    for done in (lake.verify(), lake.run(), lake.run()):
        assert done.code == 0, done.said


@pytest.mark.spark
@pytest.mark.parametrize("name", OF_TOPICS)
def test_rows_that_spark_hides_by_a_deletion_vector_are_an_error_until_they_are_written_again(
    name: str, original: SmallLake, tmp_path: Path, spark: SparkSession
) -> None:
    lake = original.copied(tmp_path / "lake")
    table, before = lake.table(name), rows_of(lake.table(name))
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    last = max(pc.max(pq.read_table(table / path)["offset"]).as_py() for path in numbers(table))
    spark.sql(f"DELETE FROM delta.`{table}` WHERE offset = {last}")
    assert '"deletionVector":{' in max((table / "_delta_log").glob("*.json")).read_text()
    for done in (lake.verify(), lake.run()):
        assert done.code == 2, done.said
        assert name in done.said
        [command] = {tuple(each) for each in commands_in(done.said)}
    mended_by(lake, command)
    assert rows_of(table) == before
    for done in (lake.verify(), lake.run()):
        assert done.code == 0, done.said


def test_rows_of_a_table_of_a_topic_stay_removed_for_later_runs_to_see(original: SmallLake, tmp_path: Path) -> None:
    """The number of rows that were written is carried on by later commits."""
    source = LogDirectory(tmp_path / "source", cluster=None)
    shutil.copytree(original.request.sources[0], tmp_path / "source", dirs_exist_ok=True)
    lake = original.copied(tmp_path / "lake")
    lake.request = replace(lake.request, sources=(str(tmp_path / "source"),), move_source=True)
    by_delta_rs(lake.table("latest/orders"), random.Random(1))
    orders = source.partition("orders-0")
    orders.next_offset = 24
    orders.append(4)
    source.high_watermarks(orders_0=28, payments_0=16)
    for _ in range(2):
        done = lake.run()
        assert done.code == 2, done.said
        assert "latest/orders has" in done.said


OF_STATE = ("batches", "logs", "offset_ledger", "segments", "transactions", "validations")


def state_of(lake: SmallLake, name: str) -> list[Any]:
    """Rows of a table of state, without what says when and how they came."""
    table = DeltaTable(str(lake.table(name))).to_pyarrow_table()
    columns = [column for column in table.column_names if column not in ("as_of_ms", "evidence")]
    return lake.rows(name, columns)


@pytest.mark.parametrize("name", OF_STATE)
@pytest.mark.parametrize("way", ["delta-rs", "a whole file"])
def test_rows_removed_from_a_table_of_state_are_an_error_until_it_is_mended(
    name: str, way: str, original: SmallLake, tmp_path: Path
) -> None:
    lake = original.copied(tmp_path / "lake")
    before = state_of(lake, name)
    WAYS[way](lake.table(name), random.Random(name))
    verified = lake.verify()
    assert verified.code == 2, verified.said
    ran = [lake.run() for _ in range(2)]
    for done in (verified, *ran):
        assert done.code in (2, 3), done.said
        assert f"loglake repair {lake.path} --rebuild {name} --apply" in done.said, done.said
    assert name not in ("segments", "logs") or all("Nothing was written" in done.said for done in ran)
    done = lake.loglake("repair", lake.path, "--rebuild", name, "--apply")
    assert done.code == 0, done.said
    done = lake.run()
    assert done.code == 0, done.said
    assert state_of(lake, name) == before
    for done in (lake.verify(), lake.run()):
        assert done.code == 0, done.said
    assert lake.facts() == original.facts()


@pytest.mark.parametrize("name", ["logs", "segments"])
def test_a_table_without_derivation_gets_rows_back_that_a_deletion_vector_hides(
    name: str, original: SmallLake, tmp_path: Path
) -> None:
    lake = original.copied(tmp_path / "lake")
    before = state_of(lake, name)
    by_deletion_vector(lake.table(name), random.Random(name))
    for done in (lake.verify(), lake.run()):
        assert done.code == 3, done.said
        assert f"loglake repair {lake.path} --rebuild {name} --apply" in done.said
    done = lake.loglake("repair", lake.path, "--rebuild", name, "--apply")
    assert done.code == 0, done.said
    assert state_of(lake, name) == before
    for done in (lake.verify(), lake.run()):
        assert done.code == 0, done.said


@pytest.mark.parametrize("name", ["logs", "segments"])
@pytest.mark.parametrize("way", ["update", "overwrite", "append"])
def test_rows_that_another_program_wrote_into_what_the_lake_has_are_an_error_until_the_version_before_is_back(
    name: str, way: str, original: SmallLake, tmp_path: Path
) -> None:
    lake = original.copied(tmp_path / "lake")
    before, table = state_of(lake, name), DeltaTable(str(lake.table(name)))
    if way == "update":
        table.update(updates={"next_offset": "next_offset + 1"}, predicate="topic = 'orders'")
    else:
        write_deltalake(table, pa.table(table.to_pyarrow_table().slice(0, 1)), mode=way)
    command = f"loglake repair {lake.path} --rebuild {name} --apply"
    verified = lake.verify()
    assert (verified.code, command in verified.said) == (2, True), verified.said
    for done in (lake.run(), lake.run()):
        assert (done.code, command in done.said) == (3, True), done.said
        assert "Nothing was written" in done.said
    done = lake.loglake("repair", lake.path, "--rebuild", name, "--apply")
    assert done.code == 0, done.said
    assert state_of(lake, name) == before
    for done in (lake.verify(), lake.run()):
        assert done.code == 0, done.said


@pytest.mark.parametrize("name", ["logs", "segments"])
def test_rows_that_another_program_only_moved_to_other_files_change_nothing(
    name: str, original: SmallLake, tmp_path: Path
) -> None:
    lake = original.copied(tmp_path / "lake")
    DeltaTable(str(lake.table(name))).optimize.compact()
    for done in (lake.run(), lake.verify()):
        assert done.code <= 1, done.said
        assert "rows-not-ours" not in done.said


@pytest.mark.long
def test_rows_removed_from_any_table_in_any_way_are_never_silent(original: SmallLake, tmp_path: Path) -> None:
    for seed in range(VARIANTS):
        chance = random.Random(f"{sampling.SEED} removed {seed}")
        lake = original.copied(tmp_path / f"lake-{seed}")
        name, way = chance.choice([*OF_TOPICS, *OF_STATE]), chance.choice(sorted(WAYS))
        before = rows_of(lake.table(name))
        WAYS[way](lake.table(name), chance)
        assert len(rows_of(lake.table(name))) < len(before)
        ran, verified = lake.run(), lake.verify()
        for done in (ran, verified):
            assert done.code in (2, 3), (sampling.SEED, seed, name, way, done.said)
            commands = [each for each in commands_in(done.said) if each[-1] == name.rpartition("/")[2]]
            commands += re.findall(rf"loglake repair {lake.path} --rebuild {name} --apply", done.said)
            assert commands, (sampling.SEED, seed, name, way, done.said)
        shutil.rmtree(lake.path)
