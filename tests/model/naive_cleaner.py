"""A simple cleaner: section 9 in the plainest way, over the model's own reading of bytes.

It replaces the real ones where the checker is tested: `MUTANTS` are cleaners with one fault each, and the checker
must find every one. It puts no segments together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.handmade import CONTROL, DELETE_HORIZON, TRANSACTIONAL, batch, empty_batch, record
from tests.model.batches import AbortedEntry, Batch, Read, batches
from tests.model.checker import Cleaned, Settings, unreadable
from tests.model.reference_log import ReferenceLog, Segment


class NaiveCleaner:
    """One round over all that may be cleaned; every decision is a method, so that a fault can be put into it."""

    def __call__(self, log: ReferenceLog, settings: Settings) -> Cleaned | None:
        self.log, self.settings, self.now = log, settings, log.clock_ms
        self.bound = self.cleanable_end()
        start = log.first_dirty if log.first_dirty is not None and log.first_dirty >= log.log_start else log.log_start
        if self.bound <= start:
            return None
        self.aborts = [entry for segment in log.segments for entry in segment.aborted]
        sources = [segment for segment in log.segments if segment.base_offset < self.bound]
        self.hurt = {each.base_offset for each in sources if self.is_damaged(each)}
        self.frozen_from = min(self.hurt, default=None)
        self.newest = self.newest_offsets(sources)
        self.decide_markers(sources)
        done = tuple(each if each.base_offset in self.hurt else self.clean(each) for each in sources)
        return Cleaned(done + log.segments[len(done) :], self.next_dirty(start))

    # Decisions

    def cleanable_end(self) -> int:
        return self.log.cleanable_end

    def next_dirty(self, start: int) -> int:
        return self.bound if self.frozen_from is None else max(start, self.frozen_from)

    def is_damaged(self, segment: Segment) -> bool:
        return any(each.broken in segment.content for each in self.log.damage)

    def is_frozen(self, offset: int) -> bool:
        return self.frozen_from is not None and offset >= self.frozen_from

    def is_aborted(self, each: Batch) -> bool:
        return each.is_transactional and any(
            entry.producer_id == each.producer_id and entry.first_offset <= each.base_offset <= entry.last_offset
            for entry in self.aborts
        )

    def newest_offsets(self, sources: Iterable[Segment]) -> dict[bytes, int]:
        newest = {}
        for segment in sources:
            for each in batches(segment.content):
                if each.is_control or self.is_aborted(each):
                    continue
                for one in each.records:
                    if one.key is not None and one.offset >= self.log.log_start:
                        newest[one.key] = one.offset
        return newest

    def keeps_tombstone(self, each: Batch, one: Read) -> bool:
        return each.horizon is None or self.now < each.horizon or self.is_frozen(one.offset)

    def keeps(self, each: Batch, one: Read) -> bool:
        if self.is_aborted(each):
            return self.is_frozen(one.offset)
        if one.key is None:
            return self.is_frozen(one.offset)
        if one.offset < self.newest.get(one.key, -1):
            return False
        return one.value is not None or self.keeps_tombstone(each, one)

    def keeps_marker(self, each: Batch) -> bool:
        if each.base_offset not in self.empty_transactions or self.is_frozen(each.base_offset):
            return True
        return each.horizon is None or self.now < each.horizon

    def stamps(self, each: Batch, kept: list[Read]) -> int:
        if each.horizon is not None:
            return each.horizon
        needs = each.base_offset in self.empty_transactions or (
            not each.is_control and any(one.value is None for one in kept)
        )
        return self.now + self.settings.delete_retention_ms if needs else -1

    def keeps_empty(self, each: Batch) -> bool:
        """Of a producer that is still known: its last batch of data."""
        mine = [one.batch_offset for one in self.log.written if one.producer_id == each.producer_id]
        if each.producer_id < 0 or each.is_control or each.base_offset != max(mine):
            return False
        seen = (self.log.last_seen_ms or {})[each.producer_id]
        return self.now - seen < self.settings.producer_expiration_ms or each.producer_id in (self.log.open or {})

    # The work

    def decide_markers(self, sources: Iterable[Segment]) -> None:
        """Which markers have no data before them any more."""
        with_data: set[int] = set()
        self.empty_transactions = set()
        for each in (each for segment in sources for each in batches(segment.content)):
            if each.marks_commit is not None:
                if each.producer_id not in with_data:
                    self.empty_transactions.add(each.base_offset)
                with_data.discard(each.producer_id)
            elif each.is_transactional and (each.records or not each.is_sound):
                with_data.add(each.producer_id)
            elif not each.is_sound:
                with_data |= {one.producer_id for one in self.log.written if unreadable(self.log, one.offset)}

    def clean(self, segment: Segment) -> Segment:
        out, aborted = [], []
        for each in batches(segment.content):
            if each.is_control:
                if not self.keeps_marker(each):
                    continue
                aborted += [entry for entry in segment.aborted if self.entry_stays(entry, each)]
            kept = [one for one in each.records if each.is_control or self.keeps(each, one)]
            out.append(self.output(each, kept))
        return replace(segment, content=b"".join(self.arranged(out)), aborted=tuple(aborted))

    def entry_stays(self, entry: AbortedEntry, each: Batch) -> bool:
        """Below damage the data of a transaction is unknown."""
        has_data = each.base_offset not in self.empty_transactions or self.is_frozen(each.base_offset)
        return entry.last_offset == each.base_offset and has_data

    def arranged(self, out: list[bytes]) -> list[bytes]:
        return out

    def output(self, each: Batch, kept: list[Read]) -> bytes:
        horizon = self.stamps(each, kept)
        if kept and len(kept) == len(each.records) and horizon == (-1 if each.horizon is None else each.horizon):
            return each.raw
        attributes = each.attributes & (TRANSACTIONAL | CONTROL)
        span = each.last_offset - each.base_offset
        fields = {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "base_sequence": each.base_sequence,
            "max_timestamp": each.max_timestamp,
        }
        if not kept:
            if self.keeps_empty(each):
                return empty_batch(each.base_offset, span, attributes=attributes, **fields)
            return b""
        base = kept[0].timestamp if horizon < 0 else horizon
        return batch(
            [
                record(one.offset - each.base_offset, one.key, one.value, timestamp_delta=one.timestamp - base)
                for one in kept
            ],
            base_offset=each.base_offset,
            last_offset_delta=span,
            base_timestamp=base,
            attributes=attributes | (DELETE_HORIZON if horizon >= 0 else 0),
            **fields,
        )


class _Drops(NaiveCleaner):
    """Tombstones go in the round that meets them."""

    def keeps_tombstone(self, each: Batch, one: Read) -> bool:
        return False


class _DropsEarly(NaiveCleaner):
    """Tombstones go a millisecond before their horizon would be reached: the stamp is too low."""

    def stamps(self, each: Batch, kept: list[Read]) -> int:
        return max(super().stamps(each, kept) - self.settings.delete_retention_ms, -1)


class _NeverDrops(NaiveCleaner):
    """Tombstones stay for ever."""

    def keeps_tombstone(self, each: Batch, one: Read) -> bool:
        return True


class _StampsAgain(NaiveCleaner):
    """Each round stamps tombstones again, so frequent rounds keep them for ever."""

    def stamps(self, each: Batch, kept: list[Read]) -> int:
        found = super().stamps(each, kept)
        return found if found < 0 else self.now + self.settings.delete_retention_ms

    def keeps_tombstone(self, each: Batch, one: Read) -> bool:
        return True


class _OutsideOfDamage(NaiveCleaner):
    """Damage is left alone, but what lies above it is cleaned as ever."""

    def is_frozen(self, offset: int) -> bool:
        return False


class _MarkersUnderDamage(NaiveCleaner):
    """Markers above damage go at their horizon."""

    def keeps_marker(self, each: Batch) -> bool:
        frozen, self.frozen_from = self.frozen_from, None
        try:
            return super().keeps_marker(each)
        finally:
            self.frozen_from = frozen


class _KeylessUnderDamage(NaiveCleaner):
    """Records without a key go, damage or not."""

    def keeps(self, each: Batch, one: Read) -> bool:
        return one.key is not None and super().keeps(each, one)


class _MovesOn(NaiveCleaner):
    """The checkpoint moves past damage."""

    def next_dirty(self, start: int) -> int:
        return self.bound


class _Launders(NaiveCleaner):
    """Unreadable bytes are removed, and the rest of their segment is rewritten."""

    def is_damaged(self, segment: Segment) -> bool:
        return False


class _DamageCounts(NaiveCleaner):
    """An unreadable record counts as the latest of its key."""

    def newest_offsets(self, sources: Iterable[Segment]) -> dict[bytes, int]:
        newest = super().newest_offsets(sources)
        for each in self.log.written:
            if each.key is not None and unreadable(self.log, each.offset) and each.offset < self.bound:
                newest[each.key] = max(each.offset, newest.get(each.key, -1))
        return newest


class _Promotes(NaiveCleaner):
    """Aborted data is data."""

    def is_aborted(self, each: Batch) -> bool:
        return False


class _MapsAborted(NaiveCleaner):
    """Aborted data goes, but it counts as the newest of its key: the committed value goes too."""

    def newest_offsets(self, sources: Iterable[Segment]) -> dict[bytes, int]:
        kept, self.aborts = self.aborts, []
        try:
            return super().newest_offsets(sources)
        finally:
            self.aborts = kept


class _ForgetsMarkers(NaiveCleaner):
    """No marker is ever needed."""

    def keeps_marker(self, each: Batch) -> bool:
        return False


class _MarkersAtOnce(NaiveCleaner):
    """A marker without data goes in the round that finds it so, without a horizon."""

    def keeps_marker(self, each: Batch) -> bool:
        return each.base_offset not in self.empty_transactions


class _MarkersByKey(NaiveCleaner):
    """Markers are cleaned as if their key were one: only the last commit and the last abort stay."""

    def keeps_marker(self, each: Batch) -> bool:
        later = [one for one in self.log.marked if one.commits is each.marks_commit and one.offset > each.base_offset]
        return not [one for one in later if one.offset < self.bound]


class _PastTheStable(NaiveCleaner):
    """Transactions that are still open do not hold it up."""

    def cleanable_end(self) -> int:
        return self.log.active.base_offset


class _ForgetsTheIndex(NaiveCleaner):
    """The transaction index is written without what it had."""

    def entry_stays(self, entry: AbortedEntry, each: Batch) -> bool:
        return False


class _KeepsOldest(NaiveCleaner):
    """The first record of a key wins."""

    def newest_offsets(self, sources: Iterable[Segment]) -> dict[bytes, int]:
        oldest: dict[bytes, int] = {}
        for segment in sources:
            for each in batches(segment.content):
                for one in each.records:
                    if one.key is not None and not each.is_control and not self.is_aborted(each):
                        oldest.setdefault(one.key, one.offset)
        return oldest

    def keeps(self, each: Batch, one: Read) -> bool:
        return one.key is not None and self.newest.get(one.key, one.offset) == one.offset and super().keeps(each, one)


class _OffByOne(NaiveCleaner):
    """The newest record of a key goes like those before it."""

    def keeps(self, each: Batch, one: Read) -> bool:
        return super().keeps(each, one) and one.offset != self.newest.get(one.key or b"", -1)


class _Resurrects(NaiveCleaner):
    """A tombstone that is to go goes, the value before it stays: the map has no tombstones."""

    def newest_offsets(self, sources: Iterable[Segment]) -> dict[bytes, int]:
        newest: dict[bytes, int] = {}
        for segment in sources:
            for each in batches(segment.content):
                for one in each.records:
                    if None not in (one.key, one.value) and not each.is_control and not self.is_aborted(each):
                        newest[one.key or b""] = one.offset
        return newest


class _Reorders(NaiveCleaner):
    """Batches come out the other way round."""

    def arranged(self, out: list[bytes]) -> list[bytes]:
        return out[::-1]


class _Renumbers(NaiveCleaner):
    """Batches close up over what is gone between them."""

    def output(self, each: Batch, kept: list[Read]) -> bytes:
        if kept and not each.is_control and kept[-1].offset != each.last_offset:
            return super().output(replace(each, last_offset=kept[-1].offset), kept)
        return super().output(each, kept)


class _Restamps(NaiveCleaner):
    """Timestamp deltas count from the horizon on, but are written as they were."""

    def output(self, each: Batch, kept: list[Read]) -> bytes:
        horizon = self.stamps(each, kept)
        if horizon >= 0 and each.horizon is None:
            kept = [replace(one, timestamp=one.timestamp + horizon - kept[0].timestamp) for one in kept]
        return super().output(each, kept)


class _EmptiesTombstones(NaiveCleaner):
    """No value becomes an empty one."""

    def output(self, each: Batch, kept: list[Read]) -> bytes:
        if each.is_control:
            return super().output(each, kept)
        return super().output(each, [replace(one, value=one.value or b"") for one in kept])


class _LosesProducers(NaiveCleaner):
    """No batch is kept for its producer alone."""

    def keeps_empty(self, each: Batch) -> bool:
        return False


class _LosesSequences(NaiveCleaner):
    """Rewritten batches have no sequence."""

    def output(self, each: Batch, kept: list[Read]) -> bytes:
        if kept and len(kept) == len(each.records):
            return super().output(each, kept)
        return super().output(replace(each, base_sequence=-1), kept)


class _KeepsKeyless(NaiveCleaner):
    """Records without a key stay."""

    def keeps(self, each: Batch, one: Read) -> bool:
        return one.key is None or super().keeps(each, one)


class _DoesNothing(NaiveCleaner):
    """Says that it cleaned."""

    def clean(self, segment: Segment) -> Segment:
        return segment


class _LosesTheEnd(NaiveCleaner):
    """The active segment is forgotten, and with it the end of the log."""

    def __call__(self, log: ReferenceLog, settings: Settings) -> Cleaned | None:
        found = super().__call__(log, settings)
        return found and Cleaned(found.segments[:-1], found.first_dirty) if len(log.segments) > 1 else found


MUTANTS: tuple[type[NaiveCleaner], ...] = tuple(
    each for each in list(globals().values()) if isinstance(each, type) and issubclass(each, NaiveCleaner)
)[1:]
"""Cleaners with a fault each; the docstring names it."""
