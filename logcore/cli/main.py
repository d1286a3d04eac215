"""`loglake`: reads the command line, runs the command, and returns the exit code.

Exit codes are those of `logcore.exit_codes`. Errors are one readable paragraph on stderr, never a traceback. `COMMANDS`
live here; other packages add commands by entry points of the group `loglake.commands`. A command is a function that
gives a parser its description, its options, and `func`: a function from the parsed arguments to the exit code. Such a
package is imported only when its command runs. A command whose packages are not installed is not listed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from logcore import __version__
from logcore.cli.reading.command_parser import CommandParser
from logcore.cli.termination import abandon_output, terminated_as_interrupted
from logcore.errors import LogError, place_in_code
from logcore.exit_codes import SUMMARY, ExitCode
from logcore.storage.objects.addresses import AddressError
from logcore.texts import shown

if TYPE_CHECKING:
    from importlib import metadata

COMMANDS = {
    "ls": "topic partitions with their segments, offsets, formats, codecs and times",
    "dump": "records, or batch headers, index entries, checkpoints",
    "ledger": "what became of every offset",
    "transactions": "committed, aborted, open and unknown transactions; the last stable offset",
    "offsets": "what a broker's ListOffsets would answer",
    "groups": "groups with their members, committed offsets and lag",
    "topics": "topics of a cluster with their partitions and settings",
    "metadata": "topics, settings, brokers and features of a cluster",
    "verify": "every rule over every byte",
    "compare": "where copies of a log part, what each lacks, and which one to keep",
    "remote": "the remote segments of tiered topics: which count, and objects without use",
    "retain": "the segments left after retention",
    "compact": "one cleaner round, as the broker would do it",
    "recover": "what a broker's unclean start would leave",
    "reindex": "index files as a broker's recovery writes them",
    "doctor": "whether this installation works, and its folders, lakes and sources can be used",
    "completion": "completion of commands and options for bash, zsh and fish",
}
"""The commands of this package, each in a module of its name; only the requested one is imported."""

_OF_INTERNAL_TOPICS = ("groups", "topics", "metadata")
"""Commands whose modules are in `logcore.cli.internal_topics`; those of all others are in `logcore.cli.commands`."""

JOINED = {
    "run": "the main job: ingest, validate, publish, checks",
    "watch": "the same whenever a source has grown, until it is stopped",
    "demo": "the bundled samples become tables",
    "ui": "Dagster's pages of all registered lakes",
    "lineage": "from a row of a table to its bytes; from a table's version to its segments",
    "repair": "repair frontiers, tables and archived files of a lake",
    "config": "check a policies file",
    "metrics": "figures of lakes for Prometheus",
    "runs": "the latest runs of a lake: outcome, figures, durations",
    "status": "whether a lake is in order: open errors, lag, runs, next schedule",
    "decode": "typed columns from the keys and values of records",
    "query": "SQL over the tables of a lake",
    "register": "the tables of a lake by name, in DuckDB, Spark or Unity Catalog",
    "state": "the newest row of each key below an offset or a time",
    "latest": "tables of the newest row of each key",
    "cluster": "tables of groups, topics and settings, from internal topics",
    "withdraw": "leave out rows that were deleted from records on purpose",
}
"""Commands of other packages, for the overview and for the message if they are missing."""

GROUPS = {
    "Read logs": {
        "ls": "ls /kafka-logs --topic orders",
        "dump": "dump /kafka-logs/orders-0 --offsets 100..110",
        "ledger": "ledger /kafka-logs --topic orders",
        "transactions": "transactions /kafka-logs --state torn --state hanging",
        "offsets": "offsets /kafka-logs --topic orders --at latest",
        "verify": "verify /kafka-logs",
        "compare": "compare /broker1 /broker2 --topic orders",
        "remote": "remote /kafka-logs --remote /tiered",
    },
    "Internal topics": {
        "groups": "groups /kafka-logs --group shipping",
        "topics": "topics /kafka-logs --name 'orders*'",
        "metadata": "metadata /kafka-logs --format jsonl",
    },
    "Write log directories (always as a copy)": {
        "retain": "retain /logs/orders-0 --config retention.ms=604800000 --plan",
        "compact": "compact /kafka-logs/orders-0 --out /new/compacted",
        "recover": "recover /kafka-logs --out /new/recovered",
        "reindex": "reindex /kafka-logs/orders-0 --out /new/reindexed",
    },
    "Lakes": {
        "run": "run /kafka-logs --lake lake --policies policies.yaml",
        "watch": "watch /kafka-logs --lake lake --interval 5",
        "demo": "demo",
        "config": "config check policies.yaml --lake lake",
        "withdraw": "withdraw lake --topic orders --partition 0 --offsets 100..110",
        "repair": "repair lake --frontiers",
    },
    "Tables and queries": {
        "query": "query lake 'select count(*) from records'",
        "register": "register lake --in duckdb -o lake.duckdb",
        "decode": "decode lake --topic orders --dry-run",
        "latest": "latest lake --topic orders",
        "state": "state lake orders --at 2024-05-01T00:00:00Z --out may",
        "cluster": "cluster lake --source /kafka-logs",
        "lineage": "lineage lake --offset orders-0:100",
    },
    "Operation": {
        "status": "status lake",
        "runs": "runs lake --failed",
        "metrics": "metrics lake -o loglake.prom",
        "doctor": "doctor /kafka-logs --lake lake",
        "completion": "completion bash",
        "ui": "ui lake --port 3000",
    },
}
"""The headings of the overview, each with its commands and an example of each."""

_MORE_COMMANDS = "Commands for lakes come with the extra `lake`; see docs/deploy.md."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with terminated_as_interrupted():
            code = _run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse: help was shown, or the usage was wrong
        return stop.code if isinstance(stop.code, int) else ExitCode.USAGE if stop.code else ExitCode.CLEAN
    except BrokenPipeError:
        abandon_output()
        return ExitCode.CLEAN
    except OSError as error:
        # Sources have their own errors: this is an error of the output.
        where = f" {shown(str(error.filename))}" if error.filename else ""
        why = f"{error.strerror or type(error).__name__}. Remove the cause, and type the same command again."
        sys.stderr.write(f"error: the output{where} cannot be written: {why}\n")
        return ExitCode.NOT_CHECKED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written to a source. To start again, type the same command.\n")
        return ExitCode.INTERRUPTED
    except LogError as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.NOT_CHECKED
    except AddressError as error:
        sys.stderr.write(f"error: {shown(str(error))}\n")
        return ExitCode.USAGE
    except Exception as error:  # noqa: BLE001 - the last resort: a user must not see a traceback
        sys.stderr.write(_unexpected(error))
        if logging.getLogger().isEnabledFor(logging.DEBUG):
            _show_trace(error)
        return ExitCode.NOT_CHECKED


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["help"] and len(arguments) == 2 and not {arguments[1]} & {*COMMANDS, *JOINED}:
        from logcore.cli.rule_help import explained_names, name_help
        from logcore.reading.nearest_names import no_such

        text = name_help(arguments[1])
        _speak_utf8()
        if text is None:
            known = [*COMMANDS, *JOINED, *explained_names()]
            sys.stderr.write(f"error: {shown(no_such('name', arguments[1], known))}\n")
            return ExitCode.USAGE
        sys.stdout.write(text)
        return ExitCode.CLEAN
    if not arguments or arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    command = next((word for word in arguments if not word.startswith("-")), None)
    joined, hidden = ({}, []) if command in COMMANDS else _joined(command)
    # NumPy would start a thread for every processor, for linear algebra that no command uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parser = _build_parser(command, joined, hidden)
    parsed = parser.parse_args(arguments)
    parsed.whole_parser = whole_parser
    engine = os.environ.get("LOGLAKE_ENGINE", "kernels")
    if engine not in ("kernels", "reference"):
        parser.error(f"LOGLAKE_ENGINE is {engine!r}; it may be kernels or reference")
    _set_up_logging(getattr(parsed, "log_level", "warning"))
    _speak_utf8()
    parsed.now_ms = time.time_ns() // 1_000_000  # the only reading of the clock
    code = parsed.func(parsed)
    return int(code or 0)


def whole_parser() -> argparse.ArgumentParser:
    """Build the parser with the options of every command that can run here."""
    return _build_parser(None, *_joined(None), is_whole=True)


def _build_parser(
    command: str | None, joined: dict[str, metadata.EntryPoint], hidden: list[str], *, is_whole: bool = False
) -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="loglake",
        description="Kafka's log directories, read without a broker.",
        epilog=f"`loglake help COMMAND` shows the options of a command, with an example; `loglake help NAME` "
        f"explains a rule, check, alert or decode reason, and `loglake help rules` lists the rules. {SUMMARY}"
        f"{f' {_MORE_COMMANDS}' if hidden else ''}",
    )
    parser.add_argument("--version", action="version", version=f"loglake {__version__}", help="print the version")
    parent = CommandParser(add_help=False)
    parent.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="warning",
        help="what is logged on stderr; debug also shows where an unexpected error happened",
    )
    parser.usage = "loglake [-h] [--version] COMMAND ..."
    subparsers = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        required=True,
        prog="loglake",
        help="the command" if is_whole else argparse.SUPPRESS,
    )
    for name in (*COMMANDS, *sorted(joined)):
        meaning = COMMANDS.get(name) or JOINED.get(name, f"see `loglake {name} --help`")
        made = subparsers.add_parser(name, help=meaning, parents=[parent] if name in COMMANDS else [])
        if name == command or is_whole:
            made.set_defaults(parser=made)
            _declare(name, joined)(made)
    if not is_whole:  # readers of the whole parser look for one group of all commands
        _group(parser, subparsers)
    for name, example in (each for names in GROUPS.values() for each in names.items()):
        if name in subparsers.choices:
            subparsers.choices[name].epilog = f"example: loglake {example}"
    return parser


def _declare(name: str, joined: dict[str, metadata.EntryPoint]) -> Any:
    """Import the function that declares a command."""
    if name in joined:
        from logcore.cli import entry_points

        return entry_points.load(joined[name], f"`loglake {name}`")
    folder = "internal_topics" if name in _OF_INTERNAL_TOPICS else "commands"
    return import_module(f"logcore.cli.{folder}.{name}").declare


def _group(parser: CommandParser, subparsers: argparse._SubParsersAction[CommandParser]) -> None:
    """List the commands below their headings, those of other packages at the end."""
    rest = {each.dest: each for each in subparsers._choices_actions}
    groups = {heading: [rest.pop(name) for name in names if name in rest] for heading, names in GROUPS.items()}
    for heading, listed in {**groups, "Other commands": list(rest.values())}.items():
        parser.add_argument_group(heading)._group_actions.extend(listed)


def _joined(command: str | None) -> tuple[dict[str, metadata.EntryPoint], list[str]]:
    """Return commands that other packages have added.

    Returns:
        `command` alone if it is one of them; else those that can run here, by name, and the names of the others.
    """
    from logcore.cli import entry_points

    found = entry_points.of_group(entry_points.COMMANDS)
    if command in JOINED and command not in found:
        message = f"`loglake {command}` is in packages that are not installed here."
        raise LogError(message, advice=entry_points.ADVICE)
    if command in found:
        return {command: found[command]}, []
    hidden = [name for name, point in found.items() if entry_points.missing_packages(point)]
    return {name: point for name, point in found.items() if name not in hidden}, hidden


def _set_up_logging(level: str) -> None:
    logging.basicConfig(level=level.upper(), stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")


def _speak_utf8() -> None:
    """Write UTF-8 to any output; bytes that are not text become escapes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _unexpected(error: Exception) -> str:
    """Describe an unexpected error. Its own text is left out: it may contain bytes of a record."""
    return (
        f"error: something went wrong that should not have ({type(error).__name__}{place_in_code(error)}); nothing was "
        "written to a source. This is a mistake in Loglake; please report the command and this line.\n"
    )


def _show_trace(error: BaseException) -> None:
    """Print the places in the code, also of the causes. Texts of errors are left out: they may contain record bytes."""
    import traceback

    seen: BaseException | None = error
    while seen is not None:
        sys.stderr.write(f"{type(seen).__name__}\n")
        sys.stderr.writelines(traceback.format_tb(seen.__traceback__))
        seen = seen.__cause__ or seen.__context__


if __name__ == "__main__":
    sys.exit(main())
