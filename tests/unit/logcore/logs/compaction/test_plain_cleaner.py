"""What a round of cleaning makes of batches packed by hand, one claim at a time."""

from __future__ import annotations

import hashlib
import struct
from io import BytesIO

import pytest

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.compaction.cleaning_round import ActiveProducer, Uncleanable
from logcore.logs.model.broker_line import BrokerLine
from tests import handmade
from tests.handmade import DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, batch, empty_batch, record, simple_batch
from tests.unit.logcore.logs.compaction.one_round import HORIZON, NOW, a_round, aborted, cleaned, cleaned_log, segment

OLD, NEW = BrokerLine.V3_9, BrokerLine.V4_4


def test_an_older_value_of_a_key_goes_and_the_newest_stays_verbatim():
    first, second = simple_batch(0, [(b"a", b"1")]), simple_batch(1, [(b"a", b"2"), (b"b", b"3")])
    assert cleaned_log([first, second], 3) == second


def test_a_batch_of_which_some_stay_keeps_its_offsets_and_its_base_timestamp_becomes_the_first_that_stays():
    rows = [record(0, b"a", b"1"), record(1, b"b", b"2", timestamp_delta=5), record(2, b"a", b"3", timestamp_delta=2)]
    whole = batch(
        rows, base_offset=4, base_timestamp=100, max_timestamp=105, producer_id=9, producer_epoch=1, base_sequence=3
    )
    later = simple_batch(7, [(b"a", b"4")])
    assert (
        cleaned_log([whole, later], 8)
        == batch(
            [record(1, b"b", b"2")],
            base_offset=4,
            last_offset_delta=2,
            base_timestamp=105,
            max_timestamp=105,
            producer_id=9,
            producer_epoch=1,
            base_sequence=3,
        )
        + later
    )


@pytest.mark.parametrize("line", BrokerLine)
def test_a_tombstone_stays_for_two_rounds_and_its_horizon_survives_it(line: BrokerLine):
    first = simple_batch(0, [(b"a", b"1")], base_timestamp=100)
    second = batch(
        [record(0, b"a", None), record(1, b"b", b"2", timestamp_delta=1)],
        base_offset=1,
        base_timestamp=101,
        max_timestamp=102,
    )
    stamped = batch(
        [
            record(0, b"a", None, timestamp_delta=101 - HORIZON),
            record(1, b"b", b"2", timestamp_delta=102 - HORIZON),
        ],
        base_offset=1,
        attributes=DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=102,
    )
    assert cleaned_log([first, second], 3, line=line) == stamped
    assert cleaned_log([stamped], 3, as_of_ms=HORIZON - 1, line=line) == stamped
    without = batch(
        [record(1, b"b", b"2", timestamp_delta=102 - HORIZON)],
        base_offset=1,
        last_offset_delta=1,
        attributes=DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=102,
    )
    assert cleaned_log([stamped], 3, as_of_ms=HORIZON, line=line) == without
    assert cleaned_log([without], 3, as_of_ms=HORIZON + 1, line=line) == without


def test_a_tombstone_above_the_map_is_stamped_too():
    dirty = [simple_batch(0, [(b"a", b"1")]), simple_batch(1, [(b"b", None)], base_timestamp=50)]
    log = cleaned_log(dirty, 2, max_keys=1)
    assert log == dirty[0] + batch(
        [record(0, b"b", None, timestamp_delta=50 - HORIZON)],
        base_offset=1,
        attributes=DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=50,
    )


def test_an_empty_value_is_a_value_and_an_empty_key_a_key():
    log = [simple_batch(0, [(b"", b"1")]), simple_batch(1, [(b"", b"")])]
    assert cleaned_log(log, 2) == log[1]


def test_records_without_a_key_go_below_the_map_and_stay_above_it():
    log = [simple_batch(0, [(None, b"x"), (b"a", b"1")]), simple_batch(2, [(None, b"y"), (b"b", b"2")])]
    kept = batch([record(1, b"a", b"1")], base_offset=0, last_offset_delta=1)
    other = batch([record(1, b"b", b"2")], base_offset=2, last_offset_delta=1)
    assert cleaned_log(log, 4) == kept + other
    assert cleaned_log(log, 4, max_keys=1) == kept + log[1]


