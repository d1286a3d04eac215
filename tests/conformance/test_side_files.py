"""Every index, snapshot and checkpoint of the corpus is understood, and says what the dump tool prints of it.

Files that a case damaged on purpose are refused, each of them: see `REFUSED`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logcore.errors import CorruptIndexError, LogError, UnsupportedFormatError
from logcore.segments.side_files import checkpoints, offset_index, producer_state, time_index, transaction_index
from tests.conformance.snapshots import SNAPSHOTS, Snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")

REFUSED: dict[tuple[str, str, str], type[LogError]] = {
    **{
        (f"recovery-damage-{how}-4.4.0/before", f"d-{what}-0", suffix): CorruptIndexError
        for how in ("clean", "unclean", "unclean-rp")
        for what, suffix in (
            ("idx-junk", ".index"),
            ("tidx-junk", ".timeindex"),
            ("snap-junk", ".snapshot"),
            ("txnidx-low", ".txnindex"),
        )
    },
    ("recovery-fatal-4.4.0/before-txnidx-junk", "d-x-0", ".txnindex"): UnsupportedFormatError,
}
"""Damaged on purpose: (snapshot, directory, suffix) and how each of those files is refused."""


def refusal(corpus: Corpus, snapshot: Snapshot, directory: str, file: str) -> type[LogError] | None:
    """How a damaged file is refused; None for one that is as a broker wrote it. What a broker found damaged and left
    as it was is refused afterwards too."""
    suffix = Path(file).suffix
    if snapshot.case.startswith("recovery-damage") and snapshot.name == "after":
        before = corpus.case(snapshot) / "before" / directory / file
        after = corpus.directory(snapshot) / directory / file
        if not before.exists() or before.read_bytes() != after.read_bytes():
            return None
        return REFUSED.get((f"{snapshot.case}/before", directory, suffix))
    return REFUSED.get((str(snapshot), directory, suffix))


def base_offset(file: str) -> int:
    match = re.match(r"\d+", file)
    assert match is not None
    return int(match[0])


def files(corpus: Corpus, snapshot: Snapshot, suffix: str) -> Iterator[tuple[str, str, bytes]]:
    """(directory, file, content) of every file of a suffix in the snapshot's partition directories."""
    root = corpus.directory(snapshot)
    for path in sorted(root.rglob(f"*{suffix}")):
        yield str(path.parent.relative_to(root)), path.name, path.read_bytes()


def numbers(text: str, *names: str) -> list[tuple[int, ...]]:
    """The tool's lines of the form `name: 1 name: 2`, as numbers."""
    line = re.compile("^" + " ".join(rf"{name}: (-?\d+)" for name in names), re.MULTILINE)
    return [tuple(int(number) for number in match.groups()) for match in line.finditer(text)]


def offset_entries(content: bytes, file: str) -> list[tuple[int, ...]]:
    return [(entry.offset, entry.position) for entry in offset_index.parse(content, base_offset(file))]


def time_entries(content: bytes, file: str) -> list[tuple[int, ...]]:
    return [(entry.timestamp, entry.offset) for entry in time_index.parse(content, base_offset(file))]


