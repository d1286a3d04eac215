"""``loglake config``: what a policies file means, before a run uses it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from logcore.cli.main import main

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
        "lake  ingest = 300000",
        "lake  nightly = apply",
        "lake  verify = weekly  (default)",
        "lake  engine = auto  (default)",
        "lake  cluster = follow  (default)",
        "lake  alerts.webhook = not set  (default)",
        "lake  alerts.max.lag = not set  (default)",
        "lake  remote = not set  (default)",
        "topics matching orders-*",
        "  cleanup.policy = compact,delete",
        "  retention.ms = 604800000",
        "  segment.bytes = 67108864",
        "  compat = 4.0",
        "topics matching clicks",
        "  cleanup.policy = none: nothing is removed",
        "  salvage = permissive",
    ]


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
