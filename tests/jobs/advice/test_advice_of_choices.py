"""Logs that were made again or went another way: the printed commands choose the history that counts."""

from __future__ import annotations

import shlex
import shutil
import struct
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.logs.model.log_selection import LogSelection
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.lake.setup.registry import recall
from tests import handmade
from tests.broker_directory import CLUSTER, OTHER_TOPIC_ID, LogDirectory, Partition
from tests.jobs.advice.advised_lake import (
    Lake,
    flip,
    log_of_segments,
    pasted,
    said,
)
from tests.pasted_advice import commands_in


def test_a_topic_that_was_made_again_is_taken_with_the_printed_policy(lake: Lake) -> None:
    assert lake.run()[0] == 0
    again = Partition(lake.log.path, OTHER_TOPIC_ID)
    for path in again.segments():
        path.unlink()
    again.append(5, tag=b"w")
    lake.source.high_watermarks(orders_0=5)
    code, printed = lake.run()
    assert code == 2
    assert f"the topic id is {OTHER_TOPIC_ID}" in printed
    pasted(lake.capsys, printed, "config set", "on_recreate=append")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.run()[0] in (0, 1)
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 35


def three_logs(lake: Lake) -> list[Partition]:
    logs = [lake.log, lake.source.partition("orders-1"), lake.source.partition("payments-0", OTHER_TOPIC_ID)]
    for log in logs[1:]:
        log.roll()
        log.append(30)
    lake.source.high_watermarks(orders_0=30, orders_1=30, payments_0=30)
    return logs


def test_topics_that_were_made_again_are_taken_with_one_command_for_all(lake: Lake) -> None:
    logs = three_logs(lake)
    assert lake.run()[0] == 0
    for log, topic_id in zip(logs, (*[f"{OTHER_TOPIC_ID[:-1]}g"] * 2, f"{OTHER_TOPIC_ID[:-1]}Q"), strict=True):
        again = Partition(log.path, topic_id)
        for path in again.segments():
            path.unlink()
        again.append(5, tag=b"w")
    lake.source.high_watermarks(orders_0=5, orders_1=5, payments_0=5)
    assert lake.run()[0] == 2
    for code, printed in (lake.run(), said(lake.capsys, "status", lake.path)):
        assert code == 2
        names = ("orders-0", "orders-1", "payments-0")
        assert [printed.count(f"stopped: {name} of lake lake") for name in names] == [1, 1, 1]
        assert printed.count("What to do") == 1, printed
    pasted(lake.capsys, printed, "config set", "on_recreate=append")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.run()[0] in (0, 1)
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 105


def test_damage_of_several_logs_is_advised_once_with_one_command_for_all(lake: Lake) -> None:
    for log in three_logs(lake):
        [first, *_] = log.segments()
        flip(first, 200)
    assert lake.run()[0] == 2
    for _, printed in (lake.run(), said(lake.capsys, "status", lake.path)):
        assert printed.count("damage: ") == 3
        assert printed.count("What to do: If another copy") == 1, printed
    pasted(lake.capsys, printed, "config set")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 75


def test_ends_of_several_logs_that_hide_batches_are_read_with_one_command_for_all(lake: Lake, here: Path) -> None:
    logs = three_logs(lake)
    lake.source.high_watermarks(orders_0=35, orders_1=35, payments_0=35)
    for log in logs:
        last = log.segments()[-1]
        at = last.stat().st_size
        log.append(5)
        data = bytearray(last.read_bytes())
        data[at + 8 : at + 12] = struct.pack(">i", len(data) - at - 12 + 1)  # the length field of the batch
        last.write_bytes(data)
    assert lake.run()[0] == 2
    _, printed = lake.run()
    assert printed.count("--salvage`") == 1, printed
    assert pasted(lake.capsys, printed, "recover", "--salvage") == 1
    assert pasted(lake.capsys, printed, "run new ") <= 1
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 105


def test_a_source_that_ends_earlier_is_left_with_the_printed_command(lake: Lake, tmp_path: Path) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    assert lake.run()[0] == 0
    lake.log.truncate(15)
    lake.source.high_watermarks(orders_0=15)
    code, printed = lake.run()
    assert code == 2
    [line] = [line for line in commands_in(printed) if "--move-source" in line]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(whole)))[1:])[0] == 0
    assert lake.offsets() == {*range(30)}


