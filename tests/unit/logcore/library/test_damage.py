"""Damage ends a read with an error, or is reported and left out. Valid records around it are given."""

from __future__ import annotations

import errno
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logcore
from logcore.cli.main import main
from logcore.columns.engines import Engine
from logcore.reading import consumer_log
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.conftest import Sample
from tests.unit.logcore.library.conftest import Findings, segment


def injure(path: Path, position: int) -> None:
    path.write_bytes(handmade.flip(path.read_bytes(), position))


def test_damage_raises_after_the_records_before_it(orders: Partition, engine: Engine) -> None:
    injure(orders.segments()[1], 70)
    records = logcore.open_partition(orders.path).records()
    assert [next(records).offset for _ in range(20)] == list(range(20))
    with pytest.raises(logcore.DamageFound) as caught:
        next(records)
    finding = caught.value.finding
    assert (finding.rule, finding.severity) == ("corrupt-bytes", logcore.Severity.ERROR)
    assert (finding.position, finding.start_offset) == (0, 20)
    assert isinstance(caught.value, logcore.LogError)
    assert (caught.value.file, caught.value.position, caught.value.offset) == (finding.file, 0, 20)
    assert str(caught.value) == f"{finding.message} Pass on_finding to get findings and read on."


def test_damage_is_left_out_where_findings_are_taken(orders: Partition, findings: Findings, engine: Engine) -> None:
    injure(orders.segments()[1], 70)
    log = logcore.open_partition(orders.path)
    expected = [*range(20), *range(25, 60)]
    assert [record.offset for record in log.records(on_finding=findings)] == expected
    assert log.record_batches(["offset"], on_finding=findings).read_all().column(0).to_pylist() == expected
    assert [batch.header.base_offset for batch in log.batches(on_finding=findings)] == expected[::5]
    assert findings.rules == ["corrupt-bytes"] * 3


def test_an_error_keeps_its_finding_between_processes(orders: Partition) -> None:
    injure(orders.segments()[0], 70)
    with pytest.raises(logcore.DamageFound) as caught:
        list(logcore.open_partition(orders.path).records())
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is logcore.DamageFound
    assert (str(again), again.finding) == (str(caught.value), caught.value.finding)


def test_an_error_of_the_callers_function_reaches_the_caller(orders: Partition) -> None:
    injure(orders.segments()[0], 70)

    def stop(finding: logcore.Finding) -> None:
        raise KeyError(finding.rule)

    log = logcore.open_partition(orders.path)
    with pytest.raises(KeyError, match="corrupt-bytes"):
        list(log.records(on_finding=stop))
    with pytest.raises(KeyError, match="corrupt-bytes"):
        log.record_batches(on_finding=stop).read_all()


def test_the_damaged_sample_gives_what_was_stated_by_hand(
    sample: Callable[[str], Sample], expected_of_damaged: dict[str, dict[str, Any]]
) -> None:
    directory = logcore.open_log_directory(sample("damaged").logdir, isolation_level="read_committed", show_all=True)
    assert {f"{log.topic}-{log.partition}" for log in directory.logs} == set(expected_of_damaged)
    for log in directory.logs:
        expected = expected_of_damaged[f"{log.topic}-{log.partition}"]
        found = Findings()
        read = {record.offset for record in log.records(on_finding=found)}
        present = {
            offset
            for row in expected["ledger"]
            if row["state"] == "present"
            for offset in range(row["start_offset"], row["end_offset"])
        }
        assert read <= present, log
        assert set(expected["published_offsets"]) <= read, log
        # What follows the last good batch is not taken into an archive, and so not quarantined.
        quarantined = sum(finding.nbytes or 0 for finding in found.all if finding.rule == "corrupt-bytes")
        assert quarantined == expected["quarantined_bytes"], log


