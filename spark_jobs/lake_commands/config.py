"""``loglake config check FILE``: check a policies file before a run uses it.

    loglake config check policies.yaml
    loglake config check policies.yaml --lake LAKE
    loglake config check policies.yaml --source PATH
    loglake config set policies.yaml TOPIC salvage=permissive
    loglake config schema

``check`` prints each mistake with its line and column. Without a mistake it prints what the file states. With
``--lake`` or ``--source`` it then prints the settings of each topic, and where each is from: a line of the file or a
record of the cluster's metadata. Of the defaults it prints those that remove nothing; ``--format jsonl`` has all.
Patterns that match none of these topics are named, and those whose topics earlier patterns match. ``set`` writes
settings of one topic into the file, which it makes if there is none. ``schema`` prints a JSON schema for editors.

Exit codes: 0 fine; 1 what the cluster said is in doubt; 3 the lake or the metadata cannot be read; 64 a mistake in the
file, or wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from logcore.cli.reading.arguments import clock_ms
from logcore.exit_codes import ExitCode
from logcore.texts import json_shown, shown
from spark_jobs.errors import JobError, UsageError, guarded
from spark_jobs.lake_commands.outcome import lake_at


def config_command(parser: argparse.ArgumentParser) -> None:
    """``loglake config``."""
    parser.description = "Check a policies file, or print its JSON schema."
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="check a policies file",
        description="Print each mistake of a policies file with its line and column, or the policies as they are used.",
    )
    check.add_argument("file", metavar="FILE", help="a policies file")
    check.add_argument(
        "--lake", metavar="LAKE", help="also the settings of its topics, and patterns that match none of them"
    )
    check.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="PATH",
        help="also the settings of the topics in __cluster_metadata at this source; repeatable",
    )
    check.add_argument("--as-of", type=clock_ms, metavar="TIME", help="what the cluster said then (default: now)")
    check.add_argument("--format", choices=("text", "jsonl"), default="text")
    check.set_defaults(func=guarded(_check))
    setting = actions.add_parser(
        "set",
        help="set something for a topic",
        description="Write settings of one topic into a policies file. A file that does not exist is made.",
    )
    setting.add_argument("file", metavar="FILE", help="a policies file")
    setting.add_argument("topic", metavar="TOPIC", help="the name of a topic, not a glob")
    setting.add_argument("settings", metavar="NAME=VALUE", nargs="+", help="such as salvage=permissive")
    setting.set_defaults(func=guarded(_set))
    schema = actions.add_parser(
        "schema",
        help="print a JSON schema of policies files",
        description="Print a JSON schema of policies files, for editors.",
    )
    schema.set_defaults(func=guarded(_schema))


def _check(options: argparse.Namespace) -> int:
    from spark_jobs.launch import read_usable_policies

    policies = read_usable_policies(options.file)
    if options.format == "text":
        for line in _lines(policies):
            sys.stdout.write(f"{line}\n")
        if not policies.topics and not policies.stated:
            sys.stdout.write("no policy: nothing is removed, and all settings have their defaults\n")
    has_topics = options.lake is not None or options.source
    for note in (*policies.unset_notes(), *(() if has_topics else policies.idle_notes(()))):
        sys.stderr.write(f"{note}\n")
    lake = None if options.lake is None else lake_at(options.lake)
    return _print_topics(options, policies, lake) if has_topics else ExitCode.CLEAN


def _set(options: argparse.Namespace) -> int:
    from spark_jobs.lake.store import storage
    from spark_jobs.policies.policies_file import with_settings

    settings = dict(each.partition("=")[::2] for each in options.settings)
    if not all(settings.values()):
        raise UsageError("write each setting as NAME=VALUE, for instance salvage=permissive.")
    try:
        with open(options.file, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    changed = with_settings(text, options.topic, settings, options.file)
    storage.put(os.path.abspath(options.file), changed.encode())
    for name, value in settings.items():
        sys.stdout.write(f"{options.file}: {options.topic} has {name} = {value}\n")
    return ExitCode.CLEAN


def _print_topics(options: argparse.Namespace, policies: Any, lake: str | None) -> int:
    """Print the settings of each topic; return the exit code."""
    from dataclasses import replace

    from spark_jobs.lake.cluster.cluster_settings import resulting, settings_at
    from spark_jobs.lake.segments.archive import read_logs

    as_of_ms = options.now_ms if options.as_of is None else options.as_of
    if options.source:
        said = _said_at(options.source, as_of_ms)
    else:
        said = {each.topic: each for each in settings_at(str(lake), as_of_ms)}
    policies = replace(policies, cluster=said)
    topics = {topic: each.topic_id for topic, each in said.items()} if lake is None else {}
    for row in sorted(read_logs(lake).values(), key=lambda row: row.incarnation) if lake is not None else ():
        topics[row.topic] = row.topic_id
    code = ExitCode.CLEAN
    for topic, topic_id in sorted(topics.items()):
        policy, settings = resulting(policies, topic, topic_id)
        doubt = None if policy is None else policy.doubt
        code = ExitCode.CLEAN if doubt is None and code is ExitCode.CLEAN else ExitCode.WARNING
        if options.format == "jsonl":
            line = {
                "topic": topic,
                "policy": None if policy is None else policy.pattern,
                "doubt": doubt,
                "settings": [setting.as_dict() for setting in settings],
            }
            sys.stdout.write(json_shown(json.dumps(line, ensure_ascii=False)) + "\n")
            continue
        if policy is None:
            sys.stdout.write(f"topic {topic}: no policy, nothing is removed\n")
            continue
        sys.stdout.write(f"topic {topic}, by the policy {policy.pattern}\n")
        for setting in settings:
            if setting.is_worth_a_line:
                sys.stdout.write(f"  {shown(setting.text)}\n")
        if doubt is not None:
            kept = f"; {','.join(policy.withheld)} is not carried out" if policy.withheld else ""
            sys.stderr.write(f"warning: {topic}: nothing is taken from the cluster{kept}: {doubt}\n")
    for note in policies.idle_notes(topics):
        sys.stderr.write(f"{note}\n")
    return code


def _said_at(sources: list[str], as_of_ms: int) -> dict[str, Any]:
    """What the metadata at some sources said about each topic at a time."""
    from logcore.cli.output.command_notes import kind_text
    from logcore.cli.output.terminal import Terminal
    from logcore.errors import LogError
    from logcore.reading.internal_topics.cluster_metadata import Moment, left_out, read_cluster_state
    from logcore.reading.read_options import Notes
    from logcore.topics.internal_topics import InternalTopic
    from logcore.topics.topic_settings import settings_of_topics
    from spark_jobs.cluster.internal_sources import clusters_of, logs_at
    from spark_jobs.launch import source_place

    try:
        clusters = clusters_of(logs_at([source_place(path) for path in sources]), None)
    except LogError as error:
        raise JobError(str(error)) from error
    logs = [log for cluster in clusters for log in cluster.of(InternalTopic.CLUSTER_METADATA)]
    if len(logs) != 1:
        raise JobError(
            f"There are {len(logs)} logs of __cluster_metadata at {', '.join(sources)}, and one is needed. Name "
            "metadata.log.dir of a broker or controller with --source."
        )
    notes = Notes()
    read = read_cluster_state(logs[0], notes, Moment(time_ms=as_of_ms))
    if read.doubt is not None:
        for finding in notes.findings:
            sys.stderr.write(f"{kind_text(finding, Terminal.of(sys.stderr))}: {finding.message}\n")
    doubt = read.doubt or left_out(logs[0], read.end_offset, as_of_ms)
    return dict(settings_of_topics(read.state, read.committed_end, doubt))


def _lines(policies: Any) -> Iterator[str]:
    """The settings of the lake, defaults in one line, then those of each topic that differ from a default."""
    from dataclasses import fields

    from spark_jobs.policies.lake_settings import LAKE_SETTINGS
    from spark_jobs.policies.topic_policies import TopicPolicy
    from spark_jobs.policies.topic_settings import SETTINGS

    others = []
    for name, setting in LAKE_SETTINGS.items():
        value = getattr(policies.lake, setting.field)
        if isinstance(value, str) and "://" in value:  # a path may be a secret
            value = "/".join(value.split("/")[:3]) + "/..."
        if name in policies.stated:
            yield f"lake  {name} = {setting.text(value)}"
        elif value:
            others.append(f"{name} = {setting.text(value)}")
    if others:
        yield f"lake  defaults: {', '.join(others)}"
    defaults = {field.name: field.default for field in fields(TopicPolicy)}
    for policy in policies.topics:
        yield f"topics matching {policy.pattern}"
        for name, each in SETTINGS.items():
            value = getattr(policy, each.field)
            if each.field == "cleanup_policy":
                yield f"  {name} = {','.join(value) or 'none: nothing is removed from the archive'}"
            elif value != defaults[each.field]:
                yield f"  {name} = {each.text(value)}"


def _schema(_: argparse.Namespace) -> int:
    from spark_jobs.policies.policies_file import policy_schema

    sys.stdout.write(json.dumps(policy_schema(), indent=1) + "\n")
    return ExitCode.CLEAN
