"""What we would make of a directory at a broker's start is what the broker made of it: file for file, byte for byte.

The broker's directory was copied later: it was started, became leader of every log (a new leader epoch, from the log's
end on), was read by consumers, and stopped cleanly (index files of the active segment trimmed to whole entries). Files
of dropped segments were still there under another name, to be deleted a minute later. These are all taken into account
by name; nothing is left out of the comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logcore.errors import CorruptIndexError
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan, root_refusal
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.segments.filenames import LEADER_EPOCH_FILE, segment_file_name
from logcore.segments.side_files import checkpoints, leader_epochs, producer_state
from logcore.storage.partition_directories import partition_directory
from tests.conformance.snapshots import snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

CLEAN, UNCLEAN, UNCLEAN_RP = (f"recovery-damage-{how}-4.4.0" for how in ("clean", "unclean", "unclean-rp"))
KILLED = "recovery-kill9-4.4.0"

INTERVALS = (0, 300, 500, 700)
"""What the topics' `index.interval.bytes` may be: which one a topic had is not in the case, only that it is the same
for all of its segments."""

STRAY = {
    (case, "d-meta-del-0"): "without partition.metadata it becomes a stray beside an empty replica"
    for case in (CLEAN, UNCLEAN)
}


@dataclass(frozen=True)
class Compared:
    """One partition: what we plan, and the broker's files."""

    plan: RecoveryPlan
    ours: dict[str, bytes]
    broker: dict[str, bytes]


def held(path: Path, *, clean: bool) -> PartitionDirectory:
    """A partition directory in memory."""
    with partition_directory(str(path)) as mapped:
        files = {name: PartitionFile(name, bytes(f.content), f.modified_ms) for name, f in mapped.files.items()}
        return replace(mapped, files=files, is_clean=clean)


def written(plan: RecoveryPlan, source: PartitionDirectory) -> dict[str, bytes]:
    """The bytes of every file of a plan."""
    found = {}
    for name, file in plan.files.items():
        match file:
            case Keep(origin):
                found[name] = bytes(source.files[origin].content)
            case Cut(origin, size, _):
                found[name] = bytes(source.files[origin].content)[:size]
            case Write(content, _):
                found[name] = content
    return found


