"""Offsets below the first local segment are remote only if the broker's files and a sign of the tier say so."""

import pytest

from logcore.logs.growth.growth import Take
from logcore.logs.model.offset_ledger import (
    EVIDENCE_NO_EPOCHS,
    EVIDENCE_NO_SIGN,
    EVIDENCE_REMOTE,
    EVIDENCE_REMOVED,
    EVIDENCE_STALE_START,
    LedgerRange,
    OffsetState,
    publish_end,
)
from logcore.logs.model.remote_tier import below_start
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests.unit.logcore.logs.described_source import Source, batch, rules, tail_of
from tests.unit.logcore.logs.ledger_facts import batch as fact
from tests.unit.logcore.logs.ledger_facts import ledger

EPOCH_0 = (EpochEntry(0, 0),)


@pytest.mark.parametrize(
    ("line", "epochs", "expected"),
    [
        (0, EPOCH_0, ((0, 56, EVIDENCE_REMOTE),)),
        (20, EPOCH_0, ((20, 56, EVIDENCE_REMOTE),)),
        (20, (EpochEntry(3, 20), EpochEntry(4, 60)), ((20, 56, EVIDENCE_REMOTE),)),
        (20, (EpochEntry(3, 55),), ((20, 56, EVIDENCE_REMOTE),)),
        # Retention between two checkpoints: the broker has rewritten the epochs, but not the log start offset yet.
        (20, (EpochEntry(3, 56),), ((20, 56, EVIDENCE_STALE_START),)),
        (20, (), ((20, 56, EVIDENCE_STALE_START),)),
        (20, None, ((20, 56, EVIDENCE_NO_EPOCHS),)),
        (56, None, ()),
        # A tiered log has a line. Without one only the epochs say that the log began lower.
        (None, EPOCH_0, ((0, 56, EVIDENCE_NO_SIGN),)),
        (None, (EpochEntry(3, 56),), ()),
        (None, None, ()),
        (56, EPOCH_0, ()),
        (60, EPOCH_0, ()),
    ],
)
def test_the_line_and_the_epochs_must_both_begin_below_the_first_local_segment(
    line: int | None, epochs: tuple[EpochEntry, ...] | None, expected: tuple
) -> None:
    assert below_start(line, 56, epochs, (), lambda: True) == expected


@pytest.mark.parametrize(
    ("line", "epochs", "orphaned", "expected"),
    [
        (20, EPOCH_0, (), ((20, 56, EVIDENCE_NO_SIGN),)),
        (20, None, (), ((20, 56, EVIDENCE_NO_SIGN),)),
        (20, EPOCH_0, (0, 40), ((20, 56, EVIDENCE_REMOVED),)),
        (20, None, (40,), ((20, 56, EVIDENCE_REMOVED),)),
        (20, (), (40,), ((20, 56, EVIDENCE_REMOVED),)),
        (None, EPOCH_0, (0, 40), ((0, 56, EVIDENCE_REMOVED),)),
        (None, None, (7, 40), ((7, 56, EVIDENCE_REMOVED),)),
        (None, None, (70,), ()),
        (20, EPOCH_0, (70,), ((20, 56, EVIDENCE_NO_SIGN),)),
        # The broker has cut the epochs at the first segment, so the removal was its own.
        (20, (EpochEntry(3, 56),), (40,), ((20, 56, EVIDENCE_STALE_START),)),
        (20, (), (), ((20, 56, EVIDENCE_STALE_START),)),
        (56, EPOCH_0, (0, 40), ()),
    ],
)
def test_without_a_sign_of_a_remote_tier_offsets_that_are_not_trimmed_are_missing(
    line: int | None, epochs: tuple[EpochEntry, ...] | None, orphaned: tuple[int, ...], expected: tuple
) -> None:
    assert below_start(line, 56, epochs, orphaned, lambda: False) == expected


def test_a_log_without_a_segment_reports_no_remote_offsets() -> None:
    assert below_start(0, None, EPOCH_0, (), lambda: True) == ()


