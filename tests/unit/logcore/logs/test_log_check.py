"""Rules about a whole log, on directories packed by hand: each fault alone, and what must not be called one."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.logs.checks.log_check import check_log
from logcore.logs.checks.validation import SegmentValidation
from logcore.logs.model.findings import Finding
from logcore.logs.model.gaps import GapRules
from logcore.storage.discovery import discover, read_file
from tests import handmade


def plain(base: int, count: int = 2, **fields: int) -> bytes:
    return handmade.simple_batch(base, [(b"k", b"v")] * count, **fields)


def transactional(producer: int, base: int, count: int, sequence: int, **fields: int) -> bytes:
    fields = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0, "base_timestamp": 1000} | fields
    return plain(base, count, producer_id=producer, base_sequence=sequence, **fields)


def entry(producer: int, sequence: int, last: int, *, delta: int = 0, at: int = 1000, coordinator=0, first=-1, epoch=0):
    return struct.pack(">qhiqiqiq", producer, epoch, sequence, last, delta, at, coordinator, first)


def snapshot(*entries: bytes) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


def aborted(producer: int, first: int, last: int, stable: int) -> bytes:
    return struct.pack(">hqqqq", 0, producer, first, last, stable)


def epochs(*pairs: tuple[int, int]) -> bytes:
    return "\n".join(["0", str(len(pairs)), *(f"{epoch} {start}" for epoch, start in pairs), ""]).encode()


FIRST = transactional(1, 0, 2, 0) + transactional(2, 2, 1, 0) + handmade.marker(3, handmade.ABORT, producer_id=1)
SECOND = handmade.marker(4, handmade.COMMIT, producer_id=2) + transactional(1, 5, 2, 2) + plain(7, 3)

Files = dict[str, bytes]
Say = Callable[..., list[Finding]]


def name(base: int, suffix: str = ".log") -> str:
    return f"{base:020d}{suffix}"


@pytest.fixture
def files() -> Files:
    """A log of two segments, offsets 0 to 10, with all that a broker keeps beside it."""
    return {
        name(0): FIRST,
        name(0, ".txnindex"): aborted(1, 0, 3, 2),
        name(4): SECOND,
        name(4, ".snapshot"): snapshot(entry(1, 1, 1, delta=1), entry(2, 0, 2, first=2, coordinator=-1)),
        name(10, ".snapshot"): snapshot(entry(1, 3, 6, delta=1, first=5), entry(2, 0, 2)),
        "leader-epoch-checkpoint": epochs((0, 0)),
    }


@pytest.fixture
def said(tmp_path: Path) -> Say:
    def say(
        files: Files, *, named: bool = False, rules: GapRules | None = None, topic: str = "orders", **root: int
    ) -> list[Finding]:
        root_directory = tmp_path / f"logs{len(list(tmp_path.iterdir()))}"
        directory = root_directory / f"{topic}-0"
        directory.mkdir(parents=True)
        for file, content in ({"leader-epoch-checkpoint": epochs((0, 0))} | files).items():
            (directory / file).write_bytes(content)
        for checkpoint, offset in ({"replication": 10} | root).items():
            text = f"0\n1\n{topic} 0 {offset}\n"
            (root_directory / f"{checkpoint.replace('_', '-')}-offset-checkpoint").write_text(text)
        paths = [str(directory / file) for file in files if file.endswith(".log")] if named else [str(directory)]
        (log,) = discover(paths).logs
        segments = (
            (
                segment,
                SegmentValidation(
                    read_file(segment.path),
                    base_offset=segment.base_offset,
                    sealed=log.is_sealed(segment),
                    file="f",
                    next_base_offset=log.next_base_offset(segment),
                ),
            )
            for segment in log.segments
        )
        return list(check_log(log, segments, read_file, rules=rules))

    return say


def rules_of(findings: list[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


def test_a_log_with_everything_beside_it_as_it_should_be_gives_no_finding(files: Files, said: Say) -> None:
    assert said(files) == []


@pytest.mark.parametrize(
    "index",
    [
        b"",
        aborted(1, 1, 3, 2),
        aborted(1, 0, 3, 4),
        aborted(2, 0, 3, 2),
        aborted(1, 0, 2, 2),
        aborted(1, 0, 3, 2) + aborted(9, 0, 5, 2),
    ],
    ids=["missing", "first offset", "last stable offset", "producer", "marker", "one too many"],
)
def test_a_transaction_index_that_differs_from_the_log_is_reported_once(files: Files, said: Say, index: bytes) -> None:
    findings = said(files | {name(0, ".txnindex"): index})
    assert rules_of(findings) == ["transaction-index-differs"]
    assert str(findings[0].file).endswith(name(0, ".txnindex"))


def test_a_transaction_index_that_cannot_be_read_is_corrupt_and_not_compared(files: Files, said: Say) -> None:
    assert rules_of(said(files | {name(0, ".txnindex"): b"\x00\x07" + bytes(31) + b"\x01"})) == ["corrupt-index"]


def test_aborts_without_any_transaction_index_are_reported(files: Files, said: Say) -> None:
    del files[name(0, ".txnindex")]
    (finding,) = said(files)
    assert (finding.rule, finding.start_offset) == ("transaction-index-differs", 3)
    assert "has no transaction index" in finding.message


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (entry(1, 1, 1, delta=1, epoch=4), "producer epoch"),
        (entry(1, 2, 1, delta=1), "last sequence"),
        (entry(1, 1, 0, delta=1), "last offset"),
        (entry(1, 1, 1, delta=0), "offset delta"),
        (entry(1, 1, 1, delta=1, at=999), "timestamp"),
        (entry(1, 1, 1, delta=1, first=0), "current txn first offset"),
        (entry(7, 1, 1, delta=1), "there is no batch"),
    ],
)
def test_a_snapshot_that_is_not_what_the_batches_come_to_says_in_what(
    files: Files, said: Say, changed: bytes, told: str
) -> None:
    open_one = entry(2, 0, 2, first=2, coordinator=-1)
    (finding,) = said(files | {name(4, ".snapshot"): snapshot(changed, open_one)})
    assert finding.rule == "snapshot-differs"
    assert told in finding.message


def test_a_snapshot_may_have_forgotten_a_producer_unless_its_transaction_is_open(files: Files, said: Say) -> None:
    assert said(files | {name(4, ".snapshot"): snapshot(entry(2, 0, 2, first=2, coordinator=-1))}) == []


def test_a_snapshot_without_a_producer_whose_transaction_is_open_is_wrong(files: Files, said: Say) -> None:
    (finding,) = said(files | {name(4, ".snapshot"): snapshot(entry(1, 1, 1, delta=1))})
    assert "lacks producer 2" in finding.message


def test_brokers_of_0_11_took_a_marker_for_the_last_offset(files: Files, said: Say) -> None:
    old = snapshot(entry(1, 1, 3), entry(2, 0, 2, first=2, coordinator=-1))
    assert said(files | {name(4, ".snapshot"): old}) == []


def test_brokers_of_1_0_left_the_timestamp_of_the_last_data(said: Say) -> None:
    """There a marker does not move a producer's last timestamp; in every other version it does."""
    ended = handmade.marker(2, handmade.COMMIT, producer_id=1, base_timestamp=5000)
    batches = {name(0): transactional(1, 0, 2, 0) + ended, name(3): plain(3, 7)}
    for at, expected in ((5000, []), (1000, []), (1001, ["snapshot-differs"])):
        beside = {name(3, ".snapshot"): snapshot(entry(1, 1, 1, delta=1, at=at))}
        assert rules_of(said(batches | beside)) == expected


