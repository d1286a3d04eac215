"""Every record of every snapshot went through a lake, and is in its tables as a real consumer received it.

`records` is what a consumer at `read_committed` got, `records_uncommitted` one at `read_uncommitted`, whoever reads
them: deltalake, DuckDB, Polars. Where the log is damaged, strict publishes what lies before the damage, permissive
what lies after it too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from logcore.segments.filenames import is_internal_topic
from tests.conformance.lakes import READERS, TABLE_OF, CorpusLake, Lakes, as_consumed
from tests.conformance.snapshots import BOTH, NOT_CONSUMED, SNAPSHOTS, Snapshot, snapshot
from tests.conformance.test_records import APART, CONSUMED, CONSUMER_FAILED, INDEXES_GONE, NOT_ASKED
from tests.conformance.test_recovery import without_aborted

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus
    from tests.conformance.oracles import Consumed

pytestmark = pytest.mark.spark

LOST = {
    ("recovery-damage-clean-4.4.0/after", "d-flip-crc-0"): (33, 35),
    ("recovery-damage-clean-4.4.0/after", "d-flip-old-0"): (23, 24),
    ("recovery-damage-clean-4.4.0/after", "d-seg-empty-0"): (33, 5029),
    ("recovery-damage-clean-4.4.0/after", "d-seg-gone-0"): (16, 29),
    ("recovery-damage-unclean-4.4.0/after", "d-flip-magic-0"): (30, 31),
    ("recovery-damage-unclean-4.4.0/after", "d-seg-empty-0"): (43, 5028),
    ("recovery-damage-unclean-4.4.0/after", "d-seg-gone-0"): (16, 29),
    ("recovery-damage-unclean-rp-4.4.0/after", "d-flip-magic-0"): (35, 39),
    ("recovery-damage-unclean-rp-4.4.0/after", "d-flip-old-0"): (21, 22),
}
"""Offsets that the case destroyed: of a batch with a byte flipped, of a segment that was removed, and those in front of
an empty segment of a far offset, which is then the last. Nothing of them is ever published."""

PIECEWISE = {*LOST, *((at, log) for (at, log), (_, why) in APART.items() if why is INDEXES_GONE)}
"""Logs that a consumer's output is no measure of, at one level or both; they have tests of their own."""