def test_the_map_is_full_when_a_keyed_record_arrives_even_one_of_a_key_that_is_there():
    log = segment(0, simple_batch(0, [(b"a", b"1"), (None, b"-"), (b"a", b"2")]), next_base=3)
    assert PlainCleaner().build_map([log], a_round(3, max_keys=1)) == 1
    assert PlainCleaner().build_map([log], a_round(3, max_keys=2)) == 3


def test_the_map_ends_at_the_base_of_the_next_segment_whatever_the_batches_say():
    log = segment(0, simple_batch(0, [(b"a", b"1")]), next_base=10)
    assert PlainCleaner().build_map([log], a_round(10)) == 10


def test_the_map_leaves_out_what_lies_below_the_first_dirty_offset():
    log = [simple_batch(0, [(b"a", b"1"), (b"b", b"1")]), simple_batch(2, [(b"a", b"2")])]
    assert cleaned_log(log, 3, first_dirty_offset=3) == b"".join(log), "nothing is in the map"
    assert cleaned_log(log, 3, first_dirty_offset=2) == batch([record(1, b"b", b"1")], last_offset_delta=1) + log[1]


@pytest.mark.parametrize("line", [OLD, BrokerLine.V4_0])
def test_up_to_4_3_the_batch_that_ends_the_range_stays_without_records(line: BrokerLine):
    log = [simple_batch(0, [(b"a", b"1")]), simple_batch(1, [(None, b"-")], leader_epoch=4, max_timestamp=2000)]
    assert cleaned_log(log, 2, line=line) == log[0] + empty_batch(1, 0, leader_epoch=4, max_timestamp=2000)


def test_from_4_4_on_the_batch_that_ends_at_the_high_watermark_stays_without_records():
    log = [simple_batch(0, [(b"a", b"1")]), simple_batch(1, [(None, b"-")], max_timestamp=2000)]
    assert cleaned_log(log, 2) == log[0]
    assert cleaned_log(log, 2, high_watermark=2) == log[0] + empty_batch(1, 0, max_timestamp=2000)


@pytest.mark.parametrize("producer_id", [0, 5])
def test_the_last_batch_of_an_active_producer_stays_without_records_and_without_horizon(producer_id: int):
    fields = {"producer_id": producer_id, "producer_epoch": 2, "base_sequence": 7, "max_timestamp": 300}
    old = batch(
        [record(0, b"a", None)], base_offset=0, attributes=DELETE_HORIZON | LOG_APPEND_TIME, base_timestamp=9, **fields
    )
    newer = simple_batch(1, [(b"a", b"1")])
    known = {producer_id: ActiveProducer(2, 0)}
    assert cleaned_log([old, newer], 2, producers=known) == (
        empty_batch(0, 0, attributes=LOG_APPEND_TIME, **fields) + newer
    )
    assert cleaned_log([old, newer], 2, producers={producer_id: ActiveProducer(2, 1)}) == newer


def test_aborted_data_goes_and_never_replaces_an_older_value():
    data = simple_batch(1, [(b"a", b"2")], attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0)
    older, marker = simple_batch(0, [(b"a", b"1")]), handmade.marker(2, handmade.ABORT, producer_id=5)
    fields = {"aborted": (aborted(5, 1, 2),)}
    only = segment(0, older, data, marker, next_base=3, **fields)
    (log, result), *_ = cleaned([only], a_round(3))
    assert log == older + marker
    assert result.transaction_index == struct.pack(">hqqqq", 0, 5, 1, 2, 3)
    assert (result.records, result.removed, result.rebuilt, result.batches) == (2, 1, 0, 2)
    assert result.digest == hashlib.sha256(log).hexdigest()


