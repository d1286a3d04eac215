"""Planted into the job that decodes keys and values."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

DECODE = "tests/jobs/test_decode.py"
DEADLY = "tests/jobs/test_decode_deadly_rows.py"
LOCAL_EXECUTOR = "tests/unit/spark_jobs/tasks/local/test_local_executor.py"
MERGED = "tests/unit/logcore/values/evolution/test_merged_types.py"
SCHEMA_IDS = "tests/jobs/test_decode_schema_ids.py"
VERIFY = "tests/jobs/test_verify_decoded.py"
BUILT_IN = "tests/jobs/test_decode_built_in_imports.py"
HISTORY = "tests/jobs/test_history_checks.py"

FAULTS = (
    Fault(
        "a topic that waits without a table has no offsets left",
        "spark_jobs/decode/plan.py",
        "    return TopicPlan(followed.name, _spans(followed.logs, found, published, replaces=False), waits=why)\n",
        "    return TopicPlan(followed.name, waits=why)\n",
        ("tests/jobs/test_decode.py", "-k", "waits_without_a_table"),
    ),
    Fault(
        "a built-in file comes before a reference of the registry",
        "spark_jobs/decode/protobuf/proto_schema.py",
        'f"-I{folder}", *built_in),',
        '*built_in, f"-I{folder}"),',
        (BUILT_IN, "-k", "comes_before and text"),
    ),
    Fault(
        "a property whose name no column can have becomes a column",
        "logcore/values/json/schema.py",
        "            check_name(name, place.path)",
        "            pass",
        ("tests/unit/logcore/values/json/test_json_values.py", "-k", "refused_by_name"),
    ),
    Fault(
        "a time with nine digits of a second is rounded",
        "logcore/values/json/shape.py",
        'int((fraction or "")[:_DIGITS_OF_MICROSECONDS].ljust(_DIGITS_OF_MICROSECONDS, "0"))',
        'round(float(f"0.{fraction or 0}") * 1_000_000)',
        ("tests/unit/logcore/values/json/test_json_values.py", "-k", "microseconds_are_cut"),
    ),
    Fault(
        "the frontier of a decoded table is not compared",
        "spark_jobs/lake/decoded/topic_tables.py",
        "                if found != guard.planned:",
        "                if False:",
        (DECODE, "-k", "same_plan"),
    ),
    Fault(
        "the newest rows are part of the history that they are compared with",
        "spark_jobs/expectations/row_history.py",
        "pc.greater_equal(published, ",
        "pc.greater(published, ",
        (HISTORY, "-k", "half_of_the_newest_rows"),
    ),
    Fault(
        "keys of a new kind are taken for numbers",
        "spark_jobs/expectations/key_kinds.py",
        "        (is_text, KeyKind.TEXT),",
        "        (is_text, KeyKind.FOUR_BYTES),",
        (HISTORY, "-k", "were_numbers_and_are_text"),
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
        "spark_jobs/decode/plan.py",
        "undecoded_from=start if plan.replaces else max(start, span.undecoded or 0)",
        "undecoded_from=start",
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
        "a changed policy is not noticed",
        "spark_jobs/decode/plan.py",
        "if not replaces and {each[POLICY] for each in recorded.values()} - {None, formats.digest}:",
        "if not replaces and formats is None:",
        (DECODE, "-k", "under_the_new_policy"),
    ),
    Fault(
        "rows that were published again are not decoded again",
        "spark_jobs/lake/decoded/records_history.py",
        "if any(path.startswith(folder) for path in commit.removed):",
        "if any(path == folder for path in commit.removed):",
        (DECODE, "-k", "is_decoded_again_or_waits"),
    ),
    Fault(
        "a task runs in the same way after its worker died",
        "spark_jobs/tasks/local/local_executor.py",
        "_Queued(work, second_try(tasks[at]), at)",
        "_Queued(work, tasks[at], at)",
        (LOCAL_EXECUTOR, "-k", "in_another_way"),
    ),
    Fault(
        "the row after the deadly one is given up",
        "spark_jobs/decode/decode_task.py",
        '(start, "key" if part else "value"))',
        '(start + 1, "key" if part else "value"))',
        (DEADLY, "-k", "anywhere"),
    ),
    Fault(
        "only one half is decoded after a death",
        "spark_jobs/decode/decode_task.py",
        "for half in (self._between(start, middle), self._between(middle, end))",
        "for half in (self._between(start, middle),)",
        (DEADLY, "-k", "anywhere"),
    ),
    Fault(
        "a row that was given up before a kill is decoded after it",
        "spark_jobs/decode/plan.py",
        "if plan.replaces or end <= start:",
        "if plan.replaces or end > start:",
        (DEADLY, "-k", "stays_given_up"),
    ),
    Fault(
        "a row that an earlier run decoded is given up",
        "spark_jobs/decode/decode_task.py",
        "(part is None and start < self.undecoded_from)",
        "(part is None and start < 0)",
        (DEADLY, "-k", "not_given_up"),
    ),
    Fault(
        "workers die without end",
        "spark_jobs/decode/deadly_rows.py",
        "if 0 < dying <= left:",
        "if 0 < dying:",
        ("tests/unit/spark_jobs/decode/test_deadly_rows.py", "-k", "bounded"),
    ),
    Fault(
        "the report does not say that a worker died",
        "spark_jobs/decode/job.py",
        "for task, result in zip(plan.tasks, results, strict=True) if result.was_plain]",
        "for task, result in zip(plan.tasks, results, strict=True) if result.stop]",
        (DEADLY, "-k", "says_what"),
    ),
    Fault(
        "a part of a replacement is committed",
        "spark_jobs/decode/job.py",
        "if plan.replaces and waits is not None:",
        "if not plan.replaces and waits is not None:",
        (DECODE, "-k", "replaces_nothing"),
    ),
    Fault(
        "changed bytes of a decoded table are not seen",
        "spark_jobs/lake_verification/decoded_tables/topic_verification.py",
        "if recorded is not None and recorded != row_digest.of_bytes(path):",
        "if recorded is None:",
        (VERIFY, "-k", "flip"),
    ),
    Fault(
        "a decoded table that is gone is not named",
        "spark_jobs/lake_verification/decoded_tables/topic_verification.py",
        "        if said.place.directory in known:\n",
        "        if False:\n",
        (VERIFY, "-k", "gone"),
    ),
    Fault(
        "a first decode that was killed counts as damage",
        "spark_jobs/lake_verification/decoded_tables/topic_verification.py",
        "        if said.place.directory in known:\n",
        "        if True:\n",
        (VERIFY, "-k", "killed"),
    ),
    Fault(
        "the id of another subject decodes",
        "logcore/values/registry/schemas.py",
        "if qualified(subject) not in self.subjects.get(name, frozenset()):",
        "if name not in self.subjects:",
        (SCHEMA_IDS, "-k", "two_schemas_share"),
    ),
    Fault(
        "the header that names a schema is not read",
        "spark_jobs/decode/split_rows.py",
        "decoder.decode(bodies, _named_in(batch, part), is_plain=is_plain)",
        "decoder.decode(bodies, None, is_plain=is_plain)",
        (SCHEMA_IDS, "-k", "the_header_names"),
    ),
    Fault(
        "a schema that changes a column is merged",
        "logcore/values/evolution/merged_type.py",
        "return MergedType(known, conflicts=(said,))",
        "return MergedType(known)",
        (SCHEMA_IDS, "-k", "stops_its_log"),
    ),
    Fault(
        "a log passes the row that waits",
        "spark_jobs/decode/job.py",
        "logs[log].span = replace(logs[log].span, end=stop.offset)",
        "pass",
        (SCHEMA_IDS, "-k", "many_tasks"),
    ),
    Fault(
        "a log that waits is decoded in each run",
        "spark_jobs/decode/plan.py",
        "if stop is not None:",
        "if stop is None:",
        (SCHEMA_IDS, "-k", "decodes_no_row"),
    ),
    Fault(
        "a log waits though the policy allows it to go on",
        "spark_jobs/decode/plan.py",
        "if tasks and whole.stops and not plan.replaces",
        "if tasks and not plan.replaces",
        (SCHEMA_IDS, "-k", "decodes_no_row"),
    ),
    Fault(
        "files that overlap at a schema are not noticed",
        "spark_jobs/decode/job.py",
        "if is_crossed or (result.stop is not None and task.has_overlaps):",
        "if is_crossed:",
        ("tests/unit/spark_jobs/decode/test_stopped_logs.py",),
    ),
    Fault(
        "a reference to the latest version has another one",
        "logcore/values/registry/schemas.py",
        "if version == LATEST and (subject, LATEST) not in self.versions:",
        "if version == LATEST:",
        ("tests/unit/spark_jobs/decode/test_registry_address.py", "-k", "latest"),
    ),
    Fault(
        "schemas that changed between two commits are not noticed",
        "spark_jobs/decode/plan.py",
        "recorded[UNDECODED][SCHEMAS] not in (None, recorded[DECODED][SCHEMAS])",
        "recorded[UNDECODED][SCHEMAS] is None",
        (SCHEMA_IDS, "-k", "between_two_commits"),
    ),
    Fault(
        "new fields do not become columns",
        "spark_jobs/lake/decoded/topic_tables.py",
        "if merged_type(known, wanted).added:",
        "if False:",
        (SCHEMA_IDS, "-k", "new_fields_become_columns"),
    ),
    Fault(
        "fields are aligned by place",
        "logcore/values/evolution/aligned.py",
        "aligned(values.field(there[field.name]), field.type)",
        "aligned(values.field(list(there).index(sorted(there)[0])), field.type)",
        (MERGED, "-k", "aligned_by_name"),
    ),
    Fault(
        "rows before the newest count as rows of another subject",
        "spark_jobs/lake/decoded/other_subjects.py",
        "last = max((time for time in times",
        "last = min((time for time in times",
        ("tests/jobs/test_other_subjects.py", "-k", "earlier_runs"),
    ),
    Fault(
        "rows that fail for another reason count as rows of another subject",
        "spark_jobs/lake/decoded/other_subjects.py",
        "pc.and_(is_newest, pc.equal(reason, pa.scalar(_REASON, reason.type)))",
        "is_newest",
        ("tests/jobs/test_other_subjects.py", "-k", "another_reason"),
    ),
)
