"""Copies of a log are compared by their histories, never by length and never by the order of the arguments."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from logcore.logs.growth.copies import CopyComparison, Evidence, Leadership, LogCopy, compare_copies
from logcore.storage.discovery import HeaderReader, discover
from tests.model import replication
from tests.model.replication import Replica

LONG = 1000
SHORT = 40


def compared(paths: Sequence[Path], said: Leadership | None = None) -> CopyComparison:
    logs = discover([str(path) for path in paths]).logs
    return compare_copies([LogCopy(log) for log in logs], HeaderReader(), said)


def written(tmp_path: Path, **replicas: Replica) -> list[Path]:
    return [
        replication.write(replica, tmp_path / name, broker) for broker, (name, replica) in enumerate(replicas.items())
    ]


def replica(*epochs: tuple[int, int], end: int, high_watermark: int = 0, words: str = "a") -> Replica:
    """A log of these epochs and starts. A batch has the value of its offset, and of its epoch's leader."""
    made = Replica(epochs=list(epochs), high_watermark=high_watermark)
    for offset in range(end):
        epoch = max(epoch for epoch, start in epochs if start <= offset)
        made.log.append((epoch, f"value {epoch}-{offset}-{words}".encode()))
    return made


def test_a_later_leader_epoch_counts_more_than_a_longer_log(tmp_path: Path) -> None:
    longer = replica((4, 0), end=100, high_watermark=50)
    newer = replica((4, 0), (5, 50), end=80, high_watermark=80)
    for paths in itertools.permutations(written(tmp_path, longer=longer, newer=newer)):
        result = compared(paths)
        assert (result.best.log.directory, result.evidence) == (
            str(tmp_path / "newer/orders-0"),
            Evidence.LEADER_EPOCHS,
        )
        (other,) = result.others
        assert (other.parts_at, other.has, other.lacks) == (50, ((50, 100),), ((50, 80),))
        assert "the copies part at offset 50" in str(other)


def test_a_copy_without_a_file_of_high_watermarks_has_none(tmp_path: Path) -> None:
    paths = written(tmp_path, stated=replica((4, 0), end=9, high_watermark=7), other=replica((4, 0), end=9))
    assert str(compared(paths).others[0]).endswith("it ends at the same offset, and its high watermark is 0, not 7")
    (paths[1].parent / "replication-offset-checkpoint").unlink(missing_ok=True)
    (paths[1] / "replication-offset-checkpoint").unlink(missing_ok=True)
    result = compared(paths)
    assert (result.best.log.directory, result.evidence) == (str(paths[0]), Evidence.HIGH_WATERMARK)
    assert str(result.others[0]).endswith("it ends at the same offset, and its high watermark is not known")


def test_an_epoch_without_records_counts(tmp_path: Path) -> None:
    longer = replica((4, 0), end=90, high_watermark=50)
    leader = replica((4, 0), (5, 50), end=50, high_watermark=50)
    result = compared(written(tmp_path, longer=longer, leader=leader))
    assert (result.best.log.directory, result.undecided) == (str(tmp_path / "leader/orders-0"), None)
    assert (result.others[0].parts_at, result.others[0].has) == (50, ((50, 90),))


def test_without_epoch_files_the_epochs_of_batches_decide(tmp_path: Path) -> None:
    paths = written(tmp_path, longer=replica((4, 0), end=100), newer=replica((4, 0), (5, 50), end=80))
    for path in paths:
        (path / "leader-epoch-checkpoint").unlink()
    result = compared(paths)
    assert (result.best.log.directory, result.evidence) == (str(paths[1]), Evidence.BATCH_EPOCHS)
    assert result.others[0].parts_at == 50


def test_of_copies_of_one_history_the_one_that_ends_higher_is_used(tmp_path: Path) -> None:
    whole, prefix, empty = replica((0, 0), end=20), replica((0, 0), end=10), Replica()
    for paths in itertools.permutations(written(tmp_path, disk1=whole, disk2=prefix, disk3=empty)):
        result = compared(paths)
        assert (result.best.log.directory, result.undecided) == (str(tmp_path / "disk1/orders-0"), None)
        assert {(each.parts_at, each.lacks) for each in result.others} == {(None, ((10, 20),)), (None, ((0, 20),))}


