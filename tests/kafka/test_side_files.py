"""Offsets, transactions and producers: what the broker answers and its tools print is what we say of its files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.kafka.command_line import dumped, printed
from tests.kafka.conftest import LEVELS, TIMES, Produced, by_partition
from tests.kafka.dump_log_segments import dump_log_segments

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("at", ["earliest", "latest", "max-timestamp", *map(str, TIMES)])
def test_offsets_are_what_the_broker_answered(
    produced: Produced, level: str, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = f"{at}ms" if at.isdigit() else at
    ours = by_partition(printed(capsys, "offsets", produced.log_dir, "--at", asked, "--isolation.level", level))
    names = ("offset", "timestamp", "leader_epoch")
    compared = 0
    for log, answers in produced.offsets.items():
        theirs = next(line for line in answers if line["isolation_level"] == level and line["at"] == at)
        (mine,) = ours[log]
        # the protocol has -1 for what there is none of
        found = {name: -1 if mine[name] is None and name != "leader_epoch" else mine[name] for name in names}
        assert found == {name: theirs[name] for name in names}, (log, at, produced.settings(log[0]))
        compared += 1
    assert compared > 20


@pytest.fixture(scope="module")
def copied(produced: Produced, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory, for a tool that may write."""
    return Path(shutil.copytree(produced.log_dir, tmp_path_factory.mktemp("copied") / "data"))


def test_aborted_transactions_are_those_of_the_transaction_indexes(
    produced: Produced, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The indexes, as Kafka's tool prints them; ours come from the markers in the log. So does the last stable offset,
    which the broker answered as the latest offset of read_committed."""
    indexes = sorted(copied.glob("transactions-*/*.txnindex"))
    theirs: dict[str, set[tuple[int, int, int]]] = {}
    for path, dump in zip(indexes, dump_log_segments(indexes, tmp_path), strict=True):
        assert dump.ended == "0"
        entries = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset", dump.text)
        theirs.setdefault(path.parent.name, set()).update((int(a), int(b), int(c)) for a, b, c in entries)
    assert sum(map(len, theirs.values())) > 10
    ours: dict[str, set[tuple[int, int, int]]] = {}
    for line in printed(capsys, "transactions", produced.log_dir):
        if "summary" in line:
            answers = produced.offsets.get((line["topic"], line["partition"]), ())
            stable = {a["offset"] for a in answers if (a["isolation_level"], a["at"]) == ("read_committed", "latest")}
            assert stable <= {line["summary"]["last_stable_offset"]}
        elif line["state"] == "aborted":
            log = f"{line['topic']}-{line['partition']}"
            ours.setdefault(log, set()).add((line["producer_id"], line["first_offset"], line["marker_offset"]))
    assert ours == {log: entries for log, entries in theirs.items() if entries}


def test_producer_snapshots_are_what_the_tool_prints(copied: Path, tmp_path: Path) -> None:
    snapshots = sorted(path for path in copied.glob("*/*.snapshot") if not path.parent.name.startswith("__cluster"))
    pattern = re.compile(
        r"^producerId: (-?\d+) producerEpoch: (-?\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: Optional"
        r"Long(?:\.empty|\[(\d+)\]) lastTimestamp: (-?\d+)"
        r"(?: firstSequence: -?\d+ lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: (-?\d+) timestamp: (-?\d+))?",
        re.MULTILINE,
    )
    theirs = set()
    for path, dump in zip(snapshots, dump_log_segments(snapshots, tmp_path), strict=True):
        assert dump.ended == "0"
        assert len(pattern.findall(dump.text)) == dump.text.count("producerId: ")
        for producer, epoch, coordinator, first, stamp, sequence, offset, delta, _ in pattern.findall(dump.text):
            of_batch = (int(sequence), int(offset), int(delta)) if sequence else (-1, -1, 0)
            numbers = (int(producer), int(epoch), int(coordinator), int(first or -1), int(stamp))
            theirs.add((path.parent.name, int(path.stem), *numbers, *of_batch))
    ours = set()
    for line in dumped(tmp_path / "lines", copied, "--snapshots"):
        if line["topic"].startswith("__cluster") or "entries" in line:
            continue
        numbers = (line["producer_id"], line["producer_epoch"], line["coordinator_epoch"])
        state = (line["current_txn_first_offset"], line["timestamp"])
        of_batch = (line["last_sequence"], line["last_offset"], line["offset_delta"])
        ours.add((f"{line['topic']}-{line['partition']}", line["snapshot"], *numbers, *state, *of_batch))
    assert len(theirs) > 50
    assert ours == theirs
