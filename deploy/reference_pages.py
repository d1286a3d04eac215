"""The reference pages of docs/ that are made from the code: findings, tables and policies.

    python -m deploy.reference_pages          writes the pages (`make pages`)

Each page states what its source in the code states, and nothing else. tests/repository/test_reference_pages.py fails
where a page in docs/ is not what the code gives. The pages belong to the repository, so this module is in no package
that is installed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from logcore.logs.model.findings import Finding, exit_code
from logcore.logs.rules import RULE_GROUPS, Rule
from spark_jobs.lake.setup.policies import LakePolicy, TopicPolicy
from spark_jobs.lake.setup.policy_settings import LAKE_SETTINGS, SETTINGS, Setting
from spark_jobs.lake.setup.policy_values import (
    INT64_MAX,
    SIZES,
    TIMES,
    FilePath,
    OneOf,
    Pace,
    Ratio,
    SomeOf,
    WebAddress,
    WholeNumber,
    unit_names,
)
from spark_jobs.lake.table_specs import FIRST_OF_SEGMENT, TABLES, TableSpec
from spark_jobs.lake.view.ledger_states import ALARMING, MEANINGS

DOCS = Path(__file__).resolve().parent.parent / "docs"


class TextMissing(Exception):
    """A rule, a table, a column or a setting has no text for its page."""


def findings_page() -> str:
    """docs/findings.md, from the rule catalogue in `logcore.logs.rules`."""
    parts = [
        _made_from("`logcore/logs/rules`"),
        "# Findings\n",
        "Every rule that a finding can have, with what it means and what to do. Rule ids are stable. Commands for logs "
        "print findings, and a lake keeps them in the table [`findings`](tables.md#findings).\n",
        "A finding counts in a lake as long as it is open: it is shown at its log, and it decides the exit code of "
        "later runs. Each rule says how long that is. A finding about a segment is also closed when other bytes "
        "replace the segment, and when the source takes the segment back.\n",
        "In the commands SRC stands for the log directory, LAKE for the lake, COPY for another copy of the logs, TABLE "
        "for the name of a table. A command ends with the highest exit code of its findings ([cli.md](cli.md)).\n",
        "The severity of a rule is fixed in the code, in `logcore/logs/rules`. An operator cannot change it.\n",
    ]
    for title, group in RULE_GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [_rule(name, rule) for name, rule in group.items()]
    return "\n".join(parts)


def _rule(name: str, rule: Rule) -> str:
    meaning = _text(rule.meaning, f"The rule {name} has no meaning")
    what_to_do = _text(rule.what_to_do, f"The rule {name} does not say what to do")
    code = exit_code([Finding(name, rule.severity, "")])
    severity = f"{str(rule.severity).capitalize()} (exit code {code:d})."
    counted = f"Counts in a lake: {rule.persistence.value}."
    return f"### `{name}`\n\n{severity} {meaning}\n\n{counted}\n\nWhat to do: {what_to_do}\n"


def tables_page() -> str:
    """docs/tables.md, from `spark_jobs.lake.table_specs` and the states in `spark_jobs.lake.view.ledger_states`."""
    listed = [[f"[`{spec.name}`](#{spec.name})", _one_row(spec)] for spec in TABLES.values()]
    parts = [
        _made_from("`spark_jobs/lake/table_specs.py`"),
        "# Tables\n",
        "A lake's tables are in `LAKE/tables/<name>`. All are plain Delta tables (reader version 1, writer version 2) "
        "without deletion vectors or column mapping. Every column may be null. "
        "[shared-tables.md](shared-tables.md) says what other engines may do with them.\n",
        _table(["table", "one row is"], listed),
    ]
    for spec in TABLES.values():
        parts.append(f"## {spec.name}\n\n{_one_row(spec)}\n\n{_layout(spec)}\n")
        parts.append(_table(["column", "type", "meaning"], [_column(spec, name) for name in spec.schema.names]))
        if spec.name == "offset_ledger":
            parts.append(_states())
    return "\n".join(parts)


def _one_row(spec: TableSpec) -> str:
    return _text(spec.one_row, f"The table {spec.name} does not say what one row is")


def _layout(spec: TableSpec) -> str:
    order = ["the first offset of the segment" if name == FIRST_OF_SEGMENT else f"`{name}`" for name in spec.row_order]
    return "\n".join(
        [
            f"- Partitioned by: {_names(spec.partition_by) or 'nothing'}.",
            f"- Order of rows in a file that maintenance has merged: {', '.join(order) or 'as they were written'}.",
            f"- Statistics in the Delta log: {_names(spec.statistics)}.",
        ]
    )


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _column(spec: TableSpec, name: str) -> list[str]:
    meaning = _text(spec.meaning(name), f"The column {name} of the table {spec.name} has no meaning")
    return [f"`{name}`", f"`{spec.schema.field(name).type}`", meaning]


def _states() -> str:
    rows = [[f"`{state}`" + (" (alarm)" if state in ALARMING else ""), meaning] for state, meaning in MEANINGS.items()]
    return _table(["state", "offsets"], rows)


def policies_page() -> str:
    """docs/policies.md, from `spark_jobs.lake.setup.policy_settings` and the defaults of `TopicPolicy`."""
    example = [
        "lake:                         # for Dagster's schedules and sensors",
        "  ingest: every 5 min",
        "  nightly: apply",
        "topics:",
        '  "orders-*":                 # a glob over topic names',
        "    cleanup.policy: delete",
        "    retention.ms: 7d          # or 604800000",
        "  customers:",
        "    cleanup.policy: compact,delete",
        "    on_truncate: follow",
        '  "clicks-*":                 # without cleanup.policy nothing is removed',
        "    salvage: permissive",
    ]
    return "\n".join(
        [
            _made_from("`spark_jobs/lake/setup/policy_settings.py` and `spark_jobs/lake/setup/policies.py`"),
            "# policies.yaml\n",
            "What may be removed from which topic of a lake, and how its logs are read and published: "
            "`loglake run SRC --lake LAKE --policies policies.yaml`.\n",
            "\n".join(["```yaml", *example, "```\n"]),
            "- The file has two entries. `lake` has settings of the whole lake. `topics` has patterns of topic names, "
            "each with its settings.\n"
            "- The first pattern that matches a topic decides alone, so narrow patterns come before wide ones.\n"
            "- A topic that no pattern matches has no policy. Nothing of it is removed.\n"
            "- An internal topic (`__…`) is matched only by a pattern that begins with `__` itself.\n"
            "- A policy without `cleanup.policy` removes nothing. It may state only settings that are marked with * "
            "below.\n"
            "- A time is in milliseconds, or has a unit: "
            f"{', '.join(f'`{unit}`' for unit in unit_names(TIMES))}. A size is in bytes, or has a unit: "
            f"{', '.join(f'`{unit}`' for unit in unit_names(SIZES))}.\n"
            "- A mistake in the file ends a command with exit code 64. The message names each mistake with line and "
            "column.\n"
            "- `loglake config check policies.yaml` does the same without a run. `loglake config schema` prints a JSON "
            "schema for editors.\n",
            "## Settings of a lake\n",
            _table(["setting", "values", "default", "meaning"], map(_setting, LAKE_SETTINGS.values())),
            "## Settings that Kafka has\n",
            _table(["setting", "values", "default", "meaning"], map(_setting, _settings(is_kafkas=True))),
            "## Settings of Loglake\n",
            _table(["setting", "values", "default", "meaning"], map(_setting, _settings(is_kafkas=False))),
        ]
    )


def _settings(*, is_kafkas: bool) -> list[Setting]:
    return [setting for setting in SETTINGS.values() if setting.is_kafkas is is_kafkas]


def _setting(setting: Setting) -> list[str]:
    match setting.values:
        case WholeNumber(least, greatest, units):
            what = {TIMES: "a time, ", SIZES: "a size, "}.get(units, "")
            values = what + (f"at least {least}" if greatest == INT64_MAX else f"{least} to {greatest}")
        case WebAddress():
            values = "an address, or `env:` and the name of a variable"
        case Pace(words):
            values = ", ".join(f"`{word}`" for word in words) + ", `every` and a time"
        case Ratio():
            values = "0 to 1"
        case FilePath():
            values = "a path, relative to this file"
        case OneOf(words) | SomeOf(words):
            values = ", ".join(f"`{word}`" for word in words)
            values += ", both or none" if isinstance(setting.values, SomeOf) else ""
    meaning = _text(setting.meaning, f"The setting {setting.name} has no meaning")
    mark = " *" if setting.removes_nothing and setting.name in SETTINGS else ""
    return [f"`{setting.name}`{mark}", values, _default(setting), meaning]


def _default(setting: Setting) -> str:
    owner = LakePolicy if setting.name in LAKE_SETTINGS else TopicPolicy
    value = next(field.default for field in fields(owner) if field.name == setting.field)
    if isinstance(setting.values, SomeOf):
        return "not stated: nothing is removed"
    if value is None:
        return "not set"
    if value == INT64_MAX:
        return "unlimited"
    return f"`{value}`"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _made_from(source: str) -> str:
    return f"<!-- Made from {source} by `make pages`. Change the code, not this page. -->\n"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _wrapped(line: str) -> str:
    if line.startswith(("|", "<!--", "#")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _text(text: str, complaint: str) -> str:
    if not text.strip():
        raise TextMissing(f"{complaint}; write it where it is declared.")
    return text


PAGES: Mapping[str, Callable[[], str]] = {
    "findings.md": findings_page,
    "tables.md": tables_page,
    "policies.md": policies_page,
}
"""By file name in docs/."""


def page_text(name: str) -> str:
    """The page of this name, with lines of at most 120 characters outside of tables and comments."""
    return "\n".join(_wrapped(line) for line in PAGES[name]().splitlines()) + "\n"


def main() -> None:
    """Write every page."""
    for name in PAGES:
        (DOCS / name).write_text(page_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
