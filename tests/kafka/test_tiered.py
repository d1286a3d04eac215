"""A real broker with LocalTieredStorage: its answers to ListOffsets, and its consumer, against the joined log."""

from __future__ import annotations

import base64
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.kafka import distribution
from tests.kafka.broker import TIERED_STORAGE, Broker

pytestmark = [pytest.mark.kafka, pytest.mark.long]

TOPICS = ("moved", "kept", "fresh", "trimmed", "expired", "plain")


@dataclass(frozen=True)
class Stopped:
    """The broker's log directory and remote storage after a clean stop, and what its clients received before."""

    log_dir: Path
    remote: Path
    answers: dict[str, dict[str, dict[str, Any]]]
    """By target of the lookup and topic."""
    consumed: list[dict[str, Any]]


@pytest.fixture(scope="module")
def stopped(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    try:
        jars = distribution.tiered_storage()
    except distribution.Unavailable as missing:
        pytest.skip(f"there is no LocalTieredStorage: {missing}")
    folder = tmp_path_factory.mktemp("tiered")
    settings = {
        **TIERED_STORAGE,
        "rsm.config.dir": str(folder / "remote"),
    }
    with Broker(folder / "broker", more_jars=jars, **settings) as broker:
        broker.run("Tiered", str(folder / "answers.jsonl"))
        broker.run("Consume", "read_uncommitted", str(folder / "consumed.jsonl"))
    answers: dict[str, dict[str, dict[str, Any]]] = {}
    for line in map(json.loads, (folder / "answers.jsonl").read_text().splitlines()):
        answers.setdefault(line["at"], {})[line["topic"]] = line
    consumed = [json.loads(line) for line in (folder / "consumed.jsonl").read_text().splitlines()]
    return Stopped(broker.log_dir, folder / "remote", answers, [line for line in consumed if "topic" in line])


def chosen(*topics: str) -> list[str]:
    return [word for topic in topics for word in ("--topic", topic)]


def offsets(stopped: Stopped, at: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    command = ["offsets", str(stopped.log_dir), "--remote", str(stopped.remote), "--at", at, "--format", "jsonl"]
    main([*command, *chosen(*TOPICS)])
    return {line["topic"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}


def test_the_broker_moved_kept_trimmed_and_expired_segments(stopped: Stopped) -> None:
    """The cases are what they should be."""
    answers = stopped.answers
    earliest, local = answers["earliest"], answers["earliest-local"]
    assert earliest["moved"]["offset"] == 0 < local["moved"]["offset"]
    assert earliest["kept"]["offset"] == local["kept"]["offset"] == 0 < answers["latest-tiered"]["kept"]["offset"]
    assert answers["latest-tiered"]["fresh"]["offset"] == answers["latest-tiered"]["plain"]["offset"] == -1
    assert 0 < earliest["trimmed"]["offset"] < local["trimmed"]["offset"]
    assert 0 < earliest["expired"]["offset"] <= local["expired"]["offset"]


@pytest.mark.parametrize("at", ["earliest", "earliest-local", "latest-tiered", "earliest-pending-upload", "latest"])
def test_offsets_are_the_answers_of_the_broker(stopped: Stopped, at: str, capsys: pytest.CaptureFixture[str]) -> None:
    ours = offsets(stopped, at, capsys)
    theirs = stopped.answers[at]
    assert {topic: ours[topic]["offset"] for topic in TOPICS} == {t: theirs[t]["offset"] for t in TOPICS}
    epochs = {topic: ours[topic]["leader_epoch"] for topic in TOPICS}
    assert epochs == {t: theirs[t]["leader_epoch"] for t in TOPICS}


def test_the_joined_log_is_what_the_consumer_received(stopped: Stopped, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["dump", str(stopped.log_dir), "--remote", str(stopped.remote), "--format", "jsonl"]
    assert main([*command, *chosen(*TOPICS)]) == 0
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    ours = sorted((line["topic"], line["offset"], line["value"]) for line in lines)
    theirs = sorted(
        (line["topic"], line["offset"], line["value"]) for line in stopped.consumed if line["topic"] in TOPICS
    )
    assert base64.b64decode(ours[0][2]).startswith(b"value ")
    assert ours == theirs


def test_verify_finds_nothing_in_the_joined_log(stopped: Stopped, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["verify", str(stopped.log_dir), "--remote", str(stopped.remote), "--format", "jsonl", *chosen(*TOPICS)]
    assert main(command) == 0
    *findings, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each for each in findings if each["severity"] != "info"] == []
    assert summary["summary"]["records"] >= len([1 for line in stopped.consumed if line["topic"] in TOPICS])


def retained(stopped: Stopped, topic: str, capsys: pytest.CaptureFixture[str], *settings: str) -> dict[str, Any]:
    """The plan of `retain`, with what the broker's metadata says of the topic and of its copies."""
    typed = [word for setting in settings for word in ("--config", setting)]
    assert main(["retain", str(stopped.log_dir / f"{topic}-0"), "--plan", *typed]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


@pytest.mark.parametrize("topic", ["moved", "kept", "trimmed", "expired"])
def test_retain_deletes_nothing_more_than_the_broker_did(
    stopped: Stopped, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = retained(stopped, topic, capsys)
    assert plan["settings"]["remote.storage.enable"]["from"] == "__cluster_metadata-0"
    assert {segment["action"] for segment in plan["segments"]} == {"keep"}
    assert plan["segments"][0]["base_offset"] == stopped.answers["earliest-local"][topic]["offset"]
    earliest = stopped.answers["earliest"][topic]["offset"]
    assert plan["log_start_offset"] == {"before": earliest, "after": earliest}


def test_retain_deletes_exactly_the_segments_that_the_broker_copied(
    stopped: Stopped, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = retained(stopped, "kept", capsys, "local.retention.ms=0")
    left = [segment["base_offset"] for segment in plan["segments"] if segment["action"] == "keep"]
    assert left[0] == stopped.answers["latest-tiered"]["kept"]["offset"] + 1
    assert plan["deleted_bytes"] > 0
    assert plan["log_start_offset"] == {"before": 0, "after": 0}
    assert plan["new_segment"] == stopped.answers["latest"]["kept"]["offset"]
    assert retained(stopped, "plain", capsys, "local.retention.ms=0", "retention.ms=-1")["deleted_bytes"] == 0


def test_without_leader_epochs_neither_the_broker_nor_retain_deletes_a_segment_by_age(
    stopped: Stopped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker is started again on a copy, and local segments of all topics are due at once."""
    shutil.copytree(stopped.log_dir.parent, tmp_path / "broker")
    shutil.copytree(stopped.remote, tmp_path / "remote")
    log_dir = tmp_path / "broker" / "data"
    (log_dir / "kept-0" / "leader-epoch-checkpoint").unlink()
    before = sorted(path.name for path in (log_dir / "kept-0").glob("*.log"))
    assert main(["retain", str(log_dir / "kept-0"), "--plan", "--config", "local.retention.ms=1"]) == 1
    ours = json.loads(capsys.readouterr().out)
    settings = {**TIERED_STORAGE, "rsm.config.dir": str(tmp_path / "remote"), "log.local.retention.ms": "1"}
    fresh = log_dir / "fresh-0"
    first = min(fresh.glob("*.log")).name
    with Broker(tmp_path / "broker", more_jars=distribution.tiered_storage(), **settings):
        end = time.monotonic() + 60
        while (fresh / first).exists() and time.monotonic() < end:  # it has leader epochs, and is copied and deleted
            time.sleep(0.3)
        time.sleep(3)
        left = sorted(path.name for path in (log_dir / "kept-0").glob("*.log"))
    assert not (fresh / first).exists()
    assert left == before
    assert [f"{each['base_offset']:020d}.log" for each in ours["segments"] if each["action"] == "keep"] == before