def test_a_snapshot_that_cannot_be_used_is_reported(files: Files, said: Say) -> None:
    broken = handmade.flip(files[name(4, ".snapshot")], 20)
    assert rules_of(said(files | {name(4, ".snapshot"): broken})) == ["broken-snapshot"]


def test_a_snapshot_that_cannot_be_used_is_reported_after_damage_too(files: Files, said: Say) -> None:
    broken = handmade.flip(files[name(10, ".snapshot")], 20)
    torn = files[name(4)] + handmade.flip(plain(10), 40) + plain(12)[:-1]
    assert "broken-snapshot" in rules_of(said(files | {name(4): torn, name(10, ".snapshot"): broken}))


def test_a_log_that_begins_inside_a_transaction_goes_on_from_its_snapshot(files: Files, said: Say) -> None:
    later = {file: content for file, content in files.items() if not file.startswith(name(0)[:20])}
    assert said(later) == []
    later[name(10, ".snapshot")] = snapshot(entry(1, 3, 6, delta=1, first=5), entry(2, 0, 1))
    assert rules_of(said(later)) == ["snapshot-differs"]


def test_without_a_snapshot_at_its_beginning_a_log_proves_nothing_about_producers(files: Files, said: Say) -> None:
    later = {name(4): files[name(4)], name(10, ".snapshot"): snapshot(entry(5, 9, 9))}
    assert said(later) == []


