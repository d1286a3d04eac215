"""Every command ends with one of the exit codes of docs/cli.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.exit_codes import SUMMARY, ExitCode
from logcore.logs.model.findings import Finding, Severity
from spark_jobs import __main__ as job_command
from spark_jobs.contracts import JobReport
from spark_jobs.outlines import Outline
from spark_jobs.placed_finding import PlacedFinding
from tests.conftest import REPOSITORY

Captured = pytest.CaptureFixture[str]


def test_the_page_on_the_command_line_has_the_same_codes():
    page = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.split("| exit code | means |", 1)[1].split("\n\n", 1)[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)] == list(ExitCode)
    assert [int(code) for code in re.findall(r"\d+", SUMMARY)] == list(ExitCode)


def numbers_returned(path: Path) -> list[int]:
    """Lines of functions that give an exit code, which return a number in digits."""
    lines = []
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef) or function.name not in ("main", "run", "exit_code", "guarded"):
            continue
        lines += [
            node.lineno
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value is not None
        ]
    return lines


def test_no_command_returns_a_number_in_digits():
    folders = [REPOSITORY / name for name in ("logcore/cli", "spark_jobs", "pipelines")]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    assert {str(path): lines for path in files if (lines := numbers_returned(path))} == {}


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([], ExitCode.CLEAN),
        ([("torn-tail", "info")], ExitCode.CLEAN),
        ([("second-source", "warning")], ExitCode.WARNING),
        ([("second-source", "warning"), ("corrupt-offsets", "error")], ExitCode.DAMAGE),
        ([("corrupt-offsets", "error"), ("unreadable", "error")], ExitCode.NOT_CHECKED),
    ],
)
def test_a_job_alone_ends_as_commands_do(rules, code):
    findings = tuple(PlacedFinding(Finding(rule, Severity(severity), "")) for rule, severity in rules)
    report = JobReport("validate", "run", "lake", findings=findings, plan=Outline())
    assert job_command._exit_code(report) is code


@pytest.mark.parametrize(
    "arguments",
    [
        ["lineage", "{lake}/tables/records", "--offset", "orders-0:1"],
        ["lineage", "{lake}/tables/records", "--version", "1"],
    ],
)
def test_without_a_lake_a_command_could_not_check(tmp_path: Path, capsys: Captured, arguments: list[str]):
    (tmp_path / "nothing").mkdir()
    code = main([word.format(lake=tmp_path / "nothing") for word in arguments])
    said = capsys.readouterr()
    assert code == ExitCode.NOT_CHECKED
    assert "no lake.json" in said.err + said.out


@pytest.mark.parametrize("arguments", [["withdraw", "{lake}"], ["repair", "{lake}", "--frontiers"]])
def test_a_command_that_writes_refuses_a_path_that_is_no_lake(tmp_path: Path, capsys: Captured, arguments: list[str]):
    assert main([word.format(lake=tmp_path) for word in arguments]) == ExitCode.USAGE
    assert "no lake.json" in capsys.readouterr().err


def test_a_path_that_names_no_table_is_wrong_usage(tmp_path: Path, capsys: Captured):
    assert main(["lineage", str(tmp_path), "--version", "1"]) == ExitCode.USAGE
    assert "tables/records" in capsys.readouterr().err
