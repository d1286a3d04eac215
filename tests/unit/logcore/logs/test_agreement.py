"""Whether a source still holds what the archive holds last, and where the log goes on if so."""

from dataclasses import replace

import pytest

from logcore.logs.growth.growth import LogTail, Take
from logcore.logs.model.findings import Severity
from logcore.records.batch import BatchHeader
from tests.unit.logcore.logs.described_source import DAMAGE, SIZE, Source, assert_stops, batch, rules, tail_of


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

    @pytest.mark.parametrize("segment", [40, 20])
    def test_a_batch_of_an_earlier_leader_than_the_log_had_there_stops(self, source: Source, segment: int) -> None:
        tail = tail_of(source, segment, 1)
        seen = ((0, 0), (1, tail.next_offset))
        assert_stops(source.decide(tail, known_leader_epochs=seen), "source-diverged")
        source.segments[segment + 20] = []
        source.epochs = ((0, 0), (2, 60))
        assert source.decide(tail, known_leader_epochs=seen).stop is None, "a later leader went on from there"

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

    def test_damage_before_our_batch_hides_it_and_stops(self, source: Source) -> None:
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

    def test_a_start_that_did_not_move_is_not_reported(self, source: Source) -> None:
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

    def test_damage_at_the_new_start_is_taken_and_left_to_validation(self, source: Source) -> None:
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

    def test_trimmed_and_cleaned_are_both_reported(self, source: Source) -> None:
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
