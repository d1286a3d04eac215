"""A broker goes on where an earlier one on the same folder stopped, and what fills benchmarks comes out alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka


@pytest.mark.long
def test_a_second_start_serves_what_the_first_was_given(kafka: None, tmp_path: Path):
    with Broker(tmp_path / "broker") as broker:
        said = json.loads(broker.run("ProduceMany", "filled", "lz4", "small", "2", "30000"))
    with Broker(tmp_path / "broker", timed=True) as broker:
        broker.run("Consume", "read_committed", str(tmp_path / "consumed.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "consumed.jsonl").read_text().splitlines()]
    records = [line for line in lines if line.get("topic") == "filled"]
    assert len(records) == said["records"] > 300
    for partition in (0, 1):
        offsets = [line["offset"] for line in records if line["partition"] == partition]
        assert offsets == list(range(said["records"] // 2))
