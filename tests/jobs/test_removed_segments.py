"""A source whose first segments somebody removed, and files that a power cut broke beside its logs."""

from __future__ import annotations

import base64
import random
import shutil

import pytest

from tests import sampling
from tests.spark.cycle import states


def removed_by_hand(source, tmp_path):
    """Offsets 0 to 24; the log start is 5 and the first segment begins at 10. And a replica that has all of it."""
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(10)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=25)
    source.checkpoint("log-start", orders_0=5)
    orders.epochs([(0, 5)])
    replica = tmp_path / "replica"
    shutil.copytree(source.path, replica)
    orders.segments()[0].unlink()
    return orders, replica


def test_offsets_of_removed_segments_are_missing_until_a_copy_has_them(source, lake, tmp_path):
    orders, replica = removed_by_hand(source, tmp_path)
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 5, "trimmed"), (5, 10, "missing"), (10, 25, "present")]
    assert lake.published("orders") == {}
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.ledger("orders")[0] == (0, 5, "trimmed")
    assert states(lake.ledger("orders")) == {"trimmed": 5, "present": 20}
    assert lake.published("orders") == {offset: row for offset, row in orders.rows.items() if offset >= 5}


def test_a_sign_of_a_remote_tier_makes_the_same_offsets_remote(source, lake, tmp_path):
    removed_by_hand(source, tmp_path)
    (source.path / "remote-log-index-cache").mkdir()
    lake.turn(source.path)
    assert states(lake.ledger("orders")) == {"trimmed": 5, "remote": 5, "present": 15}
    assert set(lake.published("orders")) == set(range(10, 25))


def broken(chance: random.Random) -> tuple[bytes, str | None]:
    """A `partition.metadata`, and the topic id that it states; None if it is wrong."""
    topic_id = base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=")
    whole = f"version: 0\ntopic_id: {topic_id}".encode()
    zeroed = chance.randrange(len(whole))
    return chance.choice(
        [
            (b"", None),
            (bytes(len(whole)), None),
            (whole[: chance.randrange(len(whole))], None),
            (whole[:zeroed] + bytes(len(whole) - zeroed), None),
            (whole.replace(topic_id.encode(), b"A" * 22), None),
            (whole + b"==", None),
            (whole.replace(b"version: 0", b"version: %d" % chance.randint(1, 9)), None),
            (chance.randbytes(chance.randint(1, 99)), None),
            (whole + b"\n", topic_id),
            (whole, topic_id),
        ]
    )


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_a_broken_partition_metadata_is_a_warning_and_the_log_is_read_without_it(source, lake, count):
    ids, made = {}, {}
    for number in range(count):
        orders = made[f"t{number}"] = source.partition(f"t{number}-0", None)
        orders.append(5)
        content, ids[f"t{number}"] = broken(sampling.chance(f"partition metadata {number}"))
        (orders.path / "partition.metadata").write_bytes(content)
    source.high_watermarks(**{f"{topic}_0": 5 for topic in made})
    for grown in (5, 8):
        lake.turn(source.path)
        rows = sorted((row["topic"], row["offset"], row["key"], row["value"]) for row in lake.rows("records"))
        assert rows == sorted((topic, at, *row) for topic, each in made.items() for at, row in each.rows.items())
        assert {row["topic"]: row["topic_id"] for row in lake.rows("logs")} == ids
        said = [row["file"] for row in lake.rows("findings") if row["rule"] == "broken-partition-file"]
        wrong = {f"{topic}-0" for topic, topic_id in ids.items() if topic_id is None}
        assert {path.split("/")[-2] for path in said} == wrong
        if grown == 5:
            for each in made.values():
                each.append(3)
            source.high_watermarks(**{f"{topic}_0": 8 for topic in made})


def test_a_topic_id_that_breaks_later_or_is_mended_stops_nothing(source, lake):
    orders = source.partition("orders-0")
    whole = (orders.path / "partition.metadata").read_bytes()
    for content in (whole, b"", whole, bytes(43), whole):
        orders.append(5)
        (orders.path / "partition.metadata").write_bytes(content)
        lake.turn(source.path)
        assert lake.published("orders") == orders.rows
    assert len({row["log_id"] for row in lake.rows("logs")}) == 1