@pytest.mark.parametrize("name", ["damaged", "transactions-4.4.0", "internal-topics-4.4.0"])
def test_findings_are_those_that_dump_reports(
    sample: Callable[[str], Sample], name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logdir = sample(name).logdir
    found = Findings()
    logcore.open_log_directory(logdir).record_batches(["offset"], on_finding=found).read_all()
    main(["dump", "--format", "arrow", "-o", str(tmp_path / "records.arrow"), str(logdir)])
    reported = capsys.readouterr().err.splitlines()
    for finding, line in zip(found.all, reported, strict=True):
        assert line.startswith(f"{finding.severity} {finding.rule}: {finding.message}")
        assert finding.file is None or finding.file in line
    assert bool(reported) == (name != "transactions-4.4.0")


def test_keys_and_values_are_in_no_error(tmp_path: Path, engine: Engine) -> None:
    secret = b"SECRETSECRETSECRET"
    record = handmade.record(0, secret, secret, headers=[(secret, secret)])
    good = handmade.batch([record])
    bad = [
        handmade.flip(good, 80),
        handmade.fix_crc(handmade.patch(good, 62, b"\x7f")),
        handmade.batch([record[:-5]]),
        handmade.patch(good, 16, b"\x09"),
        handmade.patch(good, 8, b"\x7f\xff\xff\xff"),
        handmade.batch(body=secret * 3, attributes=handmade.GZIP, count=1),
    ]
    for number, content in enumerate(bad):
        path = segment(tmp_path / f"orders-{number}", 0, [content, handmade.simple_batch(9, [(b"k", b"v")])])
        texts: list[str] = []
        with pytest.raises(logcore.DamageFound) as caught:
            list(logcore.open_segment(path).records())
        texts += [str(caught.value), repr(caught.value), repr(caught.value.finding)]
        report = logcore.open_segment(path).validate()
        texts += [repr(finding) for finding in report.findings]
        assert report.findings
        joined = "".join(texts)
        assert "SECRET" not in joined
        assert secret.hex() not in joined
        assert not re.search("5345435245", joined)


# Files that change while they are read.


@pytest.mark.parametrize("harm", ["cut", "replace", "remove"])
def test_a_file_that_changes_in_the_middle_of_a_read(
    tmp_path: Path, logdir: LogDirectory, harm: str, findings: Findings, engine: Engine
) -> None:
    batch = handmade.simple_batch(0, [(b"k", bytes(100_000))])
    content = b"".join(at.to_bytes(8, "big") + batch[8:] for at in range(400))
    path = segment(logdir.path / "orders-0", 0, content)
    segment(logdir.path / "orders-0", 400, handmade.simple_batch(400, [(b"k", b"after")]))
    logdir.high_watermarks(orders_0=401)

    def changed_meanwhile(records: Any) -> list[int]:
        first = next(records).offset
        if harm == "cut":
            os.truncate(path, 35_000_000)
        elif harm == "replace":
            (tmp_path / "new").write_bytes(content)
            (tmp_path / "new").replace(path)
        else:
            path.unlink()
        return [first, *(record.offset for record in records)]

    log = logcore.open_partition(logdir.path / "orders-0")
    seen = changed_meanwhile(log.records(on_finding=findings))
    assert findings.rules == ["source-changed"]
    assert seen[-1] == 400
    assert seen[:-1] == list(range(len(seen) - 1))
    path.write_bytes(content)
    with pytest.raises(logcore.DamageFound) as caught:
        changed_meanwhile(logcore.open_partition(logdir.path / "orders-0").records())
    assert caught.value.finding.rule == "source-changed"


def test_a_segment_that_is_gone_is_reported_and_the_others_are_read(orders: Partition, findings: Findings) -> None:
    log = logcore.open_partition(orders.path)
    orders.segments()[1].unlink()
    assert [record.offset for record in log.records(on_finding=findings)] == [*range(20), *range(40, 60)]
    assert findings.rules == ["unreadable"]
    with pytest.raises(logcore.DamageFound, match=r"00000000000000000020\.log"):
        list(log.records())


def test_a_directory_that_is_replaced_is_read_as_it_was_listed(orders: Partition, findings: Findings) -> None:
    """New segments are not seen before the log is opened again; their absence is no finding."""
    log = logcore.open_partition(orders.path, high_watermark="log-end")
    orders.roll()
    orders.append(5)
    assert [record.offset for record in log.records(on_finding=findings)] == list(range(60))
    assert sum(1 for _ in logcore.open_partition(orders.path, high_watermark="log-end").records()) == 65
    assert findings.rules == []


def test_sectors_that_the_disk_fails_to_read(
    tmp_path: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    batches = [handmade.simple_batch(offset, [(b"k", b"v" * 20)]) for offset in range(600)]
    path = segment(tmp_path / "orders-0", 0, batches)
    real, inode = os.preadv, path.stat().st_ino

    def failing(fd: int, buffers: list[memoryview], position: int) -> int:
        (target,) = buffers
        if os.fstat(fd).st_ino != inode or position >= 8192 or position + len(target) <= 4096:
            return real(fd, buffers, position)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", failing)
    offsets = [record.offset for record in logcore.open_segment(path).records(on_finding=findings)]
    lost = [at for at in range(600) if at not in offsets]
    there, size = b"".join(batches), len(batches[0])
    left = handmade.patch(there, 4096, bytes(4096))
    assert lost == [at for at in range(600) if left[at * size : (at + 1) * size] != batches[at]]
    assert len(lost) > 40
    assert set(findings.rules) == {"unreadable"}


def test_a_segment_that_may_not_be_read_is_known_from_the_listing(
    orders: Partition, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing opens each file once. A read reports what it found, and reads the others."""
    from logcore.storage import files

    real = os.open

    def refused(path: Any, *more: Any) -> int:
        if str(path).endswith("20.log"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *more)

    monkeypatch.setattr(files.os, "open", refused)
    log = logcore.open_partition(orders.path)
    assert [finding.rule for finding in log.findings] == ["unreadable"]
    assert [record.offset for record in log.records(on_finding=findings)] == [*range(20), *range(40, 60)]
    assert findings.rules == ["unreadable"]
    with pytest.raises(logcore.DamageFound, match="Permission denied"):
        next(log.records())


def test_findings_of_one_log_are_no_errors_of_another(logdir: LogDirectory, orders: Partition) -> None:
    other = logdir.partition("payments-0")
    other.append(5)
    (other.path / "00000000000000000005.log").mkdir()
    (logdir.path / "replication-offset-checkpoint").write_text("0\n2\norders 0 60\npayments 0 5\n")
    directory = logcore.open_log_directory(logdir.path)
    assert [finding.rule for finding in directory.findings] == ["not-a-segment"]
    assert directory.log("orders", 0).findings == ()
    assert [finding.rule for finding in directory.log("payments", 0).findings] == ["not-a-segment"]


def test_opening_looks_at_names_and_not_at_records(orders: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_log, "segment_bytes", None)
    for path in orders.segments():
        path.write_bytes(b"junk" * 100)
    assert logcore.open_partition(orders.path).findings == ()
