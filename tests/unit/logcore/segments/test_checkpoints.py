"""Checkpoint files are understood whole or refused whole."""

import random

import pytest

from logcore.errors import CorruptIndexError
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.checkpoints import (
    format_leader_epochs,
    format_offset_checkpoint,
    format_partition_metadata,
    load_leader_epochs,
    parse_clean_shutdown,
    parse_leader_epochs,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
    parse_quorum_state,
)
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests import sampling

OFFSETS = b"0\n2\norders 0 42\norders-eu 11 9223372036854775807\n"
EPOCHS = b"0\n3\n0 0\n2 17\n5 17\n"
TOPIC_ID = "qesnf9AHR5-Xtl7tnUTbTA"
CHAIN = (EpochEntry(0, 0), EpochEntry(2, 17), EpochEntry(5, 40))


def test_offsets_are_read_by_topic_partition() -> None:
    assert parse_offset_checkpoint(OFFSETS) == {
        TopicPartition("orders", 0): 42,
        TopicPartition("orders-eu", 11): 9223372036854775807,
    }


def test_text_and_bytes_are_read_alike() -> None:
    assert parse_offset_checkpoint(OFFSETS.decode()) == parse_offset_checkpoint(OFFSETS)


def test_fields_may_be_apart_by_any_white_space() -> None:
    assert parse_offset_checkpoint(b"0\n1\norders \t 0   42\n") == {TopicPartition("orders", 0): 42}


@pytest.mark.parametrize("content", [b"", b"0\n0\n"])
def test_a_checkpoint_without_entries_is_empty(content: bytes) -> None:
    assert parse_offset_checkpoint(content) == {}
    assert parse_leader_epochs(content) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n",
        b"x\n0\n",
        b"0\nx\n",
        b"0\n-1\n",
        b"0\n1\n",
        b"0\n1\norders 0 42\norders 1 42\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 42 7\n",
        b"0\n1\norders zero 42\n",
        b"0\n1\norders 0 -1\n",
        b"0\n1\norders 0 9223372036854775808\n",
        b"0\n1\norders 2147483648 1\n",
        b"0\n1\norders -1 1\n",
        b"0\n1\n../x 0 1\n",
        b"0\n2\norders 0 1\norders 0 2\n",
        b"0\n1\norders 0 1\n\n",
        "0\n1\norders 0 ٤٢\n".encode(),
        b"\xff\xfe0\x00",
        b"garbage",
    ],
)
def test_a_malformed_offset_checkpoint_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_offset_checkpoint(content)


@pytest.mark.parametrize("length", range(1, len(OFFSETS)))
def test_an_offset_checkpoint_cut_anywhere_never_invents_an_entry(length: int) -> None:
    whole = parse_offset_checkpoint(OFFSETS)
    try:
        parsed = parse_offset_checkpoint(OFFSETS[:length])
    except CorruptIndexError:
        return
    # Only a number at the very end can be cut without the line count showing it.
    assert set(parsed) == set(whole)
    assert str(whole[TopicPartition("orders-eu", 11)]).startswith(str(parsed[TopicPartition("orders-eu", 11)]))


@pytest.mark.parametrize("garbage", [b"\0", b"x\n", b"orders 3 1\n", b"\xff"])
def test_trailing_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_offset_checkpoint(OFFSETS + garbage)
    with pytest.raises(CorruptIndexError):
        parse_leader_epochs(EPOCHS + garbage)


def test_offsets_are_written_as_a_broker_reads_them() -> None:
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a", 10): 1, TopicPartition("a", 9): 0}
    assert format_offset_checkpoint(offsets) == b"0\n3\na 9 0\na 10 1\nb 0 7\n"


def test_leader_epochs_are_read_in_order() -> None:
    assert parse_leader_epochs(EPOCHS) == (EpochEntry(0, 0), EpochEntry(2, 17), EpochEntry(5, 17))


def test_a_broker_loads_leader_epochs_that_do_not_rise_and_the_later_win() -> None:
    content = b"0\n3\n0 155\n1 83\n4 120\n"
    with pytest.raises(CorruptIndexError, match="does not follow"):
        parse_leader_epochs(content)
    assert load_leader_epochs(content) == (EpochEntry(1, 83), EpochEntry(4, 120))
    with pytest.raises(CorruptIndexError):
        load_leader_epochs(b"0\n1\n-1 4\n")


def test_leader_epochs_are_written_as_a_broker_reads_them() -> None:
    assert format_leader_epochs([EpochEntry(0, 0), EpochEntry(2, 17), EpochEntry(5, 17)]) == EPOCHS


@pytest.mark.parametrize(
    "content",
    [b"0\n2\n1 0\n1 5\n", b"0\n2\n1 0\n0 5\n", b"0\n2\n0 5\n1 4\n", b"0\n1\n-1 0\n", b"0\n1\n0 -1\n", b"0\n1\n0\n"],
)
def test_leader_epochs_that_do_not_rise_are_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_leader_epochs(content)


@pytest.mark.parametrize("end", ["", "\n"])
def test_partition_metadata_states_the_topic_id(end: str) -> None:
    assert parse_partition_metadata(f"version: 0\ntopic_id: {TOPIC_ID}{end}") == TOPIC_ID


