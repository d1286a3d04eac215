"""Records of internal topics decode to what Kafka's dump tool decodes, in every case of the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from logcore.records.record import Record
from logcore.segments.scanning.scan import scan
from logcore.topics.decoded_records import DecodedRecord, decode_record
from logcore.topics.internal_topics import internal_topic
from tests.conformance.conftest import Corpus
from tests.conformance.decoded_dumps import DecodedDump, as_old_transaction, decoded_dumps
from tests.conformance.snapshots import SNAPSHOTS

HIDDEN = {"USER_SCRAM_CREDENTIAL_RECORD": ("salt", "storedKey", "serverKey", "iterations")}


def decoded(dump: DecodedDump) -> Iterator[tuple[int, DecodedRecord]]:
    topic = internal_topic(dump.topic)
    assert topic is not None
    found: list[Record] = []
    base_offset = 0 if dump.file.suffix == ".checkpoint" else int(dump.file.name[:20])

    def keep(header: Any, record: Record) -> None:
        if not header.is_control:
            found.append(record)

    for _ in scan(dump.file.read_bytes(), base_offset=base_offset, sealed=False, inspect=keep):
        pass
    for record in found:
        yield record.offset, decode_record(topic, record.key, record.value)


def hidden(payload: Any) -> Any:
    for name in HIDDEN.get(payload["type"], ()) if isinstance(payload, dict) and "type" in payload else ():
        payload["data"][name] = "(redacted)"
    return payload


@pytest.fixture(scope="module")
def compared(corpus: Corpus) -> tuple[Counter[str], list[Any]]:
    """How many records were compared, by topic, type and version, and those that differ."""
    kinds: Counter[str] = Counter()
    different: list[Any] = []
    for case in {snapshot.case: snapshot for snapshot in SNAPSHOTS}.values():
        for dump in decoded_dumps(corpus.case(case)):
            ours = dict(decoded(dump))
            if set(ours) != set(dump.records):
                different.append((str(dump.file), set(ours) ^ set(dump.records)))
            for offset, (key, payload) in dump.records.items():
                record = ours[offset]
                value: Any = record.value
                if isinstance(payload, tuple) and value is not None:
                    value = as_old_transaction(value)
                if (record.key, value, record.problems) != (key, hidden(payload), ()):
                    different.append((str(dump.file), offset, record, key, payload))
                kind = record.value["type"] if key is None else f"{dump.topic} {key['type']}"
                kinds[f"{kind} {(record.value or {}).get('version', 'tombstone')}"] += 1
    return kinds, different


def test_every_record_decodes_as_kafkas_tool_decodes_it(compared: tuple[Counter[str], list[Any]]) -> None:
    kinds, different = compared
    assert different == []
    assert sum(kinds.values()) > 1900


def test_the_corpus_has_commits_of_the_oldest_and_the_newest_version(compared: tuple[Counter[str], list[Any]]) -> None:
    kinds, _ = compared
    assert {f"__consumer_offsets 1 {version}" for version in (1, 3, 4)} <= set(kinds)
    assert {f"__consumer_offsets 2 {version}" for version in range(4)} <= set(kinds)
    assert {"__transaction_state 0 0", "__transaction_state 0 1", "USER_SCRAM_CREDENTIAL_RECORD 0"} <= set(kinds)
