"""`query`: SQL sees the rows of a lake's tables, and nothing else."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import LatestConfig
from spark_jobs.errors import JobError
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.view.decoded.topic_asset import view_name
from spark_jobs.lake_commands.query.connection import LakeConnection, QueryRows
from spark_jobs.lake_commands.query.query_command import printed
from spark_jobs.policies.policies_file import read_policies
from tests.jobs.decoded_lake import Decoded
from tests.sampling import drawn
from tests.spark.cycle import AS_OF_MS

REPOSITORY = Path(__file__).parents[2]
ROWS = ((b"a", b"one"), (None, b"two"), (b"c", None), (b"\xff", b'x,"y"\n'))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    made = Decoded(tmp_path_factory.mktemp("query"))
    made.append(*ROWS)
    made.decode()
    return made


@pytest.fixture(scope="module")
def long_lake(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    """A lake whose last rows are of another form than the first, which DuckDB reads before it answers."""
    made = Decoded(tmp_path_factory.mktemp("long"))
    for _ in range(5):
        made.write(*[(b"k", b'{"a": 1}')] * 1000)
    made.append(*ROWS)
    return made


class Answer:
    """What the command printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


def ask(capsys: pytest.CaptureFixture[str], lake: Decoded, *arguments: str) -> Answer:
    code = main.main(["query", lake.path, *arguments])
    return Answer(code, *capsys.readouterr())


def test_bytes_times_and_nulls_of_records_are_in_json_lines(lake, capsys):
    sql = 'select topic, partition, "offset", timestamp, key, value from records order by "offset"'
    answer = ask(capsys, lake, sql, "--format", "jsonl")
    assert answer.code == 0
    assert answer.rows[0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": "2023-11-14T22:13:20Z",
        "key": "YQ==",
        "value": "b25l",
    }
    assert [(row["key"], row["value"]) for row in answer.rows[1:]] == [
        (None, "dHdv"),
        ("Yw==", None),
        ("/w==", "eCwieSIK"),
    ]


def test_text_is_aligned_and_shows_bytes_that_are_no_text_in_hexadecimal(lake, capsys):
    answer = ask(capsys, lake, 'select "offset", key, value from records order by "offset"')
    assert answer.out.splitlines() == [
        "offset  key   value",
        "     0  a     one",
        "     1        two",
        "     2  c",
        '     3  0xff  x,"y"�',
    ]


def test_csv_quotes_and_has_a_line_for_the_columns(lake, capsys):
    answer = ask(capsys, lake, "select decode(value) as text, 1.5 as n, [1, 2] as l from records where partition = 0 "
                 "and \"offset\" = 3", "--format", "csv")  # fmt: skip
    assert answer.out == 'text,n,l\n"x,""y""\n",1.5,"[1,2]"\n'


def test_decoded_and_undecoded_rows_are_views_of_their_topic(lake, capsys):
    answer = ask(
        capsys, lake, 'select "offset", key, value, is_tombstone from decoded_orders order by 1', "--format", "jsonl"
    )
    assert answer.rows == [
        {"offset": 0, "key": "a", "value": "one", "is_tombstone": False},
        {"offset": 1, "key": None, "value": "two", "is_tombstone": False},
        {"offset": 2, "key": "c", "value": None, "is_tombstone": True},
    ]
    bad = ask(capsys, lake, "select reason, part from undecoded_orders", "--format", "jsonl")
    assert bad.rows == [{"reason": "INVALID_UTF8", "part": "key"}]


def test_fields_of_decoded_values_are_those_of_the_table(tmp_path, capsys):
    made = Decoded(tmp_path, "topics: {orders: {decode.value: json, decode.value.schema: order.json}}")
    (tmp_path / "order.json").write_text(
        '{"type": "object", "properties": {"Id": {"type": "integer"}, "to": {"type": "object", "properties": '
        '{"city": {"type": "string"}}}}}'
    )
    made.append((b"a", b'{"Id": 7, "to": {"city": "Oslo"}}'), (b"b", None))
    made.decode()
    sql = 'select key, value.Id, value.to.city as city, is_tombstone from decoded_orders order by "offset"'
    assert ask(capsys, made, sql, "--format", "jsonl").rows == [
        {"key": "YQ==", "Id": 7, "city": "Oslo", "is_tombstone": False},
        {"key": "Yg==", "Id": None, "city": None, "is_tombstone": True},
    ]


