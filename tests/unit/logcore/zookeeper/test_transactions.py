"""ZooKeeperTransaction logs of ZooKeeper that were packed by hand: zeros, torn ends and damage."""

import struct

import pytest

from logcore.zookeeper.transactions import BadStretch, ZooKeeperTransaction, read_transactions
from tests.zookeeper_files import CLIENT, CREATE, DELETE, create, delete, log, text, transaction

FIRST, SECOND, THIRD = (
    transaction(1, create("/a", "x")),
    transaction(2, create("/b", "y"), time_ms=5),
    transaction(3, delete("/a")),
)
HEADER = 16


def numbers(data: bytes) -> list[int]:
    return [each.zxid for each in read_transactions(data) if isinstance(each, ZooKeeperTransaction)]


def stretches(data: bytes) -> list[BadStretch]:
    return [each for each in read_transactions(data) if isinstance(each, BadStretch)]


@pytest.mark.parametrize("padding", [0, 1, 11, 12, 5_000])
def test_transactions_end_where_the_zeros_begin(padding: int) -> None:
    read = list(read_transactions(log(FIRST, SECOND, THIRD, padding=padding)))
    assert [tuple(each)[:4] for each in read] == [
        (CLIENT, 1, 1_000, CREATE),
        (CLIENT, 2, 5, CREATE),
        (CLIENT, 3, 3_000, DELETE),
    ]
    assert tuple(read[2])[4] == text("/a")


@pytest.mark.parametrize("padding", [0, 1_000])
def test_a_transaction_that_ends_anywhere_is_torn(padding: int) -> None:
    for end in range(1, len(THIRD)):
        data = log(FIRST, SECOND, THIRD[:end], padding=padding)
        bad = stretches(data)
        assert numbers(data) == [1, 2]
        assert all(each.is_torn and each.start == HEADER + len(FIRST + SECOND) for each in bad), end
        assert bad or not THIRD[:end].strip(b"\0")


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_each_changed_bit_loses_one_transaction_and_the_rest_goes_on(damaged: int) -> None:
    parts = [FIRST, SECOND, THIRD]
    for position in range(len(parts[damaged])):
        changed = bytearray(parts[damaged])
        changed[position] ^= 1 << position % 8
        data = log(*parts[:damaged], bytes(changed), *parts[damaged + 1 :])
        (bad,) = stretches(data)
        assert not bad.is_torn or (damaged == 2 and position == len(THIRD) - 1), position
        assert numbers(data) == [zxid for zxid in (1, 2, 3) if zxid != damaged + 1], position


def test_a_log_without_its_header_is_torn_if_it_is_empty_and_else_damaged() -> None:
    assert [each.is_torn for each in stretches(b"")] == [True]
    assert [each.is_torn for each in stretches(b"ZKLG\0\0")] == [True]
    assert [each.is_torn for each in stretches(bytes(5_000))] == [True]
    assert [each.is_torn for each in stretches(b"ZKSN" + log(FIRST)[4:])] == [False]


def test_a_search_after_damage_ends_although_every_byte_could_begin_a_transaction() -> None:
    crafted = (b"B\0\0\0\0\0\0\0\0" + struct.pack(">i", 60_000)) * 20_000
    (bad,) = stretches(log(b"\xff" * 20, crafted))
    assert not bad.is_torn