def aborted_entries(content: bytes, file: str) -> list[tuple[int, ...]]:
    return [
        (0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in transaction_index.parse(content, base_offset(file))
    ]


ENTRY_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
PRINTED: dict[str, tuple[Callable[[bytes, str], list[tuple[int, ...]]], tuple[str, ...]]] = {
    ".index": (offset_entries, ("offset", "position")),
    ".timeindex": (time_entries, ("timestamp", "offset")),
    ".txnindex": (
        aborted_entries,
        ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset"),
    ),
}


@pytest.mark.parametrize("suffix", PRINTED)
@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_every_index_is_what_the_dump_tool_prints(corpus: Corpus, snapshot: Snapshot, suffix: str):
    read, names = PRINTED[suffix]
    dumps = corpus.dumps(snapshot, suffix) if snapshot.dump else {}
    seen = set()
    for directory, file, content in files(corpus, snapshot, suffix):
        place = (directory, file)
        seen.add(place)
        refused = refusal(corpus, snapshot, directory, file)
        if refused is not None:
            with pytest.raises(refused):
                read(content, file)
            continue
        entries = read(content, file)
        if place not in dumps:
            # not dumped: nothing of this snapshot, empty files of old brokers, one kind of file in a broker's cache
            assert not snapshot.dump or not content or directory == "remote-log-index-cache", place
            continue
        printed = numbers(dumps[place], *names)
        if not any(content) and len(content) > ENTRY_SIZES[suffix]:
            # preallocated, nothing written: the tool takes the first zeros for an entry
            assert entries == []
            assert printed in ([], [(base_offset(file), 0)], [(0, base_offset(file))]), place
        elif "EXCEPTION" in dumps[place]:
            # the tool gave up: its file's damage, or a name it does not know
            assert entries[: len(printed)] == printed, place
        else:
            assert entries == printed, place
    assert set(dumps) <= seen


def producer_line(entry: producer_state.ProducerEntry) -> str:
    """What the tool prints of a producer."""
    begins = "OptionalLong.empty" if entry.open_transaction is None else f"OptionalLong[{entry.open_transaction}]"
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {begins} lastTimestamp: {entry.timestamp} "
    )
    if entry.last_offset < 0:
        return line.rstrip()
    return (
        f"{line}firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_every_producer_snapshot_is_what_the_dump_tool_prints(corpus: Corpus, snapshot: Snapshot):
    dumps = corpus.dumps(snapshot, ".snapshot") if snapshot.dump else {}
    seen = set()
    for directory, file, content in files(corpus, snapshot, ".snapshot"):
        place = (directory, file)
        seen.add(place)
        refused = refusal(corpus, snapshot, directory, file)
        if refused is not None:
            with pytest.raises(refused):
                producer_state.parse(content)
            if place in dumps:
                assert "failed schema validation" in dumps[place]
            continue
        entries = producer_state.parse(content)
        assert sorted(producer_state.encode(entries)) == sorted(content)
        if place not in dumps:
            assert not snapshot.dump, place
            continue
        if "EXCEPTION: java.lang.NumberFormatException" in dumps[place]:
            continue  # the tool does not know the names of tiered storage
        lines = [line.rstrip() for line in dumps[place].splitlines()[1:]]
        assert sorted(producer_line(entry) for entry in entries) == sorted(lines), place
    assert set(dumps) <= seen


ROOT_CHECKPOINTS = {
    "replication-offset-checkpoint": "high_watermarks",
    "recovery-point-offset-checkpoint": "recovery_points",
    "log-start-offset-checkpoint": "log_start_checkpoint",
    "cleaner-offset-checkpoint": "cleaner_checkpoint",
}
"""File, and what case.json calls its content."""


def plain_lines(path: Path) -> list[list[str]]:
    """Entries of a checkpoint file, read the plainest way."""
    return [line.split() for line in path.read_text().splitlines()[2:]]


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_every_root_checkpoint_says_what_the_case_says(corpus: Corpus, snapshot: Snapshot):
    root = corpus.directory(snapshot)
    facts: dict[str, Any] = corpus.facts(snapshot).get("snapshots", {}).get(snapshot.name, {})
    found = 0
    for name, stated in ROOT_CHECKPOINTS.items():
        path = root / name
        if not path.exists():
            continue
        found += 1
        if str(snapshot) in ("recovery-fatal-4.4.0/before-hw-junk", "recovery-fatal-4.4.0/before-rp-junk") and (
            name.startswith("replication" if "hw" in snapshot.name else "recovery")
        ):
            with pytest.raises(CorruptIndexError):
                checkpoints.parse_offset_checkpoint(path.read_bytes())
            continue
        offsets = {str(key): offset for key, offset in checkpoints.parse_offset_checkpoint(path.read_bytes()).items()}
        assert offsets == {f"{topic}-{number}": int(offset) for topic, number, offset in plain_lines(path)}, name
        if stated in facts:
            assert offsets == facts[stated], name
    assert found or snapshot.name == "remote"


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_every_leader_epoch_checkpoint_and_topic_id_is_read(corpus: Corpus, snapshot: Snapshot):
    junk = {
        "recovery-fatal-4.4.0/before-epoch-junk": "d-x-0/leader-epoch-checkpoint",
        "recovery-fatal-4.4.0/before-meta-junk": "d-x-0/partition.metadata",
    }.get(str(snapshot))
    root = corpus.directory(snapshot)
    for path in sorted(root.rglob("*leader-epoch-checkpoint")):
        if str(path.relative_to(root)) == junk:
            with pytest.raises(CorruptIndexError):
                checkpoints.parse_leader_epochs(path.read_bytes())
            continue
        entries = checkpoints.parse_leader_epochs(path.read_bytes())
        assert [[str(entry.epoch), str(entry.start_offset)] for entry in entries] == plain_lines(path)
    for path in sorted(root.rglob("partition.metadata")):
        if str(path.relative_to(root)) == junk:
            with pytest.raises(CorruptIndexError):
                checkpoints.parse_partition_metadata(path.read_bytes())
            continue
        topic_id = checkpoints.parse_partition_metadata(path.read_bytes())
        assert path.read_text().splitlines() == ["version: 0", f"topic_id: {topic_id}"]


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_every_file_about_the_broker_is_read(corpus: Corpus, snapshot: Snapshot):
    root = corpus.directory(snapshot)
    facts = corpus.facts(snapshot)
    properties = root / "meta.properties"
    if properties.exists():
        values = checkpoints.parse_meta_properties(properties.read_bytes())
        written = [line.split("=", 1) for line in properties.read_text().splitlines() if not line.startswith("#")]
        assert values == dict(written)
        if "cluster_id" in facts and snapshot.name != "before-cluster-id":
            assert values["cluster.id"] == facts["cluster_id"]
    else:
        # not there: before 0.9, in a remote store, and where a case left it out
        without = ("compact-2.8.2/after-4", "compact-2.8.2/after2-4", "docs-0.8", "groups-0.8", "v0-0.8")
        assert snapshot.name == "remote" or str(snapshot).startswith(without)
    marker = root / ".kafka_cleanshutdown"
    if marker.exists():
        stated = json.loads(marker.read_text() or "{}").get("brokerEpoch")
        assert checkpoints.parse_clean_shutdown(marker.read_bytes()) == stated
    for path in sorted(root.rglob("quorum-state")):
        assert checkpoints.parse_quorum_state(path.read_bytes()) == json.loads(path.read_text())