def copy_of_another_broker(lake: Lake, tmp_path: Path) -> LogDirectory:
    copy = LogDirectory(shutil.copytree(lake.source.path, tmp_path / "copy"))
    (copy.path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=2\n")
    return copy


def test_one_log_is_moved_by_the_printed_command_and_ordinary_runs_of_both_directories_are_quiet_then(
    lake: Lake, tmp_path: Path
) -> None:
    three_logs(lake)
    copy = copy_of_another_broker(lake, tmp_path)
    assert lake.run()[0] == 0
    lake.log.truncate(15)
    lake.source.high_watermarks(orders_0=15, orders_1=30, payments_0=30)
    _, printed = lake.run()
    [line] = [line for line in commands_in(printed) if "--move-source" in line]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(copy.path)))[1:])[0] == 0
    moved = {name: row.source for row in read_logs(str(lake.path)).values() for name in [row.topic_partition]}
    assert moved == {
        "orders-0": f"{copy.path}/orders-0",
        "orders-1": f"{lake.source.path}/orders-1",
        "payments-0": f"{lake.source.path}/payments-0",
    }
    for places in ([lake.source.path], [copy.path]):
        code, printed = said(lake.capsys, "run", *places, "--lake", lake.path)
        assert (code, commands_in(printed)) == (0, []), printed
        assert "is left alone" in printed
        assert said(lake.capsys, "status", lake.path)[0] == 0
    code, printed = said(lake.capsys, "run", lake.source.path, copy.path, "--lake", lake.path)
    assert (code, "is left alone" in printed) == (0, False), printed
    Partition(copy.path / "orders-1", next_offset=30).append(5)
    assert said(lake.capsys, "run", copy.path, "--lake", lake.path)[0] == 1


def test_only_logs_whose_source_is_gone_are_moved_by_the_printed_command(lake: Lake, tmp_path: Path) -> None:
    three_logs(lake)
    assert lake.run()[0] == 0
    copy = copy_of_another_broker(lake, tmp_path).path
    shutil.rmtree(lake.log.path)
    code, printed = said(lake.capsys, "run", copy, "--lake", lake.path)
    assert code == 3
    assert pasted(lake.capsys, printed, "--move-source") == 0
    sources = {row.topic_partition: Path(row.source).parent for row in read_logs(str(lake.path)).values()}
    assert sources == {"orders-0": copy, "orders-1": lake.source.path, "payments-0": lake.source.path}
    assert said(lake.capsys, "run", copy, "--lake", lake.path)[0] == 0


def test_only_logs_of_several_topics_whose_source_is_gone_are_moved_and_read_by_later_runs(
    lake: Lake, tmp_path: Path
) -> None:
    three_logs(lake)
    assert lake.run()[0] == 0
    copy = copy_of_another_broker(lake, tmp_path).path
    for name in ("orders-0", "payments-0"):
        shutil.rmtree(lake.source.path / name)
    code, printed = said(lake.capsys, "run", copy, "--lake", lake.path)
    assert code == 3
    assert "--partition orders-0 --partition payments-0 --move-source" in printed
    assert pasted(lake.capsys, printed, "--move-source") == 0
    sources = {row.topic_partition: Path(row.source).parent for row in read_logs(str(lake.path)).values()}
    assert sources == {"orders-0": copy, "orders-1": lake.source.path, "payments-0": copy}
    assert [each.sources for each in recall(str(lake.path)).intakes] == [(str(lake.source.path),), (str(copy),)]


def test_later_runs_read_a_log_where_a_run_for_topic_partitions_moved_it(lake: Lake, tmp_path: Path) -> None:
    three_logs(lake)
    assert lake.run()[0] == 0
    copy = copy_of_another_broker(lake, tmp_path).path
    chosen = ("--partition", "orders-0", "--partition", "payments-0")
    assert said(lake.capsys, "run", copy, "--lake", lake.path, *chosen, "--move-source")[0] == 0
    left, read = recall(str(lake.path)).intakes
    assert (left.sources, left.topics, left.partitions) == ((str(lake.source.path),), (), ())
    assert (read.sources, read.topics, read.partitions) == ((str(copy),), ("orders", "payments"), (0,))


