"""Offsets that a source lost: the printed policy publishes around them, the printed command fills them."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.jobs.advice.advised_lake import (
    Lake,
    corrupt,
    log_of_segments,
    pasted,
    said,
)
from tests.pasted_advice import commands_in


def test_damage_is_published_around_with_the_printed_policy(lake: Lake) -> None:
    corrupt(lake.log.path)
    code, printed = lake.run()
    assert code == 2
    assert max(lake.offsets(), default=-1) < 10
    assert "The lost offsets stay an error, with exit code 2, until a copy fills them." in printed
    pasted(lake.capsys, printed, "config set", "orders salvage=permissive")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert max(lake.offsets()) == 29
    code, printed = lake.run()
    assert (code, "They stay an error, with exit code 2, until a copy fills them." in printed) == (2, True)
    assert "salvage=permissive" not in printed
    assert "What follows them is published." in printed
    assert [line for line in commands_in(printed) if "--fill-from" in line]


def test_damage_is_filled_from_another_copy_with_the_printed_command(lake: Lake, tmp_path: Path) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    corrupt(lake.log.path)
    _, printed = lake.run()
    [line] = [line for line in commands_in(printed) if "--fill-from" in line]
    assert [word for word in shlex.split(line) if word.isupper()] == ["COPY"]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(whole)))[1:])[0] == 0
    assert lake.offsets() == {*range(30)}
    assert lake.verify()[0] == 0


@pytest.mark.parametrize("harm", ["segment", "batch"])
def test_a_first_run_takes_lost_offsets_from_the_copy_that_it_names(lake: Lake, tmp_path: Path, harm: str) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    if harm == "segment":
        (lake.log.path / f"{10:020d}.log").unlink()
    else:
        corrupt(lake.log.path)
    code, printed = lake.run("--fill-from", whole)
    assert (code, commands_in(printed)) == (0, [])
    assert lake.offsets() == {*range(30)}
    assert lake.run()[0] == 0
    assert lake.verify()[0] == 0


def test_a_copy_that_does_not_exist_is_refused_like_a_source(lake: Lake, tmp_path: Path) -> None:
    code, printed = lake.run("--fill-from", tmp_path / "gone")
    assert code == said(lake.capsys, "run", tmp_path / "lost", "--lake", lake.path)[0] == 3
    assert f"{tmp_path / 'gone'} does not exist. Nothing was made or changed." in printed
    assert not lake.path.exists()


@pytest.mark.parametrize("what", ["empty", "text", "above"])
def test_a_copy_without_a_log_is_refused_with_what_is_there(lake: Lake, tmp_path: Path, what: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    if what == "text":
        (copy / "server.log").write_text("started")
    elif what == "above":
        log_of_segments(copy / "data/kafka")
    code, printed = lake.run("--fill-from", copy)
    assert code == 3
    expected = {"empty": "is empty", "text": "has text logs of a broker", "above": f"{copy}/data/kafka: name these"}
    assert expected[what] in printed
    assert "Nothing was made or changed." in printed
    assert not lake.path.exists()


@pytest.mark.parametrize("proof", ["ids and epochs", "no epochs", "no id"])
def test_copies_of_which_each_lost_the_segments_beside_the_others_are_joined_if_they_are_of_one_log(
    lake: Lake, tmp_path: Path, proof: str
) -> None:
    copy = log_of_segments(tmp_path / "copy")
    for log, lost in ((lake.log, (10,)), (copy, (0, 20))):
        for base in lost:
            (log.path / f"{base:020d}.log").unlink()
        if proof != "ids and epochs":
            (log.path / ("partition.metadata" if proof == "no id" else "leader-epoch-checkpoint")).unlink()
    code, printed = lake.run("--fill-from", copy.path)
    if proof == "ids and epochs":
        assert (code, lake.offsets()) == (0, {*range(30)})
        return
    assert code == 3
    assert lake.offsets() == {*range(10)}
    [line] = [each for each in printed.splitlines() if "They are not taken" in each]
    assert f"{copy.path} has offsets of orders-0 that are lost here, in [10, 20)" in line


@pytest.mark.parametrize("harm", ["segment", "batch"])
def test_a_copy_beside_the_source_that_has_the_lost_offsets_is_named_with_its_command(
    lake: Lake, tmp_path: Path, harm: str
) -> None:
    copy = Path(shutil.copytree(lake.source.path, tmp_path / "copy"))
    if harm == "segment":
        (lake.log.path / f"{10:020d}.log").unlink()
    else:
        corrupt(lake.log.path)
    (copy / "orders-0" / f"{20:020d}.log").write_bytes((lake.log.path / f"{20:020d}.log").read_bytes()[:-300])
    for _ in range(2):
        code, printed = said(lake.capsys, "run", lake.source.path, copy, "--lake", lake.path)
    assert code == 2
    [line] = [each for each in printed.splitlines() if "is left alone" in each]
    assert pasted(lake.capsys, line, f"--fill-from {copy}/orders-0") <= 1
    assert lake.offsets() == {*range(30)}


def test_offsets_that_are_gone_have_the_same_commands(lake: Lake) -> None:
    (lake.log.path / f"{10:020d}.log").unlink()
    code, printed = lake.run()
    assert code == 2
    pasted(lake.capsys, printed, "config set", "orders salvage=permissive")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.offsets() == {*range(10), *range(20, 30)}
