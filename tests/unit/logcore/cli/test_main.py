"""The command line keeps its promises: exit codes, one paragraph instead of a traceback, commands by entry point."""

import argparse
import os
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from logcore.cli import entry_points as installed
from logcore.cli import main
from logcore.cli.commands import ls
from logcore.errors import LogError
from logcore.logs.rules import RULES
from logcore.storage.objects.answers import silence

REPOSITORY = Path(__file__).parents[4]

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["ls"],
        ["ls", "--format", "xml", "x"],
        ["dump", "--offsets", "5", "x"],
        ["dump", "--offsets", "9..5", "x"],
        ["dump", "--since", "yesterday", "x"],
        ["dump", "--limit", "-1", "x"],
        ["dump", "--high-watermark", "low", "x"],
        ["dump", "--isolation.level", "serializable", "x"],
        ["dump", "--key", "0xzz", "x"],
        ["dump", "--batches", "--indexes", "x"],
        ["dump", "--batches", "--key", "a", "x"],
        ["dump", "--batches", "--format", "parquet", "x"],
        ["dump", "--text", "x"],
        ["dump", "--log-level", "loud", "x"],
        ["dump", "--partition", "one", "x"],
    ],
)
def test_wrong_usage_is_64_and_says_what_is_wrong(arguments: list[str], capsys: Captured) -> None:
    assert main.main(arguments) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    error, usage, *_ = captured.err.splitlines()
    assert error.startswith("error: ")
    assert usage.startswith("usage: loglake")
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["verifi", "x"], "unknown command 'verifi'; the nearest name is verify."),
        (["trans", "x"], "unknown command 'trans'; the nearest name is transactions."),
        (["withdrw", "x"], "unknown command 'withdrw'; the nearest name is withdraw."),
        (["qqqq"], "unknown command 'qqqq'; `loglake --help` lists all."),
        (["--verson"], "unknown option '--verson'; the nearest name is --version."),
        (["--foo", "ls"], "unknown option '--foo'; `loglake --help` lists all."),
        (["--verson", "verify"], "unknown option '--verson'; the nearest name is --version."),
        (["verify", "--formt", "text", "x"], "unknown option '--formt'; the nearest name is --format."),
        (["verify", "--formt=secret", "x"], "unknown option '--formt'; the nearest name is --format."),
        (["recover", "x", "--salvag", "--oyt", "y"], "unknown option '--oyt'; the nearest name is --out."),
        (["run", "x", "--laek", "y"], "unknown option '--laek'; the nearest name is --lake."),
        (["withdraw", "x", "--aplly"], "unknown option '--aplly'; the nearest name is --apply."),
        (
            ["state", "x", "-a", "--at", "-a-0:7", "--out", "y"],
            "unknown option '-a'; `loglake state --help` lists all.",
        ),
        (
            ["state", "x", "a", "--at", "-a-0:7", "--out", "y"],
            "unknown option '-a-0:7'; a value that begins with - is written --at=-a-0:7.",
        ),
        (["dump", "x", "--key", "-k"], "unknown option '-k'; a value that begins with - is written --key=-k."),
        (["config", "chek", "x"], "unknown action 'chek'; the nearest names are check, schema."),
        (
            ["ls", "--format", "josnl", "x"],
            "argument --format: 'josnl' is none of text, jsonl; the nearest name is jsonl.",
        ),
    ],
)
def test_an_unknown_command_or_option_is_reported_first_with_the_nearest_name(
    arguments: list[str], expected: str, capsys: Captured
) -> None:
    assert main.main(arguments) == 64
    error, usage, *_ = capsys.readouterr().err.splitlines()
    assert error == f"error: {expected}"
    assert usage.startswith("usage: loglake")


def test_values_that_begin_with_a_dash_are_no_unknown_options(tmp_path: Path, capsys: Captured) -> None:
    assert main.main(["ls", "--", "--nonsense"]) == 3
    assert "--nonsense does not exist" in capsys.readouterr().err
    assert main.main(["dump", "--limit", "-1", str(tmp_path)]) == 64
    assert "argument --limit: '-1' is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["ls", "--help"], ["dump", "--help"]])
def test_help_is_clean(arguments: list[str], capsys: Captured) -> None:
    assert main.main(arguments) == 0
    assert capsys.readouterr().out.startswith("usage: loglake")


def test_the_version_is_that_of_the_distribution(capsys: Captured) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out == f"loglake {project['version']}\n"


