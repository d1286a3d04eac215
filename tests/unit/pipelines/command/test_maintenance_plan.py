"""What a person reads of a plan of maintenance: what is done, how much, and why. The plans are those of real jobs."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from pipelines.command.summary import described_plan
from spark_jobs import launch
from spark_jobs.contracts import CONFIGS
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.outlines import (
    CompactionOutline,
    DoubtedLog,
    IndexesOutline,
    Kept,
    KeptFiles,
    KeptLog,
    LakeFiles,
    LeftTable,
    Mergeable,
    MergeOutline,
    NotCleaned,
    OptimizeOutline,
    Outline,
    RetentionOutline,
    Skipped,
    TidyOutline,
    UnfinishedOutline,
    UnusedFiles,
)
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.spark.cycle import Lake

BEGAN_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Outline], dict[str, str]]:
    """The plans of three logs, of three segments with ten records each, nine days after their records were written."""
    folder = tmp_path_factory.mktemp("maintenance-plan")
    source = LogDirectory(folder / "source")
    for name in ("old-0", "large-0", "keyed-0"):
        log = source.partition(name)
        for _ in range(3):
            log.roll()
            log.append(10)
    source.high_watermarks(old_0=30, large_0=30, keyed_0=30)
    (folder / "policies.yaml").write_text(
        "topics:\n  old:\n    cleanup.policy: delete\n    retention.ms: 7d\n"
        "  large:\n    cleanup.policy: delete\n    retention.bytes: 300\n"
        "  keyed:\n    cleanup.policy: compact\n"
    )
    lake = str(folder / "lake")
    with without_spark():
        Lake(folder / "lake").turn(source.path)
    made = {}
    for job in ("retention", "compaction", "tidy_archive", "rebuild_indexes", "optimize"):
        stated = {"policies": read_policies(str(folder / "policies.yaml"))}
        known = {field.name for field in dataclasses.fields(CONFIGS[job])}
        config = CONFIGS[job](lake, "run", BEGAN_MS + 9 * DAY_MS, **{k: v for k, v in stated.items() if k in known})
        made[job] = launch.plan(config).outline
    return made, {log: row.topic_partition for log, row in read_logs(lake).items()}


def test_retention_says_how_much_goes_with_units_and_why_the_first_one_stays(plans: Any) -> None:
    lines = sorted(described_plan(plans[0]["retention"], plans[1]))
    assert [re.sub(r"\d+(?= (B|bytes)\b)", "N", line) for line in lines] == [
        "large-0: delete 1 segment, N B, below offset 10. The last one: without it the log still has N bytes, and "
        "retention.bytes is N bytes. The segment at offset 10 stays: without it the log would have N bytes, and "
        "retention.bytes is N bytes",
        "old-0: delete 3 segments, N B, below offset 30. The last one: its latest record is 777600000 ms (9.0 days) "
        "old, and retention.ms is 604800000 ms (7.0 days). No segment stays",
    ]


def test_compaction_says_which_offsets_are_not_compacted_yet(plans: Any) -> None:
    [line] = described_plan(plans[0]["compaction"], plans[1])
    assert re.fullmatch(r"keyed-0: compact 2 segments, \d+ B; not compacted yet: \[0, 20\), 100% of the bytes", line), (
        line
    )


def test_rebuilding_says_what_is_written_and_names_no_segment_twice(plans: Any) -> None:
    lines = sorted(described_plan(plans[0]["rebuild_indexes"], plans[1]))
    assert [line.partition(" of ")[0] for line in lines] == [
        f"{name}-0: write the missing index files" for name in ("keyed", "large", "old")
    ]


def test_jobs_without_work_have_no_line(plans: Any) -> None:
    assert [described_plan(plans[0][job], plans[1]) for job in ("tidy_archive", "optimize")] == [[], []]


def test_every_entry_of_a_plan_is_a_sentence() -> None:
    kept = tuple(Kept("A.0/0", base, "", "a run reads them") for base in (0, 5))
    outlines = (
        RetentionOutline(
            nothing_due=(KeptLog("A.0/0", "orders-1", 5, ("it is the last segment and empty",)),),
            unfinished=UnfinishedOutline(("a",), ("b", "c")),
            in_doubt=(DoubtedLog("B.0/0", "orders-0", "the metadata ends early"),),
        ),
        CompactionOutline(passed=(NotCleaned("B.0/0", "orders-0", "no whole segment at or above offset 0"),)),
        TidyOutline(LakeFiles(1, 10, (), 1), KeptFiles(2, kept), LakeFiles(2, 20), Mergeable(1, 30)),
        IndexesOutline(skipped=(Skipped("A.0/0", 7, "it is damaged"),)),
        OptimizeOutline(
            (MergeOutline(table="records", files=2, into=1, bytes=40, rows=5),) * 25,
            (LeftTable("decoded/orders", "its Delta log is damaged"),),
            UnusedFiles(3, 50, 7 * DAY_MS),
            {"records": 4, "segments": 5},
        ),
    )
    said = [line for outline in outlines for line in described_plan(outline, {"A.0/0": "orders-1"})]
    merges = [line for line in said if line.startswith("table records")]
    assert merges == ["table records: merge 2 files into 1 (40 B, 5 rows)"] * 20
    assert [line for line in said if line not in merges] == [
        "orders-1: nothing is deleted. The segment at offset 5 stays: it is the last segment and empty",
        "finish what a stopped run began: 1 retired segment and 2 ledgers",
        "orders-0: nothing is deleted, because its settings are in doubt: the metadata ends early",
        "orders-0: is not compacted: no whole segment at or above offset 0",
        "delete the archived files of retired segments: 1 file, 10 B",
        "keep the files of 2 retired segments: a run reads them",
        "delete files of the archive that belong to no segment: 2 files, 20 B",
        "join the slices of 1 segment, 30 B",
        "orders-1: the segment at offset 7 gets no index files: it is damaged",
        "and 5 more",
        "table decoded/orders: its files stay as they are: its Delta log is damaged",
        "delete files of tables, unused for 7 days: 3 files, 50 B",
        "write checkpoints of the tables records, segments",
    ]
