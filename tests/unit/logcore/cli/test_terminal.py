"""On a terminal, text has colours, a heading for each log, and sizes with units. Files get the text of the contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.cli.output.terminal import duration_text, part_text, size_text
from tests import handmade
from tests.pseudo_terminal import LOGLAKE, on_terminal
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]
RED, GREEN, YELLOW, BOLD, END = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m"


@pytest.fixture
def damaged(root: Path) -> Path:
    """A log directory with one damaged batch in `orders-0`, and `payments-0` without damage."""
    broken = handmade.flip(made.FIRST, len(made.FIRST) - 4)
    (root / "orders-0" / f"{0:020d}.log").write_bytes(broken + made.ABORTED + made.ABORT)
    (root / "payments-0").mkdir()
    (root / "payments-0" / f"{0:020d}.log").write_bytes(handmade.simple_batch(0, [(b"k", b"v")] * 1200))
    made.identify(root / "payments-0")
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=made.LOG_END, payments=1200)
    return root


def test_verify_shows_colours_by_severity_and_findings_below_the_name_of_their_log(damaged: Path) -> None:
    shown = on_terminal("verify", damaged)
    assert shown.code == 2
    lines = shown.text.splitlines()
    headings = [line for line in lines if line.startswith(BOLD)]
    assert headings == [f"{BOLD}{damaged}/orders-0{END}", f"{BOLD}{damaged}/payments-0{END}"][: len(headings)]
    below = lines[lines.index(f"{BOLD}{damaged}/orders-0{END}") + 1 :]
    assert below[0].startswith(f"  {RED}error{END} corrupt-bytes: {0:020d}.log, position 0, offset 0: ")
    logs = next(line for line in lines if line.startswith("logs: "))
    assert f"{RED}1 damaged{END}" in logs
    assert f"{RED}1 error{END}" in lines[-1]
    size = sum(path.stat().st_size for path in damaged.rglob("*.log"))
    assert f"records, {size / 1024:.1f} KiB in " in shown.text
    assert f"bytes: {(size - len(made.FIRST)) / 1024:.1f} KiB valid, {len(made.FIRST)} B quarantined\n" in shown.text


def test_ledger_shows_colours_by_state_below_the_name_of_the_log(damaged: Path) -> None:
    shown = on_terminal("ledger", damaged)
    lines = [" ".join(line.split()) for line in shown.text.splitlines() if "batches" in line or BOLD in line]
    assert lines[0] == f"{BOLD}orders-0{END}"
    assert f"{BOLD}payments-0{END}" in lines
    assert lines[-1] == f"[0, 1200) {GREEN}present {END} batches 1,200 records"
    assert f"{RED}corrupt  {END}" in shown.text


def test_recover_shows_losses_in_colour_with_sizes(damaged: Path, tmp_path: Path) -> None:
    shown = on_terminal("recover", damaged, "--out", tmp_path / "new")
    assert shown.code == 2
    lines = shown.text.splitlines()
    loss = lines[lines.index(f"{BOLD}orders-0{END}") + 1]
    assert loss.startswith(f"  {RED}error{END} ")
    assert " B; " in loss or " B" in loss
    assert " bytes" not in loss.partition(";")[0]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_without_colours_no_escape_sequence_is_written(damaged: Path, variables: dict[str, str]) -> None:
    shown = on_terminal("verify", damaged, **variables)
    assert shown.code == 2
    assert "\x1b" not in shown.text
    assert f"\n  error corrupt-bytes: {0:020d}.log, " in f"\n{shown.text}"


@pytest.mark.long
@pytest.mark.parametrize("command", ["verify", "ledger"])
def test_a_pipe_gets_the_text_of_the_contract_and_jsonl_is_the_same_on_a_terminal(damaged: Path, command: str) -> None:
    def piped(*arguments: str) -> str:
        line = [sys.executable, "-c", LOGLAKE, command, str(damaged), *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=False).stdout

    text = piped()
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line.startswith(" ")]
    if command == "verify":
        assert f"error corrupt-bytes: {damaged}/orders-0/{0:020d}.log, position 0, offset 0: " in text
        assert f"{len(made.FIRST)} quarantined, 0 unreadable, 0 tail, 0 padding\n" in text
    shown = on_terminal(command, damaged, "--format", "jsonl", shows_errors=False)
    assert shown.text == piped("--format", "jsonl")


IMPATIENT = "import logcore.cli.output.progress as p; p.TERMINAL_SECONDS = p.FILE_SECONDS = 0"


def test_the_progress_on_a_terminal_is_one_line_that_is_removed(damaged: Path) -> None:
    shown = on_terminal("verify", damaged, "--topic", "payments", before=IMPATIENT)
    assert shown.code == 0
    size = (damaged / "payments-0" / f"{0:020d}.log").stat().st_size
    progress, _, rest = shown.text.rpartition("\r\x1b[2K")
    assert progress.startswith("\r\x1b[2K")
    assert f"{size / 1024:.1f} of {size / 1024:.1f} KiB, " in progress
    assert "MB/s" in progress
    assert progress.endswith(f", payments-0/{0:020d}.log")
    assert "\n" not in progress
    assert rest.startswith(BOLD)


STOPPED = """
def stopping(show):
    def shown(self, text):
        show(self, text)
        raise {error}
    return shown
