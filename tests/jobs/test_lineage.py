"""`loglake lineage`: from a row to its bytes and back, every figure known from what `struct` packed."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig
from spark_jobs.lake_commands.lineage import lineage_command
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

PLAIN_ID, DAMAGED_ID, KEYED_ID = OTHER_TOPIC_ID, "DDDDDDDDDDDDDDDDDDDDDA", "EEEEEEEEEEEEEEEEEEEEEA"
BATCH = handmade.HEADER.size + 5 * len(handmade.record(0, b"k0", b"v0"))
"""Size of a batch of damaged-0, the second of which is damaged."""


class Facts:
    """What was written, as the test knows it without the code under test."""

    first: bytes
    second: bytes
    """Bytes of plain-1: its two growths, one batch each."""
    gzipped: bytes
    """The batch of orders-0 at offset 5."""
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Facts]:
    folder = tmp_path_factory.mktemp("lineage")
    facts, source = Facts(), LogDirectory(folder / "source")
    facts.source = source.path
    orders = source.partition("orders-0")
    orders.append(5)  # [0, 5)
    body = gzip.compress(b"".join(handmade.record(n, b"k", b"v%d" % n) for n in range(5)), mtime=0)
    facts.gzipped = handmade.batch(
        base_offset=5, attributes=1, body=body, count=5, last_offset_delta=4, leader_epoch=3, base_timestamp=4000
    )
    orders.write(facts.gzipped)  # [5, 10)
    orders.next_offset = 10
    aborted = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40, "attributes": handmade.TRANSACTIONAL}
    orders.append(5, **aborted)  # [10, 15)
    orders.marker(7, handmade.ABORT)  # 15
    orders.append(1)  # 16
    orders.append(5, **(aborted | {"producer_id": 8}))  # [17, 22), open
    orders.append(2)  # [22, 24), after it
    orders.append(2)  # [24, 26), above the high watermark
    plain = source.partition("plain-1", PLAIN_ID)
    facts.first = plain.append(4)
    damaged = source.partition("damaged-0", DAMAGED_ID)
    damaged.append(10)
    path = damaged.segments()[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the last byte of [5, 10)
    path.write_bytes(content)
    damaged.append(5)
    damaged.roll()
    damaged.append(5)
    keyed = source.partition("keyed-0", KEYED_ID)
    keyed.append(14)  # k0 to k6, twice
    keyed.roll()
    keyed.append(1)
    source.high_watermarks(orders_0=24, plain_1=4, damaged_0=20, keyed_0=15)
    lake = Lake(folder / "lake")
    lake.turn(source.path)
    facts.second = plain.append(4)
    source.high_watermarks(orders_0=24, plain_1=8, damaged_0=20, keyed_0=15)
    lake.turn(source.path)
    return lake, facts


@pytest.fixture
def lake(built: tuple[Lake, Facts]) -> Lake:
    return built[0]


@pytest.fixture
def facts(built: tuple[Lake, Facts]) -> Facts:
    return built[1]


@pytest.fixture
def own(lake: Lake, tmp_path: Path) -> Lake:
    """A copy to do harm to."""
    return Lake(Path(shutil.copytree(lake.path, tmp_path / "lake")))


def ask(capsys: pytest.CaptureFixture[str], lake: Lake, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    parser = argparse.ArgumentParser()
    lineage_command(parser)
    table = str(lake.path / "tables" / "records")
    options = parser.parse_args([table, "--format", "jsonl", *arguments])
    capsys.readouterr()
    code = options.func(options)
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def ask_offset(capsys: pytest.CaptureFixture[str], lake: Lake, place: str) -> tuple[int, dict[str, Any]]:
    code, lines = ask(capsys, lake, "--offset", place)
    assert len(lines) == 1
    return code, lines[0]


def test_a_row_leads_to_the_bytes_of_its_batch_in_the_archive_and_at_the_source(capsys, lake: Lake, facts: Facts):
    code, line = ask_offset(capsys, lake, "plain-1:6")
    assert (code, line["in_table"], line["explanation"], line["damaged"]) == (0, True, None, False)
    archived = Path(line["segment"]["archive_file"]).read_bytes()
    batch = line["batch"]
    assert archived[batch["archive_position"] :][: batch["size"]] == facts.second
    origin = Path(line["segment"]["origin_file"])
    assert origin == facts.source / "plain-1" / f"{0:020d}.log"
    assert origin.read_bytes()[batch["origin_position"] :][: batch["size"]] == facts.second
    # The second growth is a slice of its own in the archive. At the source it follows the first.
    assert (batch["archive_position"], batch["origin_position"]) == (0, len(facts.first))
    assert line["segment"]["digest"] == hashlib.sha256(facts.second).hexdigest()
    assert (line["log_id"], line["log"]) == (f"{PLAIN_ID}.0", f"{PLAIN_ID}.0/1")


def test_the_report_of_a_batch_matches_its_bytes(capsys, lake: Lake, facts: Facts):
    code, line = ask_offset(capsys, lake, "orders-0:7")
    assert code == 0
    (crc,) = struct.unpack_from(">I", facts.gzipped, 17)
    assert crc == handmade.crc32c(facts.gzipped[21:])
    expected = {
        "size": len(facts.gzipped),
        "magic": 2,
        "base_offset": 5,
        "last_offset": 9,
        "record_count": 5,
        "codec": "gzip",
        "max_timestamp": 4000,
        "producer_id": -1,
        "leader_epoch": 3,
        "crc": crc,
        "crc_computed": crc,
        "crc_ok": True,
        "holds_offset": True,
    }
    assert {name: line["batch"][name] for name in expected} == expected
    assert line["ledger"] == {
        "start_offset": 0,
        "end_offset": 10,
        "state": "present",
        "evidence": "batches",
        "published": True,
        "archived": "held",
        "withdrawn": False,
    }
    assert line["frontier"] == 17


def test_a_row_leads_to_the_commit_and_the_run_that_published_it(capsys, lake: Lake):
    table = DeltaTable(str(lake.path / "tables" / "records"))
    told = {}
    for offset in (3, 4):
        _, line = ask_offset(capsys, lake, f"plain-1:{offset}")
        told[offset] = line["commit"]
        assert line["published_by"] == line["commit"]
        assert (lake.path / "tables" / "records" / line["row"]["file"]).exists()
    assert [told[3]["run_id"], told[4]["run_id"]] == ["run-1", "run-2"]
    history = {commit["version"]: commit["timestamp"] for commit in table.history()}
    assert told[3]["version"] < told[4]["version"] == table.version()
    assert {c["version"]: c["timestamp_ms"] for c in told.values()}.items() <= history.items()


@pytest.mark.parametrize(
    ("place", "code", "state", "said"),
    [
        ("orders-0:12", 0, "aborted", "aborted (producer 7 epoch 2, offsets [10, 15), marker at 15)"),
        ("orders-0:15", 0, "control", "control record"),
        ("orders-0:19", 0, "open", "its transaction is open (producer 8 epoch 2, offsets [17, 22))"),
        ("orders-0:22", 0, "open", "after the first offset of an open transaction"),
        ("orders-0:25", 0, "open", "at or above the high watermark 24"),
        ("orders-0:26", 0, None, "nothing of this log from offset 26 on"),
        ("damaged-0:7", 2, "corrupt", "corrupt"),
        ("damaged-0:12", 0, "present", "above the frontier 5: nothing is published from offset 5 on"),
    ],
)
def test_an_offset_without_a_row_is_explained(capsys, lake: Lake, place: str, code: int, state: str, said: str):
    got, line = ask_offset(capsys, lake, place)
    assert (got, line["in_table"], line["damaged"]) == (code, False, code == 2)
    assert said in line["explanation"]
    assert (line["ledger"] or {"state": None})["state"] == state


def test_damage_is_named_with_its_finding_and_the_segment_it_is_in(capsys, lake: Lake):
    _, line = ask_offset(capsys, lake, "damaged-0:7")
    assert line["segment"]["base_offset"] == 0
    [bytes_found] = [f for f in line["findings"] if f["rule"] == "corrupt-bytes"]
    assert (bytes_found["start_offset"], bytes_found["position"], bytes_found["nbytes"]) == (5, BATCH, BATCH)


def test_a_finding_whose_damage_was_mended_is_not_shown(capsys, own: Lake, facts: Facts, tmp_path: Path):
    copy = Path(shutil.copytree(facts.source, tmp_path / "copy"))
    [first, _] = sorted((copy / "damaged-0").glob("*.log"))
    content = bytearray(first.read_bytes())
    content[2 * BATCH - 1] ^= 1
    first.write_bytes(content)
    own.turn(facts.source, fill_from=(str(copy),))
    code, line = ask_offset(capsys, own, "damaged-0:7")
    assert (code, line["in_table"], line["findings"]) == (0, True, [])
    assert main(["lineage", str(own.path), "--offset", "damaged-0:7"]) == 0
    assert "  finding  " not in capsys.readouterr().out


def test_an_aborted_record_still_leads_to_its_batch(capsys, lake: Lake):
    _, line = ask_offset(capsys, lake, "orders-0:12")
    assert line["batch"]["producer_id"] == 7
    assert line["batch"]["base_sequence"] == 40
    assert line["batch"]["is_transactional"]
    assert line["row"] is None
    assert line["commit"] is None


def test_a_bit_that_flipped_in_the_archive_is_seen_by_the_checksum_computed_now(capsys, own: Lake):
    _, line = ask_offset(capsys, own, "plain-1:6")
    file = Path(line["segment"]["archive_file"])
    content = bytearray(file.read_bytes())
    content[-1] ^= 0x10
    file.chmod(0o644)
    file.write_bytes(content)
    code, line = ask_offset(capsys, own, "plain-1:6")
    assert code == 2
    assert line["batch"]["crc_ok"] is False
    assert line["batch"]["crc_computed"] == handmade.crc32c(bytes(content)[21:])
    assert "has changed" in line["problems"][0]
    file.unlink()
    code, line = ask_offset(capsys, own, "plain-1:6")
    assert (code, line["segment"]["held"], line["batch"]) == (2, False, None)
    assert str(file) in line["problems"][0]


def test_a_row_that_the_table_lost_is_damage(capsys, own: Lake):
    _, line = ask_offset(capsys, own, "plain-1:6")
    DeltaTable(str(own.path / "tables" / "records")).delete("topic = 'plain' AND offset = 6")
    code, line = ask_offset(capsys, own, "plain-1:6")
    assert (code, line["in_table"], line["damaged"]) == (2, False, True)
    assert "no row of it" in line["explanation"]


def test_a_segment_that_was_compacted_since_leads_to_its_replacement(capsys, own: Lake):
    _, before = ask_offset(capsys, own, "keyed-0:3")
    policies = own.path.parent / "policies.yaml"
    policies.write_text("topics: {keyed: {cleanup.policy: compact}}")
    launch.run(CompactionConfig(str(own.path), "clean", AS_OF_MS, read_policies(str(policies)), apply=True))
    code, after = ask_offset(capsys, own, "keyed-0:3")
    assert (code, after["in_table"], after["batch"]["crc_ok"]) == (0, True, True)
    assert after["segment"]["segment_id"] == before["segment"]["segment_id"]
    assert after["segment"]["retired_ms"] == AS_OF_MS
    [successor] = after["successors"]
    assert successor["segment_id"] == after["segment"]["replaced_by"]
    assert (successor["generation"], successor["held"]) == (1, True)
    assert after["ledger"]["archived"] == "compacted-away"
    capsys.readouterr()
    assert main(["lineage", str(own.path / "tables" / "records"), "--offset", "keyed-0:3"]) == 0
    printed = capsys.readouterr().out
    assert ", published; compaction took records of them out of the archive\n" in printed
    assert "compacted-away" not in printed


def test_a_version_leads_to_the_segments_it_came_from(capsys, lake: Lake, facts: Facts):
    newest = DeltaTable(str(lake.path / "tables" / "records")).version()
    code, lines = ask(capsys, lake, "--version", str(newest))
    assert code == 0
    log, summary = lines[0], lines[-1]["summary"]
    assert len(lines) == 2
    assert (log["topic"], log["partition"], log["start_offset"], log["end_offset"], log["rows"]) == (
        "plain",
        1,
        4,
        8,
        4,
    )
    [segment] = log["segments"]
    assert segment["digest"] == hashlib.sha256(facts.second).hexdigest()
    assert segment["origin_file"] == str(facts.source / "plain-1" / f"{0:020d}.log")
    assert segment["origin_position"] == len(facts.first)
    assert (segment["rows"], segment["first_offset"], segment["last_offset"]) == (4, 4, 7)
    assert (summary["run_id"], summary["rows_added"], summary["files_added"]) == ("run-2", 4, 1)
    assert (summary["rows_removed"], summary["files_removed"]) == (0, 0)
    assert summary["application_ids"] == {f"records/{PLAIN_ID}.0/1": 8}


def test_the_first_version_names_each_log_with_its_frontier(capsys, lake: Lake):
    _, lines = ask(capsys, lake, "--version", "1")
    told = {line["topic"]: (line["start_offset"], line["end_offset"], line["rows"]) for line in lines[:-1]}
    # orders: [0, 10) and 16; [10, 16) is aborted.
    assert told == {"orders": (0, 17, 11), "plain": (0, 4, 4), "damaged": (0, 5, 5), "keyed": (0, 15, 15)}
    frontiers = lines[-1]["summary"]["application_ids"]
    assert sorted(frontiers.values()) == [4, 5, 15, 17]


def test_a_version_that_removed_rows_says_how_many(capsys, own: Lake):
    table = DeltaTable(str(own.path / "tables" / "records"))
    table.delete("topic = 'keyed' AND offset < 5")
    code, lines = ask(capsys, own, "--version", str(table.version()))
    summary = lines[-1]["summary"]
    assert (code, summary["run_id"]) == (0, None)
    assert (summary["rows_removed"], summary["rows_added"]) == (15, 10)
    for asked in (["--version", str(table.version())], ["--offset", "keyed-0:6"]):
        assert main(["lineage", str(own.path), *asked]) == 0
        printed = capsys.readouterr().out
        assert "by another program" in printed
        assert "None" not in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--offset", "nobody-0:1"], "nobody-0"),
        (["--offset", "orderz-0:1"], "The nearest names are orders-0"),
        (["--version", "99"], "no version 99"),
    ],
)
def test_what_is_not_there_could_not_be_checked(capsys, lake: Lake, arguments: list[str], said: str):
    parser = argparse.ArgumentParser()
    lineage_command(parser)
    options = parser.parse_args([str(lake.path / "tables" / "records"), *arguments])
    assert options.func(options) == 3
    assert said in capsys.readouterr().err
    options = parser.parse_args([str(lake.path / "tables" / "batches"), *arguments])
    assert options.func(options) == 64
    assert "tables/records" in capsys.readouterr().err


def test_a_lake_alone_means_its_records(capsys, lake: Lake):
    parser = argparse.ArgumentParser()
    lineage_command(parser)
    said = []
    for table in (lake.path, lake.path / "tables" / "records"):
        options = parser.parse_args([str(table), "--offset", "plain-1:6"])
        assert options.func(options) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_a_person_reads_the_same(capsys, lake: Lake, facts: Facts):
    parser = argparse.ArgumentParser()
    lineage_command(parser)
    table = str(lake.path / "tables" / "records")
    for asked in (["--offset", "plain-1:6"], ["--version", "2"]):
        options = parser.parse_args([table, *asked])
        assert options.func(options) == 0
        said = capsys.readouterr().out
        assert f"{0:020d}.log position {len(facts.first)}" in said
        assert "run run-2" in said
