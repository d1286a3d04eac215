"""Records of internal topics decode to what Kafka's dump tool decodes, in every case of the corpus."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from logcore.cli.main import main
from tests.conformance.conftest import Corpus
from tests.conformance.decoded_dumps import as_dumped, decoded_dumps, our_records, without_secrets
from tests.conformance.snapshots import SNAPSHOTS

NOT_DECODED = {
    "compaction-3.9.2",
    "compaction-4.1.2",
    "compaction-4.4.0",
    "recovery-damage-clean-4.4.0",
    "recovery-damage-unclean-4.4.0",
    "recovery-damage-unclean-rp-4.4.0",
    "recovery-fatal-4.4.0",
    "replicas-4.4.0",
    "retention-4.3.1",
}
"""Cases whose `__transaction_state` no tool decoded when they were made; see `tests/kafka/test_decoded_archives.py`."""


@dataclass(slots=True)
class Compared:
    """Records that were compared.

    Attributes:
        kinds: How many, by topic, type and version.
        topics: The cases and topics.
        snapshots: Of the metadata.
        different: Those that differ.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    topics: set[str] = field(default_factory=set)
    snapshots: int = 0
    different: list[Any] = field(default_factory=list)


CASES = {snapshot.case: snapshot for snapshot in SNAPSHOTS}


@pytest.fixture(scope="module")
def compared(corpus: Corpus) -> Compared:
    result = Compared()
    for case, snapshot in CASES.items():
        for dump in decoded_dumps(corpus.case(snapshot)):
            result.topics.add(f"{case} {dump.topic}")
            result.snapshots += dump.file.suffix == ".checkpoint"
            ours = dict(our_records(dump))
            if set(ours) != set(dump.records):
                result.different.append((str(dump.file), set(ours) ^ set(dump.records)))
            for offset, (key, payload) in dump.records.items():
                record = ours[offset]
                if (record.key, as_dumped(record.value, payload), record.problems) != (
                    key,
                    without_secrets(payload),
                    (),
                ):
                    result.different.append((str(dump.file), offset, record, key, payload))
                kind = record.value["type"] if key is None else f"{dump.topic} {key['type']}"
                result.kinds[f"{kind} {(record.value or {}).get('version', 'tombstone')}"] += 1
    return result


def test_every_record_decodes_as_kafkas_tool_decodes_it(compared: Compared) -> None:
    assert compared.different == []
    assert sum(compared.kinds.values()) > 1900


def test_the_corpus_has_commits_of_the_oldest_and_the_newest_version(compared: Compared) -> None:
    kinds = set(compared.kinds)
    assert {f"__consumer_offsets 1 {version}" for version in (1, 3, 4)} <= kinds
    assert {f"__consumer_offsets 2 {version}" for version in range(4)} <= kinds
    assert {"__transaction_state 0 0", "__transaction_state 0 1", "USER_SCRAM_CREDENTIAL_RECORD 0"} <= kinds
    assert {"REMOTE_LOG_SEGMENT_METADATA_RECORD 0", "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD 0"} <= kinds


def test_every_internal_topic_of_every_case_is_compared(corpus: Corpus, compared: Compared) -> None:
    """Also each snapshot of the metadata."""
    files = {
        (case, path.parent.name.rpartition("-")[0], path)
        for case, snapshot in CASES.items()
        for path in corpus.case(snapshot).glob("*/__*/*")
        if path.suffix in (".log", ".checkpoint") and path.stat().st_size > 0
    }
    not_compared = {f"{case} {topic}" for case, topic, _ in files} - compared.topics
    assert not_compared == {f"{case} __transaction_state" for case in NOT_DECODED}
    assert compared.snapshots == sum(path.suffix == ".checkpoint" for _, _, path in files) > 5


def test_the_command_shows_the_records_of_each_snapshot(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    snapshots = 0
    for snapshot in CASES.values():
        dumps = [dump for dump in decoded_dumps(corpus.case(snapshot)) if dump.file.suffix == ".checkpoint"]
        for directory in {dump.file.parent for dump in dumps}:
            assert main(["dump", "--decode", "--snapshots", "--format", "jsonl", str(directory)]) == 0
            shown: dict[int, dict[int, Any]] = {}
            for line in map(json.loads, capsys.readouterr().out.splitlines()):
                shown.setdefault(line["snapshot"], {})[line["offset"]] = line["value"]
            expected = {
                int(dump.file.name[:20]): {at: without_secrets(payload) for at, (_, payload) in dump.records.items()}
                for dump in dumps
                if dump.file.parent == directory
            }
            assert shown == expected
            snapshots += len(expected)
    assert snapshots > 5