@pytest.mark.parametrize("rule", RULES)
def test_help_of_a_rule_says_what_it_means_and_what_to_do(rule: str, capsys: Captured) -> None:
    assert RULES[rule].meaning.strip()
    assert RULES[rule].what_to_do.strip()
    assert main.main(["help", rule]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{rule}: {RULES[rule].severity}, exit code ")
    assert "\nWhat to do: " in said
    assert "{" not in said


def test_help_of_a_rule_is_its_severity_meaning_advice_and_what_the_words_in_it_are(capsys: Captured) -> None:
    assert main.main(["help", "packed-segment"]) == 0
    first, meaning, to_do, for_files, words = capsys.readouterr().out.splitlines()
    assert (
        first
        == "packed-segment: error, exit code 2. In a lake it counts as long as the log is stopped for this reason."
    )
    assert meaning.startswith("A file has the name of a segment, and somebody packed it")
    assert to_do.startswith("What to do: Unpack the file ")
    assert to_do.endswith("read the log again: `loglake run LOGDIR --lake LAKE`.")
    assert for_files.startswith("For files that are in no lake: Unpack the file with the command of the message. ")
    assert "LOGDIR is the log directory" in words


def test_help_lists_every_rule_once(capsys: Captured) -> None:
    assert main.main(["help", "rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(RULES)
    assert lines[0] == "Paths and directories:"


def test_help_names_every_command_of_the_contract(capsys: Captured) -> None:
    main.main(["--help"])
    shown = capsys.readouterr().out
    contract = {"run", "ls", "dump", "verify", "compare", "ledger", "transactions", "offsets"}
    contract |= {
        "recover",
        "reindex",
        "retain",
        "compact",
        "doctor",
        "remote",
        "groups",
        "topics",
        "metadata",
        "completion",
    }
    for command in contract:
        assert command in shown
    assert {*main.COMMANDS, *main.JOINED} == contract | {
        "watch",
        "ui",
        "demo",
        "lineage",
        "repair",
        "withdraw",
        "config",
        "metrics",
        "runs",
        "status",
        "decode",
        "query",
        "register",
        "state",
        "latest",
        "cluster",
    }


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ([], ["--help"]),
        (["help"], ["--help"]),
        (["help", "ls"], ["ls", "--help"]),
        (["help", "run"], ["run", "--help"]),
    ],
)
def test_no_command_and_the_command_help_show_help(arguments: list[str], same: list[str], capsys: Captured) -> None:
    assert main.main(same) == 0
    expected = capsys.readouterr().out
    assert expected.startswith("usage: loglake")
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("verfy", "verify"),
        ("torn-tial", "torn-tail"),
        ("no_damge", "no_damage"),
        ("hanging-transction", "hanging-transaction"),
    ],
)
def test_help_of_an_unknown_name_is_wrong_usage_with_the_nearest_ones(word: str, near: str, capsys: Captured) -> None:
    assert main.main(["help", word]) == 64
    assert capsys.readouterr().err.startswith(f"error: '{word}' matches no name; the nearest names are {near}")


@pytest.mark.parametrize(
    ("name", "start", "what"),
    [
        ("no_damage", "no_damage: a check of validated_segments.", "What to do: name another copy of the log"),
        ("lag", "lag: an alert, warning.", "More offsets wait to be published"),
        ("OFFSET_ORDER", "OFFSET_ORDER: why bytes of a segment cannot be trusted.", "Offsets that do not increase"),
        ("MISSING_FIELD", "MISSING_FIELD: why a key or value is in undecoded/TOPIC.", "A required field is absent"),
    ],
)
def test_help_explains_checks_alerts_and_reasons(name: str, start: str, what: str, capsys: Captured) -> None:
    assert main.main(["help", name]) == 0
    said = capsys.readouterr().out
    assert said.startswith(start)
    assert what in said
    assert "{" not in said


def test_the_overview_has_headings_and_each_command_once_below_them(capsys: Captured) -> None:
    assert main.main(["--help"]) == 0
    headings: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.partition("options:")[2].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            below = headings.setdefault(line[:-1], [])
        elif line.startswith("  ") and line[2] not in " -":
            below.append(line.split()[0])
    listed = [name for names in headings.values() for name in names]
    assert sorted(listed) == sorted([*main.COMMANDS, *main.JOINED])
    assert listed == [name for names in main.GROUPS.values() for name in names]
    assert headings["Lakes"][0] == "run"
    assert next(iter(headings)) == "Read logs"
    assert len(headings) == 6
    assert max(map(len, headings.values())) <= 8