def test_a_header_is_looked_up_by_its_name_and_the_last_one_counts(lake, capsys):
    sql = "select header([{'key': 'a', 'value': '1'::blob}, {'key': 'a', 'value': '2'::blob}], 'a') as h"
    assert ask(capsys, lake, sql, "--format", "jsonl").rows == [{"h": "Mg=="}]


def test_a_limit_ends_the_rows_and_text_says_that_there_are_more(lake, capsys):
    assert len(ask(capsys, lake, "select 1 as x from records", "--limit", "2", "--format", "jsonl").rows) == 2
    assert "more rows" in ask(capsys, lake, "select 1 as x from records", "--limit", "2").out
    assert "more rows" not in ask(capsys, lake, "select 1 as x from records", "--limit", "4").out
    assert ask(capsys, lake, "select 1 as x from records", "--limit", "0", "--format", "csv").out == "x\n"


def test_the_query_comes_from_standard_input_too(lake, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("select count(*) as n from records"))
    assert ask(capsys, lake, "--format", "jsonl").rows == [{"n": 4}]


def test_without_sql_the_views_are_listed_with_what_a_row_is(lake, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    listed = ask(capsys, lake).out.splitlines()
    assert [line.split()[0] for line in listed][-2:] == ["decoded_orders", "undecoded_orders"]
    records = next(line for line in listed if line.startswith("records "))
    assert f"version {DeltaTable(str(lake.lake.path / 'tables' / 'records')).version()} " in records


def test_show_tables_names_every_view(lake, capsys):
    names = {row["name"] for row in ask(capsys, lake, "show tables", "--format", "jsonl").rows}
    assert names >= {"records", "offset_ledger", "segments", "decoded_orders", "undecoded_orders"}


@pytest.mark.parametrize(
    "sql",
    [
        "select nope from records",
        "select * from decoded_nothing",
        "selec",
        "",
        ";",
        "select * from read_csv('/etc/hostname')",
        "select * from '/etc/hostname'",
        "copy records to '{folder}/out.csv'",
        "attach '{folder}/out.db'",
        "install httpfs",
        "set enable_external_access = true",
        "set memory_limit = '100GB'",
        "export database '{folder}/out'",
    ],
)
def test_a_mistake_in_the_sql_is_one_line_and_nothing_is_read_or_written_outside(sql, lake, capsys, tmp_path):
    answer = ask(capsys, lake, sql.format(folder=tmp_path) or " ")
    assert (answer.code, answer.out) == (64, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select json_extract(decode(value), '$.a') from records", "Malformed JSON"),
        ("select decode(key) from records", "could not convert blob"),
        ("select decode(value)::json from records", "Malformed JSON"),
        ("select decode(value)::struct(a int) from records", "Type VARCHAR"),
        ("select (case when \"offset\" > 4000 then 'x' else '1' end)::int from records", "Could not convert string"),
        ('select 9223372036854775807 - 4000 + "offset" from records', "Overflow in addition"),
        ("select case when \"offset\" > 4000 then error('x') end from records", "Invalid Input Error"),
        ("select 'reading the stream registered as'::int from records", "Could not convert string"),
        ("select error('(reading the stream registered as)') from records", "Invalid Input Error"),
    ],
)
def test_a_mistake_that_a_late_row_shows_is_one_of_the_sql_too(sql, said, long_lake, capsys):
    answer = ask(capsys, long_lake, sql, "--format", "csv")
    assert (answer.code, answer.err.startswith("error: "), answer.err.count("\n")) == (64, True, 1)
    assert said in answer.err
    assert "verify" not in answer.err


def test_the_column_offset_without_quotes_leads_to_quotes(lake, capsys):
    answer = ask(capsys, lake, "select topic, partition, offset from records")
    assert answer.code == 64
    assert answer.err.endswith('write the column as "offset".\n')
    assert '"offset"' not in ask(capsys, lake, 'select "offset", from from records').err


