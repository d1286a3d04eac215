"""What lies at some paths: logs as values, and one clear finding for each thing that is none."""

import errno
import os
from pathlib import Path

import pytest

from logcore.logs.model.findings import Severity, exit_code
from logcore.segments.filenames import DirectoryKind
from logcore.segments.side_files.leader_epochs import EpochEntry
from logcore.storage.discovery import discover
from tests.unit.logcore.storage.partition_folder import BATCH, TOPIC_ID, UUID, only, only_log, rules, segment


def test_a_log_directory_is_seen_with_all_its_state(root: Path) -> None:
    discovery = discover([str(root)])
    log = only_log(discovery)
    assert discovery.findings == ()
    assert (str(log.topic_partition), log.kind, log.directory) == ("orders-0", DirectoryKind.LIVE, f"{root}/orders-0")
    assert (log.topic_id, log.cluster_id) == (TOPIC_ID, "QM1ixpRfs9zYMm7bMXWL6A")
    assert log.high_watermark == 99
    assert (log.log_start_offset, log.cleaner_checkpoint) == (17, 40)
    assert log.leader_epochs == (EpochEntry(0, 0), EpochEntry(3, 40))
    assert [file.base_offset for file in log.segments] == [0, 40, 100]
    assert [log.is_sealed(file) for file in log.segments] == [True, True, False]
    assert [log.next_base_offset(file) for file in log.segments] == [40, 100, None]
    assert not log.named_files


def test_a_segment_is_seen_with_size_time_and_inode(root: Path) -> None:
    path = root / "orders-0" / "00000000000000000040.log"
    os.utime(path, ns=(1_700_000_000_999_999_999,) * 2)
    file = only_log(discover([str(root)])).segments[1]
    assert (file.path, file.size) == (str(path), len(BATCH))
    assert (file.modified_ms, file.inode) == (1_700_000_000_999, path.stat().st_ino)


def test_a_partition_directory_finds_the_state_beside_it(root: Path) -> None:
    assert only_log(discover([f"{root}/orders-0"])) == only_log(discover([str(root)]))


def test_a_partition_directory_may_be_named_from_within(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "orders-0")
    log = only_log(discover(["."]))
    assert (str(log.topic_partition), log.high_watermark) == ("orders-0", 99)


@pytest.mark.parametrize("again", ["", "/", "/orders-0", "/orders-0/00000000000000000040.log"])
def test_what_is_named_twice_is_taken_once(root: Path, again: str) -> None:
    assert len(discover([str(root), f"{root}{again}"]).logs) == 1
    assert len(discover([f"{root}{again}", str(root)]).logs) == 1


def test_the_same_topic_partition_in_two_directories_comes_twice(root: Path, tmp_path: Path) -> None:
    segment(tmp_path / "other" / "orders-0")
    (tmp_path / "other" / "replication-offset-checkpoint").write_text("0\n0\n")
    logs = discover([str(root), str(tmp_path / "other")]).logs
    assert [str(log.topic_partition) for log in logs] == ["orders-0", "orders-0"]
    assert [log.high_watermark for log in logs] == [99, 0]


def test_a_log_directory_named_like_a_partition_is_known_by_its_content(tmp_path: Path) -> None:
    root = tmp_path / "kafka-logs-1"
    segment(root / "orders-0")
    assert str(only_log(discover([str(root)])).topic_partition) == "orders-0"


def test_a_named_file_is_a_log_of_its_own_that_knows_what_follows(root: Path) -> None:
    log = only_log(discover([f"{root}/orders-0/00000000000000000040.log"]))
    assert log.named_files
    assert [file.base_offset for file in log.segments] == [40]
    assert log.is_sealed(log.segments[0])
    assert log.high_watermark == 99
    last = only_log(discover([f"{root}/orders-0/00000000000000000100.log"]))
    assert not last.is_sealed(last.segments[0])


def test_files_named_one_by_one_are_one_log(root: Path) -> None:
    log = only_log(discover([f"{root}/orders-0/00000000000000000040.log", f"{root}/orders-0/00000000000000000000.log"]))
    assert [file.base_offset for file in log.segments] == [0, 40]


