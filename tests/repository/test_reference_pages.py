"""The reference pages in docs/ are what the code gives, and each entry has its text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

import pyarrow as pa
import pytest

from deploy import reference_pages
from deploy.reference_pages import PAGES, TextMissing, page_text
from logcore.cli import main as command_line
from logcore.logs.model.findings import RULES
from logcore.logs.model.offset_ledger import OffsetState
from logcore.logs.rules.advice import HarmedPlace, filled
from spark_jobs.lake.table_specs import FIRST_OF_SEGMENT, TABLES
from spark_jobs.policies.policies_file import parse_policies
from spark_jobs.policies.topic_policies import TopicPolicy
from spark_jobs.policies.topic_settings import SETTINGS
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_what_the_code_gives(name):
    written = (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    assert written == page_text(name), f"docs/{name} is not what the code gives. Run `make pages` and commit the page."


def test_a_setting_without_a_text_is_named(monkeypatch):
    monkeypatch.setattr(reference_pages, "SETTINGS", {"salvage": replace(SETTINGS["salvage"], meaning=" ")})
    with pytest.raises(TextMissing, match="The setting salvage has no meaning"):
        page_text("policies.md")


def test_a_table_without_a_text_is_named(monkeypatch):
    silent = replace(TABLES["logs"], one_row="")
    monkeypatch.setattr(reference_pages, "TABLES", {"logs": silent})
    with pytest.raises(TextMissing, match="The table logs does not say what one row is"):
        page_text("tables.md")


def test_a_column_without_a_text_is_named(monkeypatch):
    logs = TABLES["logs"]
    added = replace(logs, schema=logs.schema.append(pa.field("broker", pa.int32())))
    monkeypatch.setattr(reference_pages, "TABLES", {"logs": added})
    with pytest.raises(TextMissing, match="The column broker of the table logs has no meaning"):
        page_text("tables.md")


@pytest.mark.parametrize("spec", TABLES.values(), ids=lambda spec: spec.name)
def test_layout_and_meanings_name_columns_of_the_table(spec):
    columns = set(spec.schema.names)
    assert [name for name, _ in spec.meanings] == spec.schema.names
    assert set(spec.statistics) | set(spec.partition_by) <= columns
    assert set(spec.row_order) <= columns | {FIRST_OF_SEGMENT}


def test_every_ledger_state_is_on_the_page():
    page = page_text("tables.md")
    assert {str(state) for state in OffsetState if f"| `{state}`" not in page} == set()


def test_every_field_of_a_policy_is_a_setting():
    declared = {field.name for field in fields(TopicPolicy)} - {"pattern", "lines", "withheld", "doubt"}
    assert {setting.field for setting in SETTINGS.values()} == declared


# --- every instruction to a person names an existing thing ------------------------------------------------------------


def spans(text: str) -> list[str]:
    """The texts between backticks."""
    return re.findall(r"`([^`]+)`", text)


def options_of(command: str) -> set[str]:
    """The options that a command of `loglake` takes."""
    parser = command_line._build_parser(command, *command_line._joined(command))
    subparsers = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    if command not in subparsers.choices:
        return set()
    return {option for action in subparsers.choices[command]._actions for option in action.option_strings}


def commands_named(rules: Mapping[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    for rule, text in rules.items():
        for span in spans(text):
            for words in (command.split() for command in span.split(" && ")):
                if words and words[0] == "loglake":
                    yield rule, words[1], [word for word in words if word.startswith("--")]


ADVICE = {
    name: filled(f"{rule.meaning} {rule.what_to_do} {rule.for_logs}", HarmedPlace()) for name, rule in RULES.items()
}


def test_commands_that_a_rule_names_exist_with_their_options():
    named = list(commands_named(ADVICE))
    assert len(named) > 30
    known = {command: options_of(command) for command in {command for _, command, _ in named}}
    unknown = [(rule, command, o) for rule, command, options in named for o in options if o not in known[command]]
    assert not unknown
    assert all(known.values())


def test_options_that_a_rule_names_alone_are_options_of_some_command():
    commands = [*command_line.COMMANDS, *command_line.JOINED]
    known = set().union(*map(options_of, commands))
    alone = {(rule, span) for rule, text in ADVICE.items() for span in spans(text) if span.startswith("--")}
    assert alone
    assert {(rule, span) for rule, span in alone if span.split()[0] not in known} == set()


def test_policies_that_a_rule_names_are_ones_that_can_be_written():
    named = {span for text in ADVICE.values() for span in spans(text) if span.partition(":")[0] in SETTINGS}
    stated = re.compile(r"config set \S+ \S+ ([a-z._]+)=(\S+)")
    named |= {f"{name}: {value}" for text in ADVICE.values() for name, value in stated.findall(text)}
    assert {"on_truncate: follow", "salvage: permissive"} <= named
    for policy in named:
        if ": " in policy:
            stated = "" if policy.startswith("cleanup.policy") else "cleanup.policy: delete\n      "
            assert parse_policies(f"topics:\n    t:\n      {stated}{policy}\n").topics
