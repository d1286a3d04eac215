"""Findings of whole logs: none for what healthy brokers left, the injury of each that was hurt on purpose, and of
every offset what a read_committed consumer found there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from logcore.cli.main import main
from logcore.logs.checks.validation import BatchVerdict, SegmentValidation
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.offset_ledger import check_tiling
from logcore.logs.model.producers.producer_state import ProducerReplay
from logcore.reading.log_reading import read_log, records_from
from logcore.reading.read_options import Notes, ReadOptions
from logcore.segments.side_files import producer_state
from logcore.storage.discovery import discover, read_file
from tests.conformance.snapshots import SNAPSHOTS, Snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

WARNED = {
    "recovery-kill9-4.4.0/before": {"no-high-watermark"},  # killed before it was first written
    "tiered-3.9.2/logdir": {"remote-tier"},
    "tiered-4.3.1/logdir": {"remote-tier"},
    # The samples have the internal topics only; the logs of work are left out.
    **{
        f"groups-{version}/logdir": {"log-directory-missing"}
        for version in ("0.8.2.2", "0.9.0.1", "0.10.2.2", "1.1.1", "2.2.2", "2.8.2")
    },
    **{  # the samples have the logs and checkpoints only
        f"compact-2.8.2/{name}-{version}": {"no-meta-properties"}
        for name in ("after", "after2")
        for version in ("4.1.2", "4.4.0")
    },
    "crash-2.8.2/after": {"checkpoint-beyond-log-end"},  # a snapshot after the cut that the broker did not remove
}
"""Snapshots that are sound, and the rules that they break all the same."""


def is_sound(snapshot: Snapshot) -> bool:
    """Whether the files are undamaged and are a log directory."""
    if snapshot.case.startswith(("recovery-damage", "recovery-fatal")):
        return snapshot.name == "base"
    return not (snapshot.case.startswith("crash-") and snapshot.name == "before") and snapshot.name != "remote"


def verified(corpus: Corpus, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict], dict]:
    """Exit code, findings and summary of `verify`."""
    code = main(["verify", "--format", "jsonl", str(corpus.directory(snapshot))])
    *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
    summary = last["summary"]
    parts = ("valid_bytes", "tail_bytes", "padding_bytes", "quarantined_bytes", "unreadable_bytes")
    assert sum(summary[part] for part in parts) == summary["bytes"]
    return code, findings, summary


SOUND = [snapshot for snapshot in SNAPSHOTS if is_sound(snapshot)]


@pytest.mark.parametrize("snapshot", SOUND, ids=str)
def test_files_of_healthy_brokers_have_no_finding(
    corpus: Corpus, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]
):
    code, findings, summary = verified(corpus, snapshot, capsys)
    warned = WARNED.get(str(snapshot), set())
    assert {finding["rule"] for finding in findings if finding["severity"] != "info"} == warned
    assert code == (1 if warned else 0)
    assert summary["valid_bytes"] > 0
    assert summary["quarantined_bytes"] == 0


CUT = "high-watermark-beyond-log-end"
INJURIES = {
    "cleaned-left": None,
    "deleted-left": None,
    "cut-exact": CUT,
    "cut-half": CUT,
    "cut-hdr12": CUT,
    "cut-hdr20": CUT,
    "cut-hdr61": CUT,
    "cut1": CUT,
    "epoch-del": "leader-epochs-unproven",
    "flip-base": "corrupt-bytes",
    "flip-crc": "corrupt-bytes",
    "flip-epoch": "leader-epoch-differs",
    "flip-first": "corrupt-bytes",
    "flip-len": "corrupt-bytes",
    "flip-magic": "corrupt-bytes",
    "flip-old": "corrupt-bytes",
    "garbage100": "tail-hides-batches",
    "garbage5": "tail-hides-batches",
    "idx-del": "index-missing",
    "idx-junk": "corrupt-index",
    "idx-odd": "index-partial-entry",
    "idx-zero": "index-zeroed",
    "meta-del": "broken-partition-file",
    "none": None,
    "seg-empty": "missing-offsets",
    "seg-gone": "missing-offsets",
    "snap-del": None,  # but for a clean stop, below: a broker that crashed makes its snapshots again
    "snap-junk": "broken-snapshot",
    "swap-left": "interrupted-swap",
    "tidx-empty": "time-index-differs",
    "tidx-junk": "corrupt-index",
    "txnidx-del": "transaction-index-differs",
    "txnidx-low": "corrupt-index",
    "txnidx-odd": "index-partial-entry",
    "zeros17": "zero-padding",
    "zeros40": "zero-padding",
    "zeros4096": "zero-padding",
}
"""What was done to the topic of this name (with `d-` in front), and the rule that has to see it; None where no rule
could."""

HURT = [snapshot for snapshot in SNAPSHOTS if snapshot.case.startswith("recovery-damage") and snapshot.name == "before"]


@pytest.mark.parametrize("snapshot", HURT, ids=str)
def test_every_injury_is_seen_by_its_rule(corpus: Corpus, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]):
    code, findings, _ = verified(corpus, snapshot, capsys)
    assert code == 2
    root = corpus.directory(snapshot)
    for directory in sorted(root.glob("d-*-0")):
        said = {finding["rule"]: finding["severity"] for finding in findings if f"{directory}" in str(finding["file"])}
        rule = INJURIES[directory.name.removeprefix("d-").removesuffix("-0")]
        if directory.name == "d-snap-del-0" and (root / ".kafka_cleanshutdown").exists():
            rule = "snapshot-differs"
        if rule is None:
            assert set(said.values()) <= {"info"}, directory.name
        else:
            assert rule in said, directory.name


ASKED = [
    snapshot
    for snapshot in SOUND
    if snapshot.era == "modern" and "read_committed" in snapshot.consumed and not snapshot.case.startswith("tiered")
]


@pytest.mark.parametrize("snapshot", ASKED, ids=str)
def test_present_is_what_a_read_committed_consumer_found(corpus: Corpus, snapshot: Snapshot):
    received = corpus.consumed(snapshot, "read_committed")
    ends = corpus.summary(snapshot, "read_committed")
    compared = 0
    for log in discover([str(corpus.directory(snapshot))]).logs:
        name = str(log.topic_partition)
        if name not in ends:
            continue
        reading = read_log(log, ReadOptions(), Notes())
        ranges = list(
            ledger_ranges(
                reading.facts,
                reading.view,
                start_offset=0,
                log_start_offset=log.log_start_offset,
                high_watermark=reading.high_watermark,
                log_end_offset=reading.log_end_offset,
                rules=reading.rules,
                records_from=records_from,
            )
        )
        check_tiling(ranges, 0, reading.log_end_offset)
        assert reading.view.last_stable_offset == ends[name]["end"], name
        offsets = [record.offset for record in received.get(name, [])]
        for each in ranges:
            inside = sum(each.start_offset <= offset < each.end_offset for offset in offsets)
            assert inside == (each.records if each.state == "present" else 0), (name, each)
        assert {str(each.state) for each in ranges}.isdisjoint({"missing", "corrupt", "unknown"}), name
        compared += 1
    assert compared == len(ends)


@pytest.mark.parametrize("snapshot", ASKED, ids=str)
def test_the_batches_come_to_what_a_broker_says_of_its_producers(corpus: Corpus, snapshot: Snapshot):
    path = corpus.oracle(snapshot, "producers.json")
    if not path.exists():
        pytest.skip("nobody asked this broker for its producers")
    described: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
    for log in discover([str(corpus.directory(snapshot))]).logs:
        base = log.segments[0].base_offset
        begun = dict(log.snapshots).get(base) if base else None
        replay = ProducerReplay(producer_state.parse(read_file(begun)) if begun else ())
        cleaned = False
        for segment in log.segments:
            items = SegmentValidation(
                read_file(segment.path),
                base_offset=segment.base_offset,
                sealed=log.is_sealed(segment),
                file=segment.path,
                next_base_offset=log.next_base_offset(segment),
            )
            for item in items:
                assert isinstance(item, BatchVerdict)
                cleaned |= (
                    item.delete_horizon_ms is not None or item.record_count <= item.last_offset - item.base_offset
                )
                replay.take(item)
        found = replay.entries()
        for producer in described.get(str(log.topic_partition), []):
            entry = found[producer["producer_id"]]
            assert entry.producer_epoch == producer["producer_epoch"]
            assert entry.last_sequence == producer["last_sequence"]
            assert entry.open_transaction == producer["current_txn_start_offset"]
            # The cleaner writes the greatest timestamp of what is left; the broker remembers the batch as it came.
            latest = producer["last_timestamp"]
            assert entry.timestamp <= latest if cleaned else entry.timestamp == latest