def test_a_marker_without_data_is_stamped_and_leaves_once_its_horizon_passed():
    marker = handmade.marker(0, handmade.ABORT, producer_id=5, producer_epoch=3, base_timestamp=40)
    behind = simple_batch(1, [(b"a", b"1")])
    key, value = struct.pack(">hh", 0, handmade.ABORT), struct.pack(">hi", 0, 0)
    stamped = handmade.batch(
        [record(0, key, value, timestamp_delta=40 - HORIZON)],
        attributes=TRANSACTIONAL | handmade.CONTROL | DELETE_HORIZON,
        producer_id=5,
        producer_epoch=3,
        base_timestamp=HORIZON,
        max_timestamp=40,
    )
    assert cleaned_log([marker, behind], 2) == stamped + behind
    assert cleaned_log([stamped, behind], 2, as_of_ms=HORIZON - 1) == stamped + behind
    assert cleaned_log([stamped, behind], 2, as_of_ms=HORIZON) == behind
    known = {5: ActiveProducer(3, None)}
    emptied = empty_batch(
        0,
        0,
        attributes=TRANSACTIONAL | handmade.CONTROL,
        producer_id=5,
        producer_epoch=3,
        max_timestamp=40,
    )
    assert cleaned_log([stamped, behind], 2, as_of_ms=HORIZON, producers=known) == emptied + behind
    assert cleaned_log([emptied, behind], 2, producers=known) == emptied + behind
    assert cleaned_log([emptied, behind], 2) == behind
    assert cleaned_log([stamped, behind], 2, as_of_ms=HORIZON, producers={5: ActiveProducer(4, None)}) == behind


def test_a_commit_marker_stays_while_data_of_it_does_also_in_an_earlier_group():
    data = simple_batch(0, [(b"a", b"1")], attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0)
    marker = handmade.marker(1, handmade.COMMIT, producer_id=5)
    segments = [segment(0, data, next_base=1), segment(1, marker, next_base=2)]
    (first, _), (second, result) = cleaned(segments, a_round(2), [[0], [1]])
    assert (first, second) == (data, marker)
    assert result.transaction_index is None


def test_append_time_takes_the_place_of_every_timestamp_when_a_batch_is_rebuilt():
    whole = batch(
        [record(0, b"a", b"1"), record(1, b"b", None, timestamp_delta=5)],
        attributes=LOG_APPEND_TIME,
        base_timestamp=100,
        max_timestamp=900,
    )
    assert cleaned_log([whole], 2) == batch(
        [record(0, b"a", b"1", timestamp_delta=900 - HORIZON), record(1, b"b", None, timestamp_delta=900 - HORIZON)],
        attributes=LOG_APPEND_TIME | DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=900,
    )


def test_unknown_attribute_bits_stay_in_what_is_copied_and_go_in_what_is_rebuilt():
    odd = simple_batch(0, [(b"a", b"1"), (b"b", b"2")], attributes=0x4180)
    assert cleaned_log([odd], 2) == odd
    assert (
        cleaned_log([odd, simple_batch(2, [(b"a", b"3")])], 3)[:61]
        == (batch([record(1, b"b", b"2")], last_offset_delta=1)[:61])
    )


def test_a_header_name_that_is_no_text_is_replaced_where_its_batch_is_rebuilt():
    rows = [record(0, b"a", b"1"), record(1, b"b", b"2", headers=[(b"x\xffy", b"\xff"), (b"n", None)], attributes=3)]
    log = [batch(rows), simple_batch(2, [(b"a", b"3")])]
    kept = record(1, b"b", b"2", headers=[("x\N{REPLACEMENT CHARACTER}y".encode(), b"\xff"), (b"n", None)])
    assert cleaned_log(log, 3) == batch([kept], last_offset_delta=1) + log[1]


def test_what_cannot_be_written_again_is_uncleanable():
    rows = [record(0, b"a", b"1"), record(1, b"b", b"2", timestamp_delta=-2000)]
    with pytest.raises(Uncleanable, match="offset 0 cannot be rebuilt"):
        cleaned_log([batch(rows), simple_batch(2, [(b"a", b"3")])], 3)


def test_3_9_keeps_the_old_formats_and_drops_their_tombstones_by_the_age_of_the_file():
    log = [
        handmade.message_v1(0, 50, b"a", b"1"),
        handmade.message_v1(1, 51, b"a", None),
        handmade.message_v0(2, b"b", b"2"),
    ]
    assert cleaned_log(log, 3, line=OLD, legacy_horizon_ms=6) == log[1] + log[2]
    assert cleaned_log(log, 3, line=OLD, legacy_horizon_ms=7) == log[2]


