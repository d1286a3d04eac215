import struct
import tracemalloc
import zlib

import pytest

from logcore.columns import records_columns
from logcore.logs.checks import batch_rules, validation
from logcore.logs.checks.validation import BatchVerdict, SegmentValidation
from logcore.logs.model.batch_facts import BatchFact, fact_of
from logcore.logs.model.findings import Severity
from logcore.segments.scanning.scan import Accounting, End, SegmentScan, Stretch
from tests import handmade

HORIZON = handmade.DELETE_HORIZON
MARKER = handmade.TRANSACTIONAL | handmade.CONTROL
LEADER_CHANGE_KEY = struct.pack(">hh", 0, 2)
TRANSACTIONAL_LEADER_CHANGE = handmade.control_batch(0, LEADER_CHANGE_KEY, b"", attributes=MARKER, producer_id=4)
TWO_MARKERS_IN_ONE = handmade.batch(
    [handmade.record(delta, bytes(4), bytes(6)) for delta in (0, 1)], attributes=MARKER, producer_id=1
)


def walked(data: bytes, *, base_offset: int = 0, sealed: bool = False, **given) -> tuple[SegmentValidation, list]:
    judged = SegmentValidation(data, base_offset=base_offset, sealed=sealed, file="0.log", **given)
    return judged, list(judged)


def rules(judged: SegmentValidation) -> list[str]:
    return [finding.rule for finding in judged.findings]


def three_batches() -> list[bytes]:
    return [handmade.simple_batch(base, [(b"k", b"secret"), (b"l", None)]) for base in (0, 2, 4)]


def test_a_good_batch_becomes_a_row_with_every_header_field() -> None:
    data = handmade.simple_batch(
        7,
        [(b"a", b"1"), (b"b", b"2")],
        leader_epoch=5,
        attributes=handmade.LOG_APPEND_TIME,
        base_timestamp=100,
        max_timestamp=900,
        producer_id=8,
        producer_epoch=3,
        base_sequence=11,
    )
    judged, rows = walked(data, base_offset=7)
    (crc,) = struct.unpack_from(">I", data, handmade.CRC_AT)
    assert rows == [
        BatchVerdict(
            position=0,
            size=len(data),
            base_offset=7,
            last_offset=8,
            leader_epoch=5,
            magic=2,
            crc=crc,
            attributes=8,
            codec="none",
            timestamp_type="LogAppendTime",
            base_timestamp=100,
            max_timestamp=900,
            delete_horizon_ms=None,
            producer_id=8,
            producer_epoch=3,
            base_sequence=11,
            record_count=2,
            is_transactional=False,
            is_control=False,
            control_type=None,
            verdict="ok",
        )
    ]
    assert (judged.findings, judged.end, judged.next_offset) == ((), End.CLEAN, 9)


def test_a_delete_horizon_and_a_marker_are_in_their_rows() -> None:
    data = handmade.batch([handmade.record()], attributes=HORIZON, base_timestamp=77, max_timestamp=77)
    data += handmade.marker(1, handmade.ABORT, producer_id=4)
    _, rows = walked(data)
    assert [(r.delete_horizon_ms, r.control_type, r.is_transactional) for r in rows] == [
        (77, None, False),
        (None, "ABORT", True),
    ]


def test_batches_and_stretches_turn_into_the_facts_of_the_log_pass() -> None:
    first, second, third = three_batches()
    steps = list(SegmentScan(first + handmade.flip(second, 70) + third, base_offset=0, sealed=True))
    assert isinstance(steps[1], Stretch)
    assert fact_of(steps[1], "s") == BatchFact(
        2, None, 0, -1, -1, False, False, None, "CRC", "s", len(first), len(second), -1
    )
    assert fact_of(steps[2], "s") == BatchFact(
        4, 5, 2, -1, -1, False, False, None, "ok", "s", len(first) + len(second), len(third), 0
    )


