"""Which offsets remote segments have: our lineage against the class with which a broker looks them up."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass, field

import pytest

from logcore.remote.lineage import highest_tiered_offset, joined, offsets_in_lineage
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution

pytestmark = [pytest.mark.kafka, pytest.mark.long]

CASES = 2000


@dataclass
class Cluster:
    """A log through leaders that copy their segments, as RemoteLogManager does: from the one with the first offset
    that was not copied. Each leader cut its segments elsewhere.
    """

    luck: random.Random
    epoch_of: list[int] = field(default_factory=list)
    """The leader epoch of each offset."""
    borders: list[int] = field(default_factory=lambda: [0])
    """Where batches begin, and the end."""
    epoch: int = 0
    log_start: int = 0
    """Of the last leader."""
    copied: list[tuple[int, int, list[tuple[int, int]]]] = field(default_factory=list)

    def epochs(self, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        for offset in range(start, len(self.epoch_of) if end is None else end):
            if not entries or entries[-1][0] != self.epoch_of[offset]:
                entries.append((self.epoch_of[offset], offset))
        return entries

    def live(self) -> None:
        for _ in range(self.luck.randint(1, 5)):
            for _ in range(self.luck.randint(0, 6)):
                size = self.luck.randint(1, 4)
                self.epoch_of += [self.epoch] * size
                self.borders.append(len(self.epoch_of))
            self.copy()
            if self.luck.random() < 0.5:  # unclean
                self.borders = self.borders[: self.luck.randint(1, len(self.borders))]
                del self.epoch_of[self.borders[-1] :]
            self.epoch += self.luck.randint(1, 2)
        if self.luck.random() < 0.5:
            self.log_start = self.luck.randint(0, len(self.epoch_of))

    def copy(self) -> None:
        bases = [0, *sorted(self.luck.sample(self.borders[1:-1], self.luck.randint(0, max(len(self.borders) - 2, 0))))]
        segments = list(zip(bases, [*bases[1:], len(self.epoch_of)], strict=True))
        first = highest(self.copied, self.epochs(), len(self.epoch_of)) + 1
        for start, end in segments[: self.luck.randint(0, len(segments))]:
            if end > max(first, start):
                self.copied.append((start, end, self.epochs(start, end)))

    def described(self) -> list[RemoteSegment]:
        return [described(number, *each) for number, each in enumerate(self.copied)]


def described(number: int, start: int, end: int, epochs: list[tuple[int, int]]) -> RemoteSegment:
    entries = tuple(EpochEntry(*entry) for entry in epochs)
    finished = RemoteSegmentState.COPY_FINISHED
    return RemoteSegment(TopicPartition("orders", 0), "T", str(number), start, end - 1, entries, 1000, finished)


def highest(copied: list[tuple[int, int, list[tuple[int, int]]]], epochs: list[tuple[int, int]], log_end: int) -> int:
    """The last copied offset as RemoteLogManager.findHighestRemoteOffset finds it."""
    ends: dict[int, int] = {}
    for _, end, own in copied:
        for number, (epoch, _) in enumerate(own):
            after = own[number + 1][1] if number + 1 < len(own) else end
            ends[epoch] = max(after - 1, ends.get(epoch, -1))
    return highest_of(ends, epochs, log_end)


def highest_of(ends: dict[int, int], epochs: list[tuple[int, int]], log_end: int) -> int:
    for number in reversed(range(len(epochs))):
        epoch = epochs[number][0]
        after = epochs[number + 1][1] if number + 1 < len(epochs) else log_end
        if epoch in ends:
            return min(ends[epoch], after - 1)
    return -1


def test_remote_segments_have_the_offsets_that_a_broker_finds_in_them(kafka: None) -> None:
    clusters = []
    for seed in range(CASES):
        clusters.append(Cluster(random.Random(seed)))
        clusters[-1].live()
    asked = [
        {
            "segments": [
                {"start": start, "end": end, "epochs": epochs, "states": ["COPY_SEGMENT_FINISHED"]}
                for start, end, epochs in each.copied
            ],
            "epoch_of": each.epoch_of,
            "epochs": each.epochs(each.log_start),
        }
        for each in clusters
    ]
    done = subprocess.run(
        distribution.command("org.apache.kafka.server.log.remote.metadata.storage.RemoteCache"),
        input="".join(json.dumps(each) + "\n" for each in asked),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == CASES
    compared = {"found": 0, "nothing": 0, "in part": 0}
    for seed, (cluster, answer) in enumerate(zip(clusters, answers, strict=True)):
        log_end = len(cluster.epoch_of)
        kept = cluster.epochs(cluster.log_start)
        epochs = [EpochEntry(*entry) for entry in kept]
        segments = cluster.described()
        parts = [part for each in segments if (part := offsets_in_lineage(each, epochs, log_end)) is not None]
        row = joined(parts, cluster.log_start, log_end)
        ours = [at for part in row for at in range(part.start_offset, part.end_offset)]
        theirs = [
            offset for offset, number in enumerate(answer["found"]) if number >= 0 and offset >= cluster.log_start
        ]
        assert ours == theirs, (seed, cluster, answer)
        ends = {int(epoch): offset for epoch, offset in answer["highest"].items()}
        found = highest_tiered_offset(segments, epochs, log_end)
        assert (-1 if found is None else found) == highest_of(ends, kept, log_end), (seed, cluster, answer)
        compared["found"] += len(theirs)
        compared["nothing"] += log_end - cluster.log_start - len(theirs)
        compared["in part"] += sum(part.end_offset <= part.segment.end_offset for part in parts)
    assert min(compared.values()) > CASES // 10, compared