@pytest.mark.parametrize(
    ("sql", "is_meant"),
    [
        ("select offset, key from records limit 3 offset 2", True),
        ("select offset\nfrom records limit 3", True),
        ("select key from records where offset = 1 limit 3", True),
        ("select offset + 1 from records", True),
        ("select from from records limit 3 offset 2", False),
        ("select 'a from records limit 3 offset 2", False),
        ("select key,, value from records limit 3 offset 2", False),
        ("select key from records limit 3 offset 2 where key is null", False),
    ],
)
def test_an_offset_of_limit_is_no_column_without_quotes(sql, is_meant, lake, capsys):
    answer = ask(capsys, lake, sql)
    assert answer.code == 64
    assert answer.err.endswith('write the column as "offset".\n') is is_meant


def test_an_unknown_table_leads_to_the_list_of_views(lake, capsys):
    assert main.main(["query", str(lake.path), "select * from nope"]) == 64
    said = capsys.readouterr().err
    assert "Table with name nope does not exist! To list the views: loglake query" in said
    assert "Did you mean" not in said


@pytest.mark.parametrize("table", ["decoded/orders", '"decoded/orders"', "decoded.orders"])
def test_the_view_of_a_table_that_the_sql_names_by_its_folder_is_named(table, lake, capsys):
    answer = ask(capsys, lake, f"select * from {table}")
    assert (answer.code, answer.out) == (64, "")
    named = table.strip('"')
    assert f"The view of {named} is decoded_orders." in answer.err


@pytest.mark.parametrize("place", [0, 1, 2])
def test_options_of_a_query_may_be_before_between_and_after_its_arguments(place, lake, capsys):
    words = [lake.path, "select 1 as a"]
    words[place:place] = ["--format", "csv"]
    assert main.main(["query", *words]) == 0
    assert capsys.readouterr().out == "a\n1\n"
    words[place + 1 : place + 1] = ["--limt", "5"]
    assert main.main(["query", *words]) == 64
    assert "unknown option '--limt'; the nearest name is --limit." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("select * from recrds", "records"),
        ("select * from records join decoded_order using (topic)", "decoded_orders"),
        ("select * from Segmens", "segments"),
    ],
)
def test_a_mistyped_table_is_reported_with_the_nearest_names_that_exist(sql, near, lake, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    answer = ask(capsys, lake, sql)
    assert (answer.code, answer.out) == (64, "")
    names = answer.err.partition("The nearest names are ")[2].partition(". ")[0].split(", ")
    assert near in names
    listed = {line.split()[0] for line in ask(capsys, lake).out.splitlines()}
    assert set(names) <= listed


def test_an_error_has_no_excerpt_of_the_query_with_its_values(lake, capsys):
    answer = ask(capsys, lake, "select nope from records where decode(key) = 'secret'")
    assert answer.code == 64
    assert "secret" not in answer.err


def test_changes_of_views_end_with_the_command(lake, capsys):
    before = lake.versions()
    assert ask(capsys, lake, "drop view records; select 1 as x", "--format", "jsonl").rows == [{"x": 1}]
    assert ask(capsys, lake, "select count(*) as n from records", "--format", "jsonl").rows == [{"n": 4}]
    assert lake.versions() == before


def test_the_rows_of_the_last_of_several_queries_are_shown(lake, capsys):
    sql = "select * from records; create temp table t as select 7 as x; select 1 as x; select x from t"
    assert ask(capsys, lake, sql, "--format", "jsonl").rows == [{"x": 7}]
    failed = ask(capsys, lake, "select error('in the first one') from records; select 1")
    assert (failed.code, failed.out) == (64, "")
    assert "in the first one" in failed.err


def iso(text: str) -> str:
    """A time as DuckDB writes it, in ISO 8601: a year of more than four digits has a sign, and 1 BC is the year 0."""
    if "infinity" in text:
        return text
    year, rest = text.replace(" (BC)", "").split("-", 1)
    number = 1 - int(year) if "(BC)" in text else int(year)
    shown = f"{number:04}" if 0 <= number <= 9999 else f"{number:+05}"
    return f"{shown}-{rest.replace(' ', 'T').replace('+00', 'Z')}"


@pytest.mark.parametrize(
    "sql",
    [
        "select date '10000-01-01' x",
        "select date '0001-12-31 (BC)' x",
        "select timestamptz '0044-03-15 (BC) 01:02:03+00' x",
        "select timestamp_ns '2024-01-01 00:00:00.123456789' x",
        "select date '0044-03-15 (BC)' x",
        "select '-infinity'::date x",
        "select 'infinity'::timestamp x",
        "select timestamp '294000-01-01 23:59:59.000001' x",
        "select timestamptz '10000-01-01 00:00:00+00' x",
        "select timestamp_s '20000-01-01 01:02:03' x",
    ],
)
def test_times_that_python_does_not_have_are_in_iso_8601_as_all_others(lake, capsys, sql):
    expected = iso(duckdb.sql(f"set timezone = 'UTC'; select cast(x as varchar) from ({sql})").fetchall()[0][0])
    for form in ("jsonl", "csv"):
        answer = ask(capsys, lake, sql, "--format", form)
        assert (answer.code, answer.err) == (0, "")
        shown = json.loads(answer.out)["x"] if form == "jsonl" else answer.out.splitlines()[1]
        assert shown == expected
    parts = "[x, null] l, {'a': x} s, map {1: x} m, union_value(d := x) u"
    nested = ask(capsys, lake, f"select {parts} from ({sql})", "--format", "jsonl")
    assert json.loads(nested.out) == {
        "l": [expected, None],
        "s": {"a": expected},
        "m": [[1, expected]],
        "u": expected,
    }


def test_near_and_far_times_of_a_column_have_one_form(lake, capsys):
    sql = "from (values (timestamptz '2024-01-01 00:00:00+00'), (timestamptz '20000-01-01 00:00:00+00')) t(x)"
    for form in ("csv", "text"):
        assert ask(capsys, lake, sql, "--format", form).out.split() == [
            "x",
            "2024-01-01T00:00:00Z",
            "+20000-01-01T00:00:00Z",
        ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("interval 1 day", [0, 1, 0]),
        ("'a'::enum('a')", "a"),
        ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
        ("time '01:02:03'", "01:02:03"),
        ("170141183460469231731687303715884105727::hugeint", "170141183460469231731687303715884105727"),
        ("union_value(n := 1)", 1),
    ],
)
def test_values_of_any_type_are_shown_beside_a_far_time(lake, capsys, value, expected):
    for far in ("date '10000-01-01'", "date '2024-01-01'"):
        answer = ask(capsys, lake, f"select {{'far': {far}, 'x': {value}}} s, {value} x", "--format", "jsonl")
        assert (answer.code, answer.err) == (0, "")
        (row,) = answer.rows
        assert row["x"] == expected
        assert row["s"]["x"] == expected


