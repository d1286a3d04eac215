"""The reference pages of docs/ that are made from the code: tables, policies, and the manual page of the commands.

    python -m deploy.reference_pages          writes the pages (`make pages`)

Each page states what its source in the code states, and nothing else. tests/repository/test_reference_pages.py fails
where a page in docs/ is not what the code gives. The pages belong to the repository, so this module is in no package
that is installed.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from unittest import mock

from logcore.errors import CorruptionReason
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import FIRST_OF_SEGMENT, TABLES
from spark_jobs.lake.view.ledger_states import ALARMING, EVIDENCE, MEANINGS
from spark_jobs.policies.lake_settings import LAKE_SETTINGS
from spark_jobs.policies.policy_values import (
    INT64_MAX,
    SIZES,
    TIMES,
    FilePath,
    Name,
    NameList,
    OneOf,
    Pace,
    PlaceList,
    Ratio,
    Setting,
    SomeOf,
    TopicOrAddress,
    VariableOrPath,
    WebAddress,
    WholeNumber,
    unit_names,
)
from spark_jobs.policies.topic_policies import LakePolicy, TopicPolicy
from spark_jobs.policies.topic_settings import SETTINGS

DOCS = Path(__file__).resolve().parent.parent / "docs"


class TextMissing(Exception):
    """A table, a column or a setting has no text for its page."""


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
            parts += [_states(), _evidence()]
        if spec.name == "quarantine":
            parts.append(_reasons())
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


def _evidence() -> str:
    rows = [[f"`{evidence}`", meaning] for evidence, meaning in EVIDENCE.items()]
    head = "### evidence\n\nIn a `corrupt` range the evidence is one of the [reasons](#reason) of quarantine.\n\n"
    return head + _table(["evidence", "the offsets are, or were"], rows)


def _reasons() -> str:
    missing = [reason for reason in CorruptionReason if reason not in _REASONS]
    if missing:
        raise TextMissing(f"The reason {missing[0]} has no meaning; write it in _REASONS.")
    rows = [[f"`{reason}`", _REASONS[reason]] for reason in CorruptionReason]
    return "### reason\n\n" + _table(["reason", "means"], rows)


_REASONS: Mapping[CorruptionReason, str] = {
    CorruptionReason.LENGTH: "the length field of a batch is negative or too small for its format",
    CorruptionReason.MAGIC: "no Kafka release writes this magic byte",
    CorruptionReason.CRC: "the checksum of the batch differs from the stored one",
    CorruptionReason.CODEC: "a reserved codec number, or a codec that the format does not allow",
    CorruptionReason.CODEC_STREAM: "the stream is malformed, ends early, or has more bytes that Kafka looks at",
    CorruptionReason.OUTPUT_CAP: "more decoded bytes or record headers than the limits allow",
    CorruptionReason.COUNT: "the record count is impossible, or differs from the records found",
    CorruptionReason.VARINT: "a variable-length integer is too long",
    CorruptionReason.RECORD_LENGTH: "the length of a record, key or value does not fit",
    CorruptionReason.RECORD_HEADER: "a count or length of record headers is negative or does not fit",
    CorruptionReason.TRAILING_BYTES: "bytes are left after the last record",
    CorruptionReason.TRUNCATED: "the bytes end inside a structure",
    CorruptionReason.CONTROL: "the key of a control record is invalid",
    CorruptionReason.ATTRIBUTES: "attributes of the batch contradict each other",
    CorruptionReason.OFFSET_ORDER: "offsets do not rise, or lie outside their batch or segment",
    CorruptionReason.PACKED: "the whole file was packed, for instance by gzip",
}


_FROM_CLUSTER = """## Settings from the cluster

With `from: cluster` the topics of a pattern have the settings that `__cluster_metadata` says, as of the run's clock
(`--as-of`). What was said later does not count.

- These settings are taken: cleanup.policy, retention.ms, retention.bytes, the settings of compaction, segment.bytes,
  segment.index.bytes, index.interval.bytes and file.delete.delay.ms. A line of the file wins.
- No policy has settings such as message.timestamp.type: brokers use them when they append, and maintenance takes the
  timestamps that are in the batches.
- Only settings that were made for the topic are in the metadata. Defaults of brokers are not. What is not there has
  the default of this page: without `cleanup.policy` or `retention.*` nothing is removed.
- `loglake run` and `loglake watch` read the metadata at the sources in each run, and so does `loglake cluster`. It is
  kept in the tables `cluster_topics` and `cluster_topic_configs`. Maintenance without a source uses what was read last.
- A setting counts also while it is `tentative`: no snapshot of the metadata covers it yet. A broker writes snapshots
  rarely.