p.ProgressLine.show = stopping(p.ProgressLine.show)
"""


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "RuntimeError"])
@pytest.mark.parametrize("command", ["verify", "dump", "recover"])
def test_the_progress_is_removed_before_an_error_or_an_interrupt_is_shown(
    damaged: Path, tmp_path: Path, command: str, error: str
) -> None:
    arguments = {
        "verify": ["verify", str(damaged)],
        # On a terminal dump shows no progress, so its lines go to a file.
        "dump": ["dump", "--all", "--format", "jsonl", str(damaged / "payments-0")],
        "recover": ["recover", str(damaged / "payments-0"), "--out", str(tmp_path / "new")],
    }[command]
    before = IMPATIENT + STOPPED.format(error=error)
    if command == "dump":
        before += f"\nimport sys; sys.stdout = open({str(tmp_path / 'lines')!r}, 'w')"
    shown = on_terminal(*arguments, before=before)
    line, _, rest = shown.text.rpartition("\r\x1b[2K")
    assert "MB/s" in line
    assert rest.startswith("interrupted: " if error == "KeyboardInterrupt" else "error: ")


def test_the_progress_in_a_file_is_a_line_for_each_step(
    damaged: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logcore.cli.output.progress.FILE_SECONDS", 0.0)
    assert main(["verify", str(damaged), "--topic", "payments"]) == 0
    size = f"{(damaged / 'payments-0' / f'{0:020d}.log').stat().st_size / 1024:.1f}"
    error = capsys.readouterr().err
    assert error.startswith(f"{size} of {size} KiB, ")
    assert error.endswith(f" MB/s, payments-0/{0:020d}.log\n")
    assert main(["recover", str(damaged / "payments-0"), "--out", str(tmp_path / "payments-0")]) < 2
    read, *written = capsys.readouterr().err.splitlines()
    assert read.startswith(f"payments-0: {size} of {size} KiB, ")
    assert read.endswith(" read")
    assert written[-1].endswith(" written")


def test_short_work_shows_no_progress(damaged: Path, capsys: Captured) -> None:
    assert main(["verify", str(damaged), "--topic", "payments"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (0.34, "0.3 s"),
        (8.4, "8 s"),
        (59.7, "1 min 0 s"),
        (123, "2 min 3 s"),
        (5 * 3600 + 12 * 60 + 1, "5 h 12 min"),
        (76 * 3600, "3 days 4 h"),
    ],
)
def test_durations_have_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_288_490_189, "1.2 GiB"), (1 << 53, "8192.0 TiB")],
)
def test_sizes_have_units(nbytes: int, text: str) -> None:
    assert size_text(nbytes) == text
    assert part_text(nbytes, nbytes).endswith(text.rpartition(" ")[2])
