"""Faults about lakes with very many segments and partitions."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

FAULTS = (
    Fault(
        "a plan asks the store for the side files of each segment",
        "spark_jobs/rebuild_indexes/job.py",
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
        "the row of a copied event has the partition of the first",
        "pipelines/event_log/repeated_events.py",
        '"event": "".join(parts), "partition": event.key}',
        '"event": "".join(parts)}',
        ("tests/dagster/test_many_changed_keys.py", "-k", "as_dagster_stores_them"),
    ),
    Fault(
        "a retired segment's files are all files of its folder",
        "spark_jobs/lake/segments/archive.py",
        'return folder if named is None else f"{folder}/{named[1]}"',
        "return folder",
        ("tests/jobs/test_tidy_archive.py", "tests/unit/spark_jobs/lake/segments/test_archive_paths.py"),
    ),
    Fault(
        "segments are merged in a lake of an older layout",
        "spark_jobs/tidy_archive/job.py",
        "    identity.upgrade(lake)  # before segments share a folder\n",
        "",
        ("tests/jobs/test_tidy_archive.py", "-k", "layout_2"),
    ),
)