What the cluster said about a topic may be in doubt: records of the metadata are lost or cannot be read, the metadata
was not read, it does not name the topic, or it is about another topic of this name. It may be about another one if the
topic id of a log is not known, because its source had no `partition.metadata`. Then nothing is taken from the cluster.
Nothing is compacted, and `delete` must be in the file, as must its limits. The plan of maintenance names such logs
(`in_doubt`), and so does `loglake config check`.

`loglake config check policies.yaml --lake LAKE` prints the resulting settings of each topic, and where each is from.
With `--source PATH` it reads the metadata there.
"""


def policies_page() -> str:
    """docs/policies.md, from the settings in `spark_jobs.policies` and their defaults."""
    example = [
        "lake:                         # for Dagster's schedules and sensors",
        "  ingest: every 5 min",
        "  nightly: plan",
        "topics:",
        '  "orders-*":                 # a glob over topic names',
        "    cleanup.policy: delete",
        "    retention.ms: 7d          # or 604800000",
        "  customers:",
        "    cleanup.policy: compact,delete",
        "    on_truncate: follow",
        '  "clicks-*":                 # without cleanup.policy nothing is removed',
        "    salvage: permissive",
        '  "payments-*":',
        "    from: cluster             # settings without a line here are those of the cluster",
        "    retention.ms: 30d",
    ]
    return "\n".join(
        [
            _made_from("`spark_jobs/policies`"),
            "# policies.yaml\n",
            "What may be removed from which topic of a lake, and how its logs are read and published: "
            "`loglake run SRC --lake LAKE --policies policies.yaml`.\n",
            "\n".join(["```yaml", *example, "```\n"]),
            "- The file has two entries. `lake` has settings of the whole lake. `topics` has patterns of topic names, "
            "each with its settings.\n"
            "- The first pattern that matches a topic decides alone, so narrow patterns come before wide ones.\n"
            "- A topic that no pattern matches has no policy. Nothing of it is removed.\n"
            "- An internal topic (`__…`) is matched only by a pattern that begins with `__` itself.\n"
            "- A policy without `cleanup.policy` removes nothing of the archive. It may state only settings that are "
            "marked with * below. With `from: cluster` it may state all settings.\n"
            "- `on_trim: follow` needs a `cleanup.policy`. Use an empty list, `[]`, to remove only what the source "
            "trimmed.\n"
            "- A time is in milliseconds, or has a unit: "
            f"{', '.join(f'`{unit}`' for unit in unit_names(TIMES))}. A size is in bytes, or has a unit: "
            f"{', '.join(f'`{unit}`' for unit in unit_names(SIZES))}.\n"
            "- A mistake in the file ends a command with exit code 64. The message names each mistake with line and "
            "column. A file that `run` or `watch` gets with `--policies` must have usable schemas and suites too. "
            "Later, a schema that breaks only makes its topic [wait](decoding.md#when-a-topic-waits).",
            "- `loglake config check policies.yaml` does the same without a run. `loglake config schema` prints a JSON "
            "schema for editors.\n",
            _FROM_CLUSTER,
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
        case TopicOrAddress():
            values = "a topic, an address, or `env:` and the name of a variable"
        case VariableOrPath():
            values = "a path, or `env:` and the name of a variable"
        case Name():
            values = "a name"
        case NameList():
            values = "names, as a list or with commas"
        case PlaceList():
            values = "directories, relative to this file, or `s3://` prefixes; one, or a list"
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
    if value == ():
        return "not set"
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


def manual_page() -> str:
    """docs/loglake.1, from the parser of the command line."""
    from argparse_manpage.manpage import Manpage

    from logcore import __version__
    from logcore.cli.main import whole_parser

    with mock.patch.dict(os.environ, COLUMNS="100"):  # argparse breaks lines at the width of the terminal
        manual = Manpage(whole_parser())
        manual.description = "Kafka's log directories, read without a broker"
        manual.source, manual.manual = f"loglake {__version__}", "Loglake"
        manual.date = ""  # the same text on every day
        return str(manual)


PAGES: Mapping[str, Callable[[], str]] = {
    "tables.md": tables_page,
    "policies.md": policies_page,
    "loglake.1": manual_page,
}
"""By file name in docs/."""


def page_text(name: str) -> str:
    """The page of this name; Markdown has lines of at most 120 characters outside of tables and comments."""
    text = PAGES[name]()
    if name.endswith(".md"):
        text = "\n".join(map(_wrapped, text.splitlines()))
    return text.rstrip("\n") + "\n"


def main() -> None:
    """Write every page."""
    for name in PAGES:
        (DOCS / name).write_text(page_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
