"""Groups and the state of a cluster, from the files of a broker that was operated at random, are its own answers.

The broker is of the newest version. `LOGLAKE_TEST_CLUSTERS` says how many clusters there are.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig
from tests import sampling
from tests.conformance.decoded_dumps import DecodedDump, our_records, records_of, without_secrets
from tests.kafka import distribution
from tests.kafka.admin_answers import described_group, described_settings, described_topics
from tests.kafka.dump_log_segments import dump_log_segments
from tests.kafka.operated_cluster import OperatedCluster, classes, operate
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.kafka, pytest.mark.long]

CLUSTERS = int(os.environ.get("LOGLAKE_TEST_CLUSTERS", "1"))
STEPS = 40
SEEDS = [sampling.chance(f"operated cluster {number}").randrange(1 << 31) for number in range(CLUSTERS)]
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
BEYOND = re.compile(
    r"warning commit-beyond-log-end: Group (.+) has committed offset (\d+) of (.+), whose log ends at (\d+)\."
)
PARTITION_FIELDS = ("partition", "leader", "replicas", "isr", "eligible_leader_replicas", "last_known_elr")

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", params=SEEDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OperatedCluster:
    """An operated cluster; skips, with the reason, where Kafka cannot be run."""
    try:
        classes()
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")
    return operate(tmp_path_factory.mktemp("cluster") / "broker", request.param, STEPS)


def printed(capsys: Captured, *arguments: str | Path) -> list[dict[str, Any]]:
    assert main([*map(str, arguments), "--format", "jsonl"]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def metadata(cluster: OperatedCluster, capsys: Captured) -> list[dict[str, Any]]:
    return printed(capsys, "metadata", *cluster.moment, *cluster.sources)


def groups(cluster: OperatedCluster, capsys: Captured) -> list[dict[str, Any]]:
    """Lines of all groups. Its warnings are the commits that the Admin API says, beyond the end of their log."""
    command = ["groups", "--high-watermark", "log-end", *cluster.sources, "--format", "jsonl"]
    code, captured = main(command), capsys.readouterr()
    warnings = [line for line in captured.err.splitlines() if line.startswith("warning")]
    said = [BEYOND.fullmatch(line) for line in warnings]
    assert all(said), captured.err
    assert code == (1 if said else 0), captured.err
    settled = {entry["group"] for entry in cluster.answers["groups"]} - {*cluster.answers.get("unsettled", ())}
    commits = {match.groups() for match in said if match}
    assert {each for each in commits if each[0] in settled} == beyond_log_end(cluster, settled), cluster.story
    return [json.loads(line) for line in captured.out.splitlines()]


def beyond_log_end(cluster: OperatedCluster, names: Collection[str]) -> set[tuple[str, ...]]:
    """Group, offset, topic partition and log end, where the offset is larger than the end."""
    ends = {each.name: log_end(each) for log_dir in cluster.log_dirs for each in log_dir.iterdir() if each.is_dir()}
    return {
        (entry["group"], str(commit["offset"]), place, str(ends[place]))
        for entry in cluster.answers["groups"]
        for place, commit in entry["offsets"].items()
        if entry["group"] in names and place in ends and commit["offset"] > ends[place]
    }


def log_end(directory: Path) -> int:
    """The offset after the last batch of a log (KIP-98); the base offset of a last segment without any."""
    last = max(directory.glob("*.log"))
    content, at, end = last.read_bytes(), 0, int(last.stem)
    while at + 61 <= len(content):
        base, size, delta = struct.unpack_from(">qi11xi", content, at)
        at, end = at + 12 + size, base + delta + 1
    return end


def test_topics_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    lines = printed(capsys, "topics", *cluster.moment, *cluster.sources)
    assert described_topics(lines, *PARTITION_FIELDS) == cluster.answers["topics"], cluster.story


def test_settings_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    assert described_settings(metadata(cluster, capsys)) == cluster.answers["settings"], cluster.story


def test_features_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    lines = metadata(cluster, capsys)
    features = {line["name"]: line["level"] for line in lines if line["kind"] == "feature"}
    assert features == cluster.answers["features"], cluster.story


def test_brokers_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    brokers = [
        {
            "broker": line["broker"],
            "host": point["host"],
            "port": point["port"],
            "rack": line["rack"],
            "is_fenced": line["is_fenced"],
        }
        for line in metadata(cluster, capsys)
        if line["kind"] == "broker"
        for point in line["end_points"]
        if point["name"] == "PLAINTEXT"
    ]
    assert brokers == cluster.answers["brokers"], cluster.story


def test_directories_of_partitions_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    """The metadata have the ids of directories; each directory says its id in `meta.properties`."""
    paths = {}
    for log_dir in cluster.log_dirs:
        lines = (log_dir / "meta.properties").read_text().splitlines()
        (directory_id,) = (line.partition("=")[2] for line in lines if line.startswith("directory.id="))
        paths[directory_id] = str(log_dir)
    ours = {
        f"{line['topic']}-{partition['partition']}": [paths[each] for each in partition["directories"]]
        for line in printed(capsys, "topics", *cluster.moment, *cluster.sources)
        for partition in line["partitions"]
    }
    assert ours == {place: [path] for place, path in cluster.answers["directories"].items()}, cluster.story


def test_groups_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    """A rebalance of a classic group is in the memory of its coordinator alone, until it ends.

    A group whose answers changed until the end cannot be compared.
    """
    lines = [line for line in groups(cluster, capsys) if line["type"] != "Share"]
    ours = {line["group"]: described_group(line) | {"epoch": epoch_of(line)} for line in lines}
    theirs = {entry["group"]: entry for entry in cluster.answers["groups"]}
    rebalancing = [name for name, entry in theirs.items() if entry["state"] in REBALANCING]
    for name in rebalancing:
        assert {ours[name]["type"], theirs[name]["type"]} == {"Classic"}
        assert ours[name]["offsets"] == theirs[name]["offsets"], (name, cluster.story)
    left_out = {*rebalancing, *cluster.answers.get("unsettled", ())}
    known = cluster.answers["topics"].keys()
    assert {name: of_topics(group, known) for name, group in ours.items() if name not in left_out} == {
        name: group for name, group in theirs.items() if name not in left_out
    }, cluster.story


def of_topics(group: dict[str, Any], topics: Collection[str]) -> dict[str, Any]:
    """A group without partitions of deleted topics, of which the log has the ids and a broker shows nothing."""
    if group["type"] != "Consumer":
        return group
    members = [
        member | {"assignment": [place for place in member["assignment"] if place.rpartition("-")[0] in topics]}
        for member in group["members"]
    ]
    return group | {"members": members}


def epoch_of(line: dict[str, Any]) -> int | None:
    """The Admin API has no generation of classic groups."""
    return line["epoch"] if line["type"] == "Consumer" else None


def test_share_groups_are_those_of_the_admin_api(cluster: OperatedCluster, capsys: Captured) -> None:
    if cluster.answers["share_groups"] is None:
        assert "share.version" not in cluster.answers["features"], cluster.story
        return
    ours = [
        {
            "group": line["group"],
            "state": line["state"],
            "epoch": line["epoch"],
            "members": sorted(member["member_id"] for member in line["members"]),
        }
        for line in groups(cluster, capsys)
        if line["type"] == "Share"
    ]
    assert ours == cluster.answers["share_groups"], cluster.story


def test_transactional_ids_are_those_of_the_admin_api(cluster: OperatedCluster, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    sources = cluster.sources
    if cluster.is_killed:  # the file with the high watermarks is older than the end of the logs
        sources = (str(without_checkpoint(cluster, tmp_path / "copy")),)
    launch.run(ClusterConfig(str(lake.path), "run", AS_OF_MS, sources))
    fields = ("transactional_id", "state", "producer_id", "producer_epoch", "timeout_ms", "partitions")
    rows = [{field: row[field] for field in fields} for row in lake.rows("cluster_transactional_ids")]
    assert sorted(rows, key=lambda row: row["transactional_id"]) == cluster.answers["transactions"], cluster.story


def without_checkpoint(cluster: OperatedCluster, target: Path) -> Path:
    """The logs of `__transaction_state` alone."""
    for log_dir in cluster.log_dirs:
        for directory in log_dir.glob("__transaction_state-*"):
            shutil.copytree(directory, target / directory.name)
    return target


def test_records_decode_as_the_dump_tool_of_the_broker_decodes_them(cluster: OperatedCluster, tmp_path: Path) -> None:
    """Keys and values of every internal topic, and of the snapshots of the metadata."""
    kinds: Counter[str] = Counter()
    for dump in dumped(cluster, tmp_path):
        ours = dict(our_records(dump))
        assert set(ours) == set(dump.records), (dump.file, cluster.story)
        for offset, (key, payload) in dump.records.items():
            record = ours[offset]
            found = (record.key, record.value, record.problems)
            assert found == (key, without_secrets(payload), ()), (dump.file, offset)
            kinds[dump.topic] += 1
    assert {"__cluster_metadata", "__consumer_offsets"} <= set(kinds), kinds


DECODERS = {
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


def dumped(cluster: OperatedCluster, folder: Path) -> Iterator[DecodedDump]:
    """What the dump tool of the broker decodes of each file of an internal topic."""
    for topic, decoder in DECODERS.items():
        files = [path for path in cluster.files() if path.parent.name.rpartition("-")[0] == topic]
        copies = [shutil.copy2(path, made(folder / path.parent.parent.name / path.parent.name)) for path in files]
        options = {"version": distribution.NEWEST_BROKER, "classes": classes()}
        for path, dump in zip(files, dump_log_segments(copies, folder, decoder, **options), strict=True):
            assert dump.ended == "0", dump.text
            yield DecodedDump(path, path.parent.name, records_of(dump.text))


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def secrets_of(cluster: OperatedCluster) -> set[str]:
    """Passwords, tokens, and salts and keys of SCRAM in base64 and hexadecimal digits (RFC 5802)."""
    found = {"adm1n-s3cr3t", "t0ken-s3cr3t", "-s3cr3t-", *cluster.answers["tokens"]}
    for credential in cluster.answers["credentials"]:
        digest = credential["mechanism"].removeprefix("SCRAM-").replace("-", "").lower()
        password, salt = credential["password"], base64.b64decode(credential["salt"])
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, credential["iterations"])
        stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        server = hmac.digest(salted, b"Server Key", digest)
        found |= {password}
        for secret in (salt, stored, server):
            found |= {base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode(), secret.hex()}
    return found


def test_no_secret_is_in_an_output(cluster: OperatedCluster, capsys: Captured) -> None:
    secrets = secrets_of(cluster)
    content = b"".join(path.read_bytes() for path in cluster.files())
    known = [base64.b64decode(each["salt"]) for each in cluster.answers["credentials"]]
    assert all(salt in content for salt in known), "a credential is not in the files"
    for command in (["metadata"], ["topics"], ["groups"], ["dump", "--decode", "--all"]):
        for form in ("text", "jsonl"):
            main([*command, "--format", form, *cluster.sources])
            captured = capsys.readouterr()
            assert captured.out
            assert not [secret for secret in secrets if secret in captured.out + captured.err], (command, form)


def test_the_state_from_a_snapshot_is_the_state_from_the_whole_log(
    cluster: OperatedCluster, capsys: Captured, tmp_path: Path
) -> None:
    """Each snapshot alone with the log, and the first alone, which the broker was formatted with."""
    source = cluster.log_dirs[0] / "__cluster_metadata-0"
    snapshots = sorted(source.glob("*.checkpoint"))
    assert int(snapshots[0].name[:20]) == 0
    found = []
    for snapshot in snapshots:
        copy = made(tmp_path / snapshot.stem / source.name)
        for path in [*source.glob("*.log"), snapshot]:
            shutil.copy2(path, copy)
        lines = printed(capsys, "metadata", copy)
        found.append([without_places(line) for line in lines if line["kind"] != "summary"])
    assert all(lines == found[0] for lines in found), cluster.story
    assert len(found[0]) > 5


def without_places(line: dict[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in line.items() if name not in ("offset", "timestamp", "committed")}
    if "partitions" in left:
        left["partitions"] = [without_places(partition) for partition in left["partitions"]]
    return left
