"""A source described by the headers of its segments, for the questions of growth and agreement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.growth.growth import Growth, LogTail, decide_growth
from logcore.logs.model.findings import Severity
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.batch import BatchHeader
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry

SIZE = 100
"""Every batch here has this many bytes."""

TOPIC_ID = "qesnf9AHR5-Xtl7tnUTbTA"


def batch(
    base_offset: int, count: int = 10, *, epoch: int = 0, crc: int | None = None, kept: int | None = None
) -> BatchHeader:
    """A batch over `count` offsets; `kept`: of which cleaning left so many records. Another crc is another content."""
    kept = count if kept is None else kept
    crc = (base_offset * 31 + kept) % 2**32 if crc is None else crc
    return BatchHeader(base_offset, SIZE - 12, epoch, 2, crc, 0, count - 1, 1000, 1000, -1, -1, -1, kept)


DAMAGE = None
"""In a list of headers: bytes of a batch's size that nothing can be told from; behind it nothing is found."""


@dataclass
class Source:
    """A source as a test sets it up: headers by segment, and the state beside them."""

    segments: dict[int, list[BatchHeader | None]]
    high_watermark: int | None = None
    log_start_offset: int = 0
    epochs: Sequence[tuple[int, int]] = ((0, 0),)
    cleaned: int | None = None
    topic_id: str | None = TOPIC_ID
    unreadable: tuple[int, ...] = ()
    broken_identity: bool = False
    named_files: bool = False
    refuses: bool = False
    below_start: tuple[tuple[int, int, str], ...] = ()
    asked: list[tuple[int, int]] = field(default_factory=list)

    def log(self) -> SourceLog:
        files = tuple(
            SegmentFile(base, f"{base:020d}.log", SIZE * len(headers), 0, 0)
            for base, headers in sorted(self.segments.items())
        )
        bases = [*self.segments, *self.unreadable]
        return SourceLog(
            topic_partition=TopicPartition("orders", 0),
            directory="orders-0",
            kind=DirectoryKind.LIVE,
            topic_id=self.topic_id,
            cluster_id=None,
            segments=files,
            high_watermark=self.high_watermark,
            log_start_offset=max(self.log_start_offset, min(bases, default=0)),
            leader_epochs=tuple(EpochEntry(*entry) for entry in self.epochs),
            cleaner_checkpoint=self.cleaned,
            unreadable=self.unreadable,
            broken_identity=self.broken_identity,
            named_files=self.named_files,
            below_start=self.below_start,
        )

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        if self.refuses:
            raise LogError("the disk is gone", file=segment.path)
        self.asked.append((segment.base_offset, position))
        headers = self.segments[segment.base_offset]
        at, inside = divmod(position, SIZE)
        return None if inside or not 0 <= at < len(headers) else headers[at]

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        assert position % SIZE == 0
        for at, header in enumerate(self.segments[segment.base_offset]):
            if at * SIZE < position:
                continue
            self.asked.append((segment.base_offset, at * SIZE))
            yield at * SIZE, header
            if header is DAMAGE:
                return

    def decide(self, tail: LogTail | None, **known: object) -> Growth:
        return decide_growth(tail, self.log(), self, **known)  # type: ignore[arg-type]


def tail_of(source: Source, segment: int, count: int | None = None) -> LogTail:
    """What the archive holds after it took a source up to `count` batches into a segment (default: all of it)."""
    headers = source.segments[segment][:count]
    last = headers[-1]
    assert last is not None
    end = SIZE * len(headers)
    return LogTail(
        next_offset=last.next_offset,
        last_batch_base_offset=last.base_offset,
        last_batch_epoch=last.partition_leader_epoch,
        last_batch_crc=last.crc,
        last_batch_size=last.size,
        last_batch_end=end,
        last_batch_segment=segment,
        source_segment=segment,
        source_position=end,
    )


def rules(growth: Growth) -> list[str]:
    return [finding.rule for finding in growth.findings]


def assert_stops(growth: Growth, rule: str) -> None:
    """Nothing is taken, and the stop is among the findings."""
    assert growth.stop is not None
    assert growth.stop.rule == rule
    assert growth.takes == ()
    assert rules(growth)[-1] == rule
    assert growth.findings[-1].severity is Severity.ERROR
    assert growth.stop.message in growth.findings[-1].message