def test_records_are_counted_apart_from_control_records_and_batches_by_codec() -> None:
    plain = handmade.simple_batch(0, [(b"a", b"1")] * 3)
    packed = zlib.compressobj(wbits=31)
    body = packed.compress(handmade.record() + handmade.record(1)) + packed.flush()
    gzipped = handmade.batch((), base_offset=3, attributes=1, body=body, count=2, last_offset_delta=1)
    judged, _ = walked(plain + gzipped + handmade.marker(5, handmade.COMMIT, producer_id=1))
    assert (judged.counts.batches, judged.counts.records, judged.counts.control_records) == (3, 5, 1)
    assert judged.counts.codecs == {"none": 2, "gzip": 1}


def test_the_time_range_takes_records_from_below_and_markers_from_above() -> None:
    records = [handmade.record(0, timestamp_delta=-400), handmade.record(1), handmade.record(2, timestamp_delta=-1001)]
    data = handmade.batch(records, base_timestamp=1000)
    judged, _ = walked(data + handmade.marker(3, handmade.COMMIT, producer_id=1, base_timestamp=5000))
    assert (judged.min_timestamp, judged.max_timestamp) == (600, 5000)
    assert judged.findings == ()


def test_without_timestamps_there_is_no_time_range() -> None:
    judged, _ = walked(handmade.simple_batch(0, [(b"a", b"1")], base_timestamp=-1))
    assert (judged.min_timestamp, judged.max_timestamp, judged.findings) == (None, None, ())


def test_a_flipped_bit_in_the_middle_is_one_stretch_and_the_rest_continues() -> None:
    first, second, third = three_batches()
    judged, rows = walked(first + handmade.flip(second, 65) + third, sealed=True)
    assert [type(row).__name__ for row in rows] == ["BatchVerdict", "Stretch", "BatchVerdict"]
    assert judged.accounting == Accounting(len(first) * 3, len(first) * 2, len(second), 0, 0)
    assert judged.end is End.CORRUPT
    (finding,) = judged.findings
    assert (finding.rule, finding.severity, finding.file) == ("corrupt-bytes", Severity.ERROR, "0.log")
    assert (finding.position, finding.nbytes, finding.start_offset) == (len(first), len(second), 2)
    assert "CRC" in finding.message


def test_records_that_do_not_parse_make_a_stretch_although_the_crc_is_right() -> None:
    bad = handmade.batch([handmade.record(0, length=3), handmade.record(1)], base_offset=2)
    judged, rows = walked(three_batches()[0] + bad)
    assert isinstance(rows[1], Stretch)
    assert judged.end is End.CORRUPT
    assert judged.counts.records == 2


def test_a_record_beyond_the_last_offset_of_its_batch_makes_a_stretch() -> None:
    bad = handmade.batch([handmade.record(0), handmade.record(9)], last_offset_delta=1)
    assert rules(walked(bad)[0]) == ["corrupt-bytes"]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_segment_cut_at_any_byte_accounts_for_every_byte(sealed: bool) -> None:
    base = 1 << 56  # its first byte is not zero: a cut that leaves zeros alone leaves padding
    first = handmade.simple_batch(base, [(b"k", b"v")])
    whole = first + handmade.simple_batch(base + 1, [(b"k", b"v")])
    for length in range(len(whole) + 1):
        judged, rows = walked(handmade.cut(whole, length), base_offset=base, sealed=sealed)
        accounting = judged.accounting
        good = len(whole) if length == len(whole) else len(first) if length >= len(first) else 0
        assert accounting.valid == good
        assert (accounting.quarantined if sealed else accounting.tail) == length - good
        assert accounting.file_size == length
        assert sum(isinstance(row, Stretch) for row in rows) == (length != good)
        said = ["corrupt-bytes" if sealed else "torn-tail"] if length != good else []
        assert rules(judged) == said + (["segment-without-batch"] if 0 < length < len(first) and not sealed else [])


@pytest.mark.parametrize(
    ("sealed", "rule", "end"), [(False, "torn-tail", End.TORN), (True, "corrupt-bytes", End.CORRUPT)]
)
def test_a_partial_batch_at_the_end_is_ordinary_only_while_the_segment_is_written(sealed, rule, end) -> None:
    first, second, _ = three_batches()
    judged, _ = walked(first + second[:-1], sealed=sealed)
    assert (rules(judged), judged.end) == ([rule], end)


