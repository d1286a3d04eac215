"""Every batch and every record's structure is what Kafka's own readers print of these very files.

Two readers: DumpLogSegments, whose text is made again from what our code read and compared as a whole; and, of legacy
cases, the class FileRecords of Kafka 4.4.0, whose listing has every field and every byte of every record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from logcore.records.control import control_type
from tests.conformance import dump_text, ours
from tests.conformance.snapshots import SNAPSHOTS, Snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

DUMPED = [snapshot for snapshot in SNAPSHOTS if snapshot.dump is not None and snapshot.name != "remote"]
LISTED = [snapshot for snapshot in SNAPSHOTS if snapshot.listing]

_BATCH = re.compile(r"^(?=(?:baseOffset|offset): )", re.MULTILINE)
_POSITION = re.compile(r" position: (\d+) ")


@pytest.mark.parametrize("snapshot", DUMPED, ids=str)
def test_every_batch_is_what_the_dump_tool_prints(corpus: Corpus, snapshot: Snapshot):
    dumps = corpus.dumps(snapshot, ".log")
    tool = corpus.facts(snapshot).get("dump_tool_version")  # not kept of legacy cases, nor were its complaints
    seen = set()
    for name, log in corpus.logs(snapshot).items():
        payload = snapshot.payload and "-big-" not in name
        for segment in log.segments:
            place = (name, segment.name)
            seen.add(place)
            if place not in dumps:
                assert segment.accounting.file_size == 0
            elif segment.accounting.valid == segment.accounting.file_size:
                expected = dump_text.comparable(dumps[place])
                assert dump_text.segment_text(segment, name, payload=payload, tool=tool) == expected, place
            else:
                assert snapshot.case.startswith("recovery-damage"), place
                assert_alike_around_damage(segment, dumps[place])
    assert set(dumps) <= seen


def assert_alike_around_damage(segment: ours.Segment, text: str) -> None:
    """The same batches, except those in bytes that we do not trust and those after the place where the tool gives up.

    It gives up with an exception, or without a message where a length leads beyond the file's end.
    """
    body = re.split(r"^(?:Found \d+ invalid|Non-consecutive|EXCEPTION)", text, flags=re.MULTILINE)[0]
    printed = {int(_POSITION.search(block)[1]): block for block in _BATCH.split(body)[1:]}  # type: ignore[index]
    read = {batch.scanned.position: "".join(dump_text.batch_lines([batch], payload=False)) for batch in segment.batches}
    distrusted = [range(stretch.position, stretch.end) for stretch in segment.stretches]
    for position in printed.keys() - read.keys():
        assert any(position in stretch for stretch in distrusted), position
    last_printed = max(printed, default=-1)
    for position in read.keys() - printed.keys():
        assert "EXCEPTION" in text or any(stretch.stop <= position for stretch in distrusted), position
        assert position > last_printed
    shared = sorted(printed.keys() & read.keys())
    assert [printed[position] for position in shared] == [read[position] for position in shared]
    invalid = re.search(r"^Found (\d+) invalid bytes", text, re.MULTILINE)
    if invalid:
        accounting = segment.accounting
        behind = sum(batch.scanned.size for batch in segment.batches if batch.scanned.position > last_printed)
        assert int(invalid[1]) == accounting.file_size - accounting.valid + behind


@pytest.mark.parametrize("snapshot", LISTED, ids=str)
def test_every_batch_and_every_byte_of_every_record_is_what_file_records_lists(corpus: Corpus, snapshot: Snapshot):
    listing = corpus.listing(snapshot)
    found = {(name, segment.name): segment for name, log in corpus.logs(snapshot).items() for segment in log.segments}
    assert set(found) == set(listing)
    for place, segment in found.items():
        listed = listing[place]
        assert segment.accounting.file_size == listed.file_size
        directory, file = place
        good = [batch for batch in listed.batches if batch["valid"]]
        assert [batch_fields(batch, directory, file) for batch in segment.batches] == good, place
        bad = {batch["position"] for batch in listed.batches if not batch["valid"]}
        bad |= {error["position"] for error in listed.errors if error["where"] == "records"}
        assert {s.position for s in segment.stretches if not s.tail} == bad, place
        if listed.batches_end < listed.file_size:
            tail = segment.accounting.tail + segment.accounting.padding
            assert listed.batches_end == listed.file_size - tail
        records = [record_fields(batch, record, directory) for batch in segment.batches for record in batch.records]
        if bad:
            # a batch that we do not trust may have given records to a reader that does not check it
            offsets = {record["offset"] for record in records}
            assert records == [record for record in listed.records if record["offset"] in offsets], place
        else:
            assert records == listed.records, place


def batch_fields(batch: ours.Batch, directory: str, file: str) -> dict[str, Any]:
    """A batch by the listing's names."""
    header = batch.header
    fields = {
        "dir": directory,
        "file": file,
        "position": batch.scanned.position,
        "size": header.size,
        "magic": header.magic,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "length": header.batch_length,
        "crc": header.crc,
        "attributes": header.attributes,
        "max_timestamp": header.max_timestamp,
        "codec": header.codec.kafka_name,
        "timestamp_type": header.timestamp_type.kafka_name,
        "valid": True,
    }
    if header.magic >= 2:
        last_sequence = header.base_sequence + header.last_offset_delta
        fields |= {
            "leader_epoch": header.partition_leader_epoch,
            "last_offset_delta": header.last_offset_delta,
            "base_timestamp": header.base_timestamp,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": -1 if header.base_sequence < 0 else last_sequence,
            "count": header.record_count,
            "transactional": header.is_transactional,
            "control": header.is_control,
            "delete_horizon_ms": header.delete_horizon_ms,
        }
    return fields


def record_fields(batch: ours.Batch, record: Any, directory: str) -> dict[str, Any]:
    """A record by the listing's names, bytes as bytes."""
    base_sequence = batch.header.base_sequence
    fields = {
        "dir": directory,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type.kafka_name,
        "sequence": -1 if base_sequence < 0 else base_sequence + record.offset - batch.header.base_offset,
        "key": record.key,
        "value": record.value,
        "headers": [[name.decode(), value] for name, value in record.headers],
    }
    if batch.header.is_control:
        fields["control_type"] = str(control_type(record.key))
    return fields