def test_what_lies_in_one_loss_of_another_is_not_called_its_own(tmp_path: Path) -> None:
    """The other copy lost [2, 5) a second time, below the end of a greater loss."""
    logs = discover(
        [str(path) for path in written(tmp_path, a=replica((4, 0), end=40), b=replica((4, 0), end=30))]
    ).logs
    copies = [LogCopy(logs[0], holes=((0, 20),)), LogCopy(logs[1], holes=((0, 10), (2, 5)))]
    (other,) = compare_copies(copies, HeaderReader()).others
    assert (other.fills, other.has) == (((10, 20),), ((10, 20),))


def test_a_loss_below_the_log_start_is_said_once(tmp_path: Path) -> None:
    paths = written(tmp_path, a=replica((4, 0), end=40), b=replica((4, 0), end=30))
    logs = discover([str(path) for path in paths]).logs
    copies = [LogCopy(replace(logs[0], log_start_offset=25), holes=((10, 20),)), LogCopy(logs[1])]
    (other,) = compare_copies(copies, HeaderReader()).others
    assert other.has == ((0, 10), (10, 20), (20, 25))


def test_a_copy_fills_a_loss_if_it_has_a_batch_beside_it_or_shows_that_it_is_of_the_log(tmp_path: Path) -> None:
    paths = written(tmp_path, a=replica((4, 0), end=40), b=replica((4, 0), end=40))
    whole, other = (replace(log, topic_id=None) for log in discover([str(path) for path in paths]).logs)
    for lost, topic_id, fills in (
        (((0, 10), (20, 40)), None, ()),
        (((0, 9), (20, 40)), None, ((10, 20),)),
        (((0, 10), (21, 40)), None, ((10, 20),)),
        (((0, 10), (20, 40)), "a", ((10, 20),)),
    ):
        logs = [replace(log, topic_id=topic_id) for log in (whole, other)]
        compared = compare_copies([LogCopy(logs[0], holes=((10, 20),)), LogCopy(logs[1], holes=lost)], HeaderReader())
        assert compared.others[0].has == ((10, 20),)
        assert compared.others[0].fills == fills, lost


def test_copies_of_one_epoch_with_other_batches_are_not_decided(tmp_path: Path) -> None:
    paths = written(tmp_path, one=replica((3, 0), end=20), two=replica((3, 0), end=30, words="b"))
    result = compared(paths)
    assert "part at offset 0" in (result.undecided or "")


def test_a_later_epoch_that_committed_nothing_against_an_earlier_one_that_did_is_not_decided(tmp_path: Path) -> None:
    isolated = replica((4, 0), (5, 50), end=55, high_watermark=50)
    follower = replica((4, 0), end=60, high_watermark=60)
    assert "high watermark" in (compared(written(tmp_path, isolated=isolated, follower=follower)).undecided or "")


@pytest.mark.parametrize(
    ("said", "taken", "evidence"),
    [
        (Leadership(0, 5, {0}), "longer", Evidence.METADATA),
        (Leadership(-1, 6, {0}), "longer", Evidence.METADATA),
        (Leadership(0, 4, {0}), "newer", Evidence.LEADER_EPOCHS),
        (Leadership(9, 6, {9}), "newer", Evidence.LEADER_EPOCHS),
    ],
    ids=["its leader", "no leader, one in sync", "older than the copies", "about none of them"],
)
def test_the_cluster_metadata_comes_first_if_it_is_not_older(
    tmp_path: Path, said: Leadership, taken: str, evidence: Evidence
) -> None:
    longer = replica((4, 0), end=100, high_watermark=50)
    newer = replica((4, 0), (5, 50), end=80, high_watermark=50)
    result = compared(written(tmp_path, longer=longer, newer=newer), said)
    assert (result.best.log.directory, result.evidence) == (str(tmp_path / taken / "orders-0"), evidence)
    assert result.undecided is None


@pytest.mark.parametrize(("end", "taken"), [(60, "leader"), (50, "leader"), (49, "follower")])
def test_of_copies_in_sync_the_leaders_is_used_if_it_has_all_that_is_committed(
    tmp_path: Path, end: int, taken: str
) -> None:
    leader, follower = replica((5, 0), end=end), replica((5, 0), end=80, high_watermark=50)
    result = compared(written(tmp_path, leader=leader, follower=follower), Leadership(0, 5, {0, 1}))
    assert result.best.log.directory == str(tmp_path / taken / "orders-0")


