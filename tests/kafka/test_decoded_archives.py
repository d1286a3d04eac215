"""Internal topics of archives that no tool decoded when they were made, against the dump tool of the newest Kafka."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conformance.conftest import Corpus
from tests.conformance.decoded_dumps import DecodedDump, our_records, records_of
from tests.conformance.snapshots import SNAPSHOTS
from tests.conformance.test_decoded_records import NOT_DECODED
from tests.kafka import distribution
from tests.kafka.dump_log_segments import dump_log_segments
from tests.kafka.operated_cluster import classes

pytestmark = [pytest.mark.kafka, pytest.mark.long]


def test_transactions_of_these_archives_decode_as_the_dump_tool_decodes_them(tmp_path: Path) -> None:
    try:
        own = classes()
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")
    corpus = Corpus(tmp_path / "corpus")
    cases = {snapshot.case: snapshot for snapshot in SNAPSHOTS if snapshot.case in NOT_DECODED}
    files = [
        path
        for snapshot in cases.values()
        for path in sorted(corpus.case(snapshot).glob("*/__transaction_state-*/*.log"))
        if path.stat().st_size > 0
    ]
    copies = []
    for number, path in enumerate(files):
        copies.append(tmp_path / "copies" / str(number) / path.parent.name / path.name)
        copies[-1].parent.mkdir(parents=True)
        shutil.copy2(path, copies[-1])
    options = {"version": distribution.NEWEST_BROKER, "classes": own}
    dumps = dump_log_segments(copies, tmp_path, "--transaction-log-decoder", **options)
    compared = 0
    for path, dump in zip(files, dumps, strict=True):
        assert dump.ended == "0", dump.text
        theirs = records_of(dump.text)
        ours = dict(our_records(DecodedDump(path, path.parent.name, theirs)))
        assert {offset: (record.key, record.value) for offset, record in ours.items()} == theirs, path
        assert not any(record.problems for record in ours.values()), path
        compared += len(theirs)
    assert len(files) >= len(cases) == len(NOT_DECODED)
    assert compared > 500