def test_partition_metadata_is_written_without_a_last_newline() -> None:
    assert format_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0\n",
        b"topic_id: qesnf9AHR5-Xtl7tnUTbTA",
        b"version: -1\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbT",
        b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTAA",
        b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTB",
        b"version: 0\ntopic_id: ../../../etc/passwd/xx",
        b"version: 0\ntopic_id: qesnf9AHR5/Xtl7tnUTbTA",
        b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA",
        b"version 0\ntopic_id qesnf9AHR5-Xtl7tnUTbTA",
        b"\xff\xff",
    ],
)
def test_partition_metadata_without_one_canonical_id_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_partition_metadata(content)


def test_meta_properties_are_java_properties() -> None:
    content = (
        b"#\n#Fri Nov 20 15:55:26 UTC 2026\n! also a comment\n\nnode.id=1\nversion:1\n"
        b"cluster.id = QM1ixpRfs9zYMm7bMXWL6A\nlong\\ name=a\\\n   b\\u0041\\tc\n"
    )
    assert parse_meta_properties(content) == {
        "node.id": "1",
        "version": "1",
        "cluster.id": "QM1ixpRfs9zYMm7bMXWL6A",
        "long name": "abA\tc",
    }


@pytest.mark.parametrize(
    ("written", "cluster"),
    [
        (b"cluster.id=MkU3OEVBNTcwNTJENDM2Qg\\=\\=\r\n", "MkU3OEVBNTcwNTJENDM2Qg=="),
        (b"cluster.id=a+b/c d\n", "a+b/c d"),
        (b"cluster.id=\\u00fc\xfc\\ud83d\\udc0d\n", "üü\U0001f40d"),
        (b"cluster.id=\n", ""),
    ],
)
def test_any_text_is_a_cluster_id(written: bytes, cluster: str) -> None:
    assert parse_meta_properties(b"#\r\nversion=1\r\n" + written)["cluster.id"] == cluster


ID_CHARACTERS = "abcXYZ0189-_+/=:#! .\\\t\f\r\n\"'\u00fc\u20ac\U0001f40d"
"""Of base64, of what java.util.Properties escapes, and of other alphabets."""
NAMED_ESCAPES = {"\t": b"\\t", "\n": b"\\n", "\r": b"\\r", "\f": b"\\f"}


def as_property(text: str, chance: random.Random) -> bytes:
    """A value as java.util.Properties may state it: escaped where it must be, and at random where it may be."""
    written, begins = b"", True
    for character in text:
        must = character in "\\\r\n\t\f" or ord(character) > 255 or (begins and character in " =:")
        begins = False
        if not must and chance.random() < 0.6:
            written += character.encode("latin-1")
        elif character in NAMED_ESCAPES and chance.random() < 0.7:
            written += NAMED_ESCAPES[character]
        elif character in " !#\"'+-./:=\\_" and chance.random() < 0.8:
            written += b"\\" + character.encode()
        else:
            units = character.encode("utf-16-be")
            written += b"".join(b"\\u" + units[at : at + 2].hex().encode() for at in range(0, len(units), 2))
        if chance.random() < 0.05:
            # The line goes on in the next, whose leading blanks do not count.
            written += chance.choice([b"\\\n", b"\\\r\n\t", b"\\\n   "])
            begins = True
    return written


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_any_cluster_id_is_read_however_it_is_escaped(count: int) -> None:
    for number in range(count):
        chance = sampling.chance(f"cluster id {number}")
        cluster = "".join(chance.choices(ID_CHARACTERS, k=chance.randint(1, 30)))
        name = chance.choice([b"cluster.id=", b"cluster.id = ", b"cluster.id:", b"cluster.id ", b"  cluster.id\t=\t"])
        end = chance.choice([b"\n", b"\r\n", b"\r"])
        content = b"#" + end + b"version=1" + end + name + as_property(cluster, chance) + end + b"node.id=1" + end
        assert parse_meta_properties(content) == {"version": "1", "cluster.id": cluster, "node.id": "1"}, content


def test_meta_properties_of_old_brokers_have_no_cluster() -> None:
    assert parse_meta_properties(b"version=0\nbroker.id=0\n") == {"version": "0", "broker.id": "0"}


@pytest.mark.parametrize("content", [b"", b"node.id=1\n", b"version=2\n", b"version=1\ncluster.id=\\u12\n", b"\0\0"])
def test_meta_properties_that_cannot_be_a_brokers_are_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_meta_properties(content)


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":11}', 11),
        (b"", None),
        (b'{"version":0}', None),
        (b'{"version":0,"brokerEpoch":true}', None),
        (b"[]", None),
        (b"\xff not json", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_clean_shutdown_marker_is_one_whatever_it_holds(content: bytes, epoch: int | None) -> None:
    assert parse_clean_shutdown(content) == epoch


def test_a_quorum_state_is_read_by_kafkas_names() -> None:
    voters = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
    )
    assert parse_quorum_state(voters + '"data_version":0}')["currentVoters"] == [{"voterId": 1}]
    state = parse_quorum_state('{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"A","data_version":1}')
    assert (state["leaderId"], state["leaderEpoch"], state["data_version"]) == (1, 2, 1)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"data_version":2}', b'{"data_version":true}', b'{"data_version":"1"}', b"\xff"]
)
def test_a_quorum_state_of_no_known_version_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_quorum_state(content)