def test_4_x_writes_the_old_formats_as_v2_with_a_horizon_for_tombstones():
    log = [handmade.message_v1(0, 50, b"a", None), handmade.message_v0(1, b"b", b"2")]
    none = {"leader_epoch": -1}
    assert cleaned_log(log, 2) == batch(
        [record(0, b"a", None, timestamp_delta=50 - HORIZON)],
        attributes=DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=50,
        **none,
    ) + batch([record(0, b"b", b"2")], base_offset=1, base_timestamp=-1, **none)


def test_an_old_message_that_ends_the_range_and_is_emptied_is_uncleanable():
    log = [handmade.message_v1(0, 50, b"a", b"1"), handmade.message_v1(1, 51, None, b"2")]
    with pytest.raises(Uncleanable, match="no empty batches"):
        cleaned_log(log, 2, line=OLD)
    assert cleaned_log(log, 2)[:8] == bytes(8), "4.4 keeps the batch at the high watermark, which is another one"


def test_indexes_are_those_of_a_recovery_with_the_closing_entry():
    rows = [simple_batch(at, [(b"%d" % at, b"v" * 50)], base_timestamp=100 + at % 3) for at in range(6)]
    size = len(rows[0])
    (log, result), *_ = cleaned([segment(0, *rows, next_base=6)], a_round(6, index_interval_bytes=size * 2 - 1))
    assert log == b"".join(rows)
    assert result.offset_index == struct.pack(">ii", 2, 2 * size) + struct.pack(">ii", 4, 4 * size)
    assert result.time_index == struct.pack(">qi", 102, 2)
    assert (result.max_timestamp, result.last_offset, result.size, result.modified_ms) == (102, 5, 6 * size, 7)


def test_a_group_that_leaves_nothing_is_an_empty_segment():
    segments = [
        segment(0, simple_batch(0, [(b"a", b"1")]), next_base=1),
        segment(1, simple_batch(1, [(b"a", b"2")]), next_base=2),
    ]
    (log, result), _ = cleaned(segments, a_round(2), [[0], [1]])
    assert (log, result.offset_index, result.time_index, result.transaction_index) == (b"", b"", b"", None)
    assert (result.last_offset, result.max_timestamp, result.removed) == (None, None, 1)


def test_at_and_above_damage_only_values_with_a_newer_record_go():
    pid = {"producer_id": 5, "producer_epoch": 0}
    log = [
        simple_batch(0, [(None, b"below"), (b"t", b"x")]),
        simple_batch(10, [(b"a", b"1"), (b"t", None), (None, b"keyless"), (b"b", None)], base_timestamp=30),
        simple_batch(14, [(b"a", b"2"), (b"b", b"3")], attributes=TRANSACTIONAL, base_sequence=0, **pid),
        handmade.marker(16, handmade.ABORT, **pid),
        simple_batch(17, [(b"a", b"4")]),
    ]
    only = segment(0, *log, next_base=18, aborted=(aborted(5, 14, 16),))
    (out, result), *_ = cleaned([only], a_round(18, frozen_from=5))
    kept = batch(
        [
            record(at, key, value, timestamp_delta=30 - HORIZON)
            for at, key, value in ((1, b"t", None), (2, None, b"keyless"), (3, b"b", None))
        ],
        base_offset=10,
        last_offset_delta=3,
        attributes=DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=30,
    )
    aborted_data = batch(
        [record(1, b"b", b"3")], base_offset=14, last_offset_delta=1, attributes=TRANSACTIONAL, base_sequence=0, **pid
    )
    assert out == kept + aborted_data + log[3] + log[4]
    assert result.transaction_index is not None


def test_after_damage_a_marker_and_a_tombstone_outlast_their_horizons_and_a_newer_record():
    marker = handmade.batch(
        [record(0, struct.pack(">hh", 0, handmade.ABORT), struct.pack(">hi", 0, 0), timestamp_delta=40 - HORIZON)],
        attributes=TRANSACTIONAL | handmade.CONTROL | DELETE_HORIZON,
        producer_id=5,
        producer_epoch=3,
        base_timestamp=HORIZON,
        max_timestamp=40,
    )
    tombstone = batch(
        [record(0, b"a", None, timestamp_delta=40 - HORIZON)],
        base_offset=1,
        attributes=DELETE_HORIZON,
        base_timestamp=HORIZON,
        max_timestamp=40,
    )
    newer = simple_batch(2, [(b"a", b"1")])
    log = [marker, tombstone, newer]
    assert cleaned_log(log, 3, as_of_ms=HORIZON, frozen_from=0) == b"".join(log)
    assert cleaned_log(log, 3, as_of_ms=HORIZON) == newer