@pytest.mark.parametrize(
    ("sealed", "rule", "end"), [(False, "zero-padding", End.CLEAN), (True, "zero-tail", End.CORRUPT)]
)
def test_zeros_at_the_end_are_padding_and_reported_with_their_position(sealed, rule, end) -> None:
    data = three_batches()[0]
    judged, rows = walked(handmade.zero_tail(data, 500), sealed=sealed)
    assert (rules(judged), judged.end, len(rows)) == ([rule], end, 1)
    assert judged.accounting.padding == 500
    assert (judged.findings[0].position, judged.findings[0].nbytes) == (len(data), 500)


def test_messages_of_all_formats_are_rows_of_one_segment() -> None:
    first, second, _ = three_batches()
    old = [handmade.message_v0(4, b"k", b"v"), handmade.wrapper_v1([5, 6, 9], timestamps=[7, 9, 8])]
    judged, rows = walked(first + second + b"".join(old))
    assert judged.findings == ()
    assert [(row.magic, row.base_offset, row.last_offset, row.record_count, row.codec) for row in rows[2:]] == [
        (0, 4, 4, 1, "none"),
        (1, 5, 9, 3, "gzip"),
    ]
    assert [(row.leader_epoch, row.base_timestamp, row.max_timestamp) for row in rows[2:]] == [
        (-1, -1, -1),
        (-1, -1, 9),
    ]
    assert [row.timestamp_type for row in rows[2:]] == ["NoTimestampType", "CreateTime"]
    assert judged.counts.records == 8
    assert judged.accounting == Accounting(*[len(first + second + b"".join(old))] * 2, 0, 0, 0)


def test_damage_among_messages_of_old_formats_costs_the_message_alone() -> None:
    old = [handmade.message_v0(4, b"k", b"v"), handmade.wrapper_v0([5, 6, 7]), handmade.message_v1(8, 5, b"k", b"v")]
    judged, rows = walked(old[0] + handmade.flip(old[1], 40) + old[2], base_offset=4)
    assert [(row.position, row.size) for row in rows] == [
        (0, len(old[0])),
        (len(old[0]), len(old[1])),
        (len(old[0] + old[1]), len(old[2])),
    ]
    assert rules(judged) == ["corrupt-bytes"]
    assert judged.accounting.quarantined == len(old[1])


def test_a_batch_that_overlaps_the_next_segment_is_refused() -> None:
    data = b"".join(three_batches())
    assert rules(walked(data, sealed=True, next_base_offset=5)[0]) == ["corrupt-bytes"]
    assert rules(walked(data, sealed=True, next_base_offset=6)[0]) == []


def test_a_first_batch_below_the_file_name_is_refused() -> None:
    assert rules(walked(handmade.simple_batch(6, [(b"k", b"v")]), base_offset=7)[0]) == ["corrupt-bytes"]
    assert rules(walked(handmade.simple_batch(8, [(b"k", b"v")]), base_offset=7)[0]) == []


ONE = [(b"k", b"v")]
LATEST = 253_402_300_799_999
EARLIEST = -62_135_596_800_000

_BODY = bytes(3) + handmade.varint(1) + b"k" + handmade.varint(1) + b"v"
PADDED = handmade.varint(len(_BODY) + 2) + _BODY + b"\x80\x00"
PADDED_IN_HEADER = handmade.varint(len(_BODY) + 4) + _BODY + handmade.varint(1) + b"\x80\x00" + handmade.varint(-1)
NULL_AS_MINUS_2 = handmade.varint(6) + bytes(3) + handmade.varint(-2) * 2 + b"\0"
BITS_BEYOND = handmade.varint(10) + bytes(2) + b"\x80\x80\x80\x80\x70" + handmade.varint(-1) * 2 + b"\0"

