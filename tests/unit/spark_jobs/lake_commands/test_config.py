"""``loglake config``: what a policies file means, before a run uses it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
import yaml

from logcore.cli.main import main
from spark_jobs.policies.policy_values import SIZES, TIMES, WholeNumber
from tests.broker_directory import LogDirectory

GOOD = """
lake:
  ingest: every 5 min
  nightly: apply
topics:
  "orders-*":
    cleanup.policy: compact,delete
    retention.ms: 7d
    segment.bytes: 64MiB
    compat: 4.0
  clicks:
    salvage: permissive
"""


def written(folder: Path, text: str) -> str:
    path = folder / "p.yaml"
    path.write_text(text)
    return str(path)


def test_a_good_file_is_shown_as_it_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", written(tmp_path, GOOD)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "lake  ingest = every 5min",
        "lake  nightly = apply",
        "lake  defaults: engine = auto, cluster = follow, expectations.rows = 1000000000",
        "topics matching orders-*",
        "  cleanup.policy = compact,delete",
        "  retention.ms = 7d",
        "  segment.bytes = 64 MiB",
        "  compat = 4.0",
        "topics matching clicks",
        "  cleanup.policy = none: nothing is removed from the archive",
        "  salvage = permissive",
    ]


def test_a_webhook_whose_variable_is_not_set_is_a_note_and_no_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "lake: {alerts.webhook: 'env:LOGLAKE_TEST_HOOK'}")
    for value, notes in (("", 1), ("http://127.0.0.1:1/token", 0)):
        monkeypatch.setenv("LOGLAKE_TEST_HOOK", value)
        assert main(["config", "check", file]) == 0
        said = capsys.readouterr().err
        assert said.count("environment variable LOGLAKE_TEST_HOOK, which is not set here") == notes
        assert "token" not in said


def test_numbers_have_units_and_the_greatest_is_unlimited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """topics:
  a:
    cleanup.policy: compact,delete
    retention.ms: 5400000
    retention.bytes: 1073741824
    segment.bytes: 5000
    min.compaction.lag.ms: 1234
    delete.retention.ms: 0
    max.compaction.lag.ms: 9223372036854775806
    index.interval.bytes: 8192
"""
    assert main(["config", "check", written(tmp_path, text)]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for line in (
        "retention.ms = 90min",
        "retention.bytes = 1 GiB",
        "segment.bytes = 5000",
        "min.compaction.lag.ms = 1234ms",
        "delete.retention.ms = 0",
        "max.compaction.lag.ms = 9223372036854775806ms",
        "index.interval.bytes = 8 KiB",
    ):
        assert line in shown
    unlimited = text.replace("1073741824", "-1").replace("9223372036854775806", "9223372036854775807")
    assert main(["config", "check", written(tmp_path, unlimited)]) == 0
    assert "9223372036854775807" not in capsys.readouterr().out


def test_a_number_as_it_is_shown_is_read_as_the_same_number() -> None:
    drawn = random.Random(34)
    for units in (TIMES, SIZES):
        values = WholeNumber(0, units=units)
        for _ in range(1000):
            number = drawn.randrange(0, 5000) * drawn.choice([1, 7, *(factor for _, factor in units)])
            assert values.parse(values.text(number)) == number


def test_five_mistakes_are_five_lines_and_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """topics:
  a:
    cleanup.policy: purge
    retention.ms: 7 days
    segment.byte: 5
  b:
    retention.ms: 1
lake:
  nightly: aply
"""
    assert main(["config", "check", written(tmp_path, text)]) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.partition("line ")[2].split(":")[0] for line in lines] == [
        "3, column 21",
        "4, column 19",
        "5, column 5",
        "6, column 3",
        "9, column 12",
    ]
    assert "did you mean segment.bytes?" in lines[2]


def test_schemas_and_suites_that_a_run_could_not_use_are_named_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.avsc").write_text('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    (tmp_path / "cut.avsc").write_text('{"type": "record"')
    (tmp_path / "order.proto").write_text('syntax = "proto3"; message Order { int32 a = 1; }')
    (tmp_path / "empty.json").write_text('{"expectations": []}')
    text = """topics:
  good:
    decode.value: avro
    decode.value.schema: good.avsc
  gone:
    decode.value: json
    decode.value.schema: nope.json
  cut:
    decode.key: avro
    decode.key.schema: cut.avsc
  none:
    decode.value: avro
  other:
    decode.value: protobuf
    decode.value.schema: order.proto
    decode.value.message: Other
  suites:
    expectations.suite: nope-suite.json
    decode.expectations.suite: empty.json
"""
    assert main(["config", "check", written(tmp_path, text)]) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.partition("line ")[2].split(":")[0] for line in lines] == ["7", "10", "12", "15", "18", "19"]
    for line, named in zip(
        lines, ("nope.json", "cut.avsc", "avro", "Other", "nope-suite.json", "empty.json"), strict=True
    ):
        assert named in line
    source = LogDirectory(tmp_path / "source")
    source.partition("orders-0").append(5)
    for command in ("run", "watch"):  # refused before anything is made
        words = [command, str(source.path), "--lake", str(tmp_path / "lake")]
        assert main([*words, "--policies", str(tmp_path / "p.yaml")]) == 64
        assert [line.partition("line ")[2] for line in capsys.readouterr().err.splitlines() if "line " in line] == [
            line.partition("line ")[2] for line in lines
        ]
        assert not (tmp_path / "lake").exists()


def test_an_empty_file_removes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", written(tmp_path, "# nothing\n")]) == 0
    assert "nothing is removed" in capsys.readouterr().out


def test_the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(yaml.safe_load(GOOD))) == []
    for wrong in (
        "topic: {}",
        "topics: {a: {retention.hours: 1}}",
        "topics: {a: {retention.ms: 7MiB}}",
        "topics: {a: {cleanup.policy: purge}}",
        "topics: {a: {segment.bytes: 13}}",
        "lake: {ingest: sometimes}",
        "lake: {nightly: always}",
    ):
        assert list(validator.iter_errors(yaml.safe_load(wrong))), wrong


def test_a_lake_that_is_not_there_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", written(tmp_path, GOOD), "--lake", str(tmp_path / "none")]) == 64
    assert "no lake" in capsys.readouterr().err
