"""Settings of topics from a real broker's metadata are those that its Admin API described."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import snapshot
from tests.conformance.test_cluster_tables import METADATA, answer, made
from tests.spark.cycle import AS_OF_MS

Captured = pytest.CaptureFixture[str]
POLICIES = """topics:
  __transaction_state: {from: cluster}
  t0.orders: {from: cluster, retention.ms: 5d}
  "*": {from: cluster}
"""
OURS = {"cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes"}


def checked(capsys: Captured, *arguments: str) -> dict[str, dict[str, Any]]:
    """By topic: the settings by name."""
    assert main(["config", "check", *arguments, "--format", "jsonl"]) in (0, 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["doubt"] for line in lines} == {None}
    governed = [line for line in lines if line["policy"] is not None]
    return {line["topic"]: {each["name"]: each for each in line["settings"]} for line in governed}


def of_cluster(settings: dict[str, Any]) -> dict[str, str]:
    """What is from the cluster, as its texts."""
    taken = {name: each["value"] for name, each in settings.items() if each["from"] == "cluster"}
    return {name: ",".join(value) if isinstance(value, list) else str(value) for name, value in taken.items()}


@pytest.mark.parametrize("place", ["source", "lake"])
def test_the_result_is_what_the_admin_api_said_and_all_else_is_never(
    corpus: Corpus, tmp_path: Path, capsys: Captured, place: str
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICIES)
    where = (
        corpus.directory(snapshot(METADATA)) if place == "source" else made(corpus, METADATA, tmp_path / "lake").path
    )
    topics = checked(capsys, str(policies), f"--{place}", str(where))
    said = answer(corpus, METADATA, "topic_configs.json")
    assert len(topics) > 10
    for topic, settings in topics.items():
        expected = {name: value for name, value in said.get(topic, {}).items() if name in OURS}
        assert of_cluster(settings) == expected
        for name in {"cleanup.policy", "retention.ms", "retention.bytes"} - set(expected):
            if (topic, name) == ("t0.orders", "retention.ms"):
                assert (settings[name]["value"], settings[name]["from"]) == (432_000_000, "policies")
            else:
                never = [] if name == "cleanup.policy" else -1
                assert (settings[name]["value"], settings[name]["from"]) == (never, "default")


def test_the_record_of_each_setting_is_the_one_that_the_dump_tool_shows(
    corpus: Corpus, tmp_path: Path, capsys: Captured
) -> None:
    """The last CONFIG_RECORD of a topic and name in the dump of the log has the offset that is shown."""
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICIES)
    directory = corpus.directory(snapshot(METADATA))
    topics = checked(capsys, str(policies), "--source", str(directory))
    dumps = sorted(corpus.case(snapshot(METADATA)).glob("oracle/logdir/dump/__cluster_metadata-0/*.log*.decoded.txt"))
    latest: dict[tuple[str, str], int] = {}
    for line in "".join(path.read_text() for path in dumps).splitlines():
        if '"CONFIG_RECORD"' in line and line.startswith("|"):
            data = json.loads(line[line.index("payload: ") + 9 :])["data"]
            offset = int(line.split("offset: ")[1].split()[0])
            latest[data["resourceName"], data["name"]] = offset
    snapshots = [int(path.name[:20]) for path in (directory / "__cluster_metadata-0").glob("*.checkpoint")]
    newest = max(snapshots)
    seen = 0
    for topic, settings in topics.items():
        for name, each in settings.items():
            if each["from"] == "cluster":
                at = latest[topic, name]
                assert each["offset"] == (at if at >= newest else newest - 1)
                assert each["committed"] is (at < newest)
                seen += 1
    assert seen > 5


def test_retention_of_a_real_partition_has_the_broker_s_setting(
    corpus: Corpus, tmp_path: Path, capsys: Captured
) -> None:
    source = corpus.directory(snapshot(METADATA))
    out = str(tmp_path / "out")
    assert main(["retain", str(source / "late3-0"), "--plan", "--as-of", str(AS_OF_MS), "--out", out]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["retention.bytes"]["value"], settings["retention.bytes"]["from"]) == (3000, "__cluster_metadata-0")
    assert settings["retention.ms"]["from"] == "default"


def test_a_damaged_snapshot_and_log_of_a_real_broker_are_refused(
    corpus: Corpus, tmp_path: Path, capsys: Captured
) -> None:
    source = Path(shutil.copytree(corpus.directory(snapshot(METADATA)), tmp_path / "source"))
    for path in (source / "__cluster_metadata-0").glob("*.checkpoint"):
        path.unlink()
    (first, *_) = sorted((source / "__cluster_metadata-0").glob("*.log"))
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    out = tmp_path / "out"
    assert main(["retain", str(source / "late3-0"), "--out", str(out), "--as-of", str(AS_OF_MS)]) == 3
    assert "settings is in doubt" in capsys.readouterr().err
    assert not out.exists()
