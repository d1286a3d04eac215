"""What may be taken from a source's end, and when to stop. A source here is a list of headers by segment."""

from dataclasses import replace

import pytest

from logcore.logs.growth.growth import Growth, LogTail, Stop, Take
from logcore.logs.model.findings import Severity
from tests.unit.logcore.logs.described_source import DAMAGE, SIZE, TOPIC_ID, Source, assert_stops, batch, rules, tail_of


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

    def test_nothing_is_taken_after_a_segment_that_cannot_be_read(self, source: Source) -> None:
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

    def test_an_archive_of_nothing_but_damage_continues_after_it(self, source: Source) -> None:
        source.segments = {0: [DAMAGE], 20: [batch(20)]}
        tail = LogTail(20, None, None, None, None, None, None, 0, SIZE)
        assert source.decide(tail).takes == (Take(20, 0, False, 20),)

    def test_a_later_segment_that_begins_below_our_end_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[45] = [batch(45)]
        assert_stops(source.decide(tail), "source-diverged")

    def test_a_batch_after_ours_that_begins_below_our_end_stops(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.segments[40].append(batch(55))
        assert_stops(source.decide(tail), "source-diverged")


class TestIdentity:
    """A known name is not yet a known log."""

    def test_another_topic_id_stops(self, source: Source) -> None:
        growth = source.decide(tail_of(source, 40), known_topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        assert_stops(growth, "topic-recreated")

    def test_a_topic_id_that_went_away_is_a_warning_that_names_it(self, source: Source) -> None:
        source.topic_id = None
        growth = source.decide(tail_of(source, 40), known_topic_id=TOPIC_ID)
        [finding] = growth.findings
        assert (growth.stop, finding.rule, TOPIC_ID in finding.message) == (None, "broken-partition-file", True)

    def test_another_topic_id_stops_before_anything_was_taken(self, source: Source) -> None:
        assert_stops(source.decide(None, known_topic_id="AAAAAAAAAAAAAAAAAAAAAQ"), "topic-recreated")

    @pytest.mark.parametrize("known", [None, TOPIC_ID])
    def test_an_id_that_cannot_be_read_stops_nothing(self, source: Source, known: str | None) -> None:
        source.topic_id, source.broken_identity = None, True
        assert source.decide(None, known_topic_id=known).takes
        growth = source.decide(tail_of(source, 40), known_topic_id=known)
        assert (growth.stop, rules(growth)) == (None, [])

    def test_an_id_that_cannot_be_read_does_not_make_another_log_the_same(self, source: Source) -> None:
        tail = tail_of(source, 40)
        source.topic_id, source.broken_identity = None, True
        source.segments = {0: [batch(at, crc=at + 1) for at in range(0, 100, 10)]}
        assert_stops(source.decide(tail, known_topic_id=TOPIC_ID), "source-diverged")


class TestHighWatermark:
    """It decides what is published, never what is taken."""

    def test_a_lower_one_is_a_warning_and_moves_nothing(self, source: Source) -> None:
        source.high_watermark = 45
        growth = source.decide(tail_of(source, 40, 1), known_high_watermark=50)
        assert growth.takes == (Take(40, SIZE, False, 50),)
        assert rules(growth) == ["high-watermark-fell"]
        assert growth.findings[0].severity is Severity.WARNING
        assert "the source's high watermark is 45, and the lake's is 50" in growth.findings[0].message

    @pytest.mark.parametrize("seen", [None, 50, 55])
    def test_an_unknown_or_higher_one_is_not_reported(self, source: Source, seen: int | None) -> None:
        source.high_watermark = seen
        assert source.decide(tail_of(source, 40), known_high_watermark=50).findings == ()

    def test_bytes_above_it_are_taken(self, source: Source) -> None:
        source.high_watermark = 0
        assert len(source.decide(None).takes) == 3

    def test_a_fall_is_reported_beside_a_stop(self, source: Source) -> None:
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
            "unreadable", "the segment at offset 20 cannot be read, and nothing after it is read"
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