AFTERS = sorted({at for at, _ in LOST})
MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS = -62_135_596_800_000, 253_402_300_799_999
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def lakes(spark: object, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    """A lake for each snapshot that a test asks for; all of them share one Spark session."""
    return Lakes(corpus, tmp_path_factory.mktemp("lakes"))


@pytest.mark.parametrize(("snapshot", "isolation_level"), CONSUMED, ids=lambda value: str(value))
def test_the_table_has_what_the_real_consumer_received(
    lakes: Lakes, corpus: Corpus, snapshot: Snapshot, isolation_level: str
):
    same_as_consumed(corpus, snapshot, isolation_level, lakes.of(snapshot).consumed(isolation_level))


@pytest.mark.long
@pytest.mark.parametrize("entry", [entry for entry in SNAPSHOTS if entry.consumed], ids=str)
def test_every_reader_reads_the_same_rows(lakes: Lakes, entry: Snapshot):
    lake = lakes.of(entry)
    for table in TABLE_OF.values():
        read = lake.read(table)
        for name in READERS:
            assert read[name] == read["deltalake"], (table, name)


@pytest.mark.parametrize("entry", [entry for entry in SNAPSHOTS if entry.consumed], ids=str)
def test_timestamps_are_instants_to_the_millisecond(lakes: Lakes, entry: Snapshot):
    """And null where there is none (-1) or no calendar has it; then `timestamp_ms` alone says what was written."""
    for table in TABLE_OF.values():
        for row in lakes.of(entry).rows(table):
            ms = row["timestamp_ms"]
            there = ms != -1 and MIN_TIMESTAMP_MS <= ms <= MAX_TIMESTAMP_MS
            assert row["timestamp"] == (EPOCH + timedelta(milliseconds=ms) if there else None)


@pytest.mark.parametrize("entry", [entry for entry in SNAPSHOTS if entry.consumed == BOTH], ids=str)
def test_a_transaction_s_state_says_whether_a_consumer_of_committed_records_got_it(
    lakes: Lakes, corpus: Corpus, entry: Snapshot
):
    committed, uncommitted = (corpus.consumed(entry, level) for level in ("read_committed", "read_uncommitted"))
    asked = {
        name
        for name in uncommitted
        if (name in committed or not is_internal_topic(name)) and (str(entry), name) not in PIECEWISE
    }
    states = {
        (f"{row['topic']}-{row['partition']}", row["offset"]): row["transaction_state"]
        for row in lakes.of(entry).rows("records_uncommitted")
        if f"{row['topic']}-{row['partition']}" in asked
    }
    received = {(name, record.offset) for name, records in committed.items() for record in records}
    written = {(name, record.offset) for name in asked for record in uncommitted[name]}
    assert states.keys() == written
    assert {place for place, state in states.items() if state == "committed"} == received & written


@pytest.mark.parametrize("entry", [entry for entry in SNAPSHOTS if entry.consumed], ids=str)
def test_every_offset_is_accounted_for_once(lakes: Lakes, corpus: Corpus, entry: Snapshot):
    accounted(lakes.of(entry))
    ends = ends_by_log(lakes.of(entry))
    for isolation_level in entry.consumed:
        for name, records in corpus.consumed(entry, isolation_level).items():
            assert not records or ends[name] > records[-1].offset, name


@pytest.mark.long
@pytest.mark.parametrize(("place", "name"), sorted(LOST))
@pytest.mark.parametrize("salvage", ["strict", "permissive"])
def test_of_a_damaged_log_everything_but_the_damage_can_be_had(
    lakes: Lakes, corpus: Corpus, place: str, name: str, salvage: str
):
    """What consumers received before the log was damaged says what its records are."""
    start, end = LOST[place, name]
    before = corpus.consumed(snapshot(place.replace("/after", "/base")), "read_uncommitted")[name]
    lake = lakes.of(snapshot(place), salvage)
    limit = high_watermark(corpus, snapshot(place), name)
    expected = [record for record in before if record.offset < limit]
    expected = [
        record for record in expected if record.offset < start or (salvage != "strict" and record.offset >= end)
    ]
    assert expected
    same_records(lake.consumed("read_uncommitted").get(name, []), expected, name)
    states = {(r["start_offset"], r["end_offset"]): r["state"] for r in ledgers_by_log(lake)[name]}
    assert states[start, end] == ("corrupt" if "flip" in name else "missing")
    if salvage == "permissive" and (place, name) not in APART:  # where the consumer continued after the damage too
        for isolation_level in BOTH:
            received = corpus.consumed(snapshot(place), isolation_level)[name]
            same_records(lake.consumed(isolation_level)[name], received, name)
    visible = [row for row in lake.rows("records_uncommitted") if f"{row['topic']}-{row['partition']}" == name]
    committed = [as_consumed(row) for row in visible if row["transaction_state"] == "committed"]
    same_records(lake.consumed("read_committed").get(name, []), sorted(committed, key=lambda r: r.offset), name)


@pytest.mark.parametrize("place", AFTERS)
def test_permissive_salvage_accounts_for_every_offset_too(lakes: Lakes, place: str):
    accounted(lakes.of(snapshot(place), "permissive"))


@pytest.mark.parametrize(
    ("place", "name"), sorted((at, log) for (at, log), (_, why) in APART.items() if why is INDEXES_GONE)
)
def test_side_files_that_misled_the_broker_do_not_mislead_us(lakes: Lakes, corpus: Corpus, place: str, name: str):
    before = corpus.consumed(snapshot(place.replace("/after", "/base")), "read_uncommitted")[name]
    lake, limit = lakes.of(snapshot(place)), high_watermark(corpus, snapshot(place), name)
    uncommitted = [record for record in before if record.offset < limit]
    same_records(lake.consumed("read_uncommitted")[name], uncommitted, name)
    expected = without_aborted(corpus, snapshot(place), name, uncommitted)
    same_records(lake.consumed("read_committed")[name], expected, name)


@pytest.mark.parametrize("entry", sorted(NOT_CONSUMED))
def test_a_snapshot_without_a_consumer_has_no_measure(entry: str):
    pytest.skip(NOT_CONSUMED[entry])


@pytest.mark.parametrize(("place", "name"), sorted((at, log) for at, logs in NOT_ASKED.items() for log in logs))
def test_a_log_that_no_consumer_was_sent_to_has_no_measure(place: str, name: str):
    pytest.skip("no consumer was sent there; the dump tool looked at it")


def test_every_log_that_consumers_failed_on_is_among_the_damaged():
    failed = {(at, log) for (at, log), (_, why) in APART.items() if why is CONSUMER_FAILED}
    assert failed <= set(LOST)


def same_as_consumed(
    corpus: Corpus, snapshot: Snapshot, isolation_level: str, found: dict[str, list[Consumed]]
) -> None:
    """Every log that a consumer is a measure of holds what it received."""
    expected = corpus.consumed(snapshot, isolation_level)
    for name in sorted(expected.keys() | found.keys()):
        if name not in expected and (is_internal_topic(name) or name in NOT_ASKED.get(str(snapshot), ())):
            continue  # no consumer was sent there
        if (str(snapshot), name) in PIECEWISE:
            continue
        same_records(found.get(name, []), expected.get(name, []), name)


def same_records(found: list[Consumed], expected: list[Consumed], name: str) -> None:
    """Every field; clients before 2.1 do not report the leader epoch."""
    assert [row.offset for row in found] == [record.offset for record in expected], name
    for row, record in zip(found, expected, strict=True):
        if record.leader_epoch is None:
            row = row._replace(leader_epoch=None)
        assert row == record, f"{name} offset {record.offset}"


def accounted(lake: CorpusLake) -> None:
    """The ledger tiles every log, its published records are the rows, and no offset has two."""
    counted: dict[tuple[str, int], int] = {}
    ends = ends_by_log(lake)
    ledgers = ledgers_by_log(lake)
    assert ledgers.keys() == {name for name, end in ends.items() if end}
    for name, ledger in ledgers.items():
        assert ledger[-1]["end_offset"] == ends[name], name
        bounds = [0, *(row["end_offset"] for row in ledger)]
        assert [row["start_offset"] for row in ledger] == bounds[:-1], name
        for row in ledger:
            key = (row["log_id"], row["partition"])
            published = row["state"] == "present" and row["published"]
            counted[key] = counted.get(key, 0) + (row["records"] if published else 0)
            assert row["records"] + row["gaps"] <= row["end_offset"] - row["start_offset"], name
    for table in TABLE_OF.values():
        rows = [(row["log_id"], row["partition"], row["offset"]) for row in lake.rows(table)]
        assert len(set(rows)) == len(rows), table
        if table == "records":
            held: dict[tuple[str, int], int] = dict.fromkeys(counted, 0)
            for log_id, partition, _ in rows:
                held[log_id, partition] += 1
            assert held == counted


def ends_by_log(lake: CorpusLake) -> dict[str, int]:
    """Next offset by topic partition, as ingest has it."""
    return {f"{row['topic']}-{row['partition']}": row["next_offset"] for row in lake.rows("logs")}


def ledgers_by_log(lake: CorpusLake) -> dict[str, list[dict]]:
    """Rows of the ledger by topic partition, in offset order."""
    found: dict[str, list[dict]] = {}
    for row in sorted(lake.rows("offset_ledger"), key=lambda row: row["start_offset"]):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
    return found


def high_watermark(corpus: Corpus, entry: Snapshot, name: str) -> int:
    """As the checkpoint of the log directory has it, read as text."""
    lines = (corpus.directory(entry) / "replication-offset-checkpoint").read_text().splitlines()[2:]
    found = {f"{topic}-{partition}": int(offset) for topic, partition, offset in (line.split() for line in lines)}
    return found[name]