def stopped(plan: RecoveryPlan, files: dict[str, bytes], broker: dict[str, bytes]) -> dict[str, bytes]:
    """The files once the broker has become leader in an epoch, and stopped."""
    files = dict(files)
    active = max(name for name in files if name.endswith(".log"))
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        name = active.replace(".log", suffix)
        files[name] = files[name][: len(files[name]) // size * size]
    if LEADER_EPOCH_FILE in broker:
        epoch = checkpoints.parse_leader_epochs(broker[LEADER_EPOCH_FILE])[-1].epoch
        history = leader_epochs.assign(plan.leader_epochs, epoch, plan.log_end_offset)
        files[LEADER_EPOCH_FILE] = checkpoints.format_leader_epochs(history)
    return files


def entries(content: bytes) -> object:
    """The entries of a snapshot as a set, or its bytes where it is no whole one."""
    try:
        return {(entry.producer_id, entry) for entry in producer_state.parse(content)}
    except CorruptIndexError:
        return content


def differences(ours: dict[str, bytes], broker: dict[str, bytes]) -> dict[str, str]:
    """Files that are not the same, and how; snapshots are sets of entries."""
    found = {}
    for name in sorted(ours.keys() | broker.keys()):
        if name not in broker:
            found[name] = "ours alone"
        elif name not in ours:
            found[name] = "the broker's alone"
        elif name.endswith(".snapshot"):
            if entries(ours[name]) != entries(broker[name]):
                found[name] = "other entries"
        elif ours[name] != broker[name]:
            found[name] = f"other bytes, {len(ours[name])} and {len(broker[name])}"
    return found


def of_dropped(plan: RecoveryPlan, source: PartitionDirectory, broker: dict[str, bytes]) -> dict[str, bytes]:
    """The broker's files that wait for deletion, each one a file that we drop, as it was."""
    waiting = {name: content for name, content in broker.items() if name.endswith(".deleted")}
    for name, content in waiting.items():
        plain = name.removesuffix(".deleted")
        assert plain in plan.dropped, name
        assert bytes(source.files[plain].content) == content, name
    return waiting


def recovered(corpus: Corpus, case: str, *, clean: bool) -> Iterator[tuple[str, PartitionDirectory, int, Path]]:
    """The partitions of a case: name, before, the time of the start, and the broker's directory."""
    before, after = snapshot(f"{case}/before"), snapshot(f"{case}/after")
    started = corpus.facts(after)["snapshots"]["after"]["taken_ms"]
    for path in sorted(corpus.directory(before).iterdir()):
        if path.is_dir():
            yield path.name, held(path, clean=clean), started, corpus.directory(after) / path.name


def best_of(source: PartitionDirectory, started: int, broker: dict[str, bytes]) -> tuple[Compared, dict[str, str]]:
    """The comparison with the interval that fits best."""
    tried = []
    for interval in INTERVALS:
        config = TopicConfig(index_interval_bytes=interval, segment_index_bytes=2040)
        plan = plan_recovery(source, config, as_of_ms=started, heeds_clean_mark=True)
        if plan.refusal is not None:
            continue  # too small an interval for indexes of 2040 bytes
        waiting = of_dropped(plan, source, broker)
        rest = {name: content for name, content in broker.items() if name not in waiting}
        ours = stopped(plan, written(plan, source), broker)
        tried.append((Compared(plan, ours, broker), differences(ours, rest)))
    return min(tried, key=lambda each: len(each[1]))


@pytest.mark.parametrize(
    ("case", "clean", "partitions"),
    [(KILLED, False, 7), (UNCLEAN, False, 37), (UNCLEAN_RP, False, 31), (CLEAN, True, 26)],
)
def test_a_recovery_leaves_the_broker_s_own_files(corpus: Corpus, case: str, clean: bool, partitions: int):
    compared = 0
    for name, source, started, path in recovered(corpus, case, clean=clean):
        if (case, name) in STRAY:
            continue
        broker = {file.name: file.read_bytes() for file in path.iterdir()}
        _, different = best_of(source, started, broker)
        assert different == {}, name
        compared += 1
    assert compared == partitions


@pytest.mark.parametrize(("case", "name"), STRAY)
def test_a_log_without_its_metadata_is_recovered_and_put_aside(corpus: Corpus, case: str, name: str):
    """The broker loads it as any other log. Then it finds that the log is not its own, and creates an empty one."""
    source = held(corpus.directory(snapshot(f"{case}/before")) / name, clean=case == CLEAN)
    after = corpus.directory(snapshot(f"{case}/after"))
    (stray,) = after.glob(f"{name}.*-stray")
    broker = {file.name: file.read_bytes() for file in stray.iterdir()}
    # It was renamed while its leader epochs were being written, and the file they were written to is left.
    unfinished = broker.pop(f"{LEADER_EPOCH_FILE}.tmp", None)
    assert unfinished in (None, broker[LEADER_EPOCH_FILE])
    started = corpus.facts(snapshot(f"{case}/after"))["snapshots"]["after"]["taken_ms"]
    fitting = []
    for interval in INTERVALS:
        config = TopicConfig(index_interval_bytes=interval, segment_index_bytes=2040)
        plan = plan_recovery(source, config, as_of_ms=started, heeds_clean_mark=True)
        ours = written(plan, source)
        active = max(file for file in ours if file.endswith(".log"))
        for suffix in (".index", ".timeindex"):  # it was never stopped, and has room for more entries
            at = active.replace(".log", suffix)
            ours[at] = ours[at].ljust(2040, b"\0")
        if differences(ours, broker) == {}:
            fitting.append(plan)
    plan = fitting[0]
    assert [loss.kind for loss in plan.losses] == ["metadata-missing"]
    assert plan.exit_code == 1
    assert (after / name / segment_file_name(0)).stat().st_size == 0


def root_line(path: Path, name: str) -> int | None:
    for line in path.read_text().splitlines()[2:]:
        topic, partition, offset = line.split()
        if f"{topic}-{partition}" == name:
            return int(offset)
    return None


@pytest.mark.parametrize(("case", "clean"), [(KILLED, False), (UNCLEAN, False), (UNCLEAN_RP, False), (CLEAN, True)])
def test_the_log_ends_and_starts_where_the_broker_says(corpus: Corpus, case: str, clean: bool):
    """The high watermark of a single replica is its log's end; a clean stop makes that the recovery point too."""
    after = corpus.directory(snapshot(f"{case}/after"))
    for name, source, started, path in recovered(corpus, case, clean=clean):
        if (case, name) in STRAY:
            continue
        plan = best_of(source, started, {file.name: file.read_bytes() for file in path.iterdir()})[0].plan
        assert plan.log_end_offset == root_line(after / "replication-offset-checkpoint", name), name
        assert plan.log_end_offset == root_line(after / "recovery-point-offset-checkpoint", name), name
        assert plan.root.log_start_offset == root_line(after / "log-start-offset-checkpoint", name), name
        expected = plan.log_end_offset if clean else min(source.recovery_point or 0, plan.log_end_offset)
        assert plan.root.recovery_point == expected, name


LOST = {
    CLEAN: {
        "d-cut-half": "log-end-fell",
        "d-flip-crc": "damage-kept",
        "d-flip-old": "damage-kept",
        "d-garbage5": "damage-kept",
        "d-idx-junk": "log-end-fell",
        "d-seg-empty": "end-jumps",
        "d-snap-del": "producers-forgotten",
    },
    UNCLEAN: {
        "d-flip-base": "cut",
        "d-flip-crc": "cut",
        "d-flip-first": "cut",
        "d-flip-len": "cut",
        "d-flip-magic": "damage-kept",
        "d-flip-old": "dropped-segment",
        "d-garbage100": "cut",
        "d-garbage5": "cut",
        "d-seg-empty": "end-jumps",
    },
}


@pytest.mark.parametrize(("case", "clean"), [(UNCLEAN, False), (CLEAN, True)])
def test_records_that_the_broker_lost_or_hid_silently_are_listed(corpus: Corpus, case: str, clean: bool):
    said = {}
    for name, source, started, path in recovered(corpus, case, clean=clean):
        plan = best_of(source, started, {file.name: file.read_bytes() for file in path.iterdir()})[0].plan
        said[name.removesuffix("-0")] = {loss.kind for loss in plan.losses if loss.severity == "error"}
        assert plan.exit_code == (2 if said[name.removesuffix("-0")] else plan.exit_code), name
    lost = {name: kinds for name, kinds in said.items() if kinds}
    for name, kind in LOST[case].items():
        assert kind in lost.pop(name, set()), name
    print(case, lost)
    assert set(lost) <= {"d-idx-zero", "d-idx-odd", "d-tidx-junk"}


FATAL = {
    "bad-dir": "of the log directory as a whole: one partition does not show it",
    "cluster-id": "of the log directory as a whole: one partition does not show it",
    "epoch-junk": None,
    "flip-len": "starts",
    "flip-magic": "starts",
    "garbage100": None,
    "hw-junk": None,
    "meta-junk": None,
    "rp-junk": None,
    "txnidx-junk": None,
    "zeros40": None,
}


@pytest.mark.parametrize("kind", FATAL)
def test_with_what_a_broker_does_not_start_we_refuse(corpus: Corpus, kind: str):
    before = snapshot(f"recovery-fatal-4.4.0/before-{kind}")
    facts = json.loads((corpus.case(before) / "oracle/all/results.json").read_text())[kind]
    refusals = {}
    for path in sorted(corpus.directory(before).glob("d-*")):
        findings: list[Finding] = []
        with partition_directory(str(path), findings) as source:
            plan = plan_recovery(
                replace(source, is_clean=True), TopicConfig(), as_of_ms=1_800_000_000_000, heeds_clean_mark=True
            )
        refusals[path.name] = plan.refusal or root_refusal(findings)
    refused = {name for name, why in refusals.items() if why is not None}
    assert all(why is None or "would not start" in why for why in refusals.values())
    if FATAL[kind] is None:
        assert not facts["started"]
        assert refused, kind
    else:
        assert not refused
        assert facts["started"] == (FATAL[kind] == "starts")


@pytest.mark.parametrize("kind", ["flip-len", "flip-magic"])
def test_a_broker_that_starts_on_hidden_damage_left_what_we_would(corpus: Corpus, kind: str):
    before, after = (corpus.directory(snapshot(f"recovery-fatal-4.4.0/{when}-{kind}")) for when in ("before", "after"))
    for path in sorted(before.glob("d-*")):
        broker = {file.name: file.read_bytes() for file in (after / path.name).iterdir()}
        _, different = best_of(held(path, clean=True), 1_795_193_000_000, broker)
        assert different == {}, path.name


OLD = {
    "crash-0.9.0.1": {
        ".timeindex": "brokers before 0.10.1 have no time index",
        ".snapshot": "brokers before 0.11 keep no producer state",
        LEADER_EPOCH_FILE: "brokers before 0.11 know no leader epochs",
    },
    "crash-0.10.2.2": {
        ".snapshot": "brokers before 0.11 keep no producer state",
        LEADER_EPOCH_FILE: "brokers before 0.11 know no leader epochs",
    },
    "crash-2.8.2": {
        LEADER_EPOCH_FILE: "brokers of 2.x keep none for formats before v2",
        "00000000000000000220.snapshot": "2.8 leaves the snapshot of a segment it dropped, written anew on the way",
    },
}
"""Files that the old broker of a case has not, or alone has. All others are equal: `.log` and `.index` to the byte."""


@pytest.mark.parametrize("case", OLD)
def test_logs_of_old_brokers_recover_to_the_same_bytes(corpus: Corpus, case: str):
    before, after = snapshot(f"{case}/before"), snapshot(f"{case}/after")
    config = TopicConfig(index_interval_bytes=4096, segment_index_bytes=4800)
    compared = 0
    for path in sorted(corpus.directory(before).iterdir()):
        if not path.is_dir() or path.name.startswith("__"):
            continue
        source = held(path, clean=False)
        broker = {file.name: file.read_bytes() for file in (corpus.directory(after) / path.name).iterdir()}
        plan = plan_recovery(source, config, as_of_ms=1_795_191_700_000)
        waiting = {name for name in broker if name.endswith(".deleted")}
        assert {name.removesuffix(".deleted") for name in waiting} <= set(plan.dropped) | {
            name for name in source.files if name.endswith(".snapshot")
        }
        rest = {name: content for name, content in broker.items() if name not in waiting}
        different = differences(written(plan, source), rest)
        left = {name: how for name, how in different.items() if not name.endswith(tuple(OLD[case]))}
        assert left == {}, path.name
        compared += 1
    assert compared == 4
