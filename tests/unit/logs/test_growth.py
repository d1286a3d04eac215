"""What may be taken from a source's end, and when to stop. A source here is a list of headers by segment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from logcore.errors import LogError
from logcore.logs.findings import Severity
from logcore.logs.growth import Growth, LogTail, Stop, Take, decide_growth
from logcore.logs.sources import SegmentFile, SourceLog
from logcore.records.batch import BatchHeader
from logcore.segments.checkpoints import EpochEntry
from logcore.segments.filenames import DirectoryKind, TopicPartition

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


@pytest.fixture
def source() -> Source:
    """Offsets 0 to 60 in three segments of two batches each."""
    return Source({0: [batch(0), batch(10)], 20: [batch(20), batch(30)], 40: [batch(40), batch(50)]}, high_watermark=60)


class TestFirstIngest:
    """Nothing is held yet."""

    def test_every_segment_is_taken_whole_and_the_last_is_not_sealed(self, source: Source) -> None:
        assert source.decide(None) == Growth((Take(0, 0, True, 0), Take(20, 0, True, 20), Take(40, 0, False, 40)))

    def test_no_header_is_looked_at(self, source: Source) -> None:
        source.decide(None)
        assert source.asked == []

    def test_empty_segments_hold_nothing_to_take(self, source: Source) -> None:
        source.segments[60] = []
        assert [take.segment_base for take in source.decide(None).takes] == [0, 20, 40]
        assert [take.sealed for take in source.decide(None).takes] == [True, True, True]

    def test_an_empty_source_gives_nothing_and_is_no_stop(self) -> None:
        assert Source({}).decide(None) == Growth()
        assert Source({0: []}).decide(None) == Growth()

    def test_offsets_dropped_before_are_no_loss(self, source: Source) -> None:
        del source.segments[0]
        source.log_start_offset = 25
        growth = source.decide(None)
        assert [take.segment_base for take in growth.takes] == [20, 40]
        assert (growth.findings, growth.gaps, growth.stop) == ((), (), None)

    def test_what_was_cleaned_before_is_no_loss(self, source: Source) -> None:
        source.cleaned = 40
        assert source.decide(None).findings == ()

    def test_nothing_is_taken_behind_a_segment_that_cannot_be_read(self, source: Source) -> None:
        del source.segments[20]
        source.unreadable = (20,)
        growth = source.decide(None)
        assert growth.takes == (Take(0, 0, True, 0),)
        assert growth.stop is not None
        assert rules(growth) == ["unreadable"]


class TestGrowth:
    """The source only grew."""

    def test_nothing_new_is_nothing(self, source: Source) -> None:
        assert source.decide(tail_of(source, 40)) == Growth()

    def test_it_goes_on_inside_the_segment_taken_last(self, source: Source) -> None:
        assert source.decide(tail_of(source, 40, 1)).takes == (Take(40, SIZE, False, 50),)

    def test_later_segments_are_taken_whole(self, source: Source) -> None:
        growth = source.decide(tail_of(source, 0, 1))
        assert growth.takes == (Take(0, SIZE, True, 10), Take(20, 0, True, 20), Take(40, 0, False, 40))

    def test_a_rolled_segment_is_taken_from_its_start(self, source: Source) -> None:
        assert source.decide(tail_of(source, 20)).takes == (Take(40, 0, False, 40),)

    def test_agreement_is_one_header_at_the_old_end(self, source: Source) -> None:
        source.decide(tail_of(source, 40, 1))
        assert source.asked == [(40, 0), (40, SIZE)]

    def test_a_torn_tail_is_offered_to_the_copier(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[40].append(DAMAGE)
        assert source.decide(tail) == Growth((Take(40, 2 * SIZE, False, 60),))

    def test_a_new_empty_segment_is_nothing(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[60] = []
        assert source.decide(tail) == Growth()

    def test_a_topic_that_got_its_first_id_is_the_same(self, source: Source) -> None:
        assert source.decide(tail_of(source, 40), known_topic_id=None) == Growth()

    def test_damage_taken_along_at_a_sealed_end_is_not_taken_again(self, source: Source) -> None:
        source.segments[20].append(DAMAGE)
        tail = replace(tail_of(source, 20, 2), source_position=3 * SIZE)
        assert source.decide(tail).takes == (Take(40, 0, False, 40),)

    def test_a_segment_of_nothing_but_damage_is_passed(self, source: Source) -> None:
        source.segments[20] = [DAMAGE, DAMAGE]
        tail = replace(tail_of(source, 0), next_offset=40, source_segment=20, source_position=2 * SIZE)
        assert source.decide(tail).takes == (Take(40, 0, False, 40),)

    def test_damage_that_is_gone_stops(self, source: Source) -> None:
        """A broker cut it off and wrote over it: those bytes are not the ones that were taken."""
        source.segments[20] += [DAMAGE, DAMAGE]
        tail = replace(tail_of(source, 20, 2), next_offset=40, source_position=4 * SIZE)
        source.segments[20][2:] = [batch(40), batch(50), batch(60)]
        del source.segments[40]
        assert_stops(source.decide(tail), "source-diverged")

    def test_an_archive_of_nothing_but_damage_goes_on_behind_it(self, source: Source) -> None:
        source.segments = {0: [DAMAGE], 20: [batch(20)]}
        tail = LogTail(20, None, None, None, None, None, None, 0, SIZE)
        assert source.decide(tail).takes == (Take(20, 0, False, 20),)

    def test_a_later_segment_that_begins_below_our_end_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[45] = [batch(45)]
        assert_stops(source.decide(tail), "source-diverged")

    def test_a_batch_behind_ours_that_begins_below_our_end_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[40].append(batch(55))
        assert_stops(source.decide(tail), "source-diverged")


class TestAgreement:
    """Growth needs the archive's last batch to be at the source."""

    @pytest.mark.parametrize("other", [batch(50, crc=1), batch(50, epoch=1), batch(51)])
    def test_another_batch_in_its_place_stops(self, source: Source, other: BatchHeader) -> None:
        tail = tail_of(source, 40)
        source.segments[40][1:] = [other, batch(61)]
        assert_stops(source.decide(tail), "source-diverged")

    def test_a_truncated_source_that_grew_again_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments = {0: [batch(0), batch(10)], 20: [batch(20, epoch=1, crc=7), batch(30, 50, epoch=1)]}
        source.epochs = ((0, 0), (1, 20))
        assert_stops(source.decide(tail), "source-diverged")

    @pytest.mark.parametrize(
        "segments",
        [
            {0: [batch(0), batch(10)], 20: [batch(20), batch(30)], 40: [batch(40)]},
            {0: [batch(0), batch(10)], 20: [batch(20), batch(30)]},
            {0: [batch(0)]},
            {0: []},
            {},
        ],
    )
    def test_a_source_that_ends_before_the_archive_stops(
        self, source: Source, segments: dict[int, list[BatchHeader | None]]
    ) -> None:
        tail = tail_of(source, 40)
        source.segments = segments
        assert_stops(source.decide(tail), "source-behind")

    def test_a_source_that_ends_torn_before_the_archive_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[40] = [batch(40), DAMAGE]
        tail = replace(tail, source_position=3 * SIZE, last_batch_end=3 * SIZE)
        assert_stops(source.decide(tail), "source-behind")

    def test_our_batch_in_a_merged_segment_agrees(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {0: [batch(0, kept=1), batch(20), batch(30), batch(40)], 50: [batch(50)]}
        source.cleaned = 40
        growth = source.decide(tail)
        assert growth.takes == (Take(0, 3 * SIZE, True, 40), Take(50, 0, False, 50))
        assert rules(growth) == ["source-compacted"]
        assert growth.findings[0].severity is Severity.INFO
        assert growth.gaps == ()

    def test_our_batch_at_the_end_of_a_merged_segment_agrees(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {0: [batch(10), batch(30)], 40: [batch(40)]}
        assert source.decide(tail).takes == (Take(40, 0, False, 40),)

    def test_our_batch_agrees_without_any_epochs_or_checkpoints(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {0: [batch(30), batch(40)]}
        source.epochs = ()
        assert source.decide(tail).takes == (Take(0, SIZE, False, 40),)

    def test_damage_in_front_of_our_batch_hides_it_and_stops(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {0: [DAMAGE, batch(30)], 40: [batch(40)]}
        assert_stops(source.decide(tail), "source-diverged")

    def test_an_archive_of_nothing_but_damage_agrees_with_nothing_else(self, source: Source) -> None:
        tail = LogTail(40, None, None, None, None, None, None, 5, SIZE)
        assert_stops(source.decide(tail), "source-diverged")

    def test_a_reader_that_fails_stops_the_log(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.refuses = True
        assert_stops(source.decide(tail), "unreadable")


class TestCompactedAtTheSource:
    """Our last batch was cleaned there: the leader epochs have to agree instead."""

    @pytest.fixture
    def tail(self, source: Source) -> LogTail:
        return tail_of(source, 20)

    @pytest.fixture
    def cleaned(self, source: Source) -> Source:
        source.segments = {0: [batch(0, kept=2), batch(30, kept=3)], 40: [batch(40), batch(50)]}
        source.cleaned = 40
        return source

    def test_a_thinned_batch_in_place_of_ours_agrees(self, tail: LogTail, cleaned: Source) -> None:
        growth = cleaned.decide(tail)
        assert growth.takes == (Take(40, 0, False, 40),)
        assert rules(growth) == ["source-compacted"]

    def test_our_batch_may_be_gone_altogether(self, tail: LogTail, cleaned: Source) -> None:
        cleaned.segments[0] = [batch(0, kept=1), batch(20, kept=1)]
        assert cleaned.decide(tail).takes == (Take(40, 0, False, 40),)

    def test_our_batch_may_be_gone_from_an_empty_end(self, tail: LogTail, cleaned: Source) -> None:
        cleaned.segments = {0: [batch(0, kept=1)], 40: []}
        assert cleaned.decide(tail).takes == ()
        assert cleaned.decide(tail).stop is None

    def test_growth_goes_on_inside_the_merged_segment(self, tail: LogTail, cleaned: Source) -> None:
        cleaned.segments = {0: [batch(0, kept=1), batch(30, kept=1), batch(40), batch(50)]}
        assert cleaned.decide(tail).takes == (Take(0, 2 * SIZE, False, 40),)

    @pytest.mark.parametrize("checkpoint", [None, 0, 30])
    def test_a_cleaner_that_was_not_there_explains_nothing(
        self, tail: LogTail, cleaned: Source, checkpoint: int | None
    ) -> None:
        cleaned.cleaned = checkpoint
        assert_stops(cleaned.decide(tail), "source-diverged")

    @pytest.mark.parametrize(
        "epochs",
        [
            (),  # nothing to compare
            ((1, 0),),  # ours was never there
            ((0, 0), (1, 35)),  # ours ended before our end
            ((0, 0), (1, 39)),
        ],
    )
    def test_epochs_that_do_not_reach_our_end_stop(
        self, tail: LogTail, cleaned: Source, epochs: tuple[tuple[int, int], ...]
    ) -> None:
        cleaned.epochs = epochs
        assert_stops(cleaned.decide(tail), "source-diverged")

    @pytest.mark.parametrize("epochs", [((0, 0),), ((0, 0), (1, 40)), ((0, 0), (3, 55))])
    def test_epochs_that_reach_our_end_agree(
        self, tail: LogTail, cleaned: Source, epochs: tuple[tuple[int, int], ...]
    ) -> None:
        cleaned.epochs = epochs
        assert cleaned.decide(tail).stop is None

    def test_the_whole_chain_has_to_be_the_one_that_was_seen(self, tail: LogTail, cleaned: Source) -> None:
        tail = replace(tail, last_batch_epoch=2)
        cleaned.epochs = ((0, 0), (2, 10))
        assert cleaned.decide(tail, known_leader_epochs=((0, 0), (2, 10))).stop is None
        assert_stops(cleaned.decide(tail, known_leader_epochs=((0, 0), (1, 5), (2, 10))), "source-diverged")

    def test_epochs_seen_above_our_end_do_not_matter(self, tail: LogTail, cleaned: Source) -> None:
        assert cleaned.decide(tail, known_leader_epochs=((0, 0), (7, 45))).stop is None

    def test_a_batch_across_our_end_is_not_ours(self, tail: LogTail, cleaned: Source) -> None:
        cleaned.segments[0][1] = batch(30, 15, kept=2)
        cleaned.segments[40] = [batch(45)]
        assert_stops(cleaned.decide(tail), "source-diverged")


class TestCleanedBeforeTaken:
    """The cleaner went past our end: what it removed there is lost to us."""

    def test_holes_are_a_loss_with_evidence(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments[20] = [batch(30)]
        source.cleaned = 40
        growth = source.decide(tail)
        assert growth.takes == (Take(20, 0, True, 20), Take(40, 0, False, 40))
        assert rules(growth) == ["source-cleaned"]
        assert (growth.findings[0].start_offset, growth.findings[0].end_offset) == (20, 40)
        assert growth.gaps == ((20, 40, "source-cleaned"),)

    def test_a_thinned_batch_is_a_loss_too(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments[20][0] = batch(20, kept=9)
        source.cleaned = 40
        assert source.decide(tail).gaps == ((20, 40, "source-cleaned"),)

    def test_a_cleaner_that_removed_nothing_took_nothing(self, source: Source) -> None:
        source.cleaned = 40
        growth = source.decide(tail_of(source, 0))
        assert (growth.findings, growth.gaps) == ((), ())

    def test_damage_cannot_prove_that_nothing_was_removed(self, source: Source) -> None:
        source.cleaned = 40
        source.segments[20][1] = DAMAGE
        assert source.decide(tail_of(source, 0)).gaps == ((20, 40, "source-cleaned"),)

    @pytest.mark.parametrize("checkpoint", [None, 0, 19, 20])
    def test_a_cleaner_that_stayed_below_our_end_is_no_loss(self, source: Source, checkpoint: int | None) -> None:
        source.segments[20] = [batch(30)]
        source.cleaned = checkpoint
        assert source.decide(tail_of(source, 0)).gaps == ()


class TestTrimmedAtTheSource:
    """Retention or a deletion of records moved the source's start."""

    def test_offsets_dropped_below_our_end_are_only_information(self, source: Source) -> None:
        tail = tail_of(source, 40, 1)
        del source.segments[0]
        growth = source.decide(tail, known_log_start_offset=0)
        assert growth.takes == (Take(40, SIZE, False, 50),)
        assert rules(growth) == ["source-trimmed"]
        assert (growth.findings[0].start_offset, growth.findings[0].end_offset) == (0, 20)
        assert growth.findings[0].severity is Severity.INFO

    def test_a_start_that_did_not_move_is_not_said(self, source: Source) -> None:
        del source.segments[0]
        assert source.decide(tail_of(source, 40), known_log_start_offset=20).findings == ()

    def test_our_whole_segment_may_be_gone_if_the_epochs_agree(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {40: source.segments[40]}
        growth = source.decide(tail)
        assert growth.takes == (Take(40, 0, False, 40),)
        assert (growth.findings, growth.gaps) == ((), ())

    def test_our_whole_segment_may_not_be_gone_if_the_epochs_differ(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {40: source.segments[40]}
        source.epochs = ((3, 0),)
        assert_stops(source.decide(tail), "source-diverged")

    def test_an_epoch_list_cut_at_the_start_agrees(self, source: Source) -> None:
        tail = tail_of(source, 20)
        source.segments = {40: source.segments[40]}
        source.epochs = ((2, 40),)
        assert source.decide(tail).stop is None

    def test_segments_dropped_above_our_end_are_a_loss_and_growth_goes_on(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments = {40: source.segments[40]}
        growth = source.decide(tail)
        assert growth.takes == (Take(40, 0, False, 40),)
        assert rules(growth) == ["trimmed-before-ingest"]
        assert (growth.findings[0].start_offset, growth.findings[0].end_offset) == (20, 40)
        assert growth.gaps == ((20, 40, "trimmed-before-ingest"),)

    def test_a_log_start_above_our_end_is_a_loss_even_where_the_bytes_are_still_there(self, source: Source) -> None:
        tail = tail_of(source, 20, 1)
        source.log_start_offset = 40
        growth = source.decide(tail)
        assert growth.takes == (Take(40, 0, False, 40),)
        assert growth.gaps == ((30, 40, "trimmed-before-ingest"),)

    def test_the_batch_that_holds_the_log_start_is_taken_whole(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.log_start_offset = 35
        growth = source.decide(tail)
        assert growth.takes == (Take(20, SIZE, True, 30), Take(40, 0, False, 40))
        assert growth.gaps == ((20, 30, "trimmed-before-ingest"),)

    def test_nothing_is_lost_if_that_batch_is_our_next(self, source: Source) -> None:
        tail = tail_of(source, 20, 1)
        source.log_start_offset = 35
        growth = source.decide(tail)
        assert growth.takes == (Take(20, SIZE, True, 30), Take(40, 0, False, 40))
        assert (growth.findings, growth.gaps) == ((), ())

    def test_everything_may_have_been_dropped(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments = {60: []}
        growth = source.decide(tail)
        assert growth.takes == ()
        assert growth.gaps == ((20, 60, "trimmed-before-ingest"),)

    def test_damage_at_the_new_start_is_taken_for_validation_to_judge(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments = {30: [DAMAGE], 40: source.segments[40]}
        growth = source.decide(tail)
        assert growth.takes == (Take(30, 0, True, 30), Take(40, 0, False, 40))
        assert growth.gaps == ((20, 30, "trimmed-before-ingest"),)

    def test_an_older_epoch_at_the_new_start_stops(self, source: Source) -> None:
        tail = replace(tail_of(source, 0), last_batch_epoch=5)
        source.segments = {40: source.segments[40]}
        source.epochs = ((4, 30),)
        assert_stops(source.decide(tail), "source-diverged")

    def test_a_log_start_above_all_that_is_there_stops(self, source: Source) -> None:
        tail = tail_of(source, 40, 1)
        source.log_start_offset = 500
        assert_stops(source.decide(tail), "source-behind")

    def test_trimmed_and_cleaned_are_both_said(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments = {40: [batch(50)], 60: [batch(60)]}
        source.cleaned = 60
        growth = source.decide(tail)
        assert growth.gaps == ((20, 40, "trimmed-before-ingest"), (40, 60, "source-cleaned"))

    def test_files_named_one_by_one_are_not_a_trimmed_log(self, source: Source) -> None:
        tail = tail_of(source, 0)
        source.segments = {40: source.segments[40]}
        source.named_files = True
        assert_stops(source.decide(tail), "segments-not-named")


class TestIdentity:
    """A known name is not yet a known log."""

    def test_another_topic_id_stops(self, source: Source) -> None:
        growth = source.decide(tail_of(source, 40), known_topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        assert_stops(growth, "topic-recreated")

    def test_a_topic_id_that_went_away_stops(self, source: Source) -> None:
        source.topic_id = None
        assert_stops(source.decide(tail_of(source, 40), known_topic_id=TOPIC_ID), "topic-recreated")

    def test_another_topic_id_stops_before_anything_was_taken(self, source: Source) -> None:
        assert_stops(source.decide(None, known_topic_id="AAAAAAAAAAAAAAAAAAAAAQ"), "topic-recreated")

    @pytest.mark.parametrize("known", [None, TOPIC_ID])
    def test_an_id_that_cannot_be_read_stops(self, source: Source, known: str | None) -> None:
        source.topic_id, source.broken_identity = None, True
        growth = source.decide(None, known_topic_id=known)
        assert growth.stop is not None
        assert growth.stop.rule == "broken-partition-file"
        assert growth.takes == ()


class TestHighWatermark:
    """It decides what is published, never what is taken."""

    def test_a_lower_one_is_a_warning_and_moves_nothing(self, source: Source) -> None:
        source.high_watermark = 45
        growth = source.decide(tail_of(source, 40, 1), known_high_watermark=50)
        assert growth.takes == (Take(40, SIZE, False, 50),)
        assert rules(growth) == ["high-watermark-fell"]
        assert growth.findings[0].severity is Severity.WARNING

    @pytest.mark.parametrize("seen", [None, 50, 55])
    def test_an_unknown_or_higher_one_is_not_said(self, source: Source, seen: int | None) -> None:
        source.high_watermark = seen
        assert source.decide(tail_of(source, 40), known_high_watermark=50).findings == ()

    def test_bytes_above_it_are_taken(self, source: Source) -> None:
        source.high_watermark = 0
        assert len(source.decide(None).takes) == 3

    def test_it_is_said_beside_a_stop(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments = {0: [batch(0)]}
        source.high_watermark = 10
        assert rules(source.decide(tail, known_high_watermark=60)) == ["high-watermark-fell", "source-behind"]


class TestUnreadableSegments:
    """What is there but cannot be read must not look like what is gone."""

    def test_growth_ends_before_it(self, source: Source) -> None:
        tail = tail_of(source, 0, 1)
        del source.segments[20]
        source.unreadable = (20,)
        growth = source.decide(tail)
        assert growth.takes == (Take(0, SIZE, True, 10),)
        assert growth.stop == Stop(
            "unreadable", "the segment at offset 20 cannot be read, and nothing behind it is taken"
        )

    def test_below_our_end_it_does_not_matter(self, source: Source) -> None:
        tail = tail_of(source, 40, 1)
        del source.segments[0]
        source.unreadable = (0,)
        assert source.decide(tail, known_log_start_offset=0) == Growth((Take(40, SIZE, False, 50),))

    def test_the_segment_that_holds_our_end_must_be_readable(self, source: Source) -> None:
        tail = tail_of(source, 20)
        del source.segments[20]
        source.unreadable = (20,)
        assert_stops(source.decide(tail), "unreadable")

    def test_a_first_segment_that_cannot_be_read_is_no_trimmed_log(self, source: Source) -> None:
        tail = tail_of(source, 0, 1)
        del source.segments[0]
        source.unreadable = (0,)
        assert_stops(source.decide(tail), "unreadable")

    def test_a_log_of_nothing_readable_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments, source.unreadable = {}, (0, 20, 40)
        assert_stops(source.decide(tail), "unreadable")

    def test_a_search_does_not_pass_over_it(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments = {0: [batch(0, kept=1)], 40: [batch(40, kept=1), batch(50, kept=1)], 60: [batch(60)]}
        source.unreadable = (20,)
        source.cleaned = 60
        assert source.decide(tail).stop is None, "the search begins behind it"
        assert_stops(source.decide(replace(tail, last_batch_base_offset=5)), "unreadable")


def test_the_same_question_has_the_same_answer(source: Source) -> None:
    tail = tail_of(source, 0)
    source.segments = {40: source.segments[40]}
    assert source.decide(tail) == source.decide(tail)