@pytest.mark.parametrize("kind", ["topic_id", "cluster_id"])
def test_logs_of_two_topics_or_clusters_are_no_copies(tmp_path: Path, kind: str) -> None:
    paths = written(tmp_path, one=replica((3, 0), end=20), two=replica((3, 0), end=20))
    logs = discover([str(path) for path in paths]).logs
    copies = [LogCopy(replace(log, **{kind: name})) for log, name in zip(logs, "ab", strict=True)]
    assert "not copies of one log" in (compare_copies(copies, HeaderReader()).undecided or "")
    alike = [LogCopy(replace(log, topic_id=None, cluster_id=None)) for log in logs]
    assert compare_copies(alike, HeaderReader()).undecided is None


def test_a_batch_that_is_damaged_in_one_copy_is_no_other_history(tmp_path: Path) -> None:
    paths = written(tmp_path, one=replica((3, 0), end=20), two=replica((3, 0), end=20))
    segment = paths[0] / f"{10:020d}.log"
    content = bytearray(segment.read_bytes())
    content[-2] ^= 1
    segment.write_bytes(content)
    result = compared(paths)
    assert (result.undecided, [each.parts_at for each in result.others]) == (None, [None])


def test_batches_that_were_cleaned_in_one_copy_are_no_other_history(tmp_path: Path) -> None:
    whole, cleaned = replica((3, 0), end=25), replica((3, 0), end=25)
    paths = written(tmp_path, whole=whole, cleaned=cleaned)
    first = paths[1] / f"{0:020d}.log"
    size = len(first.read_bytes()) // 10
    first.write_bytes(first.read_bytes()[: 3 * size] + first.read_bytes()[7 * size :])
    result = compared(paths)
    assert (result.undecided, [each.parts_at for each in result.others]) == (None, [None])


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize(
    ("count", "first"), [(SHORT, 0), pytest.param(LONG, 10_000, marks=pytest.mark.long)], ids=["sample", "long"]
)
def test_the_copy_of_random_histories_is_one_that_holds_what_is_committed(
    tmp_path: Path, count: int, first: int, unclean: bool
) -> None:
    """Of all replicas, or of some of them; the oracle is the model's own memory of what was committed."""
    decided = refused = parted = 0
    for seed in range(first, first + count):
        chance = random.Random(-seed - 1)
        partition = replication.history(seed, unclean=unclean)
        everyone = list(enumerate(partition.replicas))
        some = chance.sample(everyone, chance.randint(2, len(everyone)))
        has_epochs = chance.random() < 0.8
        paths = [
            replication.write(each, tmp_path / str(seed) / f"b{broker}", broker, has_epochs=has_epochs)
            for broker, each in some
        ]
        knows = chance.random() < 0.3 and partition.leader is not None
        said = Leadership(partition.leader or 0, partition.epoch, set(partition.in_sync)) if knows else None
        result, again = compared(paths, said), compared(paths[::-1], said)
        assert (result.best.log, result.undecided) == (again.best.log, again.undecided), seed
        logs = {str(path): replication.batches_in(path) for path in paths}
        assert list(logs.values()) == [each.log for _, each in some], "the variant is written as it was made"
        holders = [each for each in logs.values() if each[: len(partition.committed)] == partition.committed]
        if result.undecided is not None:
            refused += 1
            assert "copies part" in result.undecided
            # All replicas of a cluster that never elected a leader out of sync leave no doubt.
            assert unclean or len(some) < len(everyone) or not has_epochs, seed
            continue
        best = logs[result.best.log.directory]
        if holders:
            assert best[: len(partition.committed)] == partition.committed, seed
        decided += 1
        for other in result.others:
            theirs = logs[other.copy.log.directory]
            same = replication.same_to(best, theirs)
            if other.parts_at is not None:
                parted += 1
                assert other.parts_at == same, seed
            else:
                assert same == min(len(best), len(theirs)), seed
    print(f"decided {decided}, refused {refused}, parted {parted}")
    assert decided > 0.8 * count