class TestLedger:
    """The state `remote` tiles with the others, wherever the offsets are gone."""

    def test_offsets_in_the_remote_tier_are_remote_and_those_below_trimmed(self) -> None:
        told = ledger(fact(56, 60), end=61, log_start_offset=56, gap_evidence=[(20, 56, EVIDENCE_REMOTE)])
        assert told == [
            (0, 20, "trimmed", 0, 0, "log-start-offset"),
            (20, 56, "remote", 0, 0, "remote-tier"),
            (56, 61, "present", 5, 0, None),
        ]

    def test_a_line_alone_stays_trimmed_and_says_that_it_is_stale(self) -> None:
        told = ledger(fact(56, 60), end=61, log_start_offset=56, gap_evidence=[(20, 56, EVIDENCE_STALE_START)])
        assert told[:2] == [
            (0, 20, "trimmed", 0, 0, "log-start-offset"),
            (20, 56, "trimmed", 0, 0, "stale-log-start"),
        ]

    def test_without_leader_epochs_offsets_below_the_first_segment_are_not_called_trimmed(self) -> None:
        told = ledger(fact(56, 60), end=61, log_start_offset=56, gap_evidence=[(20, 56, EVIDENCE_NO_EPOCHS)])
        assert told[:2] == [
            (0, 20, "trimmed", 0, 0, "log-start-offset"),
            (20, 56, "remote", 0, 0, "no-leader-epochs"),
        ]

    def test_what_an_unreadable_segment_held_below_the_log_start_is_trimmed_as_ever(self) -> None:
        told = ledger(fact(56, 60), end=61, log_start_offset=56, gap_evidence=[(20, 56, "unreadable")])
        assert told[0] == (0, 56, "trimmed", 0, 0, "log-start-offset")

    def test_offsets_that_went_to_the_remote_tier_between_two_runs_are_remote_in_the_middle(self) -> None:
        gaps = [(40, 45, "trimmed-before-ingest"), (45, 56, EVIDENCE_REMOTE)]
        told = ledger(fact(0, 39), fact(56, 60), end=61, gap_evidence=gaps)
        assert told == [
            (0, 40, "present", 40, 0, None),
            (40, 45, "missing", 0, 0, "trimmed-before-ingest"),
            (45, 56, "remote", 0, 0, "remote-tier"),
            (56, 61, "present", 5, 0, None),
        ]

    def test_a_cleaned_log_may_have_a_remote_part_too(self) -> None:
        told = ledger(
            fact(56, 60), end=61, log_start_offset=56, gap_evidence=[(0, 56, EVIDENCE_REMOTE)], cleaner_checkpoint=61
        )
        assert told[0] == (0, 56, "remote", 0, 0, "remote-tier")


def test_publishing_continues_after_remote_offsets() -> None:
    ranges = [LedgerRange(0, 56, OffsetState.REMOTE), LedgerRange(56, 61, OffsetState.PRESENT, 5)]
    assert publish_end(ranges, 0) == 61


class TestGrowth:
    """What ingest takes, and says, of a tiered log."""

    @pytest.fixture
    def source(self) -> Source:
        """Offsets 60 to 89 are local; the rest from offset 0 on is remote."""
        segments = {60: [batch(60), batch(70)], 80: [batch(80)]}
        return Source(segments, below_start=((0, 60, EVIDENCE_REMOTE),))

    def test_the_first_look_warns_of_the_range_that_is_remote(self, source: Source) -> None:
        growth = source.decide(None)
        assert [(f.rule, str(f.severity), f.start_offset, f.end_offset) for f in growth.findings] == [
            ("remote-tier", "warning", 0, 60)
        ]
        assert growth.takes == (Take(60, 0, True, 60), Take(80, 0, False, 80))

    def test_a_stale_line_is_no_finding(self, source: Source) -> None:
        source.below_start = ((0, 60, EVIDENCE_STALE_START),)
        assert rules(source.decide(None)) == []

    def test_what_went_to_the_remote_tier_before_it_was_taken_is_remote_and_no_loss(self, source: Source) -> None:
        local = Source({0: [batch(at) for at in range(0, 50, 10)]})
        growth = source.decide(tail_of(local, 0, 5))
        assert growth.gaps == ((50, 60, EVIDENCE_REMOTE),)
        assert rules(growth) == ["remote-tier"]
        assert growth.stop is None
        assert growth.takes[0].segment_base == 60

    def test_what_the_broker_trimmed_below_its_remote_part_is_a_loss(self, source: Source) -> None:
        source.below_start = ((55, 60, EVIDENCE_REMOTE),)
        local = Source({0: [batch(at) for at in range(0, 50, 10)]})
        growth = source.decide(tail_of(local, 0, 5))
        assert growth.gaps == ((50, 55, "trimmed-before-ingest"), (55, 60, EVIDENCE_REMOTE))
        assert rules(growth) == ["trimmed-before-ingest", "remote-tier"]

    def test_without_leader_epochs_what_was_not_taken_is_not_called_a_loss(self, source: Source) -> None:
        source.below_start = ((0, 60, EVIDENCE_NO_EPOCHS),)
        local = Source({0: [batch(at) for at in range(0, 50, 10)]})
        growth = source.decide(tail_of(local, 0, 5))
        assert growth.gaps == ((50, 60, EVIDENCE_NO_EPOCHS),)
        assert rules(growth) == ["remote-tier-unproven"]

    def test_what_the_archive_holds_and_the_broker_moved_away_is_not_dropped(self, source: Source) -> None:
        growth = source.decide(tail_of(source, 80), known_log_start_offset=0)
        assert rules(growth) == []
