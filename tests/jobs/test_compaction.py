"""Compaction of the archive leaves what a broker would leave, and never touches unproven or unpublished offsets.

The tables of the lake show what was kept.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from logcore.records.record import read_records
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from spark_jobs import launch
from spark_jobs.compaction import compaction_job as compaction
from spark_jobs.compaction.log_cleaning import CleaningResult
from spark_jobs.contracts import CompactionConfig, JobReport, ReplaceConfig, ValidateConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.segments import archive
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.archived import Keyed, append_segment, archived_records, files, ledger, live, spans, tables
from tests.spark.cycle import AS_OF_MS, Lake

CUSTOMERS = 'topics: {"customers": {cleanup.policy: compact}}'
THIRD_TOPIC_ID, FOURTH_TOPIC_ID = "DDDDDDDDDDDDDDDDDDDDDA", "EEEEEEEEEEEEEEEEEEEEEA"


def rows_of(seed: int, count: int, keys: int) -> list[Keyed]:
    """Values, empty values and tombstones over a few keys, one of them empty."""
    rng = random.Random(seed)
    names = [b"", *(b"key-%d" % n for n in range(keys - 1))]
    return [(rng.choice(names), rng.choice([None, b"", b"value-%d" % n])) for n in range(count)]


def newest(rows: dict[int, Keyed], end: int) -> dict[int, Keyed]:
    """The oracle: of each key below ``end`` the last row; from there on all."""
    last = {key: offset for offset, (key, _) in rows.items() if offset < end}
    return {offset: rows[offset] for offset in sorted({*last.values(), *range(end, max(rows) + 1)})}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, dict[int, Keyed]]:
    """customers: segments [0, 40), [40, 60) of keys of their own, [60, 100), [100, 110) active; published up to 105."""
    folder = tmp_path_factory.mktemp("compaction")
    source = LogDirectory(folder / "source")
    customers = source.partition("customers-0")
    append_segment(customers, rows_of(1, 40, 9), 1_700_000_001_000, per_batch=8)
    append_segment(customers, [(b"once-%d" % n, b"v") for n in range(20)], 1_700_000_002_000)
    append_segment(customers, rows_of(2, 40, 9), 1_700_000_003_000, per_batch=8)
    append_segment(customers, rows_of(3, 10, 9), 1_700_000_004_000)
    ledgers = source.partition("ledgers-0", OTHER_TOPIC_ID)
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    ledgers.append(10, **transactional)
    ledgers.marker(7, handmade.COMMIT)
    append_segment(ledgers, [(b"k", b"v")], 1_700_000_004_000)
    keyless = source.partition("keyless-0", THIRD_TOPIC_ID)
    append_segment(keyless, [(b"k", b"1"), (None, b"2"), (b"k", b"3")], 1_700_000_001_000)
    append_segment(keyless, [(b"k", b"4")], 1_700_000_004_000)
    free = source.partition("free-0", FOURTH_TOPIC_ID)
    append_segment(free, [(b"k", b"v")] * 10, 1_700_000_001_000)
    append_segment(free, [(b"k", b"v")], 1_700_000_001_000)
    source.high_watermarks(customers_0=105, ledgers_0=12, keyless_0=4, free_0=11)
    lake = Lake(folder / "lake")
    lake.turn(source.path)
    return lake, customers.rows


@pytest.fixture
def rows(built: tuple[Lake, dict[int, Keyed]]) -> dict[int, Keyed]:
    return built[1]


@pytest.fixture
def lake(built: tuple[Lake, dict[int, Keyed]], tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(built[0].path, tmp_path / "lake")))


def compact(lake: Lake, policies: str, *, apply: bool = True) -> JobReport:
    path = lake.path.parent / "policies.yaml"
    path.write_text(policies)
    config = CompactionConfig(str(lake.path), "compact", AS_OF_MS, read_policies(str(path)), apply=apply)
    return launch.run(config)


def test_a_dry_run_names_the_dirty_logs_starts_no_spark_and_changes_nothing(lake):
    before = files(lake.path / "tables")
    report = compact(lake, CUSTOMERS, apply=False)
    assert not report.used_executor
    [log] = report.plan.logs
    assert (log.topic_partition, log.first_dirty, log.end_offset, log.dirty_ratio) == (
        "customers-0",
        0,
        100,
        1.0,
    )
    assert files(lake.path / "tables") == before


def test_the_newest_record_of_each_key_stays_and_the_tables_say_what_left(lake, rows):
    published, archive = lake.published("customers"), files(lake.path / "archive")
    expected = newest(rows, 100)
    assert any(value is None for _, value in expected.values()), "a tombstone must be among the newest"
    report = compact(lake, CUSTOMERS)
    assert archived_records(lake, "customers") == expected
    assert spans(lake, "customers") == [(0, 100), (100, 110)]
    assert [row["generation"] for row in live(lake, "customers")] == [1, 0]
    kept = [sum(start <= offset < end for offset in expected) for start, end in ((0, 40), (40, 60), (60, 100))]
    assert ledger(lake, "customers") == [
        (0, 40, "present", 40, 0, "compacted-away"),
        (40, 60, "present", 20, 0, "held"),
        (60, 100, "present", 40, 0, "compacted-away"),
        (100, 105, "present", 5, 0, "held"),
        (105, 110, "open", 5, 0, "held"),
    ]
    actions = lake.rows("log_actions")
    assert {(a["action"], a["rule"], a["records_before"], a["records_after"]) for a in actions} == {
        ("compaction", "cleanup.policy", 40, kept[0]),
        ("compaction", "cleanup.policy", 20, 20),
        ("compaction", "cleanup.policy", 40, kept[2]),
    }
    assert all("with 2 other segments" in a["reason"] for a in actions)
    assert sum(a["bytes_after"] for a in actions) == live(lake, "customers")[0]["size"]
    assert report.metrics["removed_records"] == 80 - kept[0] - kept[2]
    replaced = {row["replaced_by"] for row in lake.rows("segments") if row["retired_ms"] is not None}
    [new] = [row["segment_id"] for row in live(lake, "customers") if row["generation"] == 1]
    assert replaced == {new}
    verdicts = {v["segment_id"]: (v["verdict"], v["records"]) for v in lake.rows("validations")}
    assert verdicts[new] == ("clean", sum(kept))
    assert lake.published("customers") == published
    after = files(lake.path / "archive")
    assert {name: after[name] for name in archive} == archive, "replaced files stay"
    assert sorted(Path(name).name for name in after.keys() - archive.keys()) == [
        f"00000000000000000000.{new}.index",
        f"00000000000000000000.{new}.log",
        f"00000000000000000000.{new}.timeindex",
    ]


@pytest.mark.parametrize("lost", [("offset_ledger",), ("offset_ledger", "validations", "batches")])
def test_a_lost_ledger_that_is_made_again_says_of_what_was_cleaned_what_it_said(lake, lost):
    compact(lake, CUSTOMERS)
    before, records = ledger(lake, "customers"), lake.published("customers")
    for name in lost:
        shutil.rmtree(lake.path / "tables" / name)
    launch.run(ValidateConfig(str(lake.path), "again", AS_OF_MS))
    assert ledger(lake, "customers") == before
    launch.run(ReplaceConfig(str(lake.path), "again", AS_OF_MS))
    assert ledger(lake, "customers") == before
    assert lake.published("customers") == records


def test_a_second_run_finds_it_clean(lake):
    compact(lake, CUSTOMERS)
    versions = lake.versions()
    report = compact(lake, CUSTOMERS)
    assert not report.used_executor
    assert report.plan.logs == ()
    assert report.plan.passed[0].topic_partition == "customers-0"
    assert lake.versions() == versions


def test_a_transactional_log_is_cleaned_and_its_marker_stays_while_data_of_it_is_there(lake):
    report = compact(lake, "topics: {ledgers: {cleanup.policy: compact}}")
    assert report.findings == ()
    kept = archived_records(lake, "ledgers")
    assert sorted(kept) == [3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert kept[10][0] == b"\0\0\0\1", "the COMMIT marker"
    assert len(lake.published("ledgers")) == 11


def test_records_without_a_key_leave_as_they_leave_a_broker(lake):
    compact(lake, "topics: {keyless: {cleanup.policy: compact}}")
    assert archived_records(lake, "keyless") == {2: (b"k", b"3"), 3: (b"k", b"4")}
    assert spans(lake, "keyless") == [(0, 3), (3, 4)]


def test_without_a_policy_to_compact_nothing_changes(lake):
    versions = lake.versions()
    compact(lake, "topics: {customers: {cleanup.policy: delete}}")
    compact(lake, "")
    assert lake.versions() == versions


def test_what_is_too_young_or_not_dirty_enough_is_left_alone(lake):
    young = f"topics: {{customers: {{cleanup.policy: compact, min.compaction.lag.ms: {AS_OF_MS}}}}}"
    assert compact(lake, young).plan.logs == ()
    clean = 'topics: {customers: {cleanup.policy: compact, min.cleanable.dirty.ratio: "1"}}'
    assert compact(lake, clean).plan.logs == ()


def test_what_is_dirty_for_longer_than_its_lag_is_cleaned_however_little_it_is(lake):
    policy = (
        'topics: {{customers: {{cleanup.policy: compact, min.cleanable.dirty.ratio: "1", max.compaction.lag.ms: {}}}}}'
    )
    oldest = 1_700_000_001_000
    assert compact(lake, policy.format(AS_OF_MS - oldest), apply=False).plan.logs == ()
    assert len(compact(lake, policy.format(AS_OF_MS - oldest - 1), apply=False).plan.logs) == 1


@pytest.mark.parametrize("dies_in", ["validations", "swap", "ledger", "log_actions"])
def test_a_run_that_died_is_completed_by_the_next_to_the_same_tables(lake, rows, monkeypatch, dies_in):
    undisturbed = Lake(Path(shutil.copytree(lake.path, lake.path.parent / "undisturbed")))
    compact(undisturbed, CUSTOMERS)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    targets = {
        "validations": (compaction, "_commit_validations"),
        "swap": (compaction, "_swap"),
        "ledger": (compaction.removals.frontier, "commit_ledger"),
        "log_actions": (compaction.removals.log_actions.commits, "append"),
    }
    with monkeypatch.context() as patch:
        if dies_in == "log_actions":
            real = commits.append

            def die_at_actions(lake: str, name: str, *rest: object, **more: object) -> None:
                if name == "log_actions":
                    raise KeyboardInterrupt
                real(lake, name, *rest, **more)

            patch.setattr(commits, "append", die_at_actions)
        else:
            patch.setattr(*targets[dies_in], die)
        with pytest.raises(KeyboardInterrupt):
            compact(lake, CUSTOMERS)
    compact(lake, CUSTOMERS)
    assert archived_records(lake, "customers") == newest(rows, 100)
    names = ("segments", "validations", "offset_ledger", "log_actions", "records", "findings")
    assert tables(lake, *names) == tables(undisturbed, *names)
    assert files(lake.path / "archive") == files(undisturbed.path / "archive")


def test_only_published_segments_are_cleaned_and_a_log_that_grew_is_cleaned_again(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    customers = source.partition("customers-0")
    for seed in range(4):
        append_segment(customers, rows_of(seed, 20, 5), 1_700_000_001_000)
    source.high_watermarks(customers_0=50)
    lake.turn(source.path)
    compact(lake, CUSTOMERS)
    assert archived_records(lake, "customers") == newest(customers.rows, 40)
    assert [row["generation"] for row in live(lake, "customers")] == [1, 0, 0]
    assert spans(lake, "customers") == [(0, 40), (40, 60), (60, 80)]

    append_segment(customers, rows_of(4, 5, 5), 1_700_000_005_000)
    source.high_watermarks(customers_0=85)
    lake.turn(source.path)
    assert lake.published("customers") == customers.rows
    compact(lake, CUSTOMERS)
    assert archived_records(lake, "customers") == newest(customers.rows, 80)
    assert spans(lake, "customers") == [(0, 80), (80, 85)]
    assert [row["generation"] for row in live(lake, "customers")] == [2, 0]
    assert {r["archived"] for r in lake.rows("offset_ledger") if r["end_offset"] <= 80} == {"compacted-away"}
    assert lake.published("customers") == customers.rows


def test_what_is_validated_and_not_published_yet_is_not_cleaned(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    customers = source.partition("customers-0")
    for turn in range(2):
        for seed in range(2):
            append_segment(customers, rows_of(2 * turn + seed, 20, 5), 1_700_000_001_000)
        source.high_watermarks(customers_0=40 * (turn + 1))
        lake.turn(source.path, publish=turn == 0)
    compact(lake, CUSTOMERS)
    assert archived_records(lake, "customers") == newest(customers.rows, 40)
    assert spans(lake, "customers") == [(0, 40), (40, 60), (60, 80)]
    lake.turn(source.path)
    assert lake.published("customers") == customers.rows


DAMAGED = """
topics:
  customers: {cleanup.policy: compact, segment.bytes: 14, salvage: permissive, delete.retention.ms: 0}
