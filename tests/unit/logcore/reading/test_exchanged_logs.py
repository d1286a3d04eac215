"""Healthy copies of running brokers have no exchanged logs, in whatever order their files were copied."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading import exchanged_logs
from logcore.segments.filenames import DirectoryKind, TopicPartition

RATE = 100
"""Records of each log in a second."""


@dataclass(frozen=True)
class LiveCopy:
    """A copy that takes some seconds: one log after another, and the checkpoints at its end.

    A broker writes high watermarks every five seconds, and recovery points every minute: the last roll of each log.
    """

    logs: int
    seconds: float
    spread: int
    segment: int
    """Offsets of a segment."""

    def made(self, seed: int) -> dict[str, tuple[int, SourceLog]]:
        """Where each copied log ends, and the log, by directory."""
        drawn = random.Random(seed)
        high_watermarks, recovery_points = (self.seconds - drawn.uniform(0, every) for every in (5, 60))
        logs: dict[str, tuple[int, SourceLog]] = {}
        for partition in range(self.logs):
            first = 1_000_000 + int(drawn.gauss(0, self.spread))
            rolled = drawn.randrange(self.segment)
            end = first + int(RATE * self.seconds * (partition + drawn.random()) / self.logs)
            flushed = first + int(RATE * recovery_points)
            base, recovery_point = (offset - (offset - rolled) % self.segment for offset in (end, flushed))
            log = self._log(partition, base, recovery_point, first + int(RATE * high_watermarks))
            logs[log.directory] = end, log
        return logs

    def _log(self, partition: int, base: int, recovery_point: int, high_watermark: int) -> SourceLog:
        place = f"/copy/orders-{partition}"
        return SourceLog(
            topic_partition=TopicPartition("orders", partition),
            directory=place,
            kind=DirectoryKind.LIVE,
            topic_id="id",
            cluster_id=None,
            segments=(SegmentFile(base, f"{place}/{base:020d}.log", 1000, 0, 0),),
            high_watermark=high_watermark,
            log_start_offset=0,
            recovery_point=recovery_point,
            high_watermark_ms=1,
        )


@pytest.mark.parametrize(
    ("copy", "times"),
    [
        (LiveCopy(100, 6, 3000, 30_000), 800),
        (LiveCopy(50, 6, 3000, 30_000), 1500),
        (LiveCopy(30, 6, 300, 30_000), 1500),
        (LiveCopy(12, 60, 300, 3_000), 1500),
    ],
)
def test_no_healthy_copy_of_a_running_broker_has_exchanged_logs(
    copy: LiveCopy, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(times):
        made = copy.made(seed)
        monkeypatch.setattr(exchanged_logs, "log_end", lambda log, made=made: made[log.directory][0])
        assert exchanged_logs.exchanged_logs(log for _, log in made.values()) == {}, seed
