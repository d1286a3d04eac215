"""Groups and the state of a cluster, from files alone, are what the Admin API of the broker said before it stopped."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import snapshot
from tests.kafka.admin_answers import described_group, described_topics

Captured = pytest.CaptureFixture[str]


def printed(capsys: Captured, *arguments: str | Path) -> list[dict[str, Any]]:
    assert main([*map(str, arguments), "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def printed_groups(corpus: Corpus, capsys: Captured, name: str) -> list[dict[str, Any]]:
    """Lines of all groups of an archive. The transaction of one group wrote an offset that no log has."""
    assert main(["groups", str(corpus.directory(snapshot(name))), "--format", "jsonl"]) == 1
    captured = capsys.readouterr()
    assert [line for line in captured.err.splitlines() if not line.startswith("info ")] == [
        "warning commit-beyond-log-end: Group g-txn has committed offset 78 of orders-0, whose log ends at 40."
    ]
    return [json.loads(line) for line in captured.out.splitlines()]


def oracle(corpus: Corpus, name: str, file: str) -> Any:
    return json.loads(corpus.oracle(snapshot(name), file).read_text())


@pytest.mark.parametrize("name", ["internal-topics-4.4.0/logdir", "internal-topics-4.4.0/compacted"])
def test_groups_are_those_that_the_broker_described(corpus: Corpus, capsys: Captured, name: str) -> None:
    lines = printed_groups(corpus, capsys, name)
    ours = {line["group"]: described_group(line) for line in lines if line["type"] != "Share"}
    answers = oracle(corpus, name, "group_describe.json")
    theirs = {entry["group"]: entry for entry in answers if "describe_error" not in entry}
    for entry in theirs.values():
        entry["members"] = sorted(entry["members"], key=lambda member: member["member_id"])
        for member in entry["members"]:
            member["assignment"] = sorted(member["assignment"])
    assert len(theirs) >= 8
    assert ours == theirs


def test_share_groups_have_the_state_and_members_that_the_broker_described(corpus: Corpus, capsys: Captured) -> None:
    name = "internal-topics-4.4.0/logdir"
    lines = printed_groups(corpus, capsys, name)
    ours = {line["group"]: (line["state"], len(line["members"])) for line in lines if line["type"] == "Share"}
    theirs = {
        group: (entry["state"], entry["members"])
        for group, entry in oracle(corpus, name, "share_groups.json").items()
        if "error" not in entry
    }
    assert ours == theirs != {}


CLUSTER = "cluster-metadata-4.4.0/logdir"


@pytest.fixture
def high_watermark(corpus: Corpus) -> int:
    """The end of the metadata when the Admin API was asked."""
    return oracle(corpus, CLUSTER, "quorum.json")["high_watermark"]


def test_topics_and_settings_are_those_of_the_admin_api(corpus: Corpus, capsys: Captured, high_watermark: int) -> None:
    lines = printed(capsys, "topics", "--at", str(high_watermark), corpus.directory(snapshot(CLUSTER)))
    ours = described_topics(lines, "partition", "leader", "replicas", "isr")
    assert ours == oracle(corpus, CLUSTER, "topics.json")
    configs = oracle(corpus, CLUSTER, "topic_configs.json")
    assert {line["topic"]: line["settings"] for line in lines} == {topic: configs.get(topic, {}) for topic in ours}
    assert len(ours) > 10


def test_features_are_those_of_the_admin_api(corpus: Corpus, capsys: Captured) -> None:
    lines = printed(capsys, "metadata", corpus.directory(snapshot(CLUSTER)))
    features = {line["name"]: line["level"] for line in lines if line["kind"] == "feature"}
    assert features == oracle(corpus, CLUSTER, "features.json")


def without_places(line: dict[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in line.items() if name not in ("offset", "timestamp", "committed")}
    if "partitions" in left and isinstance(left["partitions"], list):
        left["partitions"] = [without_places(partition) for partition in left["partitions"]]
    return left


def test_a_state_from_a_snapshot_is_the_state_from_the_whole_log(
    corpus: Corpus, capsys: Captured, tmp_path: Path
) -> None:
    """At the end of each snapshot and of the log, with all snapshots and with the first one alone."""
    source = corpus.directory(snapshot(CLUSTER)) / "__cluster_metadata-0"
    snapshots = sorted(source.glob("*.checkpoint"))
    first = tmp_path / "__cluster_metadata-0"
    first.mkdir()
    for path in [*source.glob("*.log"), snapshots[0]]:
        shutil.copy2(path, first)
    ends = [int(path.name[:20]) for path in snapshots[1:]]
    assert len(ends) >= 3
    start = min(int(path.name[:20]) for path in source.glob("*.log"))
    assert start <= int(snapshots[0].name[:20])
    for moment in [*([["--at", str(end)] for end in ends]), []]:
        states = []
        for directory in (source, first):
            lines = printed(capsys, "metadata", *moment, directory)
            states.append([without_places(line) for line in lines if line["kind"] != "summary"])
        assert states[0] == states[1]
        assert len(states[0]) > 10


def test_what_only_the_log_has_is_tentative(corpus: Corpus, capsys: Captured) -> None:
    source = corpus.directory(snapshot(CLUSTER))
    *rows, summary = printed(capsys, "metadata", source)
    assert summary["end_offset"] > summary["committed_end"] == summary["snapshot_end"]
    committed = printed(capsys, "metadata", "--committed", source)[-1]
    assert committed["end_offset"] == summary["committed_end"]
    assert all(row["committed"] == (row["offset"] < summary["committed_end"]) for row in rows)


def test_no_secret_of_the_cluster_is_printed(corpus: Corpus, capsys: Captured) -> None:
    """Salts and keys of SCRAM are in the dump tool's output, and in none of ours."""
    dumps = corpus.case(snapshot(CLUSTER)).glob("oracle/logdir/dump/__cluster_metadata-0/*.decoded.txt")
    texts = "".join(path.read_text() for path in dumps)
    secrets = set(re.findall(r'"(?:salt|storedKey|serverKey)":"([^"]+)"', texts))
    assert len(secrets) >= 9
    source = str(corpus.directory(snapshot(CLUSTER)))
    for command in (["metadata"], ["topics"], ["dump", "--decode", "--all"]):
        for form in ("text", "jsonl"):
            assert main([*command, "--format", form, source]) == 0
            captured = capsys.readouterr()
            assert len(captured.out) > 1000
            assert not any(secret in captured.out + captured.err for secret in secrets)
