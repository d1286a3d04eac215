"""For all bytes and all histories: side files are understood or refused, and what is written is read back."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.errors import CorruptIndexError, LogError
from logcore.segments.filenames import parse_partition_directory
from logcore.segments.side_files import checkpoints, offset_index, producer_state, time_index, transaction_index
from logcore.segments.side_files.leader_epochs import assign, epoch_for_offset, truncate_from_end, truncate_from_start
from logcore.segments.side_files.producer_state import ProducerEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction
from logcore.segments.startup import kept_at_start
from tests import handmade
from tests.sampling import examples

PARSERS: dict[str, Callable[[bytes], object]] = {
    "offset index": lambda data: offset_index.parse(data, 100),
    "time index": lambda data: time_index.parse(data, 100),
    "transaction index": lambda data: transaction_index.parse(data, 100),
    "producer snapshot": producer_state.parse,
    "offset checkpoint": checkpoints.parse_offset_checkpoint,
    "leader epochs": checkpoints.parse_leader_epochs,
    "partition.metadata": checkpoints.parse_partition_metadata,
    "meta.properties": checkpoints.parse_meta_properties,
    "quorum-state": checkpoints.parse_quorum_state,
    "clean shutdown": checkpoints.parse_clean_shutdown,
}

SOUND = [
    b"0\n2\norders 0 42\norders-eu 11 7\n",
    b"0\n2\n0 0\n5 17\n",
    b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA",
    b"version=1\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nnode.id=1\n",
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":1}',
    transaction_index.encode([AbortedTransaction(8, 98, 109, 110)]) + bytes(40),
    producer_state.encode([ProducerEntry(9, 0, 1, 5, 0, 17, 2, -1)]),
    bytes(30),
]


@st.composite
def injured(draw: st.DrawFn) -> bytes:
    """A sound file after an injury, or any bytes at all."""
    data = draw(st.sampled_from(SOUND))
    at = draw(st.integers(0, len(data)))
    piece = draw(st.binary(max_size=40))
    match draw(st.sampled_from(["overwrite", "insert", "cut", "double", "anything"])):
        case "overwrite":
            return data[:at] + piece + data[at + len(piece) :]
        case "insert":
            return data[:at] + piece + data[at:]
        case "cut":
            return data[:at]
        case "double":
            return data + data
    return piece


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=examples(150))
@given(data=injured())
def test_no_bytes_break_a_parser(name: str, data: bytes) -> None:
    with suppress(LogError):
        PARSERS[name](data)


int16, int32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
producers = st.builds(ProducerEntry, int64, int16, int32, int64, int32, int64, int32, int64)


@given(st.lists(producers, max_size=5, unique_by=lambda entry: entry.producer_id))
def test_a_snapshot_that_is_written_is_read_back(entries: list[ProducerEntry]) -> None:
    assert producer_state.parse(producer_state.encode(entries)) == tuple(entries)


@given(st.lists(producers, max_size=3, unique_by=lambda entry: entry.producer_id), st.data())
def test_no_flipped_bit_of_a_snapshot_goes_unseen(entries: list[ProducerEntry], data: st.DataObject) -> None:
    packed = producer_state.encode(entries)
    at = data.draw(st.integers(0, 8 * len(packed) - 1))
    with pytest.raises(CorruptIndexError):
        producer_state.parse(handmade.flip(packed, at // 8, at % 8))


@st.composite
def aborted(draw: st.DrawFn) -> list[AbortedTransaction]:
    """Aborted transactions by their markers, as one history could have left them."""
    entries, offset = [], 100
    for _ in range(draw(st.integers(0, 6))):
        offset += draw(st.integers(1, 20))
        first = draw(st.integers(80, offset - 1))
        entries.append(AbortedTransaction(draw(st.integers(0, 9)), first, offset, draw(st.integers(80, offset + 1))))
    return entries


@given(aborted(), st.integers(0, 100))
def test_a_written_transaction_index_is_read_back_whatever_zeros_follow(
    entries: list[AbortedTransaction], zeros: int
) -> None:
    data = transaction_index.encode(entries)
    assert transaction_index.parse(data + bytes(zeros), 100) == tuple(entries)


@given(aborted(), st.integers(60, 260))
def test_a_truncated_transaction_index_holds_no_marker_of_what_is_cut(
    entries: list[AbortedTransaction], offset: int
) -> None:
    left = transaction_index.truncate(entries, offset)
    assert left == tuple(entry for entry in entries if entry.last_offset < offset)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 60)), max_size=8), st.integers(0, 60), st.integers(0, 60))
def test_leader_epochs_always_rise(assigned: list[tuple[int, int]], cut: int, start: int) -> None:
    epochs = ()
    for epoch, offset in assigned:
        epochs = assign(epochs, epoch, offset)
    for history in (epochs, truncate_from_end(epochs, cut), truncate_from_start(epochs, start)):
        numbers, starts = [entry.epoch for entry in history], [entry.start_offset for entry in history]
        assert numbers == sorted(set(numbers))
        assert starts == sorted(set(starts))
        assert checkpoints.parse_leader_epochs(checkpoints.format_leader_epochs(history)) == history
    for offset in range(start, 62):
        assert epoch_for_offset(truncate_from_start(epochs, start), offset) == epoch_for_offset(epochs, offset)


@st.composite
def directories(draw: st.DrawFn) -> list[str]:
    """Names of files as interrupted work of every kind could leave them, together."""
    bases = st.sampled_from([0, 10, 20, 30])
    kinds = st.sampled_from([".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
    suffixes = st.sampled_from(["", "", "", ".deleted", ".cleaned", ".swap"])
    rows = draw(st.lists(st.tuples(bases, kinds, suffixes), max_size=25))
    return sorted({f"{base:020d}{kind}{suffix}" for base, kind, suffix in rows})


def as_kafka_starts(present: list[str], ends: dict[int, int]) -> set[tuple[str, str]]:
    """Kafka's LogLoader on a set of names, a pass at a time, removing and renaming: (name in the end, name before)."""
    files = {name: name for name in present}
    for name in [name for name in files if name.endswith(".deleted")]:
        del files[name]
    lowest = min((int(name[:20]) for name in files if name.endswith(".cleaned")), default=2**63)
    for name in list(files):
        if name.endswith(".cleaned") or (name.endswith(".swap") and int(name[:20]) >= lowest):
            del files[name]
    logs = [int(name[:20]) for name in files if name.endswith(".log.swap")]
    low, high = min(logs, default=2**63), max((ends[base] for base in logs), default=-1)
    for name in list(files):
        if not name.endswith(".swap") and low <= int(name[:20]) < high:
            del files[name]
    for name in [name for name in files if name.endswith(".swap")]:
        files[name.removesuffix(".swap")] = files.pop(name)
    for name in list(files):
        if name.endswith("index") and f"{name[:20]}.log" not in files:
            del files[name]
    bases = [int(name[:20]) for name in files if name.endswith(".log")]
    strays = sorted(name for name in files if name.endswith(".snapshot") and int(name[:20]) not in bases)
    for name in strays[:-1]:
        del files[name]
    if strays and bases and int(strays[-1][:20]) < max(bases):
        del files[strays[-1]]
    return set(files.items())


@settings(max_examples=examples(400))
@given(directories(), st.lists(st.integers(0, 12), min_size=4, max_size=4))
def test_what_is_kept_is_what_a_start_would_leave(present: list[str], spans: list[int]) -> None:
    ends = {base: base + span for base, span in zip((0, 10, 20, 30), spans, strict=True)}
    plan = kept_at_start(present, lambda name: ends[int(name[:20])])
    assert set(plan.kept.items()) == as_kafka_starts(present, ends)
    assert set(plan.dropped) == set(present) - set(plan.kept.values()), "every file is kept or dropped, with a reason"


@given(st.text(max_size=40))
def test_a_directorys_name_is_understood_or_not(name: str) -> None:
    parsed = parse_partition_directory(name)
    assert parsed is None or str(parsed[0]) in name