def test_a_gap_is_a_loss_between_segments_and_inside_of_one(files: Files, said: Say) -> None:
    findings = said({name(0): plain(0), name(6): plain(6) + plain(10), name(20): b""})
    assert [(f.rule, f.start_offset, f.end_offset) for f in findings if f.end_offset] == [
        ("missing-offsets", 2, 6),
        ("missing-offsets", 8, 10),
        ("missing-offsets", 12, 20),
    ]


def test_offsets_missing_before_the_first_batch_are_a_loss(said: Say) -> None:
    assert rules_of(said({name(0): plain(3, 7)})) == ["missing-offsets"]


@pytest.mark.parametrize("given", [{"cleaner": 8}, {"rules": GapRules(compacted_by_policy=True)}])
def test_gaps_that_cleaning_explains_are_no_finding(said: Say, given) -> None:
    assert said({name(0): plain(0) + plain(8)}, **given) == []


def test_a_cleaned_batch_explains_the_gaps_below_it_and_not_those_above(said: Say) -> None:
    thin = handmade.batch([handmade.record(0), handmade.record(3)], base_offset=4, last_offset_delta=3)
    findings = said({name(0): plain(0) + thin + plain(9, 1)}, rules=GapRules(cleaned_below=lambda: 4))
    assert [(f.rule, f.start_offset) for f in findings] == [("missing-offsets", 8)]


def test_a_gap_after_damage_is_not_reported_again(said: Say) -> None:
    assert said({name(0): plain(0) + handmade.flip(plain(2), 40) + plain(4, 6)}) == []


def test_an_index_is_asked_only_for_markers_where_the_log_was_cleaned(files: Files, said: Say) -> None:
    thin = handmade.batch([handmade.record(0)], base_offset=0, last_offset_delta=1)
    cleaned = thin + handmade.marker(3, handmade.ABORT, producer_id=1)
    given = {"replication": 4, "cleaner": 4}
    assert said({name(0): cleaned, name(0, ".txnindex"): aborted(1, 0, 3, 2)}, **given) == []
    other = {name(0): cleaned, name(0, ".txnindex"): aborted(8, 0, 3, 2)}
    assert rules_of(said(other, **given)) == ["transaction-index-differs"]


def test_batches_of_another_epoch_than_in_the_checkpoint_are_reported_once_per_run(files: Files, said: Say) -> None:
    batches = plain(0) + plain(2, leader_epoch=5) + plain(4, leader_epoch=5) + plain(6, 4, leader_epoch=6)
    findings = said({name(0): batches, "leader-epoch-checkpoint": epochs((0, 0), (6, 6))})
    assert [(f.rule, f.start_offset, f.end_offset) for f in findings] == [("leader-epoch-differs", 2, 4)]


def test_epochs_below_the_first_entry_of_the_checkpoint_are_reported_once_as_unproven(said: Say) -> None:
    batches = plain(0, leader_epoch=3) + plain(2, 8, leader_epoch=5) + plain(4, 8, leader_epoch=6)
    (finding,) = said({name(0): batches, "leader-epoch-checkpoint": epochs((6, 4))})
    assert (finding.rule, finding.severity) == ("leader-epochs-unproven", "info")
    assert (finding.file or "").endswith("orders-0/leader-epoch-checkpoint")


def test_a_segment_that_begins_in_a_lower_epoch_is_a_regression(said: Say) -> None:
    batches = {name(0): plain(0, leader_epoch=4), name(2): plain(2, 8, leader_epoch=3)}
    findings = said(batches | {"leader-epoch-checkpoint": epochs((9, 10))})
    assert rules_of(findings) == ["leader-epochs-unproven", "leader-epoch-regression"]