CASES = {
    "attribute bit 7": (handmade.simple_batch(0, ONE, attributes=0x80), "unknown-attribute-bits"),
    "attribute bit 15": (handmade.simple_batch(0, ONE, attributes=0x8000), "unknown-attribute-bits"),
    "max timestamp above": (handmade.simple_batch(0, ONE, max_timestamp=1001), "max-timestamp-differs"),
    "max timestamp below": (handmade.simple_batch(0, ONE, max_timestamp=999), "max-timestamp-differs"),
    "append time": (handmade.simple_batch(0, ONE, attributes=handmade.LOG_APPEND_TIME, max_timestamp=5), None),
    "far future": (handmade.simple_batch(0, ONE, base_timestamp=1 << 60), "timestamp-out-of-range"),
    "just too late": (handmade.simple_batch(0, ONE, base_timestamp=LATEST + 1), "timestamp-out-of-range"),
    "just too early": (
        handmade.simple_batch(0, ONE, base_timestamp=EARLIEST - 1),
        "negative-timestamp timestamp-out-of-range",
    ),
    "earliest": (handmade.simple_batch(0, ONE, base_timestamp=EARLIEST), "negative-timestamp"),
    "below none": (handmade.simple_batch(0, ONE, base_timestamp=-2), "negative-timestamp"),
    "no timestamp": (handmade.simple_batch(0, ONE, base_timestamp=-1), None),
    "append time of none": (
        handmade.simple_batch(0, ONE, attributes=handmade.LOG_APPEND_TIME, max_timestamp=-1),
        "max-timestamp-differs",
    ),
    "a padded varint": (handmade.batch([PADDED]), "unusual-encoding"),
    "null as -2": (handmade.batch([NULL_AS_MINUS_2]), "unusual-encoding"),
    "a varint with bits beyond its type": (handmade.batch([BITS_BEYOND]), "unusual-encoding"),
    "a padded varint in a header": (handmade.batch([PADDED_IN_HEADER]), "unusual-encoding"),
    "six bytes that are needed": (
        handmade.batch([handmade.record(timestamp_delta=1 << 40)], max_timestamp=1000 + (1 << 40)),
        None,
    ),
    "a name in Latin-1": (handmade.batch([handmade.record(headers=[(b"caf\xe9", b"1")])]), "header-name-not-utf8"),
    "a name in UTF-8": (handmade.batch([handmade.record(headers=[("café".encode(), b"\xe9")])]), None),
    "v0": (handmade.message_v0(0, b"k", b"v"), None),
    "v0 with a timestamp type": (handmade.message(0, magic=0, attributes=8), "unknown-attribute-bits"),
    "v1 with attribute bit 4": (handmade.message(0, attributes=16), "unknown-attribute-bits"),
    "v1 wrapper": (handmade.wrapper_v1([0, 1, 5]), None),
    "v1 wrapper of 0.10 with append time": (handmade.wrapper_append_time([0, 1], 5000), None),
    "v1 wrapper of 2.x with append time": (handmade.wrapper_append_time([0, 1], 5000, converted=True), None),
    "v1 wrapper with another timestamp": (handmade.wrapper_v1([0, 1], timestamp=1002), "max-timestamp-differs"),
    "a wrong crc inside": (handmade.wrapper([handmade.message(0, crc=1)], offset=0), "inner-crc-differs"),
    "v0 inside v1": (
        handmade.wrapper([handmade.message(0, magic=0)], offset=0, timestamp=-1),
        "inner-magic-differs",
    ),
    "half a message inside": (
        handmade.wrapper([handmade.message(0), handmade.message(1)[:-1]], offset=0),
        "inner-bytes-left",
    ),
    "a wrapper whose offset nobody assigned": (handmade.wrapper_v1([0, 1, 2], offset=0), "wrapper-offset-zero"),
    "a wrapper of one message at offset 0": (handmade.wrapper_v1([0]), None),
    "a wrapper around a wrapper": (handmade.wrapper([handmade.wrapper_v1([0])], offset=0), "corrupt-bytes"),
    "latest": (handmade.simple_batch(0, ONE, base_timestamp=LATEST), None),
    "empty batch": (handmade.empty_batch(0, 4, max_timestamp=5), None),
    "control type 9": (handmade.control_batch(0, struct.pack(">hh", 0, 9), b""), "unknown-control-type"),
    "leader change": (handmade.control_batch(0, LEADER_CHANGE_KEY, b""), None),
    "transactional leader change": (TRANSACTIONAL_LEADER_CHANGE, "control-batch-shape"),
    "marker without producer": (handmade.control_batch(0, struct.pack(">hh", 0, 1), bytes(6)), "control-batch-shape"),
    "two markers in one batch": (TWO_MARKERS_IN_ONE, "control-batch-shape"),
    "empty marker batch": (handmade.batch((), attributes=MARKER, producer_id=1, base_timestamp=-1), None),
    "control key of one byte": (handmade.control_batch(0, b"\0", b""), "corrupt-bytes"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rule_reports_the_batch_that_breaks_it_and_no_other(case: str) -> None:
    data, expected = CASES[case]
    judged, rows = walked(data)
    assert rules(judged) == ([] if expected is None else expected.split())
    if expected is not None:
        assert (judged.findings[0].position, judged.findings[0].nbytes) == (0, len(data))
    assert isinstance(rows[0], Stretch) == (expected == "corrupt-bytes")


def test_an_empty_batch_is_not_measured_by_the_records_of_the_batch_before() -> None:
    judged, _ = walked(handmade.simple_batch(0, ONE) + handmade.empty_batch(1, 4, max_timestamp=5))
    assert judged.findings == ()


def test_a_leader_epoch_that_falls_is_reported_once_and_minus_one_is_no_epoch() -> None:
    epochs = [3, 3, -1, 2, 2, 5]
    data = b"".join(handmade.simple_batch(i, [(b"k", b"v")], leader_epoch=e) for i, e in enumerate(epochs))
    judged, _ = walked(data)
    assert [(f.rule, f.start_offset) for f in judged.findings] == [("leader-epoch-regression", 3)]


def from_producers(*batches: tuple[int, int, int, int]) -> bytes:
    """Batches of (producer, epoch, base sequence, number of records), one after the other."""
    data, offset = b"", 0
    for producer, epoch, sequence, count in batches:
        data += handmade.simple_batch(
            offset, [(b"k", b"v")] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
        )
        offset += count
    return data


LAST = (1 << 31) - 1


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(7, 0, 0, 3), (7, 0, 3, 1), (7, 0, 4, 1)], []),
        ([(7, 0, 0, 3), (8, 0, 0, 1), (7, 0, 3, 1)], []),
        ([(7, 0, 0, 3), (7, 0, 4, 1)], [("sequence-gap", 3)]),
        ([(7, 0, 0, 3), (7, 0, 0, 3)], [("sequence-duplicate", 3)]),
        ([(7, 0, 0, 3), (7, 0, 2, 3)], [("sequence-duplicate", 3)]),
        ([(7, 0, 0, 3), (7, 0, 0, 3), (7, 0, 3, 3)], [("sequence-duplicate", 3)]),
        ([(7, 0, 9, 3), (7, 1, 0, 3)], []),  # a new epoch begins again
        ([(7, 0, 9, 3), (7, 0, 13, 3), (7, 0, 16, 1)], [("sequence-gap", 3)]),
        ([(7, 0, LAST, 1), (7, 0, 0, 2)], []),  # around the greatest one
        ([(7, 0, LAST - 1, 4), (7, 0, 2, 2)], []),
        ([(7, 0, LAST - 1, 4), (7, 0, 3, 2)], [("sequence-gap", 4)]),
        ([(7, 0, LAST - 1, 4), (7, 0, LAST, 2)], [("sequence-duplicate", 4)]),
        ([(-1, -1, 5, 1), (-1, -1, 5, 1)], []),
        ([(7, 0, -1, 1), (7, 0, -1, 1), (7, 0, 3, 1)], []),
    ],
)
def test_a_producers_sequence_goes_on_where_its_last_batch_ended(batches, expected) -> None:
    judged, _ = walked(from_producers(*batches))
    assert [(f.rule, f.start_offset) for f in judged.findings] == expected


