"""Kinds of Delta tables that our jobs support, checked before any job plans.

Other engines may change a table in ways that deltalake does not notice when it commits, and that then lose or duplicate
rows. The table is based on runs with Spark 4.2, Delta 4.4.0 and deltalake 1.6.6
(``tests/spark/test_table_features.py``):

    feature              deltalake  our jobs
    appendOnly           appends    publish appends; replace, optimize and the expiry of rows are refused, and every job
                                    where it is set on a state table
    changeDataFeed       appends    work; readers derive the changes from the files added and removed
    checkConstraints     appends    refused while there is a constraint: a commit of files does not evaluate it
    generatedColumns     appends    refused while a column is generated: a commit of files does not compute it
    invariants           appends    refused while a column has one, or is NOT NULL: a commit of files does not look
    deletionVectors      appends    refused: a rewrite would bring deleted rows back
    columnMapping        appends    refused: names in the files are not those of the columns
    v2Checkpoint         appends    refused: a newer reader version, which other readers may not know
    variantType          appends    refused, as above
    allowColumnDefaults, checkpointProtection, domainMetadata (clustering, row tracking), inCommitTimestamp,
    rowTracking, typeWidening, vacuumProtocolCheck: refused, deltalake can't append

Dropping a feature of the reader leaves checkpointProtection, which is refused too. The history can be truncated a day
later. Until then only a rebuild of the table helps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable, Schema

from spark_jobs.errors import TableRefused
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, table_uri
from spark_jobs.lake.repair_commands import rebuild_command
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES

READER_VERSION = 1
"""The latest reader version that we support: a later one changes which rows a file has."""
WRITER_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed"})
"""Features of writer version 7 that our commits respect, or whose use is refused below."""
LEGACY_FEATURES: Mapping[int, tuple[str, ...]] = {5: ("columnMapping",), 6: ("columnMapping", "identityColumns")}
"""Features of writer versions below 7, besides those above."""

APPENDED_ONLY = frozenset({"records", "findings", "log_actions", "runs"})
"""Tables whose rows only ``replace`` and ``optimize`` remove."""

FROM_THE_START: Mapping[str, frozenset[str]] = {
    name: frozenset(TABLES[name].schema.names) - frozenset(TABLES[name].run_columns) for name in RECORD_TABLES
}
"""Columns that these tables always had. Later versions only appended columns, to these tables and to others."""

_FEATURE_SQL: Mapping[str, tuple[str, ...]] = {
    "checkpointProtection": ("DROP FEATURE checkpointProtection TRUNCATE HISTORY",),
    "columnMapping": ("UNSET TBLPROPERTIES ('delta.columnMapping.mode')", "DROP FEATURE columnMapping"),
    "deletionVectors": (
        "SET TBLPROPERTIES ('delta.enableDeletionVectors'='false')",
        "DROP FEATURE deletionVectors",
    ),
    "domainMetadata": ("DROP FEATURE domainMetadata",),
    "inCommitTimestamp": ("DROP FEATURE inCommitTimestamp",),
    "rowTracking": ("DROP FEATURE rowTracking", "DROP FEATURE domainMetadata"),
    "typeWidening": ("DROP FEATURE typeWidening",),
    "v2Checkpoint": ("DROP FEATURE v2Checkpoint",),
    "vacuumProtocolCheck": ("DROP FEATURE vacuumProtocolCheck",),
}
"""ALTER TABLE clauses that drop a feature; Delta 4.4.0 can't drop others (column defaults, clustering)."""
_LEAVES_A_TRACE = frozenset({"columnMapping", "deletionVectors", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features that leave ``checkpointProtection`` when they are dropped."""


def refuse_unsupported(lake: str, names: Sequence[str] | None = None, *, rewrites: bool = False) -> None:
    """Check tables before a job plans; tables that were never created pass.

    Args:
        names: Tables to check; None: all of the lake. Unless the caller rewrites tables, the history `runs` is left
            out: no job reads it, and what is wrong with it must not stop one.
        rewrites: Whether the caller rewrites or removes files of ``records``.

    Raises:
        TableRefused: A table has a feature, column or setting that conflicts with our commits; the text says what to
            do.
        TableUnreadable: A table's log is damaged.
        StorageError: The object store failed.
    """
    if names is None:
        names = [name for name in TABLES if rewrites or name != "runs"]
    for name in names:
        table = latest_snapshot(lake, name)
        if table is not None:
            refuse_table(lake, name, table, rewrites=rewrites)


def refuse_table(lake: str, name: str, table: DeltaTable, *, rewrites: bool = False) -> None:
    """Check an opened table, right before a commit to it.

    Raises:
        TableRefused: See :func:`refuse_unsupported`.
    """
    place = f"delta.`{table_uri(lake, name)}`"
    rebuild = f"`{rebuild_command(lake, name)}`"
    unknown = _unknown_features(table)
    if unknown:
        raise TableRefused(
            f"Table {name} uses {_list(unknown)}, which Loglake does not support. {_way_out(unknown, place)}"
            f"{rebuild}. Nothing was written."
        )
    reasons = [*_settings(name, table, place, rewrites), *_columns(TABLES[name], table, place)]
    if reasons:
        reason, way_out = reasons[0]
        raise TableRefused(
            f"Table {name}: {reason}. {f'Undo it in Spark: {way_out}. Or rebuild' if way_out else 'Rebuild'} it: "
            f"{rebuild}. Nothing was written."
        )


def refuse_removal(lake: str, name: str) -> None:
    """Check a table before rows are removed from it, and before it is recorded that they are gone.

    Args:
        lake: The lake.
        name: One of ``TABLES``, or kind and topic. A table of a topic is made from ``records``.

    Raises:
        TableRefused: It is append-only, or has an unsupported feature; the text says what to do.
    """
    table = latest_snapshot(lake, name)
    if table is None:
        return
    if name in TABLES:
        refuse_table(lake, name, table, rewrites=True)
        return
    unknown = _unknown_features(table)
    if unknown or _is_append_only(table):
        why = f"uses {_list(unknown)}, which Loglake does not support" if unknown else "is append-only"
        raise TableRefused(
            f"Table {name} {why}, so no row of it can expire. Remove its directory {table_uri(lake, name)}: the next "
            "run writes it again."
        )


def is_supported(table: DeltaTable) -> bool:
    """Return whether only files say which rows a table has, and no deletion vector or other feature does."""
    return not _unknown_features(table)


def features_beyond_files(table: DeltaTable) -> list[str]:
    """Return features because of which files alone may not say which rows and columns a table has.

    The feature `deletionVectors` counts also if no file has a vector.
    """
    mapping = ["columnMapping"] if _configuration(table).get("delta.columnMapping.mode", "none") != "none" else []
    return [*mapping, *({"deletionVectors"} & {*(table.protocol().reader_features or ())})]


def _way_out(features: Sequence[str], place: str) -> str:
    """Describe how to drop these features, if possible; the caller appends the command that rebuilds the table."""
    steps = list(dict.fromkeys(step for feature in features for step in _FEATURE_SQL.get(feature, ())))
    # A feature that another one needs is dropped last.
    steps.sort(key=lambda step: step == "DROP FEATURE domainMetadata")
    if not steps or any(feature not in _FEATURE_SQL for feature in features):
        return "Rebuild the table: "
    sql = f"Drop it in Spark: {'; '.join(f'ALTER TABLE {place} {step}' for step in steps)}."
    if _LEAVES_A_TRACE & set(features):
        return (
            f"{sql} That leaves the feature checkpointProtection, which is refused until the table's history can be "
            "truncated a day later; to continue now, rebuild the table: "
        )
    return f"{sql} Or rebuild the table: "


def _unknown_features(table: DeltaTable) -> list[str]:
    """Return features of the protocol that are not supported, or the protocol's versions if features have no names."""
    protocol = table.protocol()
    found = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    found |= set(LEGACY_FEATURES.get(protocol.min_writer_version, ()))
    if _configuration(table).get("delta.columnMapping.mode", "none") == "none":
        found -= set(LEGACY_FEATURES[5]) - {*(protocol.writer_features or ())}
    unknown = sorted(found - WRITER_FEATURES)
    if not unknown and (protocol.min_reader_version > READER_VERSION or protocol.min_writer_version > 7):
        if protocol.min_writer_version <= 6 and protocol.min_reader_version <= 2:
            return ["columnMapping"]
        return [f"reader version {protocol.min_reader_version}, writer version {protocol.min_writer_version}"]
    return unknown


def _is_append_only(table: DeltaTable) -> bool:
    return _configuration(table).get("delta.appendOnly", "").lower() == "true"


def _settings(name: str, table: DeltaTable, place: str, rewrites: bool) -> Iterator[tuple[str, str]]:
    """Yield table properties that our commits would violate, with the SQL that removes each."""
    configuration = _configuration(table)
    if _is_append_only(table) and (rewrites or name not in APPENDED_ONLY):
        yield (
            "it is append-only, and this job removes files",
            f"ALTER TABLE {place} UNSET TBLPROPERTIES ('delta.appendOnly')",
        )
    for key in sorted(configuration):
        if key.startswith("delta.constraints."):
            constraint = key.removeprefix("delta.constraints.")
            yield (
                f"the check constraint {constraint} would not be evaluated for our rows",
                f"ALTER TABLE {place} DROP CONSTRAINT {constraint}",
            )


def _columns(spec: TableSpec, table: DeltaTable, place: str) -> Iterator[tuple[str, str]]:
    """Yield problems of the columns, with the SQL that removes each; empty if there is none."""
    ours = _fields(Schema.from_arrow(spec.schema))
    theirs = _fields(table.schema())
    there = [name for name in ours if name in theirs]
    lost = [name for name in ours if name not in theirs]
    if there != list(ours)[: len(there)] or not FROM_THE_START.get(spec.name, frozenset()).isdisjoint(lost):
        yield f"it has lost the column {lost[0]}", ""
    if list(table.metadata().partition_columns) != list(spec.partition_by):
        yield f"it is partitioned by {_list(table.metadata().partition_columns) or 'nothing'}", ""
    for name in there:
        if theirs[name]["type"] != ours[name]["type"]:
            yield f"its column {name} is of the type {_type_name(theirs[name]['type'])}", ""
    for name, field in theirs.items():
        if not field["nullable"]:
            yield f"its column {name} is NOT NULL", f"ALTER TABLE {place} ALTER COLUMN {name} DROP NOT NULL"
        for setting, kind in (("delta.generationExpression", "generated"), ("delta.invariants", "under an invariant")):
            if setting in field["metadata"]:
                yield f"its column {name} is {kind}, which our commits would not respect", ""


def _fields(schema: Schema) -> dict[str, dict[str, Any]]:
    """The fields by name. Their types have no comments and ids: other engines may leave those out."""
    fields = json.loads(schema.to_json())["fields"]
    return {field["name"]: field | {"type": _without_metadata(field["type"])} for field in fields}


def _without_metadata(kind: object) -> object:
    if isinstance(kind, list):
        return [_without_metadata(each) for each in kind]
    if isinstance(kind, dict):
        return {key: _without_metadata(each) for key, each in kind.items() if key != "metadata"}
    return kind


def _configuration(table: DeltaTable) -> Mapping[str, str]:
    return table.metadata().configuration or {}


def _type_name(kind: object) -> str:
    return kind if isinstance(kind, str) else str(json.dumps(kind))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
