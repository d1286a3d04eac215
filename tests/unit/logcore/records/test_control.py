import struct

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import crc_matches, read_header
from logcore.records.control import ControlType, control_type, coordinator_epoch
from logcore.records.record import read_records
from tests import handmade

KINDS = ["ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"]
KAFKA_ABORT = (
    "00000000000000070000004200000003022500e19400300000000000000000000004d200000000000004d200000000000000630002ffff"
    "ffff000000012000000008000000000c00000000000500"
)
KAFKA_COMMIT = KAFKA_ABORT.replace("2500e194", "d13e37dc").replace("0800000000", "0800000001")


@pytest.mark.parametrize(("number", "name"), list(enumerate(KINDS)))
@pytest.mark.parametrize("version", [0, 1, 32767])
def test_types_have_their_numbers_in_every_version(number: int, name: str, version: int) -> None:
    assert control_type(struct.pack(">hh", version, number)) == name


@pytest.mark.parametrize("number", [7, 100, 32767, -1, -32768])
def test_types_from_the_future_are_unknown_not_an_error(number: int) -> None:
    assert control_type(struct.pack(">hh", 0, number)) is ControlType.UNKNOWN


def test_a_longer_key_is_read_by_its_beginning() -> None:
    assert control_type(b"\0\0\0\1more") is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\0\0", b"\xff\xff\0\1", b"\x80\0\0\0"])
def test_a_key_that_is_none_is_damage(key: bytes | None) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        control_type(key)
    assert caught.value.reason is CorruptionReason.CONTROL


@pytest.mark.parametrize(("data", "kind"), [(KAFKA_ABORT, ControlType.ABORT), (KAFKA_COMMIT, ControlType.COMMIT)])
def test_kafkas_markers_are_recognised(data: str, kind: ControlType) -> None:
    buf = bytes.fromhex(data)
    header = read_header(buf)
    assert crc_matches(buf, 0, header)
    (record,) = read_records(buf, 0, header)
    assert control_type(record.key) is kind
    assert coordinator_epoch(record.value) == 5


def test_a_marker_packed_by_hand_is_kafkas() -> None:
    kind = handmade.ABORT
    data = handmade.marker(
        7, kind, producer_id=99, producer_epoch=2, coordinator_epoch=5, leader_epoch=3, base_timestamp=1234
    )
    assert data.hex() == KAFKA_ABORT


def test_the_coordinators_epoch_comes_back() -> None:
    assert coordinator_epoch(struct.pack(">hi", 0, -3)) == -3
    assert coordinator_epoch(struct.pack(">hi", 4, 9) + b"more") == 9


@pytest.mark.parametrize("value", [None, b"", bytes(5), b"\xff\xff" + bytes(4)])
def test_a_marker_without_a_whole_value_is_damage(value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        coordinator_epoch(value)
    assert caught.value.reason is CorruptionReason.CONTROL