def test_of_a_coordinators_topic_no_sequence_is_expected() -> None:
    """Each transactional offset commit is a batch with base sequence 0."""
    commits = from_producers((7, 0, 0, 3), (7, 0, 0, 2), (7, 0, 9, 1))
    assert rules(walked(commits)[0]) == ["sequence-duplicate", "sequence-gap"]
    assert rules(walked(commits, checks_sequences=False)[0]) == []


def test_where_offsets_are_missing_no_sequence_is_expected() -> None:
    """Compaction may have taken the batch between; and a marker has no sequence of its own."""
    first = from_producers((7, 0, 0, 3))
    later = handmade.simple_batch(9, ONE, producer_id=7, producer_epoch=0, base_sequence=6)
    assert rules(walked(first + later)[0]) == []
    ended = handmade.marker(3, handmade.COMMIT, producer_id=7)
    after = handmade.simple_batch(4, ONE, producer_id=7, producer_epoch=0, base_sequence=3)
    assert rules(walked(first + ended + after)[0]) == []
    gap = handmade.simple_batch(4, ONE, producer_id=7, producer_epoch=0, base_sequence=4)
    assert rules(walked(first + ended + gap)[0]) == ["sequence-gap"]


def test_after_damage_no_sequence_is_expected() -> None:
    whole = [from_producers((7, 0, 0, 1))]
    for offset in (1, 2):
        made = handmade.simple_batch(offset, ONE, producer_id=7, producer_epoch=0, base_sequence=offset)
        whole.append(made)
    judged, _ = walked(whole[0] + handmade.flip(whole[1], 65) + whole[2])
    assert rules(judged) == ["corrupt-bytes"]