"""


def test_a_damaged_segment_stays_with_a_finding_the_others_are_cleaned_and_the_checkpoint_waits(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    customers = source.partition("customers-0")
    for seed in range(4):
        append_segment(customers, rows_of(seed, 20, 5), 1_700_000_001_000)
    damaged = customers.segments()[1]
    damaged.write_bytes(handmade.flip(damaged.read_bytes(), 80))
    source.high_watermarks(customers_0=80)
    policies = tmp_path / "policies.yaml"
    policies.write_text(DAMAGED)
    lake.turn(source.path, policies=str(policies))
    before = {row["base_offset"]: row for row in live(lake, "customers")}
    report = compact(lake, DAMAGED)
    after = {row["base_offset"]: row for row in live(lake, "customers")}
    assert after[20] == before[20]
    assert [base for base in after if after[base]["generation"]] == [0, 40]
    [placed] = [f for f in report.findings if f.finding.rule == "compaction-refused"]
    assert (placed.segment_id, placed.finding.file) == (before[20]["segment_id"], before[20]["path"])
    assert "base offset 20" in placed.finding.message
    table = DeltaTable(str(lake.path / "tables" / "segments"))
    assert table.transaction_version(f"cleaned/{before[0]['log']}") == 20
    tombstones = {o for o, (_, value) in customers.rows.items() if value is None and 40 <= o < 60}
    assert tombstones <= set(archived_records_of(lake, after[40])), "nothing behind damage is garbage"
    versions = lake.versions()
    assert not compact(lake, DAMAGED).used_executor
    assert lake.versions() == versions


def test_a_log_that_was_touched_since_its_plan_is_planned_again_and_the_other_is_not_held_up(lake, rows, monkeypatch):
    real, overtaken = compaction._commit_swap, []

    def overtake(config: CompactionConfig, logs: list[compaction.Cleaned]) -> None:
        if not overtaken:
            overtaken.append(logs[0].plan.row.log)
            touched = archive.guard_of(overtaken[0], logs[0].plan.version)
            commits.add_files(config.lake, "segments", [], "other", [touched])
        real(config, logs)

    monkeypatch.setattr(compaction, "_commit_swap", overtake)
    report = compact(lake, 'topics: {"[ck]*": {cleanup.policy: compact}}')
    assert len(overtaken) == 1
    assert archived_records(lake, "customers") == newest(rows, 100)
    assert archived_records(lake, "keyless") == {2: (b"k", b"3"), 3: (b"k", b"4")}
    assert report.metrics["cleaned_logs"] == 1, "only the one that was touched was cleaned twice"


def test_what_cannot_be_proven_is_not_swapped(lake, monkeypatch):
    before = live(lake, "customers")
    result = CleaningResult(unproven="offset 7 is gone")
    monkeypatch.setattr(launch, "start_executor", lambda *_: SimpleNamespace(run=lambda *_: [result]))
    report = compact(lake, CUSTOMERS)
    assert live(lake, "customers") == before
    assert [(f.finding.rule, f.finding.severity) for f in report.findings] == [("compaction-unproven", "error")]


def archived_records_of(lake: Lake, row: dict[str, object]) -> list[int]:
    data = (lake.path / str(row["path"])).read_bytes()
    walk = SegmentScan(data, base_offset=int(str(row["base_offset"])), sealed=True)
    return [
        r.offset
        for item in walk
        if isinstance(item, ScannedBatch)
        for r in read_records(data, item.position, item.header)
    ]