@pytest.mark.parametrize("command", [*main.COMMANDS, *main.JOINED])
def test_the_example_in_the_help_of_a_command_is_one_that_its_parser_takes(
    command: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main.main([command, "--help"]) == 0
    example = capsys.readouterr().out.partition("example: ")[2].removesuffix("\n")
    assert "\n" not in example
    first, *arguments = shlex.split(example)
    assert first == "loglake"
    assert arguments[0] == command
    joined = {} if command in main.COMMANDS else main._joined(command)[0]
    parsed = main._build_parser(command, joined, []).parse_args(arguments)
    assert callable(parsed.func)


def test_the_help_of_run_has_its_options_below_headings(capsys: Captured) -> None:
    assert main.main(["run", "--help"]) == 0
    below: dict[str, int] = {}
    heading = ""
    for line in capsys.readouterr().out.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line
        elif line.startswith("  -"):
            below[heading] = below.get(heading, 0) + 1
    assert sum(below.values()) >= 25
    assert max(below.values()) <= 6


@pytest.mark.parametrize("patience", ["60", "1"], ids=["all attempts", "attempts that take too long"])
def test_a_store_that_cannot_be_reached_is_reported_and_the_rest_continues(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, patience: str
) -> None:
    monkeypatch.setenv("LOGLAKE_STORE_TIMEOUT", patience)
    for name, value in {"ENDPOINT_URL": "http://127.0.0.1:9", "ALLOW_HTTP": "true", "ACCESS_KEY_ID": "id"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-secret")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").touch()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    assert main.main(["ls", "s3://bucket/logs", str(tmp_path)]) == 3
    silence.ended()  # for the next test of this process
    captured = capsys.readouterr()
    assert "the object store at http://127.0.0.1:9 cannot be reached" in captured.err
    assert "orders-0" in captured.out


def test_an_unforeseen_error_is_one_line_without_its_text(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Its text may hold bytes of a record."""

    def fail(_: argparse.Namespace) -> int:
        raise RuntimeError("secret payload")

    monkeypatch.setattr(ls, "run", fail)
    assert main.main(["ls", "x"]) == 3
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "RuntimeError" in captured.err
    assert "test_main.py" in captured.err
    assert "secret" not in captured.err


FAILS = """
import sys
from logcore.cli import entry_points as installed
from logcore.cli import main
from logcore.cli.commands import ls
def fails(_):
    raise RuntimeError("secret payload")
def run(arguments):
    try:
        fails(arguments)
    except RuntimeError as error:
        raise ValueError("secret too") from error
ls.run = run
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("level", ["debug", "info"])
def test_at_level_debug_an_unforeseen_error_shows_its_trace_without_texts(level: str) -> None:
    command = [sys.executable, "-c", FAILS, "ls", "--log-level", level, "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "secret" not in done.stderr
    assert ("in fails" in done.stderr) == (level == "debug")
    assert ("RuntimeError" in done.stderr) == (level == "debug")
    assert "ValueError" in done.stderr


def test_one_of_our_errors_is_its_paragraph(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise LogError("the batch is broken.", file="x.log", position=7, advice="Look there.")

    monkeypatch.setattr(ls, "run", fail)
    assert main.main(["ls", "x"]) == 3
    assert capsys.readouterr().err == "error: file x.log, position 7: the batch is broken. Look there.\n"


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupt(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(ls, "run", interrupt)
    assert main.main(["ls", "x"]) == 130
    said = capsys.readouterr().err
    assert said.startswith("interrupted: ")
    assert said.count("\n") == 1


def joined(parser: argparse.ArgumentParser) -> None:
    """A command as another package would bring it."""
    parser.add_argument("--code", type=int)
    parser.set_defaults(func=lambda arguments: arguments.code)


def entry_points(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    made = [metadata.EntryPoint(name, value, installed.COMMANDS) for name, value in points]
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: made if group == installed.COMMANDS else [])


def test_a_command_joins_by_entry_point_and_gives_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "joined_command", sys.modules[__name__])
    entry_points(monkeypatch, ("run", "joined_command:joined"))
    assert main.main(["run", "--code", "2"]) == 2
    assert main.main(["run", "--code", "many"]) == 64
    capsys.readouterr()
    assert main.main(["--help"]) == 0
    assert "the main job" in capsys.readouterr().out


def test_other_packages_are_not_imported_for_the_overview(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    entry_points(monkeypatch, ("run", "package_that_is_not_there:command"))
    assert main.main(["--help"]) == 0
    assert "run" in capsys.readouterr().out


def test_a_command_whose_package_cannot_be_imported_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    entry_points(monkeypatch, ("run", "package_that_is_not_there:command"))
    assert main.main(["run"]) == 3
    assert "package_that_is_not_there" in capsys.readouterr().err


def test_run_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    entry_points(monkeypatch)
    assert main.main(["run", "x", "--lake", "y"]) == 3
    assert "not installed" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    for number in range(3000):
        directory = tmp_path / f"{'t' * 40}{number}-0"
        directory.mkdir()
        (directory / "00000000000000000000.log").touch()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    command = [sys.executable, "-m", "logcore.cli.main", "ls", "--format", "jsonl", str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"topic"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_any_name_comes_through_where_the_terminal_knows_only_ascii(tmp_path: Path) -> None:
    (tmp_path / "käse").mkdir()
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "logcore.cli.main", "ls", str(tmp_path / "käse")]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 3
    assert "käse" in done.stderr.decode("utf-8")


def test_looking_at_logs_imports_neither_arrow_nor_any_engine() -> None:
    program = (
        "import sys; from logcore.cli.main import main; main(['dump', '/nonexistent']);"
        "print([name for name in ('pyarrow', 'pyspark', 'dagster', 'deltalake') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