def test_a_named_file_outside_of_a_partition_directory_has_no_topic(tmp_path: Path) -> None:
    discovery = discover([str(segment(tmp_path / "somewhere"))])
    assert discovery.logs == ()
    assert rules(discovery) == ["illegal-topic-name"]


@pytest.mark.parametrize("content", [None, ""])
def test_without_high_watermarks_nothing_is_known_and_that_is_reported(root: Path, content: str | None) -> None:
    path = root / "replication-offset-checkpoint"
    path.unlink() if content is None else path.write_text(content)
    discovery = discover([str(root)])
    log = only_log(discovery)
    assert log.high_watermark is None
    assert only(discovery, "no-high-watermark").severity is Severity.WARNING
    assert exit_code(discovery.findings) == 1


def test_a_missing_high_watermark_file_is_reported_once_for_many_logs(root: Path) -> None:
    (root / "replication-offset-checkpoint").unlink()
    segment(root / "orders-1", 0, b"")
    assert rules(discover([str(root)])) == ["no-high-watermark"]


@pytest.mark.parametrize(
    ("recovery_points", "is_clean", "is_named"),
    [("0\n1\norders 0 100\n", False, True), ("0\n0\n", True, True), ("0\n1\norders 0 0\n", False, False)],
)
def test_a_checkpoint_without_the_partitions_line_means_zero(
    root: Path, recovery_points: str, is_clean: bool, is_named: bool
) -> None:
    (root / "replication-offset-checkpoint").write_text("0\n1\npayments 0 99\n")
    (root / "recovery-point-offset-checkpoint").write_text(recovery_points)
    if is_clean:
        (root / ".kafka_cleanshutdown").touch()
    discovery = discover([str(root)])
    assert only_log(discovery).high_watermark == 0
    said = [(each.rule, each.file) for each in discovery.findings if "no line for the log" in each.message]
    assert said == ([("no-high-watermark", f"{root}/orders-0")] if is_named else [])
    for path in (root / "orders-0").glob("*.log"):
        path.write_bytes(b"")  # nothing is hidden
    assert "no-high-watermark" not in rules(discover([str(root)]))


@pytest.mark.parametrize("content", ["0\n9\norders 0 99\n", "garbage", "0\n1\norders 0 -1\n"])
def test_a_broken_high_watermark_file_counts_as_absent(root: Path, content: str) -> None:
    (root / "replication-offset-checkpoint").write_text(content)
    discovery = discover([str(root)])
    assert only_log(discovery).high_watermark is None
    assert rules(discovery) == ["broken-root-file", "no-high-watermark"]
    assert only(discovery, "broken-root-file").file == f"{root}/replication-offset-checkpoint"


@pytest.mark.parametrize(
    ("name", "attribute", "absent"),
    [
        ("log-start-offset-checkpoint", "log_start_offset", 0),
        ("cleaner-offset-checkpoint", "cleaner_checkpoint", None),
        ("meta.properties", "cluster_id", None),
    ],
)
@pytest.mark.parametrize("injury", ["missing", "broken", "directory", "link"])
def test_each_root_file_may_be_missing_or_broken(
    root: Path, tmp_path: Path, name: str, attribute: str, absent: int | None, injury: str
) -> None:
    path = root / name
    content = path.read_text()
    path.unlink()
    match injury:
        case "broken":
            path.write_text("broken")
        case "directory":
            path.mkdir()
        case "link":
            (tmp_path / "elsewhere").write_text(content)
            path.symlink_to(tmp_path / "elsewhere")
    discovery = discover([str(root)])
    assert getattr(only_log(discovery), attribute) == absent
    if name == "meta.properties":
        assert rules(discovery) == ["no-meta-properties"]
    else:
        assert rules(discovery) == ([] if injury == "missing" else ["broken-root-file"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "{root} has checkpoint files and no meta.properties."),
        ("", "{root}/meta.properties cannot be used: meta.properties states no version, or one newer than 1."),
        ("version=1\ncluster.id=QM1ix\n", "{root}/meta.properties states no node.id."),
        ("version=1\n", "{root}/meta.properties states no cluster.id and no node.id."),
        ("version=0\n", "{root}/meta.properties states no broker.id."),
    ],
)
def test_a_log_directory_whose_properties_are_lost_or_cut_is_named_once(
    root: Path, content: str | None, said: str
) -> None:
    segment(root / "orders-1")
    path = root / "meta.properties"
    path.unlink() if content is None else path.write_text(content)
    discovery = discover([str(root)])
    finding = only(discovery, "no-meta-properties")
    assert (finding.message, finding.severity) == (said.format(root=root), Severity.WARNING)
    assert len(discovery.logs) == 2


