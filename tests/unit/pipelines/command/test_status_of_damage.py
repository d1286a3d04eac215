"""`loglake status` about damage of a lake, and the commands that mend it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from tests import handmade, pasted_advice
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.unit.pipelines.command.asked_status import Captured, Status, lake_problems

pytestmark = pytest.mark.usefixtures("history")


@pytest.mark.parametrize(
    ("files", "rule", "mends"),
    [
        ("archive/**/*.log", "archive-file-changed", "repair LAKE --archive --apply"),
        ("tables/records/**/*.parquet", "table-file-damaged", "run SOURCE --lake LAKE --replace .."),
    ],
)
def test_damage_that_a_verification_found_is_an_error_until_the_file_is_another_one(
    loaded: Path, status: Status, files: str, rule: str, mends: str
) -> None:
    damaged = next(loaded.glob(files))
    before, content = damaged.stat(), bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    os.utime(damaged, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert status(loaded)[0] == 0
    assert main(["verify", str(loaded)]) == 2
    code, said = status(loaded)
    assert (code, f"{rule}: {damaged}." in said, f"`loglake verify {loaded}`" in said) == (2, True, True), said
    places = {"LAKE": str(loaded), "SOURCE": str(loaded.parent / "source")}
    with without_spark():
        assert main([places.get(word, word) for word in mends.split()]) == 0
    assert status(loaded)[0] == 0
    assert main(["verify", str(loaded)]) == 0


def test_a_failed_check_is_named_with_its_command_and_closed_by_what_mends_it(lakes: Path, status: Status) -> None:
    """The rows of one file are removed: the oracle is the verdict before, and after they are written again."""
    records = DeltaTable(str(lakes / "sound" / "tables" / "records"))
    records.delete('"offset" = 3')
    code, said = status(lakes / "sound")
    assert code == 2
    assert "failed checks: rows_equal_ledger\n" in said
    [command] = {words for words in pasted_advice.commands_in(said) if "--replace" in words}
    assert f"--lake {lakes / 'sound'} --replace" in command
    with without_spark():
        assert main(shlex.split(command)[1:]) == 0
    code, said = status(lakes / "sound")
    assert (code, "failed checks: none" in said) == (0, True), said


def test_a_run_writes_a_lost_lake_json_again(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == 0
        content = (lake / "lake.json").read_bytes()
        (lake / "lake.json").unlink()
        assert status(lake)[0] == 3
        assert main(run) == 0
        assert (lake / "lake.json").read_bytes() == content
        assert status(lake)[0] == 0
        assert main(["verify", str(lake)]) == 0


@pytest.mark.parametrize("lost", ["tables/batches", "tables/findings", "archive"])
def test_what_lost_its_files_is_an_error_everywhere_until_the_command_has_mended_it(
    lost: str, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == main(run) == 0
        [path] = {*(tmp_path / "lake").glob(lost if "/" in lost else f"{lost}/**/*.log")}
        path.unlink() if path.is_file() else shutil.rmtree(path)
        assert status(lake)[0] == 2
        assert lake_problems(lake) == {"damage": 1}
        for _ in range(2):
            assert main(run) == 2
            if lost == "tables/findings":  # the run that meets the loss makes it again, and writes the finding in it
                break
            code, said = status(lake)
            assert (code, lake_problems(lake)) == (2, {"damage": 1}), said
            capsys.readouterr()
            assert main(["runs", lake, "--failed"]) == 0
            assert capsys.readouterr().out.count("1 failed checks") == 1  # the second run is like the first
            commands = [words for words in pasted_advice.commands_in(said) if "COPY" not in words]
        else:
            assert [main(shlex.split(words)[1:]) for words in commands] == [0] * len(commands)
        assert main(run) == 0
        assert (status(lake)[0], lake_problems(lake)) == (0, {})


def test_changed_bytes_that_a_replacement_meets_are_damage_until_the_command_has_mended_them(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    """The file keeps its time, so that no look reads it before."""
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == 0
        [path] = (tmp_path / "lake" / "archive").glob("**/*.log")
        content, seen = path.read_bytes(), path.stat()
        path.write_bytes(handmade.flip(content, len(content) - 1))
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        assert (main(run), status(lake)[0]) == (0, 0)
        assert main([*run, "--replace", ".."]) == 2
        printed = capsys.readouterr().out
        assert "refused: orders-0: offsets [0, 5) are not replaced" in printed
        code, said = status(lake)
        assert (code, main(run)) == (2, 2), said
        [command] = [words for words in pasted_advice.commands_in(printed) if "COPY" not in words]
        assert main(shlex.split(command)[1:]) == 0
        assert path.read_bytes() == content
        assert (main([*run, "--replace", ".."]), main(run), status(lake)[0]) == (0, 0, 0)


def test_open_errors_of_runs_and_of_status_are_the_same_after_rows_were_deleted_and_withdrawn(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    run = ["run", str(source.path), "--lake", lake]

    def of_newest_run() -> str:
        capsys.readouterr()
        assert main(["runs", lake, "--last", "1", "--job", "intake", "--format", "jsonl"]) == 0
        row = json.loads(capsys.readouterr().out)
        return f"open findings: {row['findings_error']} error, {row['findings_warning']} warning;"

    with without_spark():
        assert main(run) == 0
        DeltaTable(f"{lake}/tables/records").delete('"offset" = 3')
        for withdraws, code in ((False, 2), (True, 0)):
            if withdraws:
                assert main(["withdraw", lake, "--apply"]) == 0
                found, said = status(lake)
                assert found == 2
                [command] = pasted_advice.commands_in(said)
                assert shlex.split(command)[1:] == run
            assert main(run) == code
            found, said = status(lake)
            assert (found, of_newest_run() in said) == (code, True), (of_newest_run(), said)