@pytest.mark.parametrize(("sequence", "told"), [(3, "a gap"), (1, "written before"), (0, "written before")])
def test_a_sequence_that_does_not_follow_is_a_gap_or_a_duplicate(said: Say, sequence: int, told: str) -> None:
    batches = transactional(1, 0, 2, 0, attributes=0) + transactional(1, 2, 8, sequence, attributes=0)
    (finding,) = said({name(0): batches})
    assert finding.rule == "producer-sequence"
    assert told in finding.message


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__share_group_state", "__transaction_state"])
def test_what_a_coordinator_appends_needs_no_sequence(said: Say, topic: str) -> None:
    """Each transactional offset commit is a batch with base sequence 0."""
    commits = (
        transactional(1, 0, 2, 0) + transactional(1, 2, 8, 0) + handmade.marker(10, handmade.COMMIT, producer_id=1)
    )
    assert said({name(0): commits}, topic=topic, replication=11) == []
    assert rules_of(said({name(0): commits}, replication=11)) == ["producer-sequence"]


def test_a_sequence_that_wraps_or_restarts_with_an_epoch_is_valid(said: Say) -> None:
    wrapped = transactional(1, 0, 2, 2**31 - 2, attributes=0) + transactional(1, 2, 2, 0, attributes=0)
    restarted = transactional(1, 4, 6, 0, attributes=0, producer_epoch=1)
    assert said({name(0): wrapped + restarted}) == []


def test_a_lower_producer_epoch_is_reported(said: Say) -> None:
    batches = transactional(1, 0, 2, 0, producer_epoch=2) + handmade.marker(2, 1, producer_id=1, producer_epoch=1)
    assert rules_of(said({name(0): batches}, replication=3)) == ["producer-epoch-regression"]


@pytest.mark.parametrize("given", [{"recovery_point": 11}, {"cleaner": 11}, {"log_start": 11}])
def test_a_checkpoint_beyond_the_log_end_is_reported_as_a_possible_cut(files: Files, said: Say, given) -> None:
    assert rules_of(said(files, **given)) == ["checkpoint-beyond-log-end"]


def test_what_ends_exactly_at_the_log_end_is_right(files: Files, said: Say) -> None:
    assert said(files, recovery_point=10, cleaner=10, log_start=10) == []


def test_a_log_cut_between_two_batches_is_reported_by_every_file_that_names_a_later_offset(
    files: Files, said: Say
) -> None:
    cut = files | {name(4): SECOND[: -len(plain(7, 3))], "leader-epoch-checkpoint": epochs((0, 0), (1, 8))}
    findings = said(cut)
    assert [(f.rule, f.end_offset) for f in findings] == [
        ("checkpoint-beyond-log-end", 10),
        ("checkpoint-beyond-log-end", 8),
        ("high-watermark-beyond-log-end", 10),
    ]


def test_files_named_one_by_one_are_not_compared_with_the_ends_of_the_whole_log(files: Files, said: Say) -> None:
    del files[name(4)]
    assert said(files, named=True) == []


def test_findings_of_one_rule_are_counted_beyond_a_hundred(said: Say) -> None:
    batches = b"".join(plain(4 * number) for number in range(103))
    findings = said({name(0): batches}, replication=410)
    assert len(findings) == 101
    assert "and 2 more" in findings[-1].message


def test_old_messages_are_in_no_transaction_and_have_no_epoch(said: Say) -> None:
    old = handmade.message_v0(0, b"k", b"v") + handmade.message_v1(1, 5, b"k", b"v") + plain(2, 8, leader_epoch=1)
    assert said({name(0): old, "leader-epoch-checkpoint": epochs((1, 2))}) == []


def test_epochs_without_a_checkpoint_to_compare_with_are_information(files: Files, said: Say) -> None:
    (finding,) = said(files | {"leader-epoch-checkpoint": epochs()})
    assert (finding.rule, finding.severity) == ("leader-epochs-unproven", "info")
    assert said({name(0): plain(0, 10, leader_epoch=-1), "leader-epoch-checkpoint": epochs()}) == []


def test_a_transaction_index_with_half_an_entry_is_information(files: Files, said: Say) -> None:
    index = files[name(0, ".txnindex")] + b"half"
    assert rules_of(said(files | {name(0, ".txnindex"): index})) == ["index-partial-entry"]


def test_a_log_that_ends_below_its_high_watermark_names_how_many_offsets_are_missing(said: Say) -> None:
    (finding,) = said({name(0): plain(0, 9)})  # the high watermark is 10
    assert finding.rule == "high-watermark-beyond-log-end"
    said_first = "the log ends at offset 9; committed offsets from there on are missing: 1. replication-offset-"
    assert finding.message.startswith(said_first)  # and the times of both files
