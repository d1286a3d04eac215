"""The commands end to end, on directories of every era: what they write is what real tools said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logcore.cli.main import main
from logcore.segments.filenames import is_internal_topic
from tests.conformance import oracles
from tests.conformance.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

DUMPED = [
    *(
        (f"{case}/logdir", level)
        for case in ("transactions-3.9.2", "txn-0.11.0.3", "txn-2.8.2")
        for level in ("read_uncommitted", "read_committed")
    ),
    ("codecs-v2-3.9.2/logdir", "read_committed"),
    ("compaction-4.1.2/after2", "read_committed"),
    ("retention-4.3.1/after", "read_committed"),
    ("v0-0.8.2.2/logdir", "read_uncommitted"),
    ("v1-0.10.2.2/logdir", "read_uncommitted"),
    ("mixed-upgrade/logdir", "read_uncommitted"),
]


def written(corpus: Corpus, of: Snapshot, tmp_path: Path, *arguments: str) -> Path:
    """The file that a command wrote about a snapshot."""
    path = tmp_path / "out.jsonl"
    assert main([*arguments, str(corpus.directory(of)), "--format", "jsonl", "-o", str(path)]) in (0, 1)
    return path


@pytest.mark.parametrize(("name", "isolation_level"), DUMPED)
def test_dump_writes_what_the_real_consumer_received(corpus: Corpus, name: str, isolation_level: str, tmp_path: Path):
    of = snapshot(name)
    found = oracles.consumed(written(corpus, of, tmp_path, "dump", "--isolation.level", isolation_level))
    expected = corpus.consumed(of, isolation_level)
    for log, records in found.items():
        if log not in expected:
            assert is_internal_topic(log)
            continue
        if of.era == "legacy":
            records = [
                record if other.leader_epoch is not None else record._replace(leader_epoch=None)
                for record, other in zip(records, expected[log], strict=True)
            ]
        assert records == expected[log], log
    assert set(expected) <= set(found)


@pytest.mark.parametrize("case", ["transactions-3.9.2", "transactions-4.4.0"])
def test_transactions_prints_the_ends_that_consumers_had(corpus: Corpus, case: str, capsys: pytest.CaptureFixture[str]):
    of = snapshot(f"{case}/logdir")
    assert main(["transactions", str(corpus.directory(of)), "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    summaries = {f"{line['topic']}-{line['partition']}": line["summary"] for line in lines if "summary" in line}
    producers = json.loads(corpus.oracle(of, "producers.json").read_text())
    for log, ends in corpus.summary(of, "read_committed").items():
        assert summaries[log]["last_stable_offset"] == ends["end"]
        opened = [producer for producer in producers[log] if producer["current_txn_start_offset"] is not None]
        assert summaries[log]["open"] == len(opened)
    assert (
        sum(summary["open"] for summary in summaries.values())
        == {"transactions-3.9.2": 4, "transactions-4.4.0": 5}[case]
    )


def test_the_metadata_log_of_a_real_cluster_is_shown_to_its_end_and_its_snapshots_are_sound(
    corpus: Corpus, capsys: pytest.CaptureFixture[str]
):
    root = corpus.directory(snapshot("cluster-metadata-4.4.0/logdir"))
    log = root / "__cluster_metadata-0"
    snapshots = sorted(log.glob("*.checkpoint"))
    newest, end = int(snapshots[-1].name[:20]), max(int(path.stem) for path in log.glob("*.snapshot"))
    assert main(["offsets", "--at", "latest", "--format", "jsonl", str(log)]) == 0
    told = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [(line["offset"], line["committed"]) for line in told] == [(newest, True), (end, False)]
    assert main(["dump", "--control", "--format", "jsonl", str(log)]) == 0
    told = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [(line["offset"], line["committed"]) for line in told] == [(at, at < newest) for at in range(end)]
    assert main(["verify", "--format", "jsonl", "--topic", "__cluster_metadata", str(root)]) == 0
    (last,) = map(json.loads, capsys.readouterr().out.splitlines())
    size = sum(path.stat().st_size for path in [*snapshots, *log.glob("*.log")])
    assert (last["summary"]["bytes"], last["summary"]["valid_bytes"]) == (size, size)


@pytest.mark.parametrize("case", ["tiered-3.9.2", "tiered-4.3.1"])
def test_the_bounds_of_a_tiered_log_are_those_that_its_broker_answered(
    corpus: Corpus, case: str, capsys: pytest.CaptureFixture[str]
):
    of = snapshot(f"{case}/logdir")
    answers = json.loads(corpus.oracle(of, "offsets.json").read_text())["read_uncommitted"]
    remote = {}
    for at in ("earliest", "earliest-local", "latest"):
        assert main(["offsets", "--at", at, "--format", "jsonl", str(corpus.directory(of))]) == 0
        for line in map(json.loads, capsys.readouterr().out.splitlines()):
            name = f"{line['topic']}-{line['partition']}"
            if name in answers:
                answer = answers[name][at.replace("-", "_")]
                assert (line["offset"], line["timestamp"]) == (answer["offset"], answer["timestamp"]), name
                assert at == "latest" or line["leader_epoch"] == answer["leader_epoch"], name
                remote.setdefault(name, []).append(line["offset"])
    assert main(["ledger", "--format", "jsonl", str(corpus.directory(of))]) == 1
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    told = {
        f"{line['topic']}-{line['partition']}": [line["start_offset"], line["end_offset"]]
        for line in lines
        if line["state"] == "remote"
    }
    assert told == {name: bounds[:2] for name, bounds in remote.items() if bounds[0] < bounds[1]}
    assert len(told) == 4


def test_offsets_prints_what_a_broker_answered(corpus: Corpus, capsys: pytest.CaptureFixture[str]):
    of = snapshot("timestamps-v2-4.4.0/logdir")
    answers = json.loads(corpus.oracle(of, "offsets.json").read_text())["read_committed"]
    compared = 0
    for at, name in (("max-timestamp", "max_timestamp"), ("earliest", "earliest"), ("latest", "latest")):
        assert main(["offsets", "--at", at, "--format", "jsonl", str(corpus.directory(of))]) == 0
        for line in map(json.loads, capsys.readouterr().out.splitlines()):
            answer = answers[f"{line['topic']}-{line['partition']}"][name]
            assert (line["offset"], line["timestamp"]) == (answer["offset"], answer["timestamp"])
            compared += 1
    assert compared == 24