def test_later_runs_read_exactly_the_topic_partitions_that_runs_moved_or_chose(lake: Lake, tmp_path: Path) -> None:
    names = [log.path.name for log in three_logs(lake)] + ["payments-1"]
    lake.source.partition("payments-1", OTHER_TOPIC_ID).append(30)
    lake.run()
    copy = copy_of_another_broker(lake, tmp_path).path
    for moved in (["orders-0", "payments-1"], ["orders-1"]):
        chosen = [word for name in moved for word in ("--partition", name)]
        said(lake.capsys, "run", copy, "--lake", lake.path, *chosen, "--move-source")
    _, *read = recall(str(lake.path)).intakes
    assert {each.sources for each in read} == {(str(copy),)}
    selections = [LogSelection(each.topics, each.partitions) for each in read]
    split = {name: name.rsplit("-", 1) for name in names}
    assert [n for n, (t, p) in split.items() if any(each.matches(t, int(p)) for each in selections)] == [
        "orders-0",
        "orders-1",
        "payments-1",
    ]
    other = ("--topic", "orders", "--partition", "0"), ("--topic", "payments", "--partition", "1")
    for chosen in other:
        said(lake.capsys, "run", lake.source.path, "--lake", tmp_path / "new", *chosen)
    intakes = recall(str(tmp_path / "new")).intakes
    assert [(each.topics, each.partitions) for each in intakes] == [(("orders",), (0,)), (("payments",), (1,))]


def test_a_copy_whose_end_is_not_known_may_have_more_than_the_lake(lake: Lake, tmp_path: Path) -> None:
    copy = copy_of_another_broker(lake, tmp_path)
    assert lake.run()[0] == 0
    log = Partition(copy.path / "orders-0", next_offset=30)
    log.roll()
    log.append(20)
    last = log.path / f"{30:020d}.log"
    content = bytearray(last.read_bytes())
    for where in (last, copy.path):  # a named file; then a directory in which no header can be read above offset 30
        code, printed = said(lake.capsys, "run", where, "--lake", lake.path)
        assert (code, "is left alone." in printed, "nothing that the lake lacks" in printed) == (1, True, False)
        second = handmade.size_of(bytes(content), 0)
        content[16], content[second + 8 : second + 12] = 9, b"\x7f\xff\xff\xff"
        last.write_bytes(content)
        copy.high_watermarks(orders_0=50)


@pytest.mark.parametrize(("records", "other"), [(10, 5), (5, 10)], ids=["longer", "shorter"])
def test_a_directory_that_a_log_was_moved_from_is_reported_again_when_it_goes_another_way(
    lake: Lake, tmp_path: Path, records: int, other: int
) -> None:
    copy = copy_of_another_broker(lake, tmp_path)
    assert lake.run()[0] == 0
    assert said(lake.capsys, "run", copy.path, "--lake", lake.path, "--move-source")[0] == 0
    assert lake.run()[0] == 0
    Partition(copy.path / "orders-0", next_offset=30).append(other, tag=b"w")
    copy.high_watermarks(orders_0=30 + other)
    assert said(lake.capsys, "run", copy.path, "--lake", lake.path)[0] == 0
    assert lake.run()[0] == 0  # it has the first 30 of them
    lake.log.append(records)
    lake.source.high_watermarks(orders_0=30 + records)
    for places in ([lake.source.path], [lake.source.path, copy.path]):
        code, printed = said(lake.capsys, "run", *places, "--lake", lake.path)
        assert (code, "is left alone" in printed) == (1, True), printed


def test_a_refused_move_does_not_register_its_choice(lake: Lake, tmp_path: Path) -> None:
    assert lake.run()[0] == 0
    other = LogDirectory(tmp_path / "other")
    other.partition("orders-0").append(30, tag=b"w")
    both = ("run", lake.source.path, other.path, "--lake", lake.path)
    said(lake.capsys, *both)
    before = recall(str(lake.path)).intakes
    chosen = ("--topic", "orders", "--partition", "0")
    assert said(lake.capsys, "run", other.path, "--lake", lake.path, *chosen, "--move-source")[0] == 1
    assert recall(str(lake.path)).intakes == before
    assert "until now" not in said(lake.capsys, *both)[1]


def test_a_move_that_was_refused_is_not_advised_again(lake: Lake, tmp_path: Path) -> None:
    assert lake.run()[0] == 0
    other = LogDirectory(tmp_path / "other")
    other.partition("orders-0").append(30, tag=b"w")
    code, printed = said(lake.capsys, "run", other.path, "--lake", lake.path, "--move-source")
    assert code == 1
    assert "it cannot be taken: " in printed
    assert "--move-source" not in printed


def test_a_source_that_went_another_way_is_followed_with_the_printed_policy(lake: Lake) -> None:
    assert lake.run()[0] == 0
    lake.log.truncate(15)
    lake.log.epochs([(0, 0), (1, 15)])
    lake.log.append(20, tag=b"w", leader_epoch=1)
    lake.source.high_watermarks(orders_0=lake.log.next_offset)
    code, printed = lake.run()
    assert code == 2
    pasted(lake.capsys, printed, "config set", "on_truncate=follow")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.run()[0] in (0, 1)