def test_properties_are_missed_only_where_a_broker_writes_them(root: Path) -> None:
    (root / "meta.properties").unlink()
    (root / "log-start-offset-checkpoint").unlink()
    for name in ("leader-epoch-checkpoint", "partition.metadata"):  # a broker of 0.8 writes none of these
        assert rules(discover([str(root)])) == ["no-meta-properties"]
        (root / "orders-0" / name).unlink()
    assert rules(discover([str(root)])) == []
    (root / "meta.properties").write_text("version=0\nbroker.id=0\n")
    assert rules(discover([str(root)])) == []


def test_properties_are_missed_beside_several_logs_but_not_beside_one(root: Path) -> None:
    for path in root.glob("*.*"):
        path.unlink()
    for path in root.glob("*-checkpoint"):
        path.unlink()
    assert rules(discover([str(root)])) == ["no-high-watermark"]
    segment(root / "orders-1")
    assert rules(discover([str(root)])) == ["no-high-watermark", "broken-partition-file"]
    (root / "orders-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    assert rules(discover([str(root)])) == ["no-high-watermark", "no-meta-properties"]
    assert "no-meta-properties" not in rules(discover([f"{root}/orders-0", f"{root}/orders-1"]))


def test_the_message_about_what_is_no_file_is_not_about_its_name() -> None:
    finding = only(discover(["/dev/null"], any_name=True), "not-a-segment")
    assert finding.message == "/dev/null is not a segment: it is not a regular file; it is not opened."


def test_an_empty_checkpoint_states_nothing(root: Path) -> None:
    (root / "log-start-offset-checkpoint").write_text("")
    (root / "cleaner-offset-checkpoint").write_text("")
    log = only_log(discover([str(root)]))
    assert (log.log_start_offset, log.cleaner_checkpoint) == (0, None)


def test_the_log_never_starts_below_its_first_segment(root: Path) -> None:
    (root / "orders-0" / "00000000000000000000.log").unlink()
    assert only_log(discover([str(root)])).log_start_offset == 40


@pytest.mark.parametrize("properties", [None, "version=0\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nbroker.id=1\n"])
def test_a_log_of_an_old_broker_has_no_topic_id(root: Path, properties: str | None) -> None:
    (root / "orders-0" / "partition.metadata").unlink()
    (root / "meta.properties").unlink() if properties is None else (root / "meta.properties").write_text(properties)
    discovery = discover([str(root)])
    log = only_log(discovery)
    assert (log.topic_id, log.broken_identity) == (None, False)
    assert "broken-partition-file" not in rules(discovery)


@pytest.mark.parametrize("evidence", ["another log", "KRaft"])
@pytest.mark.parametrize("named", ["", "/orders-0"])
def test_a_log_without_the_topic_id_that_its_broker_writes_is_named(root: Path, evidence: str, named: str) -> None:
    path = root / "orders-0" / "partition.metadata"
    segment(root / "payments-0")
    if evidence == "another log":
        (root / "meta.properties").write_text("version=0\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nbroker.id=1\n")
        (root / "payments-0" / path.name).write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    else:
        (root / "payments-0" / f"{0:020d}.log").write_bytes(b"")  # a new log gets its file with its first records
    path.unlink()
    finding = only(discover([f"{root}{named}"]), "broken-partition-file")
    assert (finding.file, finding.severity) == (str(path), Severity.WARNING)
    assert "stray" in finding.message


def test_an_unreadable_topic_id_is_not_the_same_as_none(root: Path) -> None:
    (root / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: ?")
    discovery = discover([str(root)])
    assert (only_log(discovery).topic_id, only_log(discovery).broken_identity) == (None, True)
    assert rules(discovery) == ["broken-partition-file"]


def test_broken_leader_epochs_leave_the_log_readable(root: Path) -> None:
    (root / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n5 0\n3 40\n")
    discovery = discover([str(root)])
    assert only_log(discovery).leader_epochs == ()
    assert not only_log(discovery).broken_identity
    assert rules(discovery) == ["broken-partition-file"]


@pytest.mark.parametrize("kind", ["delete", "future", "stray"])
def test_directories_out_of_use_are_listed_and_set_aside(root: Path, kind: str) -> None:
    segment(root / f"orders-1.{UUID}-{kind}")
    discovery = discover([str(root)])
    assert [str(log.topic_partition) for log in discovery.logs] == ["orders-0"]
    assert [(str(log.topic_partition), log.kind) for log in discovery.set_aside] == [("orders-1", DirectoryKind(kind))]
    assert rules(discovery) == [f"{kind}-directory"]
    assert exit_code(discovery.findings) == 0


def test_leftovers_are_counted_and_are_no_segments(root: Path) -> None:
    for suffix in ("log.deleted", "index.deleted", "log.cleaned", "log.swap"):
        (root / "orders-0" / f"00000000000000000007.{suffix}").write_bytes(BATCH)
    discovery = discover([str(root)])
    assert [file.base_offset for file in only_log(discovery).segments] == [0, 40, 100]
    assert "4 files" in only(discovery, "leftover-file").message
    assert exit_code(discovery.findings) == 0


@pytest.mark.parametrize("name", ["server.log", "0.log", "000000000000000000000.log"])
def test_a_log_file_that_is_named_by_no_offset_is_no_segment(root: Path, name: str) -> None:
    (root / "orders-0" / name).write_bytes(BATCH)
    discovery = discover([str(root)])
    assert len(only_log(discovery).segments) == 3
    assert only_log(discovery).unreadable == ()
    assert only(discovery, "not-a-segment").file == f"{root}/orders-0/{name}"
    assert exit_code(discovery.findings) == 3


def test_log_files_of_the_broker_itself_in_the_log_directory_do_not_matter(root: Path) -> None:
    (root / "server.log").write_text("INFO started")
    assert rules(discover([str(root)])) == []


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "dangling link"])
def test_what_is_named_like_a_segment_and_is_no_file_leaves_a_hole_that_is_known(
    root: Path, tmp_path: Path, kind: str
) -> None:
    path = root / "orders-0" / "00000000000000000040.log"
    path.unlink()
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(segment(tmp_path / "elsewhere"))
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
    discovery = discover([str(root)])
    log = only_log(discovery)
    assert [file.base_offset for file in log.segments] == [0, 100]
    assert log.unreadable == (40,)
    assert log.next_base_offset(log.segments[0]) == 100
    assert rules(discovery) == ["not-a-segment"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_an_unreadable_segment_is_reported_and_the_rest_continues(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    # Permission bits do not stop root, which tests may run as: the refusal itself is injected.
    real = os.open

    def refuse(path: str, *arguments: int, **options: int) -> int:
        if str(path).endswith("00000000000000000100.log"):
            raise OSError(code, os.strerror(code), path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    discovery = discover([str(root)])
    log = only_log(discovery)
    assert [file.base_offset for file in log.segments] == [0, 40]
    assert log.unreadable == (100,)
    assert log.is_sealed(log.segments[1]), "a later segment follows, read or not"
    assert os.strerror(code) in only(discovery, "unreadable").message
    assert exit_code(discovery.findings) == 3


def test_an_unreadable_directory_is_reported_and_the_rest_continues(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(root / "payments-0")
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("orders-0"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    discovery = discover([str(root)])
    assert str(only_log(discovery).topic_partition) == "payments-0"
    assert only(discovery, "unreadable").file == f"{root}/orders-0"


@pytest.mark.parametrize("name", ["or ders-0", "..x@-1", "a" * 250 + "-0", "new\nline-0", "orders-99999999999", 'q"-0'])
def test_an_illegal_topic_is_reported_and_left_alone(root: Path, name: str) -> None:
    segment(root / name)
    discovery = discover([str(root)])
    assert str(only_log(discovery).topic_partition) == "orders-0"
    finding = only(discovery, "illegal-topic-name")
    assert finding.file is not None
    assert finding.file.isprintable()
    assert finding.message.isprintable()
    assert exit_code(discovery.findings) == 3


def test_a_name_that_is_no_text_still_makes_a_finding_that_is(root: Path) -> None:
    os.mkdir(os.fsencode(root) + b"/\xff-0")
    finding = only(discover([str(root)]), "illegal-topic-name")
    assert finding.message.encode()


def test_other_directories_of_a_log_directory_are_named(root: Path) -> None:
    (root / "lost+found").mkdir()  # of the file system
    (root / "backup").mkdir()
    (root / "remote-log-index-cache").mkdir()
    finding = only(discover([str(root)]), "unknown-directory")
    assert finding.file == f"{root}/backup"


def test_a_file_that_is_named_like_a_partition_is_not_entered(root: Path) -> None:
    (root / "payments-0").write_text("")
    discovery = discover([str(root)])
    assert len(discovery.logs) == 1
    assert only(discovery, "unreadable").file == f"{root}/payments-0"


def test_a_partition_directory_without_segments_is_a_log_without_segments(root: Path) -> None:
    (root / "empty-0").mkdir()
    discovery = discover([str(root)])
    assert [len(log.segments) for log in discovery.logs] == [0, 3]
    assert only(discovery, "no-segments").severity is Severity.WARNING


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda path: None, "path-not-found"),
        (lambda path: path.mkdir(), "empty-directory"),
        (lambda path: (path.mkdir(), (path / "notes.txt").touch()), "not-a-log-directory"),
        (lambda path: path.write_text("text"), "not-a-segment"),
        (lambda path: os.mkfifo(path), "not-a-segment"),
        (lambda path: path.symlink_to("nowhere"), "unreadable"),
        (lambda path: segment(path), "illegal-topic-name"),
    ],
)
def test_a_path_that_is_no_log_makes_one_finding_and_the_rest_continues(
    root: Path, tmp_path: Path, make: object, rule: str
) -> None:
    path = tmp_path / "thing"
    make(path)  # type: ignore[operator]
    discovery = discover([str(path), str(root)])
    assert len(discovery.logs) == 1
    assert rules(discovery) == [rule]
    assert discovery.findings[0].file == str(path)
    assert exit_code(discovery.findings) == 3


@pytest.mark.parametrize("path", ["", "a\0b", "/dev/null/x"])
def test_an_impossible_path_is_not_found(path: str) -> None:
    assert rules(discover([path])) == ["path-not-found"]


def test_a_device_is_no_segment() -> None:
    assert rules(discover(["/dev/zero"])) == ["not-a-segment"]


def test_a_segment_above_two_gibibytes_is_reported(root: Path) -> None:
    os.truncate(root / "orders-0" / "00000000000000000100.log", 2**31)
    discovery = discover([str(root)])
    assert only_log(discovery).segments[-1].size == 2**31
    assert only(discovery, "oversized-segment").severity is Severity.WARNING


def test_looking_changes_nothing(root: Path) -> None:
    def state() -> list[tuple[str, int, int, int]]:
        return [(str(p), p.stat().st_mtime_ns, p.stat().st_size, p.stat().st_ino) for p in sorted(root.rglob("*"))]

    before = state()
    discover([str(root)])
    assert state() == before


def test_a_directory_whose_folders_are_only_named_like_partitions_is_one_finding(tmp_path):
    (tmp_path / "dbus-1" / "session.d").mkdir(parents=True)
    (tmp_path / "fonts").mkdir()
    (tmp_path / "polkit-1").mkdir()
    discovery = discover([str(tmp_path)])
    assert discovery.logs == ()
    assert [finding.rule for finding in discovery.findings] == ["not-a-log-directory"]
