"""A table of a topic whose pattern disappears from the policies is named by every command, until a person decides."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.lake.view.alarms import problems_of_files
from tests.jobs.decoded_lake import Decoded
from tests.pasted_advice import commands_in
from tests.spark.cycle import AS_OF_MS

PAGE = Path(__file__).parents[2] / "docs" / "decoding.md"
Captured = pytest.CaptureFixture[str]
BOTH = "    decode.value: string\n    latest: delete\n"
NAMED = 'topics:\n  "{}":\n' + BOTH


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Decoded:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    made = Decoded(tmp_path, NAMED.format("orders"))
    made.write((b"a", b"one"), (b"b", b"two"))
    assert run(made, "--policies", str(made.policies)) == 0
    return made


def run(lake: Decoded, *options: str) -> int:
    return main(["run", str(lake.source.path), "--lake", lake.path, *options])


def said_by(capsys: Captured, *command: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(list(command))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize(
    ("policies", "tables"),
    [
        (NAMED.format("ordres"), ["decoded/orders", "latest/orders"]),
        ("lake:\n  nightly: plan\n", ["decoded/orders", "latest/orders"]),
        ("topics:\n  orders:\n    decode.value: string\n", ["latest/orders"]),
        ("topics:\n  orders:\n    latest: delete\n", ["decoded/orders"]),
    ],
)
def test_a_table_whose_policy_is_gone_is_a_warning_of_each_command_until_the_policy_is_back(
    lake: Decoded, policies: str, tables: list[str], capsys: Captured
) -> None:
    before = lake.policies.read_text()
    lake.policies.write_text(policies)
    lake.write((b"c", b"three"))
    ends = "no policy of {} asks for the table any more, so no run adds rows to it; it has rows below offset 2 of "
    ends = f"{ends.format(lake.policies)}orders-0 (records: 3)"
    source = str(lake.source.path)
    for command in (("run", source, "--lake", lake.path), ("status", lake.path), ("verify", lake.path)):
        for _ in range(2):
            code, said = said_by(capsys, *command)
            assert code == 1 or "latest" not in tables, (command, said)
            assert said.count(ends) == len(tables), (command, said)
            assert "table-not-followed" in said
            assert any("on_unfollowed=accept" in each for each in commands_in(said)), said
            assert f"{lake.path}/topic_tables.json" in said
            for table in tables:
                assert f"remove its directory {lake.path}/tables/{table}" in said
    assert [each.place.split()[0] for each in problems_of_files(lake.path, AS_OF_MS)] == tables
    _, said = said_by(capsys, "metrics", lake.path)
    assert f'kind="stale-table"}} {len(tables)}\n' in said
    for kind in ("decoded", "latest", "undecoded"):
        _, said = said_by(capsys, "query", lake.path, f"select count(*) from {kind}_orders")
        assert (f"warning: {kind.removeprefix('un')}/orders: {ends}" in said) == (
            f"{kind.removeprefix('un')}/orders" in tables
        )
    lake.policies.write_text(before)
    code, said = said_by(capsys, "run", source, "--lake", lake.path)
    assert code == 0, said
    assert len(lake.rows()) == 3
    for command in ("status", "verify"):
        assert said_by(capsys, command, lake.path)[0] == 0


def test_the_printed_command_says_that_the_tables_stay_as_they_are(lake: Decoded, capsys: Captured) -> None:
    lake.policies.write_text("topics: {}\n")
    lake.write((b"c", b"three"))
    _, said = said_by(capsys, "run", str(lake.source.path), "--lake", lake.path)
    command = next(each for each in commands_in(said) if "on_unfollowed=accept" in each)
    for part in command.split(" && "):
        assert said_by(capsys, *shlex.split(part)[1:])[0] == 0
    for name in ("status", "verify"):
        assert said_by(capsys, name, lake.path)[0] == 0
    assert "warning" not in said_by(capsys, "query", lake.path, "select count(*) from decoded_orders")[1]
    assert len(lake.rows()) == 2


def test_tables_that_are_to_go_are_removed_with_their_memory_as_the_page_says(lake: Decoded, capsys: Captured) -> None:
    lake.policies.write_text("topics: {}\n")
    [command] = [each for each in PAGE.read_text().splitlines() if each.startswith("rm -r LAKE/tables/decoded/TOPIC")]
    command = command.replace("LAKE", lake.path).replace("TOPIC", "orders")
    subprocess.run(command, shell=True, check=True)
    lake.write((b"c", b"three"))
    assert said_by(capsys, "run", str(lake.source.path), "--lake", lake.path)[0] == 0
    for name in ("status", "verify"):
        assert said_by(capsys, name, lake.path)[0] == 0
