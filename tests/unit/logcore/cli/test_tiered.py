"""Commands on a log whose beginning lies in the remote tier, with a line of a broker that may be stale."""

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def tiered(root: Path) -> Path:
    """Offsets 5 to 7 are local, those from 1 on remote."""
    for path in (root / "orders-0").glob(f"{0:020d}.*"):
        path.unlink()
    (root / "orders-0" / f"{5:020d}.index").touch()
    (root / "remote-log-index-cache").mkdir()
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=1)
    return root


def stale(tiered: Path) -> None:
    """The line of a deleteRecords, and retention since: the epochs begin with the first segment."""
    (tiered / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n3 5\n")


def ledger(capsys: Captured, path: Path, code: int) -> list[tuple]:
    assert main(["ledger", "--format", "jsonl", str(path)]) == code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(line["start_offset"], line["end_offset"], line["state"], line["evidence"]) for line in lines]


def earliest(capsys: Captured, path: Path, *arguments: str) -> tuple:
    assert main(["offsets", "--format", "jsonl", "--at", *(arguments or ("earliest",)), str(path)]) in (0, 1)
    line = json.loads(capsys.readouterr().out)
    return line["offset"], line["leader_epoch"]


def test_the_ledger_says_which_offsets_are_remote(tiered: Path, capsys: Captured) -> None:
    assert ledger(capsys, tiered, 1)[:3] == [
        (0, 1, "trimmed", "log-start-offset"),
        (1, 5, "remote", "remote-tier"),
        (5, 8, "present", "batches"),
    ]
    stale(tiered)
    assert ledger(capsys, tiered, 0)[:2] == [
        (0, 1, "trimmed", "log-start-offset"),
        (1, 5, "trimmed", "stale-log-start"),
    ]


@pytest.mark.parametrize("content", [None, "0\n7\n"])
def test_without_leader_epochs_the_offsets_are_not_called_trimmed(
    tiered: Path, capsys: Captured, content: str | None
) -> None:
    path = tiered / "orders-0" / "leader-epoch-checkpoint"
    path.unlink() if content is None else path.write_text(content)
    assert ledger(capsys, tiered, 1)[:2] == [
        (0, 1, "trimmed", "log-start-offset"),
        (1, 5, "remote", "no-leader-epochs"),
    ]
    for command in (["dump"], ["ls"], ["verify"], ["offsets", "--at", "latest"]):
        assert main([*command, str(tiered)]) == 1
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert "offsets [1, 5) are in the remote tier or were deleted; leader-epoch-checkpoint" in said
    path.write_text("")  # a log of old formats has the file, and no entry in it
    assert ledger(capsys, tiered, 0)[1] == (1, 5, "trimmed", "stale-log-start")


def test_the_earliest_offset_is_the_brokers_answer(tiered: Path, capsys: Captured) -> None:
    assert earliest(capsys, tiered) == (1, 3)
    assert earliest(capsys, tiered, "earliest-local") == (5, 3)
    stale(tiered)
    assert earliest(capsys, tiered) == (5, 3)


@pytest.mark.parametrize("command", [["verify"], ["dump"], ["ls"], ["transactions"], ["offsets", "--at", "0ms"]])
def test_every_command_warns_of_what_it_cannot_show(tiered: Path, capsys: Captured, command: list[str]) -> None:
    assert main([*command, str(tiered)]) == 1
    captured = capsys.readouterr()
    reported = [line for line in (captured.out + captured.err).splitlines() if "remote tier" in line]
    assert len(reported) == 1
    assert "offsets [1, 5)" in reported[0]
    stale(tiered)
    main([*command, str(tiered)])
    captured = capsys.readouterr()
    assert "remote tier" not in captured.out + captured.err


def test_answers_that_the_local_files_give_in_full_are_no_warning(tiered: Path, capsys: Captured) -> None:
    for at in ("earliest", "earliest-local", "latest"):
        assert main(["offsets", "--at", at, str(tiered)]) == 0
    assert capsys.readouterr().err == ""


def test_a_named_file_gives_no_report_of_remote_offsets(tiered: Path, capsys: Captured) -> None:
    assert main(["dump", str(tiered / "orders-0" / f"{5:020d}.log")]) == 0
    assert capsys.readouterr().err == ""


def test_a_log_with_a_remote_beginning_counts_as_one_with_warnings(tiered: Path, capsys: Captured) -> None:
    assert main(["verify", "--format", "jsonl", "--topic", "orders", str(tiered)]) == 1
    logs = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]["logs"]
    assert (logs["warnings only"], logs["clean"]) == (1, 0)


@pytest.mark.parametrize("way", [[], ["--salvage"]])
def test_recover_keeps_the_log_start_that_lies_in_the_remote_tier(
    tiered: Path, tmp_path: Path, capsys: Captured, way: list[str]
) -> None:
    out = tmp_path / "out"
    assert (
        main(["recover", str(tiered), "--topic", "orders", "--out", str(out), "--checkpoints-out", str(out), *way]) == 0
    )
    assert (out / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    (out / "remote-log-index-cache").mkdir()  # the broker makes it when it starts there
    capsys.readouterr()
    assert ledger(capsys, out, 1)[:2] == [
        (0, 1, "trimmed", "log-start-offset"),
        (1, 5, "remote", "remote-tier"),
    ]


def test_recover_drops_a_stale_log_start(tiered: Path, tmp_path: Path, capsys: Captured) -> None:
    stale(tiered)
    out = tmp_path / "out"
    assert main(["recover", str(tiered), "--topic", "orders", "--out", str(out), "--checkpoints-out", str(out)]) == 0
    assert not (out / "log-start-offset-checkpoint").exists()


def test_recover_keeps_the_log_start_if_nothing_shows_that_it_is_stale(tiered: Path, tmp_path: Path) -> None:
    (tiered / "orders-0" / "leader-epoch-checkpoint").unlink()
    out = tmp_path / "out"
    assert main(["recover", str(tiered), "--topic", "orders", "--out", str(out), "--checkpoints-out", str(out)]) == 0
    assert (out / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