def test_a_value_that_python_does_not_have_is_shown_as_its_type(lake):
    far = pa.array([1 << 62, 1], pa.int64()).cast(pa.duration("s"))
    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": far.type}), [pa.record_batch({"x": far})])
    rows = QueryRows(LakeConnection(lake.path, duckdb.connect(), ()), reader)
    assert list(printed(rows, "csv", None)) == ["x\n", "(duration[s])\n", "1.0\n"]


def test_null_and_empty_bytes_or_text_are_different_cells_of_csv(lake, capsys):
    answer = ask(capsys, lake, "select null::blob a, ''::blob b, '' c, null d, 'x,' e, 'y' \"f,\"", "--format", "csv")
    assert answer.out == 'a,b,c,d,e,"f,"\n,"","",,"x,",y\n'


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_cell_of_csv_reaches_no_terminal_raw_and_a_pipe_as_it_is(lake, capsys, monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    answer = ask(capsys, lake, "select chr(27) || '[31m' || chr(10) x", "--format", "csv")
    assert answer.out == ('x\n"\\x1b[31m\\n"\n' if is_terminal else 'x\n"\x1b[31m\n"\n')


def test_columns_of_one_name_are_all_in_a_line_of_jsonl(lake, capsys):
    answer = ask(capsys, lake, "select 1 as a, 2 as a, 3 as a_1, 4 as b, 5 as a", "--format", "jsonl")
    assert json.loads(answer.out) == {"a": 1, "a_2": 2, "a_1": 3, "b": 4, "a_3": 5}
    assert ask(capsys, lake, "select 1 as a, 2 as a", "--format", "csv").out == "a,a\n1,2\n"


@pytest.mark.parametrize("as_argument", [True, False])
def test_sql_that_is_not_utf_8_is_wrong_usage(lake, as_argument):
    called = [sys.executable, "-m", "logcore.cli.main", "query", str(lake.path)]
    sql = b"select '\xff'"
    done = subprocess.run(
        [*called, sql] if as_argument else [*called, "-"],
        cwd=REPOSITORY,
        input=None if as_argument else sql,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 64
    assert b"The SQL is not UTF-8 text" in done.stderr


@pytest.mark.parametrize("command", [["query", "select * from range(1000000)", "--format", "jsonl"], ["register"]])
def test_a_reader_that_leaves_early_is_no_error(lake, command):
    name, *options = command
    called = [sys.executable, "-m", "logcore.cli.main", name, str(lake.path), *(options or ["--in", "spark"])]
    with subprocess.Popen(called, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # the command begins later
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_an_output_that_cannot_be_written_is_no_damage_of_a_table(lake):
    called = [
        sys.executable,
        "-m",
        "logcore.cli.main",
        "query",
        str(lake.path),
        "from range(1000000)",
        "--format",
        "csv",
    ]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(called, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, b"No space left" in done.stderr, b"verify" in done.stderr) == (3, True, False)


def test_memory_that_is_not_enough_is_said_with_what_to_do(lake, capsys):
    sql = "select list(i) from range(30000000) t(i)"
    answer = ask(capsys, lake, sql, "--memory", "16")
    assert answer.code == 3
    assert "--memory" in answer.err


def test_a_late_lack_of_memory_is_said_with_what_to_do_too():
    with duckdb.connect(":memory:") as connection:
        lake = LakeConnection("lake", connection, ())
        with pytest.raises(JobError, match="--memory"), lake.answers():
            raise OSError("Out of Memory Error: failed to pin block of size 256.0 KiB")  # as Arrow raises it


@pytest.mark.parametrize("mib", ["0", "1", "15"])
def test_memory_with_which_no_query_would_run_is_refused_at_once(lake, capsys, mib):
    answer = ask(capsys, lake, "select 1", "--memory", mib)
    assert (answer.code, answer.out) == (64, "")
    assert f"--memory: {mib} is too little: a query needs at least 16 MiB" in answer.err


def test_memory_that_no_machine_has_is_refused(lake, capsys):
    answer = ask(capsys, lake, "select 1", "--memory", "99999999999999999")
    assert (answer.code, "is too much: at most 1073741824 MiB" in answer.err) == (64, True)
    assert ask(capsys, lake, "select 1 as n", "--memory", "1073741824", "--format", "jsonl").rows == [{"n": 1}]


def test_the_least_memory_is_enough_to_group_and_sort(lake, capsys):
    sql = "select i % 10000 as k, count(*) as n from range(1000000) t(i) group by all order by k limit 1"
    assert ask(capsys, lake, sql, "--memory", "16", "--format", "jsonl").rows == [{"k": 0, "n": 100}]


@pytest.mark.parametrize("sql", ["select sum(octet_length(value)) from records", "select value from records"])
@pytest.mark.parametrize("harm", ["cut", "garbage", "lost"])
def test_a_damaged_file_is_named_as_damage_and_not_as_a_mistake_in_the_sql(harm, sql, tmp_path, capsys):
    lake = Decoded(tmp_path)
    lake.append(*ROWS)
    for file in (lake.lake.path / "tables" / "records").rglob("*.parquet"):
        content = file.read_bytes()
        file.unlink()
        if harm != "lost":
            file.write_bytes(content[: len(content) // 2] if harm == "cut" else b"x" * len(content))
    answer = ask(capsys, lake, sql)
    assert (answer.code, answer.out) == (3, "")
    assert f"loglake verify {lake.path}" in answer.err


@pytest.mark.parametrize("table", ["records", "segments"])
def test_a_flipped_bit_that_arrow_reads_as_other_values_is_named_as_damage(table, tmp_path, capsys):
    lake = Decoded(tmp_path)
    lake.append(*ROWS)
    (file,) = (lake.lake.path / "tables" / table).rglob("*.parquet")
    content = file.read_bytes()
    right = pq.ParquetFile(file).read()
    silent = []
    for at in second_halves_of_pages(file):
        harmed = bytearray(content)
        harmed[at] ^= 1
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):
            if pq.ParquetFile(pa.BufferReader(bytes(harmed))).read() != right:
                silent.append(bytes(harmed))
    assert len(silent) > 3
    for harmed in drawn(silent, 5, f"flipped bits of {table}"):
        file.write_bytes(harmed)
        answer = ask(capsys, lake, f"select * from {table}")
        assert (answer.code, answer.out) == (3, "")
        assert f"loglake verify {lake.lake.path}" in answer.err


def test_a_lost_table_is_named_as_lost_and_not_as_a_mistake_in_the_sql(tmp_path, capsys, monkeypatch):
    lake = Decoded(tmp_path)
    lake.append(*ROWS)
    tables_file.record_state(str(lake.lake.path), "run-2", AS_OF_MS)  # as the end of a run does
    shutil.rmtree(lake.lake.path / "tables" / "records")
    answer = ask(capsys, lake, "select * from records")
    assert (answer.code, answer.out) == (3, "")
    assert "it is gone; an earlier run saw it" in answer.err
    assert f"loglake repair {lake.lake.path} --rebuild records --apply" in answer.err
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    listed = ask(capsys, lake)
    assert listed.code == 3
    assert "segments" in listed.out
    assert "There is no view records." in listed.err


def second_halves_of_pages(file: Path) -> Iterator[int]:
    """Positions without headers of pages: a wrong length in one may end a native reader, and the test with it."""
    group = pq.ParquetFile(file).metadata.row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        size = column.total_compressed_size
        begin = column.dictionary_page_offset or column.data_page_offset
        yield from range(begin + size - size // 4, begin + size)


def test_a_table_whose_log_is_damaged_is_named(tmp_path, capsys):
    lake = Decoded(tmp_path)
    lake.append(*ROWS)
    for commit in (lake.lake.path / "tables" / "validations" / "_delta_log").glob("*.json"):
        commit.write_bytes(b"no json")
    answer = ask(capsys, lake, "select * from validations")
    assert answer.code == 3
    assert "validations" in answer.err
    assert ask(capsys, lake, "select count(*) as n from records", "--format", "jsonl").rows == [{"n": 4}]


def test_a_condition_on_text_holds_in_files_of_another_engine(tmp_path, capsys):
    lake = Decoded(tmp_path)
    lake.append((b"a", b"one"))
    lake.append((b"b", b"two"))
    table = DeltaTable(str(lake.lake.path / "tables" / "records"))
    table.optimize.compact()
    log_id = lake.lake.rows("records")[0]["log_id"]
    sql = f"select decode(key) as k from records where log_id = '{log_id}' order by 1"
    assert ask(capsys, lake, sql, "--format", "jsonl").rows == [{"k": "a"}, {"k": "b"}]


def test_what_is_no_lake_is_wrong_usage(tmp_path, capsys):
    assert main.main(["query", str(tmp_path), "select 1"]) == 64
    assert "is no lake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "decoded_orders"),
        ("Orders", "decoded__4frders"),
        ("orders-eu", "decoded_orders_2deu"),
        ("orders_eu", "decoded_orders__eu"),
        ("orders.eu", "decoded_orders_2eeu"),
        ("orders_2deu", "decoded_orders__2deu"),
        ("__x", "decoded_____x"),
    ],
)
def test_the_name_of_a_view_follows_from_the_topic(topic, name):
    assert view_name("decoded", topic) == name


def test_topics_with_names_that_differ_have_views_whose_names_differ_without_case(tmp_path: Path):
    parts = ("a", "A", "_", "-", ".", "2", "d", "_2d", "41")
    topics = [one + two + three for one in parts for two in parts for three in parts]
    names: dict[str, str] = {}
    for topic in topics:
        assert names.setdefault(view_name("decoded", topic).lower(), topic) == topic


@pytest.mark.parametrize("kind", ["date", "int", "json", "boolean"])
def test_an_error_about_a_value_does_not_show_the_value(lake, capsys, kind):
    answer = ask(capsys, lake, f'select decode(value)::{kind} as x from records where "offset" = 1')
    assert (answer.code, answer.out) == (64, "")
    assert "Error" in answer.err
    assert "two" not in answer.err
    assert "values are left out" in answer.err


def test_the_newest_row_of_each_key_is_a_view_of_its_topic(tmp_path, capsys):
    made = Decoded(tmp_path)
    made.policies.write_text('topics: {"*": {latest: delete}}')
    made.append((b"a", b"one"), (b"b", b"two"), (b"a", b"three"), (b"b", None))
    launch.run(LatestConfig(made.path, "latest", AS_OF_MS, read_policies(str(made.policies))))
    answer = ask(capsys, made, 'select "offset", decode(value) as value from latest_orders', "--format", "jsonl")
    assert answer.rows == [{"offset": 2, "value": "three"}]