def test_readable_batches_of_a_damaged_segment_count_for_the_map():
    good = simple_batch(1, [(b"a", b"2")])
    broken = segment(
        1, good, b"?" * 30, simple_batch(9, [(b"c", b"1")]), next_base=10, unreadable=((len(good), len(good) + 30),)
    )
    first = segment(0, simple_batch(0, [(b"a", b"1")]), next_base=1)
    ((log, _),) = cleaned([first, broken], a_round(10, frozen_from=2), [[0]])
    assert log == b""


def test_an_abort_that_lies_in_damage_keeps_nothing_of_its_producer_s_next_transaction_out_of_the_map():
    pid = {"producer_id": 5, "producer_epoch": 0}
    first = segment(0, simple_batch(0, [(b"a", b"1")]), next_base=1)
    broken = segment(1, b"?" * 30, next_base=3, unreadable=((0, 30),), aborted=(aborted(5, 1, 2),))
    committed = simple_batch(3, [(b"a", b"2")], attributes=TRANSACTIONAL, base_sequence=1, **pid)
    behind = segment(3, committed, handmade.marker(4, handmade.COMMIT, **pid), next_base=5)
    ((log, _),) = cleaned([first, broken, behind], a_round(5, frozen_from=1), [[0]])
    assert log == b""


def test_the_clock_of_the_round_is_the_only_one():
    log = [simple_batch(0, [(b"a", None)])]
    assert cleaned_log(log, 1) == cleaned_log(log, 1)
    assert struct.unpack_from(">q", cleaned_log(log, 1), 27) == (HORIZON,)
    assert HORIZON == NOW + 500


@pytest.mark.parametrize("cleaner", [PlainCleaner, CompiledCleaner])
def test_a_group_cleaned_by_itself_is_compared_with_the_room_of_its_indexes(cleaner: type[Cleaner]):
    batches = [simple_batch(offset, [(b"%d" % offset, b"v")]) for offset in range(9)]
    only = segment(0, *batches, next_base=9)
    for room, fits in ((7 * 8, False), (8 * 8, True), (None, True)):
        round = a_round(9, index_interval_bytes=0, segment_index_bytes=room)
        one = cleaner()
        one.build_map([only], round)
        if fits:
            assert len(one.clean([only], BytesIO()).offset_index) == 8 * 8
        else:
            with pytest.raises(Uncleanable, match=r"segment\.index\.bytes 56; a broker fails at this too\. Allow"):
                one.clean([only], BytesIO())


@pytest.mark.parametrize("cleaner", [PlainCleaner, CompiledCleaner])
@pytest.mark.parametrize(("times", "fits"), [((1, 2, 3, 4, 4, 4, 4, 4), False), ((1, 2, 3, 3, 3, 3, 3, 4), True)])
def test_a_full_time_index_refuses_a_further_entry_of_the_offset_index_and_not_the_one_that_filled_it(
    cleaner: type[Cleaner], times: tuple[int, ...], fits: bool
):
    """Room for eight entries of the one, and for four and the closing one of the other."""
    rising = [simple_batch(at + 1, [(b"%d" % at, b"v")], base_timestamp=time) for at, time in enumerate(times)]
    only = segment(0, simple_batch(0, [(b"first", b"v")], base_timestamp=-1), *rising, next_base=9)
    one = cleaner()
    one.build_map([only], a_round(9, index_interval_bytes=0, segment_index_bytes=64))
    if fits:
        assert len(one.clean([only], BytesIO()).time_index) == 4 * 12
    else:
        with pytest.raises(Uncleanable, match=r"segment\.index\.bytes 64"):
            one.clean([only], BytesIO())


def test_an_offset_may_lie_31_bits_above_the_base_and_no_further():
    far = 2**31 - 1
    rows = [[simple_batch(0, [(b"a", b"1")]), simple_batch(at, [(b"b", b"2")])] for at in (far, far + 1)]
    assert cleaned_log(rows[0], far + 1) == b"".join(rows[0])
    with pytest.raises(Uncleanable, match=f"a batch ends at offset {far + 1}"):
        cleaned_log(rows[1], far + 2)
