"""``loglake config check FILE``: check a policies file before a run uses it.

    loglake config check policies.yaml
    loglake config check policies.yaml --lake LAKE
    loglake config schema

``check`` prints each mistake with its line and column. Without a mistake it prints the policies as they are used, times
in milliseconds and sizes in bytes. With ``--lake`` it also names patterns that match no topic of the lake. ``schema``
prints a JSON schema for editors.

Exit codes: 0 fine; 1 a pattern matches no topic; 3 the lake cannot be read; 64 a mistake in the file, or wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from logcore.exit_codes import ExitCode
from spark_jobs.lake_commands.outcome import guarded, lake_at


class ConfigCommand:
    """``loglake config``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "config", help="check a policies file", description="Check a policies file, or print its JSON schema."
        )
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        check = actions.add_parser(
            "check",
            help="check a policies file",
            description="Print each mistake of a policies file with its line and column, or the policies as they are "
            "used.",
        )
        check.add_argument("file", metavar="FILE", help="a policies file")
        check.add_argument("--lake", metavar="LAKE", help="also name patterns that match no topic of this lake")
        check.set_defaults(func=lambda options: guarded(lambda: _check(options)))
        schema = actions.add_parser(
            "schema",
            help="print a JSON schema of policies files",
            description="Print a JSON schema of policies files, for editors.",
        )
        schema.set_defaults(func=lambda options: guarded(_schema))


config_command = ConfigCommand()


def _check(options: argparse.Namespace) -> int:
    from spark_jobs.lake.setup.policies import read_policies

    policies = read_policies(options.file)
    for line in _lines(policies):
        sys.stdout.write(f"{line}\n")
    if not policies.topics and not policies.stated:
        sys.stdout.write("no policy: nothing is removed, and all settings have their defaults\n")
    if options.lake is None:
        return ExitCode.CLEAN
    return _unmatched(options.file, lake_at(options.lake))


def _unmatched(file: str, lake: str) -> int:
    from logcore.reading.nearest_names import no_such_topic
    from spark_jobs.lake.segments.archive import read_logs
    from spark_jobs.lake.view.registered_lakes import idle_policies

    topics = sorted({row.topic for row in read_logs(lake).values()})
    idle = idle_policies(file, topics)
    for pattern in idle:
        sys.stderr.write(f"warning: the pattern {no_such_topic(pattern, topics)}\n")
    return ExitCode.WARNING if idle else ExitCode.CLEAN


def _lines(policies: Any) -> Iterator[str]:
    """The stated and defaulted settings of the lake, then those of each topic that differ from a default."""
    from dataclasses import fields

    from spark_jobs.lake.setup.policies import TopicPolicy
    from spark_jobs.lake.setup.policy_settings import LAKE_SETTINGS, SETTINGS

    for name, setting in LAKE_SETTINGS.items():
        origin = "" if name in policies.stated else "  (default)"
        value = getattr(policies.lake, setting.field)
        if isinstance(value, str) and "://" in value:  # a path may be a secret
            value = "/".join(value.split("/")[:3]) + "/..."
        if isinstance(value, tuple):
            value = ", ".join(value) or None
        yield f"lake  {name} = {'not set' if value is None else value}{origin}"
    defaults = {field.name: field.default for field in fields(TopicPolicy)}
    for policy in policies.topics:
        yield f"topics matching {policy.pattern}"
        for name, setting in SETTINGS.items():
            value = getattr(policy, setting.field)
            if setting.field == "cleanup_policy":
                yield f"  {name} = {','.join(value) or 'none: nothing is removed'}"
            elif value != defaults[setting.field]:
                yield f"  {name} = {value}"


def _schema() -> int:
    from spark_jobs.lake.setup.policy_schema import policy_schema

    sys.stdout.write(json.dumps(policy_schema(), indent=1) + "\n")
    return ExitCode.CLEAN
