"""A topic partition in several directories: every command says it, and names the copy with the history."""

from __future__ import annotations

import itertools
import json
import random
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.reading.chosen_logs import find_logs
from logcore.reading.read_options import Notes, ReadOptions
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.metadata_log import MetadataLog, created, topic_id, topic_id_text
from tests.model import replication
from tests.unit.logcore.logs.test_copies import LONG, SHORT, replica

Captured = pytest.CaptureFixture[str]
SHOWS_ALL = (["verify"], ["ls"], ["ledger"], ["transactions"])
SHOWS_ONE = (["dump"], ["offsets", "--at", "latest"])


def both(tmp_path: Path, *, brokers: tuple[int, int] = (1, 2)) -> list[str]:
    """A replica that the cluster dropped from offset 50 on, and the new leader's."""
    dropped = replica((4, 0), end=100, high_watermark=50)
    leader = replica((4, 0), (5, 50), end=80, high_watermark=80)
    replication.write(dropped, tmp_path / "broker1", brokers[0])
    replication.write(leader, tmp_path / "broker2", brokers[1])
    return [str(tmp_path / "broker1"), str(tmp_path / "broker2")]


@pytest.mark.parametrize("command", [*SHOWS_ALL, *SHOWS_ONE], ids=lambda words: words[0])
def test_every_command_says_where_the_copies_part(tmp_path: Path, capsys: Captured, command: list[str]) -> None:
    paths = both(tmp_path)
    for order in (paths, paths[::-1]):
        assert main([*command, *order]) == 1
        said = capsys.readouterr()
        (line,) = [each for each in (said.out + said.err).splitlines() if "warning several-copies" in each]
        assert f"its history is that of {tmp_path / 'broker2/orders-0'} (leader-epoch-checkpoint)" in line
        assert f"{tmp_path / 'broker1/orders-0'}: " in line
        assert "the copies part at offset 50; only it has [50, 100); it lacks [50, 80)" in line


@pytest.mark.parametrize("is_first", [True, False])
def test_recover_takes_the_copy_of_the_last_leader_byte_for_byte(
    tmp_path: Path, capsys: Captured, is_first: bool
) -> None:
    paths = both(tmp_path)
    assert main(["recover", *(paths if is_first else paths[::-1]), "--out", str(tmp_path / "new")]) == 0
    for segment in (tmp_path / "broker2/orders-0").glob("*.log"):
        assert (tmp_path / "new/orders-0" / segment.name).read_bytes() == segment.read_bytes()
    assert replication.batches_in(tmp_path / "new/orders-0") == replication.batches_in(tmp_path / "broker2/orders-0")
    out = capsys.readouterr().out
    assert "the copies part at offset 50" in out
    assert "(leader-epoch-checkpoint)" in out


@pytest.mark.parametrize("command", [["recover", "--plan"], *SHOWS_ONE], ids=lambda words: words[0])
def test_copies_that_nothing_decides_are_refused_until_one_is_named(
    tmp_path: Path, capsys: Captured, command: list[str]
) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    replication.write(replica((3, 0), end=20, high_watermark=20), paths[0], 1)
    replication.write(replica((3, 0), end=30, high_watermark=30, words="b"), paths[1], 2)
    assert main([*command, *map(str, paths)]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert f"Name only the one to use: {paths[1] / 'orders-0'} or {paths[0] / 'orders-0'}" in said.err
    assert main([*command, str(paths[0] / "orders-0")]) == 0


def test_each_range_names_the_directory_of_its_copy(tmp_path: Path, capsys: Captured) -> None:
    paths = both(tmp_path)
    main(["ledger", "--format", "jsonl", *paths])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["directory"], row["end_offset"]) for row in rows if row["state"] == "present"} == {
        (f"{paths[0]}/orders-0", 50),
        (f"{paths[1]}/orders-0", 80),
    }
    main(["ledger", *paths])
    assert all(f"orders-0 ({path}/orders-0)  [0, " in capsys.readouterr().out for path in paths[:1])