def test_producers_that_wrote_last_are_remembered_and_no_more_than_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_rules, "PRODUCERS", 2)
    judged, _ = walked(from_producers((1, 0, 0, 1), (2, 0, 0, 1), (3, 0, 0, 1), (2, 0, 5, 1), (1, 0, 5, 1)))
    assert [(f.rule, f.start_offset) for f in judged.findings] == [("sequence-gap", 3)]


def test_findings_of_one_rule_are_capped_and_the_rest_counted() -> None:
    data = b"".join(handmade.simple_batch(i, [(b"k", b"v")], attributes=0x80) for i in range(105))
    judged, _ = walked(data + handmade.simple_batch(105, [(b"k", b"v")], max_timestamp=1))
    assert rules(judged) == ["unknown-attribute-bits"] * 100 + ["max-timestamp-differs", "unknown-attribute-bits"]
    assert "5 more" in judged.findings[-1].message


def test_split_points_are_at_batches_at_least_the_distance_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [handmade.simple_batch(base, [(b"k", b"v")]) for base in range(3, 10)]
    size = len(batches[0])
    monkeypatch.setattr(validation, "SPLIT_BYTES", 2 * size + 1)
    judged, _ = walked(b"".join(batches), base_offset=3)
    assert judged.split_points == [(0, 3), (3 * size, 6), (6 * size, 9)]


def test_a_batch_is_handed_out_before_the_next_one_is_looked_at() -> None:
    judged = SegmentValidation(three_batches()[0] + b"junk" * 30, base_offset=0, sealed=True, file="0.log")
    first = next(iter(judged))
    assert isinstance(first, BatchVerdict)
    assert (judged.counts.batches, judged.findings) == (1, ())
    with pytest.raises(ValueError, match="not reached its end"):
        _ = judged.accounting


def test_memory_does_not_grow_with_the_segment() -> None:
    one = handmade.batch([handmade.record(0, b"k", bytes(1 << 16))])
    data = b"".join(struct.pack(">q", base) + one[8:] for base in range(300))
    judged = SegmentValidation(memoryview(data), base_offset=0, sealed=True, file="0.log")
    tracemalloc.start()
    try:
        batches = sum(1 for _ in judged)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert batches == 300
    assert len(data) > 19_000_000
    assert peak < 1_000_000


def test_no_finding_contains_the_content_of_a_record() -> None:
    first, second, third = three_batches()
    judged, _ = walked(first + handmade.flip(second, 66) + third + second, sealed=True)
    assert len(judged.findings) == 2
    assert "secret" not in repr(judged.findings)


def test_the_range_of_timestamps_is_that_of_the_records_table() -> None:
    assert (records_columns.MIN_TIMESTAMP_MS, records_columns.MAX_TIMESTAMP_MS) == (
        batch_rules.MIN_TIMESTAMP_MS,
        batch_rules.MAX_TIMESTAMP_MS,
    )
