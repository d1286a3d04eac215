"""The bundled samples are what their certificate says, and the stated expectation fits what Kafka's tools said."""

from __future__ import annotations

import hashlib
import re
import tarfile

import pytest

from tests.conftest import SAMPLES

CERTIFICATE = (SAMPLES / "PROVENANCE.md").read_text()
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in SAMPLES.glob("*.tar.xz"))


def test_every_archive_has_its_digest_in_the_certificate():
    stated = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", CERTIFICATE, re.MULTILINE)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in SAMPLES.glob("*.tar.xz")}
    assert found == stated


@pytest.mark.parametrize("name", NAMES)
def test_versions_and_seed_of_the_certificate_are_those_of_the_case(name, sample):
    case = sample(name).case
    assert f"| `{name}` | {case['broker_version']} | {case['client_version']} | {case['seed']} |" in CERTIFICATE


@pytest.mark.parametrize("name", NAMES)
def test_unpacking_restores_modification_times(name, sample):
    with tarfile.open(SAMPLES / f"{name}.tar.xz") as archive:
        logs = [member for member in archive if member.name.endswith(".log")]
    assert logs
    for member in logs:
        assert (sample(name).root / member.name).stat().st_mtime == pytest.approx(member.mtime, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "damaged"])
def test_an_undamaged_sample_has_lines_for_all_its_consumer_counted(name, sample):
    for isolation_level in ("read_committed", "read_uncommitted"):
        counts: dict[str, int] = {}
        for line in sample(name).consumed(isolation_level):
            log = f"{line['topic']}-{line['partition']}"
            counts[log] = counts.get(log, 0) + 1
        stated = {log: entry["records"] for log, entry in sample(name).summary(isolation_level).items()}
        assert counts == {log: records for log, records in stated.items() if records}


def test_the_expectation_describes_every_damaged_partition_in_the_words_of_the_case(sample, expected_of_damaged):
    damaged = sample("damaged")
    assert set(expected_of_damaged) == {path.name for path in damaged.logdir.iterdir() if path.is_dir()}
    for log, expected in expected_of_damaged.items():
        assert expected["damage"] == damaged.case["what"][log]
        assert expected["high_watermark"] == damaged.case["snapshots"]["before"]["high_watermarks"][log]
        assert f"| `{log}` | {expected['damage']} |" in CERTIFICATE


def test_the_expectation_accounts_for_every_record_that_was_read_before_the_damage(sample, expected_of_damaged):
    consumed: dict[str, set[int]] = {}
    for line in sample("damaged").consumed("read_uncommitted"):
        consumed.setdefault(f"{line['topic']}-{line['partition']}", set()).add(line["offset"])
    for log, expected in expected_of_damaged.items():
        states = {
            offset: row["state"]
            for row in expected["ledger"]
            for offset in range(row["start_offset"], row["end_offset"])
        }
        assert sorted(states) == list(range(expected["log_end_offset"])), log
        for offset, state in states.items():
            if state in ("present", "aborted", "open"):
                assert offset in consumed[log], (log, offset, state)
            if state == "control":
                assert offset not in consumed[log], (log, offset)
        cut_off = set(range(expected["log_end_offset"], expected["high_watermark"]))
        assert consumed[log] <= set(states) | cut_off, log
        published = [o for o, state in states.items() if state == "present" and o < expected["published_end"]]
        assert published == expected["published_offsets"], log
        assert len(published) == expected["rows"], log


def test_the_expectation_agrees_with_the_dump_on_every_marker(sample, expected_of_damaged):
    """Offsets stated as control are those at which DumpLogSegments saw a marker."""
    damaged = sample("damaged")
    for log, expected in expected_of_damaged.items():
        markers: set[int] = set()
        commits: set[int] = set()
        reached = -1  # Kafka's tool stops at a length field that is wrong
        for segment in expected["archived_bytes"]:
            dump = damaged.dump(log, segment)
            reached = max([reached, *map(int, re.findall(r"lastOffset: (\d+)", dump))])
            seen = re.findall(r"^\| offset: (\d+) .*endTxnMarker: (\w+)", dump, re.MULTILINE)
            markers |= {int(offset) for offset, _ in seen}
            commits |= {int(offset) for offset, kind in seen if kind == "COMMIT"}
        stated = {row["start_offset"] for row in expected["ledger"] if row["state"] == "control"}
        assert {offset for offset in stated if offset <= reached} == markers, log
        stated = {row["start_offset"] for row in expected["ledger"] if row.get("marker") == "COMMIT"}
        assert {offset for offset in stated if offset <= reached} == commits, log


def test_the_expectation_knows_the_size_of_every_source_file(sample, expected_of_damaged):
    for log, expected in expected_of_damaged.items():
        for segment, archived in expected["archived_bytes"].items():
            size = (sample("damaged").logdir / log / segment).stat().st_size
            last = segment == max(expected["archived_bytes"])
            assert archived == (size - expected["tail_bytes"] - expected["padding_bytes"] if last else size), (
                log,
                segment,
            )
