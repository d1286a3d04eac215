"""`loglake compare`: what the copies of a log are to each other, as rows, as a table and as an exit code."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from logcore.storage.machine import processors
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.metadata_log import MetadataLog, created, setting, topic_id_text
from tests.model import replication
from tests.unit.logcore.logs.test_copies import replica

Captured = pytest.CaptureFixture[str]
Row = dict[str, Any]


def compared(capsys: Captured, *paths: Path | str, words: tuple[str, ...] = ()) -> tuple[int, list[Row]]:
    capsys.readouterr()
    code = main(["compare", *map(str, paths), "--format", "jsonl", *words])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def pair(rows: list[Row]) -> Row:
    (found,) = of_kind(rows, "pair")
    return found


def log_directory(
    path: Path,
    *batches: bytes,
    broker: int = 1,
    high_watermark: int | None = None,
    start: int | None = None,
    cleaned_to: int | None = None,
    name: str = "orders-0",
) -> Path:
    """A log directory with one log, one segment, and no file of leader epochs."""
    log = path / name
    log.mkdir(parents=True)
    (path / "meta.properties").write_text(f"version=1\ncluster.id={replication.CLUSTER}\nnode.id={broker}\n")
    (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {replication.TOPIC_ID}")
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    for file, offset in (
        ("replication-offset-checkpoint", high_watermark),
        ("log-start-offset-checkpoint", start),
        ("cleaner-offset-checkpoint", cleaned_to),
    ):
        if offset is not None:
            (path / file).write_text(f"0\n1\norders 0 {offset}\n")
    return path


def full(base: int, keys: bytes = b"abcde", *, word: bytes = b"", **fields: int) -> bytes:
    """A batch of five records."""
    return handmade.simple_batch(base, [(b"%c" % key, b"%d%s" % (base, word)) for key in keys], **fields)


WHOLE = [full(base) for base in range(0, 30, 5)]


def test_the_rows_of_a_follower_that_was_cut_off(tmp_path: Path, capsys: Captured) -> None:
    dropped = replica((4, 0), end=100, high_watermark=50)
    leader = replica((4, 0), (5, 50), end=80, high_watermark=80)
    replication.write(dropped, tmp_path / "1", 1)
    replication.write(leader, tmp_path / "2", 2)
    code, rows = compared(capsys, tmp_path / "1", tmp_path / "2")
    one, two = (f"{tmp_path}/{broker}/orders-0" for broker in (1, 2))
    place = {"topic": "orders", "partition": 0}
    assert code == 2
    assert rows == [
        {
            "kind": "copy",
            **place,
            "source": one,
            "leader_epochs": [[4, 0]],
            "log_start_offset": 0,
            "log_end_offset": 100,
            "high_watermark": 50,
        },
        {
            "kind": "copy",
            **place,
            "source": two,
            "leader_epochs": [[4, 0], [5, 50]],
            "log_start_offset": 0,
            "log_end_offset": 80,
            "high_watermark": 80,
        },
        {
            "kind": "pair",
            **place,
            "left": one,
            "right": two,
            "verdict": "diverged",
            "first_divergent_offset": 50,
            "left_truncates_to": 50,
            "right_truncates_to": 50,
        },
        {"kind": "verdict", **place, "keep": two},
    ]


def test_the_table_names_where_copies_part_and_the_one_to_keep(tmp_path: Path, capsys: Captured) -> None:
    replication.write(replica((4, 0), end=100, high_watermark=50), tmp_path / "1", 1)
    replication.write(replica((4, 0), (5, 50), end=80, high_watermark=80), tmp_path / "2", 2)
    for broker in (3, 4):
        replication.write(replica((4, 0), end=7, high_watermark=7), tmp_path / str(broker), broker, name="orders-1")
    assert main(["compare", *(str(tmp_path / str(broker)) for broker in (1, 2, 3, 4))]) == 2
    lines = capsys.readouterr().out.splitlines()
    words = lines[1].split()
    assert (words[0], words[3:]) == ("orders-0", ["diverged", "50", "50", "50", "[50,", "100)", "[50,", "80)"])
    assert lines[2].split() == ["orders-1", "2", "copies", "equal"]
    assert lines[3] == f"orders-0: keep {tmp_path}/2/orders-0 (leader-epoch-checkpoint)"


def test_equal_copies_are_clean(tmp_path: Path, capsys: Captured) -> None:
    paths = [log_directory(tmp_path / str(broker), *WHOLE, broker=broker) for broker in (1, 2, 3)]
    code, rows = compared(capsys, *paths)
    assert (code, [row["verdict"] for row in of_kind(rows, "pair")]) == (0, ["equal"] * 3)


def test_a_copy_that_ends_earlier_lacks_offsets(tmp_path: Path, capsys: Captured) -> None:
    whole = log_directory(tmp_path / "1", *WHOLE)
    short = log_directory(tmp_path / "2", *WHOLE[:4], broker=2)
    code, rows = compared(capsys, short, whole)
    assert (code, pair(rows)["verdict"]) == (1, "behind")
    assert (pair(rows)["left_truncates_to"], pair(rows)["right_truncates_to"]) == (None, 20)
    assert of_kind(rows, "verdict")[0]["keep"] == f"{whole}/orders-0"


def test_a_copy_that_a_broker_would_delete_is_not_kept(tmp_path: Path, capsys: Captured) -> None:
    """Its start lies after the end of its batches, and nothing of it is left then."""
    wiped = log_directory(tmp_path / "1", *WHOLE, start=40, high_watermark=30)
    whole = log_directory(tmp_path / "2", *WHOLE, broker=2, high_watermark=30)
    for order in ((wiped, whole), (whole, wiped)):
        code, rows = compared(capsys, *order)
        assert (code, pair(rows)["verdict"]) == (2, "damaged")
        assert of_kind(rows, "verdict")[0]["keep"] == f"{whole}/orders-0"
    ends = {row["source"]: (row["log_start_offset"], row["log_end_offset"]) for row in of_kind(rows, "copy")}
    assert ends[f"{wiped}/orders-0"] == (40, 30)
    code, rows = compared(capsys, wiped, log_directory(tmp_path / "3", *WHOLE, broker=3, start=30))
    assert of_kind(rows, "verdict")[0]["keep"] == f"{tmp_path}/3/orders-0"


def test_a_batch_that_is_damaged_in_one_copy_is_named_with_the_copies_that_hold_it(
    tmp_path: Path, capsys: Captured
) -> None:
    injured = [*WHOLE[:2], handmade.flip(WHOLE[2], len(WHOLE[2]) - 3), *WHOLE[3:]]
    paths = [
        log_directory(tmp_path / str(number), *batches, broker=number)
        for number, batches in enumerate((WHOLE, injured, WHOLE))
    ]
    code, rows = compared(capsys, *paths)
    assert (code, [row["verdict"] for row in of_kind(rows, "pair")]) == (2, ["damaged", "equal", "damaged"])
    (batch,) = of_kind(rows, "batch")
    assert (batch["base_offset"], batch["holds_in"]) == (10, [f"{paths[0]}/orders-0", f"{paths[2]}/orders-0"])
    assert of_kind(rows, "verdict")[0]["keep"] != f"{paths[1]}/orders-0"


def test_the_last_batch_of_a_copy_may_be_the_damaged_one(tmp_path: Path, capsys: Captured) -> None:
    injured = [*WHOLE[:5], handmade.flip(WHOLE[5], len(WHOLE[5]) - 3)]
    paths = [log_directory(tmp_path / "1", *injured), log_directory(tmp_path / "2", *WHOLE, broker=2)]
    code, rows = compared(capsys, *paths)
    assert (code, pair(rows)["verdict"]) == (2, "damaged")
    assert [row["base_offset"] for row in of_kind(rows, "batch")] == [25]
    assert of_kind(rows, "verdict")[0]["keep"] == f"{paths[1]}/orders-0"


@pytest.mark.parametrize(
    ("batch", "place", "bit"),
    [(5, 5, 4), (5, 7, 1), (5, 15, 4), (3, 15, 4), (3, 7, 0), (5, 15, 0)],
    ids=["far end", "near end", "last epoch", "epoch", "offset", "an earlier epoch"],
)
def test_a_wrong_bit_that_no_checksum_covers_does_not_decide(
    tmp_path: Path, capsys: Captured, batch: int, place: int, bit: int
) -> None:
    """In the base offset (bytes 0 to 7) or the leader epoch (bytes 12 to 15) of a batch of one copy."""
    whole = [full(base, leader_epoch=3) for base in range(0, 30, 5)]
    wrong = bytearray(whole[batch])
    wrong[place] ^= 1 << bit
    paths = [
        log_directory(tmp_path / "1", *whole[:batch], bytes(wrong), *whole[batch + 1 :], high_watermark=30),
        log_directory(tmp_path / "2", *whole, broker=2, high_watermark=30),
        log_directory(tmp_path / "3", *whole, broker=3, high_watermark=30),
    ]
    for path in paths:
        (path / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    for count in (2, 3):
        code, rows = compared(capsys, *paths[:count])
        assert (code, of_kind(rows, "pair")[0]["verdict"]) == (2, "damaged")
        assert of_kind(rows, "batch")[0]["base_offset"] == 5 * batch
        assert of_kind(rows, "verdict")[0]["keep"] == f"{paths[1]}/orders-0"
        assert main(["recover", *map(str, paths[:count]), "--plan"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert (plan["source"], plan["log_end_offset"]) == (f"{paths[1]}/orders-0", 30)


def test_a_write_in_progress_is_no_damage(tmp_path: Path, capsys: Captured) -> None:
    growing = log_directory(tmp_path / "1", *WHOLE[:5], handmade.cut(WHOLE[5], 40))
    code, rows = compared(capsys, growing, log_directory(tmp_path / "2", *WHOLE, broker=2))
    assert (code, pair(rows)["verdict"], pair(rows)["right_truncates_to"]) == (1, "behind", 25)


def test_equal_offsets_and_epochs_with_other_bytes_part_and_none_is_kept(tmp_path: Path, capsys: Captured) -> None:
    """Also where later batches are equal: nothing decides, and no broker would notice."""
    other = [*WHOLE[:2], full(10, word=b" other"), *WHOLE[3:]]
    paths = [log_directory(tmp_path / "1", *WHOLE), log_directory(tmp_path / "2", *other, broker=2)]
    code, rows = compared(capsys, *paths)
    assert (code, pair(rows)["verdict"], pair(rows)["first_divergent_offset"]) == (2, "diverged", 10)
    assert (pair(rows)["left_truncates_to"], pair(rows)["right_truncates_to"]) == (None, None)
    assert of_kind(rows, "verdict")[0]["keep"] is None
    assert main(["compare", *map(str, paths)]) == 2
    assert "orders-0: keep none before one is named: the copies part at offset 10" in capsys.readouterr().out


def cleaned(base: int, *records: tuple[int, bytes, bytes | None], last: int = 4) -> bytes:
    """What a cleaner leaves of a batch."""
    kept = [handmade.record(delta, key, value) for delta, key, value in records]
    return handmade.batch(kept, base_offset=base, last_offset_delta=last)


def test_a_cleaned_copy_with_the_newest_value_of_each_key_lacks_nothing(tmp_path: Path, capsys: Captured) -> None:
    rest = [cleaned(20), *WHOLE[5:]]
    whole, clean = log_directory(tmp_path / "1", *WHOLE), log_directory(tmp_path / "2", *rest, broker=2)
    code, rows = compared(capsys, whole, clean)
    assert (code, pair(rows)["verdict"], pair(rows)["first_divergent_offset"]) == (0, "cleaned", None)
    one = cleaned(20, (0, b"a", b"20"))
    code, rows = compared(capsys, whole, log_directory(tmp_path / "3", one, *WHOLE[5:], broker=3))
    assert (code, pair(rows)["verdict"]) == (0, "cleaned")


def test_a_cleaned_copy_without_a_newest_value_lacks_it(tmp_path: Path, capsys: Captured) -> None:
    whole = [*WHOLE[:4], full(20, b"vwxyz"), *WHOLE[5:]]
    one = log_directory(tmp_path / "1", *whole)
    two = log_directory(tmp_path / "2", cleaned(20, (1, b"w", b"20")), *whole[5:], broker=2)
    code, rows = compared(capsys, one, two)
    assert (code, pair(rows)["verdict"]) == (1, "behind")
    main(["compare", str(one), str(two)])
    assert "[20, 21) [22, 25)" in capsys.readouterr().out


def test_a_batch_that_is_gone_without_a_sign_of_cleaning_is_lacking(tmp_path: Path, capsys: Captured) -> None:
    whole = log_directory(tmp_path / "2", *WHOLE, broker=2, high_watermark=20)
    one = log_directory(tmp_path / "1", *WHOLE[:2], *WHOLE[3:], high_watermark=30)
    code, rows = compared(capsys, one, whole)
    assert (code, pair(rows)["verdict"]) == (1, "behind")
    assert of_kind(rows, "verdict")[0]["keep"] == f"{whole}/orders-0"
    assert main(["recover", str(one), str(whole), "--plan"]) <= 1
    assert json.loads(capsys.readouterr().out)["source"] == f"{whole}/orders-0"


def test_of_copies_that_differ_by_cleaning_the_one_with_more_is_kept(tmp_path: Path, capsys: Captured) -> None:
    whole = log_directory(tmp_path / "2", *WHOLE, broker=2, high_watermark=20)
    one = log_directory(tmp_path / "1", *WHOLE[:2], *WHOLE[3:], high_watermark=30, cleaned_to=20)
    code, rows = compared(capsys, one, whole)
    assert (code, pair(rows)["verdict"]) == (0, "cleaned")
    assert of_kind(rows, "verdict")[0]["keep"] == f"{whole}/orders-0"


@pytest.mark.parametrize(("policy", "code"), [("compact", 0), ("compact,delete", 0), ("delete", 1)])
def test_the_policy_in_the_metadata_explains_what_a_copy_lacks(
    tmp_path: Path, capsys: Captured, policy: str, code: int
) -> None:
    paths = [
        log_directory(tmp_path / "1", *WHOLE[:2], *WHOLE[3:]),
        log_directory(tmp_path / "2", *WHOLE, broker=2),
    ]
    for path in paths:
        (path / "orders-0/partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_text('orders')}")
    MetadataLog(paths[1]).say(created("orders"), setting("orders", "cleanup.policy", policy))
    assert compared(capsys, *paths)[0] == code


def test_a_tombstone_that_a_cleaner_removed_counts_as_absent(tmp_path: Path, capsys: Captured) -> None:
    whole = [handmade.simple_batch(0, [(b"a", b"1"), (b"a", None), (b"b", b"1")])]
    one = log_directory(tmp_path / "1", *whole)
    code, rows = compared(capsys, one, log_directory(tmp_path / "2", cleaned(0, (2, b"b", b"1"), last=2), broker=2))
    assert (code, pair(rows)["verdict"]) == (0, "cleaned")


def test_a_cleaned_record_with_another_value_parts_the_copies(tmp_path: Path, capsys: Captured) -> None:
    one = log_directory(tmp_path / "1", *WHOLE)
    two = log_directory(tmp_path / "2", *WHOLE[:5], cleaned(25, (3, b"d", b"x"), (4, b"e", b"25")), broker=2)
    code, rows = compared(capsys, one, two)
    assert (code, pair(rows)["verdict"], pair(rows)["first_divergent_offset"]) == (2, "diverged", 28)


def test_aborted_records_that_a_cleaner_removed_are_not_missed(tmp_path: Path, capsys: Captured) -> None:
    fields = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    aborted = handmade.simple_batch(10, [(b"gone", b"1")], **fields)
    marker = handmade.marker(11, handmade.ABORT, producer_id=7)
    rest = handmade.simple_batch(12, [(b"f", b"1"), (b"g", b"1")])
    one = log_directory(tmp_path / "1", *WHOLE[:2], aborted, marker, rest)
    two = log_directory(tmp_path / "2", cleaned(0), *WHOLE[1:2], marker, rest, broker=2)
    code, rows = compared(capsys, one, two)
    assert (code, pair(rows)["verdict"]) == (0, "cleaned")


def segments(path: Path, broker: int, *, without: int | None = None) -> Path:
    """Four segments of ten records, of which each key has several; one segment may be lost."""
    source = LogDirectory(path)
    (path / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
    log = source.partition("orders-0")
    for _ in range(4):
        log.roll()
        log.append(10)
    if without is not None:
        (log.path / f"{without:020d}.log").unlink()
    source.high_watermarks(orders_0=40)
    return path


def test_a_hole_in_a_copy_is_no_cleaning(tmp_path: Path, capsys: Captured) -> None:
    holed, whole = segments(tmp_path / "1", 1, without=10), segments(tmp_path / "2", 2)
    code, rows = compared(capsys, holed, whole)
    assert (code, pair(rows)["verdict"], pair(rows)["left_truncates_to"]) == (1, "behind", None)
    assert of_kind(rows, "verdict")[0]["keep"] == f"{whole}/orders-0"
    assert main(["compare", str(holed), str(whole)]) == 1
    assert capsys.readouterr().out.splitlines()[1].split()[-2:] == ["[10,", "20)"]


def test_a_path_without_a_copy_of_a_log_is_named(tmp_path: Path, capsys: Captured) -> None:
    """Of the same broker, such as backups. Another broker need not hold the log."""
    paths = [log_directory(tmp_path / str(number), *WHOLE, broker=1) for number in (1, 2, 3)]
    another = log_directory(tmp_path / "4", *WHOLE, broker=2)
    LogDirectory(paths[0], cluster=None).partition("users-0").append(5)
    code, rows = compared(capsys, *paths[:2])
    assert (code, pair(rows)["verdict"]) == (1, "equal")
    main(["compare", *map(str, paths)])
    said = [line for line in capsys.readouterr().err.splitlines() if "copy-absent" in line]
    assert said == [
        f"warning copy-absent: {path} has no copy of users-0, which another path has." for path in paths[1:]
    ]
    assert compared(capsys, paths[0], another)[0] == 0
    (tmp_path / "link").symlink_to(paths[0])
    for words in ([paths[0], tmp_path / "link"], [*paths[:2], "--topic", "orders"], [paths[0] / "orders-0", paths[1]]):
        assert main(["compare", *map(str, words)]) == 0


def test_offsets_that_no_copy_has_are_named(tmp_path: Path, capsys: Captured) -> None:
    paths = [segments(tmp_path / str(broker), broker, without=10) for broker in (1, 2)]
    code, rows = compared(capsys, *paths)
    assert (code, pair(rows)["verdict"]) == (1, "equal")
    main(["compare", *map(str, paths)])
    assert "warning missing-offsets: orders-0: offsets [10, 20) are missing in each copy." in capsys.readouterr().err


def test_a_directory_that_is_named_twice_is_one_copy(tmp_path: Path, capsys: Captured) -> None:
    path = log_directory(tmp_path / "1", *WHOLE)
    (tmp_path / "link").symlink_to(path)
    code, rows = compared(capsys, path, tmp_path / "link", f"{path}/../1")
    assert (code, len(of_kind(rows, "copy")), of_kind(rows, "pair")) == (0, 1, [])
    assert of_kind(rows, "verdict")[0]["keep"] == f"{path}/orders-0"


def test_topics_of_one_name_and_two_ids_are_not_compared(tmp_path: Path, capsys: Captured) -> None:
    one = log_directory(tmp_path / "1", *WHOLE)
    two = log_directory(tmp_path / "2", full(0, word=b" other"), broker=2)
    (two / "orders-0/partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_TOPIC_ID}")
    code, rows = compared(capsys, one, two)
    assert (code, of_kind(rows, "pair")) == (1, [])
    assert {row["source"] for row in of_kind(rows, "copy")} == {f"{one}/orders-0", f"{two}/orders-0"}
    main(["compare", str(one), str(two)])
    assert "orders has several topic ids" in capsys.readouterr().err


def test_only_the_chosen_topics_are_compared(tmp_path: Path, capsys: Captured) -> None:
    paths = [log_directory(tmp_path / str(broker), *WHOLE[:broker], broker=broker) for broker in (1, 2)]
    for path in paths:
        log = LogDirectory(path, cluster=None).partition("users-0")
        log.append(5)
    code, rows = compared(capsys, *paths, words=("--topic", "users"))
    assert (code, {row["topic"] for row in rows}) == (0, {"users"})
    assert main(["compare", *map(str, paths), "--topic", "nothing"]) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_segment_that_cannot_be_read_is_not_checked(tmp_path: Path, capsys: Captured) -> None:
    paths = [log_directory(tmp_path / str(broker), *WHOLE, broker=broker) for broker in (1, 2)]
    (paths[0] / f"orders-0/{0:020d}.log").chmod(0)
    assert compared(capsys, *paths)[0] == 3


def test_nothing_is_written_to_a_source(tmp_path: Path, capsys: Captured) -> None:
    paths = [segments(tmp_path / "1", 1), segments(tmp_path / "2", 2, without=20)]
    before = [LogDirectory(path, cluster=None).fingerprint() for path in paths]
    compared(capsys, *paths)
    assert [LogDirectory(path, cluster=None).fingerprint() for path in paths] == before


@pytest.mark.parametrize("seed", range(6))
def test_large_logs_are_compared_as_small_ones(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """By kernels and in plain Python; some batches are damaged, cleaned, of another leader or missing."""
    chance = random.Random(seed)
    whole = [full(base, word=b"x" * 500) for base in range(0, 500, 5)]
    paths = []
    for copy in range(3):
        batches = list(whole)
        for at in sorted(chance.sample(range(90), copy), reverse=True):
            kind = chance.choice(["damage", "clean", "other", "remove"])
            if kind == "damage":
                batches[at] = handmade.flip(batches[at], chance.randrange(70, len(batches[at])))
            elif kind == "clean":
                batches[at] = cleaned(5 * at)
            elif kind == "other":
                batches[at] = full(5 * at, word=b"y", leader_epoch=chance.choice([0, 1]))
            else:
                del batches[at]
        paths.append(log_directory(tmp_path / str(copy), *batches, broker=copy))
    results = []
    for engine, threads in (("reference", 1), ("kernels", 1), ("kernels", 2)):
        monkeypatch.setenv("LOGLAKE_ENGINE", engine)
        monkeypatch.setattr(processors, "available", lambda threads=threads: threads)
        results.append(compared(capsys, *paths))
    assert results[0] == results[1] == results[2]


def damage_end(file: Path) -> None:
    """Change a byte of the last batch."""
    content = bytearray(file.read_bytes())
    content[-2] ^= 0x55
    file.write_bytes(content)


@pytest.mark.parametrize("both", [True, False])
def test_verify_names_the_command_that_takes_what_another_copy_has_before_a_salvage(
    tmp_path: Path, capsys: Captured, both: bool
) -> None:
    left, right = (segments(tmp_path / name, broker) for broker, name in enumerate(("a", "b")))
    for path, base in ((left, 10), *([(right, 20)] if both else [])):
        damage_end(path / "orders-0" / f"{base:020d}.log")
    main(["verify", str(left), str(right)])
    said = capsys.readouterr().out
    assert "corrupt-bytes" in said
    if both:
        assert re.search(r"has \[15, 20\)|has \[25, 30\)", said)
        assert re.search("`loglake run [^`]* --lake LAKE --fill-from [^`]*`", said)
    else:
        command = f"loglake recover {right}/orders-0 {left}/orders-0 --out "
        assert f"{right}/orders-0 has [15, 20), which {left}/orders-0 lost." in said
        assert f"`{command}DIR`" in said
        assert main([*command.split()[1:], str(tmp_path / "new")]) == 1  # meta.properties states no cluster
        assert main(["verify", str(tmp_path / "new")]) != 2
    assert "--salvage" not in said
    assert "No command" not in said


def test_verify_keeps_the_salvage_of_offsets_that_no_copy_has(tmp_path: Path, capsys: Captured) -> None:
    """Both copies lost [15, 20), and one of them [25, 30) too."""
    left, right = (segments(tmp_path / name, broker) for broker, name in enumerate(("a", "b")))
    for path, base in ((left, 10), (right, 10), (left, 20)):
        damage_end(path / "orders-0" / f"{base:020d}.log")
    main(["verify", str(left), str(right)])
    said = capsys.readouterr().out
    assert "has [25, 30), which" in said
    assert "[15, 20), which" not in said
    assert "--salvage" in said


def test_verify_says_of_no_copy_that_it_has_offsets_without_batches(tmp_path: Path, capsys: Captured) -> None:
    left, right = (segments(tmp_path / name, broker) for broker, name in enumerate(("a", "b")))
    last = max((left / "orders-0").glob("*.log"))
    for file in (right / "orders-0").glob("*.log"):
        if file.name >= last.name:
            file.unlink()
    last.write_bytes(b"")
    last.rename(last.with_name(f"{5000:020d}.log"))
    main(["verify", str(left), str(right)])
    assert ", which" not in capsys.readouterr().out