def test_replicas_of_several_brokers_that_do_not_part_are_information(tmp_path: Path, capsys: Captured) -> None:
    for broker, end in ((1, 20), (2, 18)):
        replication.write(replica((0, 0), end=end, high_watermark=18), tmp_path / str(broker), broker)
    assert main(["ls", str(tmp_path / "1"), str(tmp_path / "2")]) == 0
    assert "info several-copies: orders-0: in several of the directories" in capsys.readouterr().err


@pytest.fixture
def holed(tmp_path: Path) -> list[str]:
    """Two brokers with the same log of 40 offsets, of which each lost another segment."""
    for broker, lost in ((1, 10), (2, 20)):
        source = LogDirectory(tmp_path / str(broker))
        (source.path / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
        log = source.partition("orders-0")
        for _ in range(4):
            log.roll()
            log.append(10)
        (log.path / f"{lost:020d}.log").unlink()
        source.high_watermarks(orders_0=40)
    return [str(tmp_path / "1"), str(tmp_path / "2")]


@pytest.mark.parametrize("command", [*SHOWS_ALL, *SHOWS_ONE, ["recover", "--out", "new"]], ids=lambda words: words[0])
def test_offsets_that_one_copy_lost_and_another_has_are_named_with_the_command_that_joins_them(
    holed: list[str], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for order in (holed, holed[::-1]):
        assert main([*command, *order]) >= 1
        said = capsys.readouterr()
        text = said.out + said.err
        assert "it lost other offsets" in text
        assert "; only it has [10, 20); it lacks [20, 30)" in text
        assert "same history" not in text
        command_line = f"`loglake run {holed[0]}/orders-0 --lake LAKE --fill-from {holed[1]}/orders-0`"
        assert text.count(command_line) == (2 if command[0] == "verify" else 1)  # its advice repeats it
        if command[0] == "recover":
            command = ["recover", "--out", "again"]


def test_of_two_copies_that_end_together_the_one_without_a_hole_is_used(
    holed: list[str], tmp_path: Path, capsys: Captured
) -> None:
    whole = LogDirectory(tmp_path / "0")
    log = whole.partition("orders-0")
    for _ in range(4):
        log.roll()
        log.append(10)
    whole.high_watermarks(orders_0=40)
    for order in ([*holed, str(whole.path)], [str(whole.path), *holed]):
        main(["dump", "--format", "jsonl", *order])
        said = capsys.readouterr()
        assert [json.loads(line)["offset"] for line in said.out.splitlines()] == [*range(40)]
        assert "loglake run" not in said.err


def test_a_topic_with_two_ids_is_said(tmp_path: Path, capsys: Captured) -> None:
    for broker, name in ((1, "orders-0"), (2, "orders-1")):
        replication.write(replica((0, 0), end=5, high_watermark=5), tmp_path / str(broker), broker, name=name)
    (tmp_path / "2/orders-1/partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_TOPIC_ID}")
    for command in (*SHOWS_ALL, *SHOWS_ONE):
        assert main([*command, str(tmp_path / "1"), str(tmp_path / "2")]) == 1
        said = capsys.readouterr()
        assert "orders has several topic ids" in said.out + said.err


@pytest.mark.parametrize(
    ("count", "first"), [(SHORT, 0), pytest.param(LONG, 10_000, marks=pytest.mark.long)], ids=["sample", "long"]
)
def test_of_a_log_on_several_disks_of_a_broker_the_newest_copy_is_used(tmp_path: Path, count: int, first: int) -> None:
    """Each disk has the log of some time, or nothing of it."""
    for seed in range(first, first + count):
        chance = random.Random(seed)
        log, moments = replication.Replica(), list[tuple[list[replication.Batch], list[tuple[int, int]]]]()
        epoch = 0
        for _ in range(chance.randint(1, 60)):
            if chance.random() < 0.15:
                epoch += 1
                log.epochs.append((epoch, len(log.log)))
                log.epochs[:] = [each for each in log.epochs if each[1] < len(log.log) or each[0] == epoch]
            else:
                log.append((epoch, b"value %d" % len(log.log)))
            moments.append((list(log.log), list(log.epochs)))
        disks = [chance.randrange(len(moments)) for _ in range(chance.randint(2, 4))]
        paths = []
        for disk, at in enumerate(disks):
            copy = replication.Replica(*moments[at])
            copy.high_watermark = chance.randint(0, len(copy.log))
            if disk and chance.random() < 0.2:
                copy = replication.Replica()
            replication.write(copy, tmp_path / f"{seed}-{disk}", 1)
            paths.append(str(tmp_path / f"{seed}-{disk}"))
        held = {path: replication.batches_in(Path(path) / "orders-0") for path in paths}
        right = max(held.values(), key=len)
        for order in itertools.islice(itertools.permutations(paths), 6):
            notes = Notes()
            (taken,) = find_logs(ReadOptions(paths=order), notes, is_one_copy=True)
            assert held[taken.directory.removesuffix("/orders-0")] == right, seed
            (said,) = notes.findings
            assert "A broker does not start" in said.message, seed


def led_by(leader: int, leader_epoch: int, in_sync: list[int]) -> tuple[None, bytes]:
    """By PartitionRecord 0, for `orders-0` with the replicas 1 and 2."""
    both, those = (bytes([len(ids) + 1]) + struct.pack(f">{len(ids)}i", *ids) for ids in ([1, 2], in_sync))
    ends = struct.pack(">iii", leader, leader_epoch, 0) + b"\0"
    return None, b"\1\3\0" + struct.pack(">i", 0) + topic_id("orders") + both + those + b"\1\1" + ends


@pytest.mark.parametrize(
    ("record", "taken"),
    [(led_by(1, 6, [1]), "broker1"), (led_by(-1, 6, [1]), "broker1"), (led_by(1, 4, [1]), "broker2")],
    ids=["its leader", "in sync", "older than the copies"],
)
def test_the_cluster_metadata_among_the_directories_decides(
    tmp_path: Path, capsys: Captured, record: tuple[None, bytes], taken: str
) -> None:
    paths = both(tmp_path)
    for path in paths:
        (Path(path) / "orders-0/partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text('orders')}")
    MetadataLog(tmp_path / "broker2").say(created("orders"), record)
    main(["offsets", "--at", "latest", "--topic", "orders", *paths])
    evidence = "__cluster_metadata" if taken == "broker1" else "leader-epoch-checkpoint"
    assert f"its history is that of {tmp_path / taken / 'orders-0'} ({evidence})" in capsys.readouterr().err


def test_the_ledger_names_the_log_of_each_range_that_is_gone(tmp_path: Path, capsys: Captured) -> None:
    """The same offsets of two logs."""
    source = LogDirectory(tmp_path / "logs")
    for name in ("orders-0", "users-0"):
        log = source.partition(name)
        for _ in range(3):
            log.roll()
            log.append(10)
        log.segments()[1].unlink()
    main(["ledger", str(source.path)])
    said = [line for line in capsys.readouterr().err.splitlines() if " missing-offsets: " in line]
    assert ["orders-0" in line for line in said] == [True, False]
    assert ["users-0" in line for line in said] == [False, True]


@pytest.fixture
def parted(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies that part in one leader epoch, and beside each another log that is equal in both."""
    paths = tmp_path / "one", tmp_path / "two"
    for broker, (path, words, end) in enumerate(zip(paths, "ab", (20, 30), strict=True)):
        replication.write(replica((3, 0), end=end, high_watermark=end, words=words), path, broker)
        replication.write(replica((3, 0), end=9), tmp_path / "more" / str(broker), broker, name="orders-1")
        (tmp_path / "more" / str(broker) / "orders-1").rename(path / "orders-1")
        (path / "replication-offset-checkpoint").write_text(f"0\n2\norders 0 {end}\norders 1 9\n")
    return paths


def test_without_a_side_the_log_whose_copies_part_is_left_out_and_the_others_are_written(
    parted: tuple[Path, Path], tmp_path: Path, capsys: Captured
) -> None:
    assert main(["recover", *map(str, parted), "--out", str(tmp_path / "new")]) == 3
    assert "`loglake recover … --side PATH` follows one." in capsys.readouterr().err
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["orders-1"]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("place", ["", "orders-0"], ids=["log directory", "partition directory"])
def test_a_side_is_followed_where_the_evidence_does_not_decide(
    parted: tuple[Path, Path], tmp_path: Path, capsys: Captured, side: int, place: str
) -> None:
    words = ["recover", *map(str, parted), "--side", str(parted[side] / place)]
    assert main([*words, "--out", str(tmp_path / "new")]) == 0
    for name in ("orders-0", "orders-1"):
        assert replication.batches_in(tmp_path / "new" / name) == replication.batches_in(parted[side] / name)
    said = capsys.readouterr().out
    assert f"orders-0: taken from {parted[side]}/orders-0, which ends at offset {(20, 30)[side]} (--side)" in said
    assert "another one was named (the copies part at offset 0" in said


def test_a_side_does_not_count_where_the_evidence_decides(tmp_path: Path, capsys: Captured) -> None:
    paths = both(tmp_path)
    assert main(["recover", *paths, "--side", paths[0], "--plan"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["source"], plan["evidence"]) == (f"{paths[1]}/orders-0", "leader-epoch-checkpoint")


def test_a_side_that_is_no_copy_is_wrong_usage(parted: tuple[Path, Path], tmp_path: Path, capsys: Captured) -> None:
    words = ["recover", *map(str, parted), "--out", str(tmp_path / "new"), "--side", str(tmp_path)]
    assert main(words) == 64
    assert "there is no copy to follow" in capsys.readouterr().err


def test_copies_with_other_bytes_below_an_equal_end_are_not_decided(tmp_path: Path, capsys: Captured) -> None:
    """Their last segments agree, so only a look at every batch shows it."""
    one = replica((3, 0), end=30, high_watermark=30)
    other = replica((3, 0), end=30, high_watermark=30)
    other.log[4] = (3, b"value 3-4-other")
    replication.write(one, tmp_path / "1", 1)
    replication.write(other, tmp_path / "2", 2)
    assert main(["recover", str(tmp_path / "1"), str(tmp_path / "2"), "--plan"]) == 3
    assert "the copies part at offset 4" in capsys.readouterr().err


def test_a_plan_has_the_source_of_each_range_that_the_new_log_has(
    holed: list[str], tmp_path: Path, capsys: Captured
) -> None:
    main(["recover", *holed, "--salvage", "--plan"])
    plan = json.loads(capsys.readouterr().out)
    source = f"{holed[0]}/orders-0"
    assert plan["provenance"] == [
        {"start_offset": 0, "end_offset": 10, "source": source},
        {"start_offset": 20, "end_offset": 40, "source": source},
    ]
    assert main(["recover", f"{both(tmp_path)[1]}/orders-0", "--plan"]) == 0
    plan = json.loads(capsys.readouterr().out)
    (whole,) = plan["provenance"]
    assert whole == {"start_offset": 0, "end_offset": 80, "source": f"{tmp_path}/broker2/orders-0"}


def test_recover_does_not_take_a_copy_that_a_broker_would_delete(tmp_path: Path, capsys: Captured) -> None:
    """Its start lies after its end. It is taken if it is the only copy, or if it is named."""
    paths = [tmp_path / name for name in "abc"]
    for broker, path in enumerate(paths, 1):
        replication.write(replica((0, 0), end=90, high_watermark=90), path, broker)
    (paths[0] / "log-start-offset-checkpoint").write_text("0\n1\norders 0 100\n")
    for order in itertools.permutations(paths):
        assert main(["recover", *map(str, order), "--plan"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert (plan["evidence"], plan["log_end_offset"]) in [("log start after log end", 90), ("same history", 90)]
        why = {each["source"]: each["why"] for each in plan["not_taken"]}[f"{paths[0]}/orders-0"]
        assert why.startswith("its start at offset 100 lies after its end at 90: a broker deletes it")
    for words in ([paths[0]], [*paths, "--side", paths[0]]):
        assert main(["recover", *map(str, words), "--plan"]) == 2
        assert json.loads(capsys.readouterr().out)["source"] == f"{paths[0]}/orders-0"
