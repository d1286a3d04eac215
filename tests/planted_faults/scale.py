"""Faults about lakes with very many segments and partitions."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

HISTORY = "tests/jobs/test_segment_history.py"

FAULTS = (
    Fault(
        "a plan asks the store for the side files of each segment",
        "spark_jobs/rebuild_indexes/rebuild_indexes_job.py",
        "if not all(side_file(s.path, suffix) in there for suffix in INDEXES)",
        "if not all(storage.exists(side_file(s.local_path(lake), suffix)) for suffix in INDEXES)",
        ("tests/object_store/test_requests.py", "-k", "no_plan_makes_a_request"),
    ),
    Fault(
        "a commit asks the store for each file",
        "spark_jobs/lake/delta/commits.py",
        "if not storage.is_remote(lake):\n        try",
        "if lake:\n        try",
        ("tests/object_store/test_commits.py", "-k", "request_for_each_file"),
    ),
    Fault(
        "a deletion of many objects takes newer ones too",
        "spark_jobs/lake/store/deletion.py",
        "if path in placed and placed[path] <= placed_before_ms]",
        "if path in placed]",
        ("tests/object_store/test_requests.py", "-k", "many_files_are_deleted"),
    ),
    Fault(
        "topic partitions that wait for their report are lost with the next run",
        "spark_jobs/lake/view/dagster_reports.py",
        "dict.fromkeys([*still, *new])",
        "dict.fromkeys(new)",
        ("tests/dagster/test_command_line_reports.py", "-k", "next_run"),
    ),
    Fault(
        "a retired segment's files are all files of its folder",
        "spark_jobs/lake/segments/archive.py",
        'return folder if named is None else f"{folder}/{named[1]}"',
        "return folder",
        ("tests/jobs/tidy_archive", "tests/unit/spark_jobs/lake/segments/test_archive_paths.py"),
    ),
    Fault(
        "a swap writes rows of joined slices beside live ones",
        "spark_jobs/lake/table_specs.py",
        '        separated_by="retired_because",\n',
        "",
        (HISTORY,),
    ),
    Fault(
        "a plan opens files of joined slices",
        "spark_jobs/lake/delta/tables/snapshots.py",
        "        others = [field.is_null() | (field < each) | (field > each) for each in value]\n",
        "        others = [~field.isin(pa.array(value, spec.schema.field(column).type))]\n",
        (HISTORY, "-k", "plans_of_a_run"),
    ),
    Fault(
        "a merge mixes rows that are separated",
        "spark_jobs/optimize/file_runs.py",
        "pure.setdefault(file.only(separated_by), []).append(file)",
        "pure.setdefault(None, []).append(file)",
        ("tests/unit/spark_jobs/optimize/test_file_runs.py",),
    ),
    Fault(
        "a mixed file stays mixed",
        "spark_jobs/optimize/optimize_job.py",
        "        separated_by=merge.separated_by,\n",
        "",
        (HISTORY, "-k", "separated_once"),
    ),
    Fault(
        "files of statistics that a user chose are rewritten each night",
        "spark_jobs/lake/delta/tables/table_creation.py",
        '    return column if stated is None or column in stated.split(",") else None\n',
        "    return column\n",
        (HISTORY, "-k", "without_statistics_of_the_reason"),
    ),
    Fault(
        "a look for work goes on with tables of an earlier round",
        "spark_jobs/lake/delta/tables/snapshots.py",
        "    forget_snapshots(lake)\n    token",
        "    token",
        ("tests/jobs/test_watch.py", "-k", "damaged_since"),
    ),
    Fault(
        "a look for work opens tables that are not there",
        "spark_jobs/lake/delta/tables/snapshots.py",
        "            refuse_half_swapped(lake, name)\n            return None\n    table",
        "            before = ()\n    table",
        ("tests/jobs/test_watch.py", "-k", "opens_each_table_once"),
    ),
    Fault(
        "a look for work lists the log of a table again",
        "spark_jobs/lake/delta/tables/snapshots.py",
        "        pinned.tables[uri] = _latest(lake, name, uri)\n",
        "        return _latest(lake, name, uri)\n",
        ("tests/object_store/test_requests.py", "-k", "reads_nothing_twice"),
    ),
    Fault(
        "a look for work reads rows again",
        "spark_jobs/lake/delta/tables/snapshots.py",
        "            kept[key] = rows\n",
        "            pass\n",
        ("tests/object_store/test_requests.py", "-k", "reads_nothing_twice"),
    ),
    Fault(
        "the latest commit of an earlier table is taken for this one's",
        "spark_jobs/lake/delta/tables/delta_log.py",
        "    if newest < 0 or not os.path.lexists(commit_file(lake, name, newest)):\n",
        "    if newest < 0:\n",
        ("tests/unit/spark_jobs/lake/delta/tables/test_shared_tables.py", "-k", "newest_commit"),
    ),
    Fault(
        "growth looks for its ids in all joined slices",
        "spark_jobs/lake/segments/archive.py",
        '        ("base_offset", "in", sorted({segment.base_offset for segment in segments})),\n',
        "",
        (HISTORY, "-k", "plans_of_a_run"),
    ),
)
