"""Planted into the job that decodes keys and values."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

DECODE = "tests/jobs/test_decode.py"
DEADLY = "tests/jobs/test_decode_deadly_rows.py"
MERGED = "tests/unit/logcore/values/evolution/test_merged_types.py"
SCHEMA_IDS = "tests/jobs/test_decode_schema_ids.py"
VERIFY = "tests/jobs/test_verify_decoded.py"

FAULTS = (
    Fault(
        "whole numbers are rounded where their column is a double",
        "logcore/values/evolution/written_column.py",
        "else values).cast(kind)",
        "else values).cast(kind, safe=False)",
        ("tests/jobs/test_decode_evolutions.py", "-k", "beyond_those_of_a_double"),
    ),
    Fault(
        "a tombstone is kept as a value",
        "spark_jobs/decode/split_rows.py",
        'batch["value"].is_null()',
        'batch["offset"].is_null()',
        (DECODE, "-k", "with_its_reason_and_bytes"),
    ),
    Fault(
        "a batch that is decoded again counts twice",
        "spark_jobs/decode/decode_job.py",
        "undecoded_from=span.start if plan.replaces else max(span.start, span.frontiers[UNDECODED] or 0)",
        "undecoded_from=span.start",
        (DECODE, "-k", "between_the_two_commits"),
    ),
    Fault(
        "a bad row is in both tables",
        "spark_jobs/decode/split_rows.py",
        "return SplitRows(decoded.filter(pa.array(is_good)), ",
        "return SplitRows(decoded, ",
        (DECODE, "-k", "with_its_reason_and_bytes"),
    ),
    Fault(
        "the row after the deadly one is given up",
        "spark_jobs/decode/decode_task.py",
        '(start, "key" if part else "value"))',
        '(start + 1, "key" if part else "value"))',
        (DEADLY, "-k", "anywhere"),
    ),
    Fault(
        "changed bytes of a decoded table are not seen",
        "spark_jobs/lake_verification/topic_verification.py",
        "if recorded is not None and recorded != row_digest.of_bytes(path):",
        "if recorded is None:",
        (VERIFY, "-k", "flip"),
    ),
    Fault(
        "the id of another subject decodes",
        "logcore/values/registry/schemas.py",
        "if qualified(subject) not in self.subjects.get(name, frozenset()):",
        "if name not in self.subjects:",
        (SCHEMA_IDS, "-k", "two_schemas_share"),
    ),
    Fault(
        "a schema that changes a column is merged",
        "logcore/values/evolution/merged_type.py",
        "            self.conflicts.append(said)\n",
        "",
        (SCHEMA_IDS, "-k", "stops_its_log"),
    ),
    Fault(
        "fields are aligned by place",
        "logcore/values/evolution/written_column.py",
        "aligned(values.field(name) if",
        "aligned(values.field(sorted(there)[0]) if",
        (MERGED, "-k", "aligned_by_name"),
    ),
)
