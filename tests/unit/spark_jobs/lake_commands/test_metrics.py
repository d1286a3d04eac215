"""`loglake metrics`: the figures are those of the lake, the text is valid, and the file is whole or as it was."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import lease
from spark_jobs.lake_commands import metrics as command
from spark_jobs.lake_commands.metrics import METRICS, MetricSample, as_text, lake_samples
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.conftest import REPOSITORY
from tests.in_process import without_spark
from tests.spark.cycle import Lake
from tests.unit.spark_jobs.lake_commands.exposition import Family, parse

Captured = pytest.CaptureFixture[str]
BEGAN_MS = 1_700_000_000_000
"""Timestamp of every batch that a test's partition gets."""


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orders-0: 30 records, and publishing stops at a damaged batch of offsets 10 to 14. payments-0: 8 records, then an
    open transaction of 4.
    """
    folder = tmp_path_factory.mktemp("metrics")
    source = LogDirectory(folder / "source")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    orders.append(5)
    segment = orders.segments()[0]
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 0xFF  # the last batch, offsets 10 to 14
    segment.write_bytes(damaged)
    orders.append(15)
    payments.append(8)
    payments.append(4, producer_id=9, producer_epoch=0, attributes=handmade.TRANSACTIONAL, base_sequence=0)
    source.high_watermarks(orders_0=30, payments_0=12)
    with without_spark():
        Lake(folder / "lake").turn(source.path)
    return folder


@pytest.fixture
def lake(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)  # a clone's own .loglake with lakes would be named on stderr
    return Path(shutil.copytree(made_once / "lake", tmp_path / "shop"))


def metrics(capsys: Captured, *arguments: str) -> tuple[int, dict[str, Family], str]:
    """Exit code, figures and errors."""
    capsys.readouterr()
    code = main(["metrics", *arguments])
    printed = capsys.readouterr()
    return code, parse(printed.out) if printed.out else {}, printed.err


def by_log(family: Family) -> Iterator[tuple[tuple[str, ...], float]]:
    for labels, value in family.samples.items():
        known = dict(labels)
        rest = [known[name] for name in ("severity", "kind") if name in known]
        yield (f"{known['topic']}-{known['partition']}", *rest), value


def test_the_figures_of_each_log_are_those_of_its_source(lake: Path, capsys: Captured, made_once: Path) -> None:
    code, found, _ = metrics(capsys, str(lake))
    assert code == 0
    assert dict(by_log(found["loglake_lag_offsets"])) == {("orders-0",): 20, ("payments-0",): 4}
    assert dict(by_log(found["loglake_published_records"])) == {("orders-0",): 10, ("payments-0",): 8}
    assert dict(by_log(found["loglake_log_end_offset"])) == {("orders-0",): 30, ("payments-0",): 12}
    assert dict(by_log(found["loglake_open_transactions"])) == {("orders-0",): 0, ("payments-0",): 1}
    sizes = {
        (name,): sum(file.stat().st_size for file in (made_once / "source" / name).glob("*.log"))
        for name in ("orders-0", "payments-0")
    }
    assert dict(by_log(found["loglake_archived_bytes"])) == sizes
    findings = dict(by_log(found["loglake_open_findings"]))
    assert findings["orders-0", "error"] >= 1
    assert findings["payments-0", "error"] == 0
    assert {severity for _, severity in findings} == {"info", "warning", "error"}
    problems = {dict(labels)["kind"]: value for labels, value in found["loglake_problems"].samples.items()}
    counted = {kind: value for kind, value in problems.items() if value}
    assert counted == {"damage": 1, "hanging-transaction": 1}
    assert problems.keys() == {
        "damage",
        "stopped",
        "unread-source",
        "failing",
        "missed-schedule",
        "hanging-transaction",
        "stale-table",
    }


def test_the_age_of_an_open_transaction_is_in_seconds(lake: Path) -> None:
    samples = lake_samples(str(lake), "shop", BEGAN_MS + 90_500)
    ages = {
        dict(each.labels)["topic"]: each.value
        for each in samples
        if each.metric == "loglake_oldest_open_transaction_age_seconds"
    }
    assert ages == {"orders": 0, "payments": 90.5}


def test_the_last_run_is_the_one_of_the_newest_commit(lake: Path, capsys: Captured) -> None:
    times = []
    for commit in lake.glob("tables/*/_delta_log/*.json"):
        for line in map(json.loads, commit.read_text().splitlines()):
            info = line.get("commitInfo", {})
            if "run-1" in info.get("userMetadata", ""):
                times.append(info["timestamp"])
    _, found, _ = metrics(capsys, str(lake))
    (newest,) = found["loglake_last_run_commit_timestamp_seconds"].samples.values()
    (took,) = found["loglake_last_run_commits_duration_seconds"].samples.values()
    assert newest == max(times) / 1000
    assert took == pytest.approx((max(times) - min(times)) / 1000)
    assert took > 0


def test_the_lease_is_held_only_while_a_process_works(lake: Path, capsys: Captured) -> None:
    def held() -> float:
        (value,) = metrics(capsys, str(lake))[1]["loglake_lease_held"].samples.values()
        return value

    assert held() == 0
    with lease.hold(str(lake), "run"):
        assert held() == 1
    assert held() == 0


def test_nothing_is_written_into_the_lake(lake: Path, capsys: Captured) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*"))
    metrics(capsys, str(lake))
    assert sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*")) == before


def test_the_file_is_replaced_whole_and_others_may_read_it(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "collector" / "loglake.prom"
    target.parent.mkdir()
    target.write_text("old\n")
    old = target.stat().st_ino
    assert metrics(capsys, str(lake), "-o", str(target))[0] == 0
    assert parse(target.read_text())["loglake_lake_up"].samples == {frozenset({("lake", "shop")}): 1}
    assert target.stat().st_ino != old
    assert target.stat().st_mode & stat.S_IRGRP
    assert os.listdir(target.parent) == ["loglake.prom"]


def test_a_file_that_cannot_be_written_is_one_line(lake: Path, capsys: Captured) -> None:
    code, _, errors = metrics(capsys, str(lake), "-o", "/proc/loglake.prom")
    assert code == 3
    assert errors.count("\n") == 1
    assert metrics(capsys, str(lake), "-o", "s3://bucket/loglake.prom")[0] == 64


def test_a_lake_that_cannot_be_read_is_down_and_the_others_follow(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    broken = Path(shutil.copytree(lake, tmp_path / "broken"))
    for commit in (broken / "tables" / "logs" / "_delta_log").glob("*.json"):
        commit.write_bytes(b"\xff")
    code, found, errors = metrics(capsys, str(broken), str(tmp_path / "none"), str(lake))
    assert code == 3
    assert errors.count("\n") == 2
    up = {dict(labels)["lake"]: value for labels, value in found["loglake_lake_up"].samples.items()}
    assert up == {"broken": 0, "none": 0, "shop": 1}
    assert {dict(labels)["lake"] for labels in found["loglake_lag_offsets"].samples} == {"shop"}


@pytest.mark.parametrize("harm", ["bytes", "time", "json"])
def test_one_damaged_commit_stops_only_the_figures_of_its_lake(
    lake: Path, tmp_path: Path, capsys: Captured, harm: str
) -> None:
    broken = Path(shutil.copytree(lake, tmp_path / "broken"))
    commit = max((broken / "tables" / "findings" / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    if harm == "time":
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = "planted-text"
        commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    else:
        commit.write_bytes(commit.read_bytes() + (b"\xff\n" if harm == "bytes" else b"[]\n"))
    code, found, errors = metrics(capsys, str(broken), str(lake))
    assert code == 3
    assert errors.count("\n") == 1
    assert "broken" in errors
    assert "planted" not in errors
    up = {dict(labels)["lake"]: value for labels, value in found["loglake_lake_up"].samples.items()}
    assert up == {"broken": 0, "shop": 1}


def test_an_unforeseen_error_of_a_lake_is_named_by_its_type_alone(
    lake: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(lake, tmp_path / "other"))
    read = command.read_state

    def failing(path: str) -> object:
        if path == str(other):
            raise RuntimeError("planted-text")
        return read(path)

    monkeypatch.setattr(command, "read_state", failing)
    code, found, errors = metrics(capsys, str(other), str(lake))
    assert code == 3
    assert "RuntimeError" in errors
    assert str(other) in errors
    assert "planted" not in errors
    assert {dict(labels)["lake"] for labels in found["loglake_lag_offsets"].samples} == {"shop"}


@pytest.mark.parametrize("place", ["segment", "new-in-source", "lake", "archive", "linked"])
def test_a_file_in_a_source_or_in_a_lake_is_refused_and_stays(
    lake: Path, tmp_path: Path, capsys: Captured, place: str
) -> None:
    source = LogDirectory(tmp_path / "source")
    source.partition("orders-0").append(3)
    registry.remember(str(lake), Intake(sources=(str(source.path),)))
    (segment,) = source.path.glob("orders-0/*.log")
    (tmp_path / "link").symlink_to(source.path / "orders-0")
    target = {
        "segment": segment,
        "new-in-source": source.path / "loglake.prom",
        "lake": lake / "loglake.prom",
        "archive": next(lake.glob("archive/**/*.log")),
        "linked": tmp_path / "link" / segment.name,
    }[place]
    before = target.read_bytes() if target.exists() else None
    for lakes in ([], [str(lake)]):
        code, _, errors = metrics(capsys, *lakes, "-o", str(target))
        assert (code, errors.count("\n")) == (64, 1)
    assert (target.read_bytes() if target.exists() else None) == before


def test_without_lakes_all_registered_ones_are_read(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    assert metrics(capsys)[0] == 64
    registry.register(str(lake))
    code, found, _ = metrics(capsys)
    assert code == 0
    assert found["loglake_lake_up"].samples == {frozenset({("lake", "shop")}): 1}
    (tmp_path / "home" / "registered" / "other.json").write_text("{")
    code, found, errors = metrics(capsys)
    assert code == 3
    assert "other.json" in errors
    assert found["loglake_lake_up"].samples == {frozenset({("lake", "shop")}): 1}


def test_two_lakes_with_one_name_have_their_paths(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    other = Path(shutil.copytree(lake, tmp_path / "elsewhere" / "shop"))
    code, found, _ = metrics(capsys, str(lake), str(other), str(lake))
    assert code == 0
    assert {dict(labels)["lake"] for labels in found["loglake_lake_up"].samples} == {str(lake), str(other)}


def test_labels_and_help_are_escaped() -> None:
    odd = 'a "quoted" \\ name\nof two lines'
    text = as_text({"m": "one\\two\nthree"}, [MetricSample("m", (("lake", odd),), 0.5)])
    assert parse(text)["m"].samples == {frozenset({("lake", odd)}): 0.5}
    assert text.startswith("# HELP m one\\\\two\\nthree\n# TYPE m gauge\nm{")


def test_two_values_of_one_series_are_refused() -> None:
    twice = [MetricSample("m", (), 1), MetricSample("m", (), 2)]
    with pytest.raises(ValueError, match="two values"):
        as_text({"m": "h"}, twice)


def test_every_metric_is_documented() -> None:
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    documented = re.findall(r"^\| `(loglake_\w+)` \|", page, re.MULTILINE)
    assert documented == list(METRICS)


def test_no_key_or_value_of_a_record_is_in_the_text(lake: Path, capsys: Captured) -> None:
    main(["metrics", str(lake)])
    text = capsys.readouterr().out
    assert re.search(r"\bk\d\b|\bv\d+\b", text) is None
