"""Directories of a log directory that have segments and no partition's name: what is said of them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.logs.model.findings import Severity
from logcore.storage.discovery import discover
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.unit.logcore.storage.partition_folder import only, rules, segment


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    made = LogDirectory(tmp_path / "kafka-logs")
    for number in range(2):
        made.partition(f"orders-{number}").append(5)
    made.high_watermarks(orders_0=5, orders_1=5)
    return made


@pytest.mark.parametrize(
    "name", ["orders", "orders-0.bak", "orders-0 (copy)", "old/orders-0", "orders-0~", "orders-00"]
)
def test_a_log_of_a_checkpoint_under_another_name_is_a_warning_whose_command_mends_it(
    source: LogDirectory, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (source.path / name).parent.mkdir(exist_ok=True)
    (source.path / "orders-0").rename(source.path / name)
    finding = only(discover([str(source.path)]), "unread-segments")
    assert finding.severity is Severity.WARNING
    assert "A checkpoint names orders-0, of which there is no directory." in finding.message
    for command in ("ls", "verify", "ledger"):
        assert main([command, str(source.path)]) == 1
        printed = capsys.readouterr()
        assert "warning unread-segments: " in printed.out + printed.err
    assert main(["ledger", str(source.path), "--topic", "orders"]) == 1
    subprocess.run(shlex.split(finding.message.split("`")[1]), check=True)
    discovery = discover([str(source.path)])
    assert [str(log.topic_partition) for log in discovery.logs] == ["orders-0", "orders-1"]
    assert "unread-segments" not in rules(discovery)


@pytest.mark.parametrize(
    ("name", "where"), [("orders-0.bak", ""), ("old", ""), ("old/orders-0", ", in {}/old/orders-0")]
)
def test_segments_of_no_absent_log_are_information(source: LogDirectory, name: str, where: str) -> None:
    segment(source.path / name)
    discovery = discover([str(source.path)])
    finding = only(discovery, "unread-segments")
    assert finding.severity is Severity.INFO
    assert finding.message.endswith(f"it is not read, although it has segments{where.format(source.path)}.")
    assert "unknown-directory" not in rules(discovery)


@pytest.mark.parametrize(("program", "suffix"), [("gzip", "gz"), ("xz", "xz"), ("bzip2", "bz2")])
def test_a_packed_segment_beside_others_is_an_error_whose_command_unpacks_it(
    source: LogDirectory, program: str, suffix: str
) -> None:
    orders = source.path / "orders-0"
    second = segment(orders, 5, handmade.simple_batch(5, [(b"k", b"v")]))
    content = second.read_bytes()
    subprocess.run([program, second], check=True)
    finding = only(discover([str(source.path)]), "not-a-segment")
    assert f"{second}.{suffix} is a packed segment; it is not read." in finding.message
    subprocess.run(["bash", "-c", finding.message.split("`")[1]], check=True)
    assert second.read_bytes() == content
    discovery = discover([str(source.path)])  # the packed file is still there
    assert rules(discovery) == []
    assert [len(log.segments) for log in discovery.logs] == [2, 1]


def test_a_name_that_may_be_that_of_several_logs_gets_no_command(source: LogDirectory) -> None:
    source.partition("payments-0").append(1)
    source.high_watermarks(orders_0=5, orders_1=5, payments_0=1)
    (source.path / "orders-0").rename(source.path / "orders")
    (source.path / "orders-1").rename(source.path / "away")
    unread = [finding for finding in discover([str(source.path)]).findings if finding.rule == "unread-segments"]
    assert [finding.severity for finding in unread] == [Severity.INFO, Severity.WARNING]
    assert unread[1].message.endswith("A checkpoint names orders-0, orders-1, of which there is no directory.")


@pytest.mark.parametrize("name", [None, "payments-3"])
def test_a_log_that_a_checkpoint_names_and_that_is_gone_is_a_warning_of_every_command(
    source: LogDirectory, name: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if name is None:
        shutil.rmtree(source.path / "orders-0")
    else:
        (source.path / "orders-0").rename(source.path / name)
    finding = only(discover([str(source.path)]), "log-directory-missing")
    assert finding.severity is Severity.WARNING
    assert finding.file == str(source.path / "orders-0")
    file = source.path / "replication-offset-checkpoint"
    assert finding.message == f"{file} names orders-0 (with offsets up to 5). There is no such directory."
    for command in ("ls", "verify", "ledger", "transactions", "dump"):
        assert main([command, str(source.path)]) == 1
        printed = capsys.readouterr()
        assert "warning log-directory-missing: " in printed.out + printed.err


@pytest.mark.parametrize("left", ["deleted", "on another disk", "without records", "one of it is named"])
def test_a_log_that_is_nowhere_missed_is_no_finding(source: LogDirectory, left: str, tmp_path: Path) -> None:
    paths = [str(source.path)]
    if left == "deleted":
        (source.path / "orders-0").rename(source.path / f"orders-0.{'a' * 32}-delete")
    elif left == "on another disk":
        LogDirectory(tmp_path / "disk2")
        (source.path / "orders-0").rename(tmp_path / "disk2" / "orders-0")
        paths.append(str(tmp_path / "disk2"))
    elif left == "without records":
        source.high_watermarks(orders_0=0, orders_1=5)
        shutil.rmtree(source.path / "orders-0")
    else:
        shutil.rmtree(source.path / "orders-0")
        paths = [str(source.path / "orders-1")]
    assert "log-directory-missing" not in rules(discover(paths))


@pytest.mark.parametrize("kind", ["future", "stray", "delete"])
@pytest.mark.parametrize("left", ["two logs", "its topic", "nothing"])
def test_a_log_that_is_only_a_directory_set_aside_is_a_warning_whose_command_mends_it(
    source: LogDirectory, kind: str, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source.checkpoint("recovery-point", orders_0=5, orders_1=5)
    aside = source.path / f"orders-0.{'a' * 32}-{kind}"
    (source.path / "orders-0").rename(aside)
    if left == "two logs":
        source.partition("payments-0").append(1)
    elif left == "nothing":
        shutil.rmtree(source.path / "orders-1")
        source.high_watermarks(orders_0=5)
        source.checkpoint("recovery-point", orders_0=5)
    finding = only(discover([str(source.path)]), "log-directory-missing")
    assert finding.severity is Severity.WARNING
    assert finding.file == str(source.path / "orders-0")
    assert f"recovery-point-offset-checkpoint names orders-0, which is only in {aside}" in finding.message
    assert "with offsets 0..5" in finding.message
    assert main(["verify", str(source.path)]) == 1
    assert "warning log-directory-missing: " in capsys.readouterr().out
    subprocess.run(shlex.split(finding.message.split("`")[1]), check=True)
    discovery = discover([str(source.path)])
    assert "orders-0" in [str(log.topic_partition) for log in discovery.logs]
    assert "log-directory-missing" not in rules(discovery)


@pytest.mark.parametrize(("size", "copies"), [(2, 1), (5, 2)])
def test_a_directory_set_aside_that_may_not_be_the_log_gets_no_command(
    source: LogDirectory, size: int, copies: int
) -> None:
    source.checkpoint("recovery-point", orders_0=5, orders_1=5)
    shutil.rmtree(source.path / "orders-0")
    for number in range(copies):
        source.partition(f"orders-0.{str(number) * 32}-stray").append(size)
    message = only(discover([str(source.path)]), "log-directory-missing").message
    assert f"with offsets 0..{size}" in message
    assert "`" not in message


def test_the_line_of_a_deleted_log_is_no_finding(source: LogDirectory) -> None:
    """A broker removes the recovery point of a log that it deletes; of its last log the high watermark stays."""
    for number in range(2):
        shutil.rmtree(source.path / f"orders-{number}")
        source.checkpoint("recovery-point", **({"orders_1": 5} if number == 0 else {}))
        assert not {"log-directory-missing", "log-lost"} & set(rules(discover([str(source.path)]))), number
    source.checkpoint("recovery-point", orders_0=7)
    finding = only(discover([str(source.path)]), "log-directory-missing")  # its topic may have been left out
    assert finding.severity is Severity.WARNING
    source.partition("orders-2").append(3)
    finding = only(discover([str(source.path)]), "log-lost")
    assert finding.severity is Severity.ERROR
    assert "recovery-point-offset-checkpoint names orders-0 (with offsets up to 7)" in finding.message


@pytest.mark.parametrize("name", ["orders-5.bak", "eu-orders-0.bak", "orders-00.bak"])
def test_a_copy_of_another_log_is_not_taken_for_the_missing_one(source: LogDirectory, name: str) -> None:
    (source.path / "orders-0").rename(source.path / name)
    found = discover([str(source.path)])
    assert only(found, "unread-segments").severity is Severity.INFO
    assert "mv " not in only(found, "unread-segments").message
    assert only(found, "log-directory-missing").severity is Severity.WARNING


def test_of_two_candidates_none_is_moved(source: LogDirectory) -> None:
    shutil.copytree(source.path / "orders-0", source.path / "orders-0.old")
    (source.path / "orders-0").rename(source.path / "orders-0.bak")
    said = [each.message for each in discover([str(source.path)]).findings if each.rule == "unread-segments"]
    assert len(said) == 2
    assert not any("mv " in each for each in said)


@pytest.mark.parametrize("number", ["000", "99999999999"])
def test_a_number_that_no_broker_writes_is_said_to_be_the_reason(source: LogDirectory, number: str) -> None:
    shutil.copytree(source.path / "orders-0", source.path / f"orders-{number}")
    message = only(discover([str(source.path)]), "illegal-topic-name").message
    assert message.endswith(f"is not read: no broker writes {number} as the number of a partition.")


def test_a_packed_partition_is_a_missing_one(source: LogDirectory) -> None:
    shutil.rmtree(source.path / "orders-0")
    (source.path / "orders-0.tar.gz").write_bytes(b"x")
    assert only(discover([str(source.path)]), "log-directory-missing").severity is Severity.WARNING


@pytest.mark.parametrize("name", ["81.log", "segment.log", f"{0:020d} (1).log", f"{0:020d}.LOG"])
def test_a_segment_under_another_name_has_the_command_that_gives_it_its_own(source: LogDirectory, name: str) -> None:
    log = source.path / "orders-0"
    right = log / f"{0:020d}.log"
    content = right.read_bytes()
    right.rename(log / name)
    message = only(discover([str(source.path)]), "not-a-segment").message
    [command] = re.findall(r"`(mv -n [^`]+)`", message)
    subprocess.run(command, shell=True, check=True)
    assert right.read_bytes() == content
    assert discover([str(source.path)]).findings == ()


@pytest.mark.parametrize("content", [b"", b"text", b"\0" * 100])
def test_no_rename_is_advised_for_what_begins_with_no_batch(source: LogDirectory, content: bytes) -> None:
    (source.path / "orders-0" / "81.log").write_bytes(content)
    assert "mv " not in only(discover([str(source.path)]), "not-a-segment").message


@pytest.mark.parametrize("is_relative", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_in_place_of_a_segment_is_named_with_the_command_that_brings_the_file(
    source: LogDirectory, tmp_path: Path, is_there: bool, is_relative: bool
) -> None:
    [path] = (source.path / "orders-0").glob("*.log")
    content, target = path.read_bytes(), tmp_path / "old disk" / path.name
    path.unlink()
    path.symlink_to(Path("../..", "old disk", path.name) if is_relative else target)
    target.parent.mkdir()
    if is_there:
        target.write_bytes(content)
    message = only(discover([str(source.path)]), "not-a-segment").message
    assert ("which is not there" in message) == (not is_there)
    target.write_bytes(content)
    subprocess.run(shlex.split(message.split("`")[1]), check=True)
    assert "not-a-segment" not in rules(discover([str(source.path)]))
    assert path.read_bytes() == content


def test_no_rename_is_advised_onto_a_segment_that_is_there(source: LogDirectory) -> None:
    log = source.path / "orders-0"
    (log / "81.log").write_bytes((log / f"{0:020d}.log").read_bytes())
    assert "mv " not in only(discover([str(source.path)]), "not-a-segment").message


@pytest.mark.parametrize(("kept", "odd"), [((0, 3), (1, 3)), ((1, 3), (0, 2)), ((2, 3), (0, 3))])
def test_no_rename_is_advised_for_a_file_with_offsets_that_a_segment_has(
    tmp_path: Path, kept: tuple[int, int], odd: tuple[int, int]
) -> None:
    """Numbers of batches of 5 records each."""
    made = LogDirectory(tmp_path / "kafka-logs")
    log = made.partition("orders-0")
    batches = [log.append(5) for _ in range(3)]
    made.high_watermarks(orders_0=15)
    log.segments()[0].unlink()
    (log.path / f"{5 * kept[0]:020d}.log").write_bytes(b"".join(batches[slice(*kept)]))
    (log.path / "part.log").write_bytes(b"".join(batches[slice(*odd)]))
    assert "mv " not in only(discover([str(made.path)]), "not-a-segment").message


def test_of_two_files_with_the_same_offsets_neither_is_advised_to_be_renamed(source: LogDirectory) -> None:
    log = source.path / "orders-0"
    segment = log / f"{0:020d}.log"
    (log / "copy of first.log").write_bytes(segment.read_bytes())
    segment.rename(log / "first.log")
    said = [each.message for each in discover([str(source.path)]).findings if each.rule == "not-a-segment"]
    assert len(said) == 2
    assert not any("mv " in each for each in said)


def test_each_of_several_renamed_segments_has_its_command(tmp_path: Path) -> None:
    made = LogDirectory(tmp_path / "kafka-logs")
    log = made.partition("orders-0")
    for _ in range(3):
        log.roll()
        log.append(5)
    made.high_watermarks(orders_0=15)
    for number, path in enumerate(log.segments()[:2]):
        path.rename(log.path / f"part {number}.log")
    for finding in discover([str(made.path)]).findings:
        subprocess.run(re.findall(r"`(mv -n [^`]+)`", finding.message)[0], shell=True, check=True)
    assert [path.name for path in log.segments()] == [f"{base:020d}.log" for base in (0, 5, 10)]
    assert discover([str(made.path)]).findings == ()


def in_segments(tmp_path: Path, **checkpoints: int) -> Path:
    """orders-0 with the segments 0, 10, 20, 30 of ten records each; keywords are its lines in the checkpoints."""
    made = LogDirectory(tmp_path / "in segments")
    log = made.partition("orders-0")
    for _ in range(4):
        log.roll()
        log.append(10)
    for name, offset in (
        {"replication": 40} | {name.replace("_", "-"): of for name, of in checkpoints.items()}
    ).items():
        made.checkpoint(name, orders_0=offset)
    return log.path


ASIDE = ["{}.log.bak", "{}.log.old", "{}.log.orig", "{}.log (copy)", "{}.log.1", "Copy of {}.log.bak", "{}.log~"]


@pytest.mark.parametrize("base", [0, 10, 30])
@pytest.mark.parametrize("name", [*ASIDE, "{}.log.deleted", "{}.log.cleaned", "{}.log.swap.bak"])
def test_a_segment_that_was_put_aside_is_named_with_the_command_that_brings_lost_offsets_back(
    tmp_path: Path, name: str, base: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = in_segments(tmp_path)
    segment = path / f"{base:020d}.log"
    whole = segment.read_bytes()
    segment.rename(path / name.format(segment.stem))
    found = [each for each in discover([str(path.parent)]).findings if each.rule == "not-a-segment"]
    assert f" has the offsets [{base}, {base + 10}), which no segment has. It is not read: " in found[0].message
    assert main(["verify", str(path.parent)]) == 3
    said = capsys.readouterr().out
    assert f"{base + 10})" in said
    assert re.search("What to do about (missing-offsets|high-watermark-beyond-log-end) of orders-0: `mv -n ", said)
    assert "o command brings" not in said
    [command] = re.findall(r"`(mv -n [^`]+)`", found[0].message)
    subprocess.run(command, shell=True, check=True)
    assert segment.read_bytes() == whole
    assert main(["verify", str(path.parent)]) == 0


def with_indexes(path: Path) -> None:
    """Empty offset indexes, as a broker leaves them for small segments."""
    for each in path.glob("*.log"):
        each.with_suffix(".index").touch()


@pytest.mark.parametrize(
    "names",
    [
        *({0: 5}, {10: 999}, {10: 25}, {20: 25}, {30: 999}, {10: 7}, {20: 15}, {30: 25}, {30: 5}),  # one; both ways
        *({10: 20, 20: 25}, {20: 10, 10: 5}),  # one has the name of another one
    ],
)
def test_segments_that_have_other_names_are_named_with_the_command_that_names_them_back(
    tmp_path: Path, names: dict[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = in_segments(tmp_path)
    with_indexes(path)
    right = {each.name: each.read_bytes() for each in path.glob("*.log")}
    for base in names:
        (path / f"{base:020d}.log").rename(path / f"{base}.aside")
    for base, name in names.items():
        (path / f"{base}.aside").rename(path / f"{name:020d}.log")
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    assert main(["verify", str(path.parent)]) != 0
    said = capsys.readouterr().out
    for base, name in names.items():
        wrong = path / f"{name:020d}.log"
        assert f"{wrong} has the batches from offset {base} on, and its name says {name}." in said
    assert "corrupt-bytes" not in said
    assert "No command" not in said
    [command] = set(re.findall(r"`(mv -n [^`]+)`", said))
    # A salvage would take its sound batches as damage.
    for source, out in ((path, "new/orders-0"), (path.parent, "new")):
        for words in (["recover", "--salvage"], ["recover"]):
            assert main([*words, str(source), "--out", str(tmp_path / out)]) == 3
            assert f"{command}`" in capsys.readouterr().err
    assert not (tmp_path / "new" / "orders-0").exists()
    assert {each.name: each.read_bytes() for each in path.iterdir()} == before
    subprocess.run(command, shell=True, check=True)
    assert {each.name: each.read_bytes() for each in path.glob("*.log")} == right
    for each in path.glob("*.index"):
        each.unlink()  # the warning about empty indexes is of another check
    assert main(["verify", str(path.parent)]) == 0


def test_a_segment_whose_name_may_be_right_is_read(tmp_path: Path) -> None:
    path = in_segments(tmp_path)
    with_indexes(path)
    # Cleaning removes the first batches of a segment.
    shutil.copy(path / f"{10:020d}.log", path / f"{7:020d}.log")
    (path / f"{10:020d}.log").unlink()
    (path / f"{10:020d}.index").rename(path / f"{7:020d}.index")
    (path / f"{20:020d}.log").unlink()
    assert "not-a-segment" not in rules(discover([str(path.parent)]))
    # The batches of the last segment lie in another one too: which of both has the wrong name?
    shutil.copy(path / f"{7:020d}.log", path / f"{999:020d}.log")
    assert "not-a-segment" not in rules(discover([str(path.parent)]))


def test_a_whole_log_that_was_put_aside_is_named_with_its_commands(tmp_path: Path) -> None:
    path = in_segments(tmp_path)
    for each in list(path.glob("*.log")):
        each.rename(f"{each}.deleted")
    said = [each.message for each in discover([str(path.parent)]).findings if each.rule == "not-a-segment"]
    for command in re.findall(r"`(mv -n [^`]+)`", " ".join(said)):
        subprocess.run(command, shell=True, check=True)
    assert len(list(path.glob("*.log"))) == len(said) == 4
    assert main(["verify", str(path.parent)]) == 0


@pytest.mark.parametrize("epochs", [[(0, 10)], [], None])
@pytest.mark.parametrize("name", ASIDE)
def test_a_kept_copy_of_a_segment_that_retention_deleted_is_no_error_and_has_no_command(
    tmp_path: Path, name: str, epochs: list[tuple[int, int]] | None
) -> None:
    path = in_segments(tmp_path)
    segment = path / f"{0:020d}.log"
    segment.rename(path / name.format(segment.stem))
    if epochs is None:
        (path / "leader-epoch-checkpoint").unlink()
    else:
        Partition(path).epochs(epochs)  # retention cuts them too
    found = [each for each in discover([str(path.parent)]).findings if each.rule == "not-a-segment"]
    assert [each.severity for each in found] == ([] if epochs else [Severity.INFO])
    assert not any("`" in each.message for each in found)
    assert main(["verify", str(path.parent)]) == 0
    # A broker writes this line while the log starts inside a segment.
    LogDirectory(path.parent).checkpoint("log-start", orders_0=5)
    lost = [each for each in discover([str(path.parent)]).findings if each.rule == "not-a-segment"]
    assert [(each.severity, "`mv -n " in each.message) for each in lost] == ([] if epochs else [(Severity.ERROR, True)])


@pytest.mark.parametrize("name", [*ASIDE, "{}.log.deleted", "{}.log.cleaned"])
def test_a_segment_that_was_put_aside_and_of_which_nothing_is_lost_is_no_finding(tmp_path: Path, name: str) -> None:
    path = in_segments(tmp_path)
    shutil.copy(path / f"{10:020d}.log", path / name.format(f"{10:020d}"))
    assert "not-a-segment" not in rules(discover([str(path.parent)]))
    for base, line in ((0, {"log_start": 10}), (30, {"replication": 30})):
        path = in_segments(tmp_path / f"at {base}", **line)
        segment = path / f"{base:020d}.log"
        segment.rename(path / name.format(segment.stem))
        assert "not-a-segment" not in rules(discover([str(path.parent)])), base


def test_segments_that_a_cleaned_one_replaces_are_not_lost(tmp_path: Path) -> None:
    path = in_segments(tmp_path)
    for base in (10, 20):
        (path / f"{base:020d}.log").rename(path / f"{base:020d}.log.deleted")
    shutil.copy(path / f"{10:020d}.log.deleted", path / f"{10:020d}.log")  # what is left of both
    assert "not-a-segment" not in rules(discover([str(path.parent)]))
    (path / f"{10:020d}.log.deleted").unlink()
    assert "not-a-segment" in rules(discover([str(path.parent)]))
    LogDirectory(path.parent).checkpoint("cleaner", orders_0=30)
    assert "not-a-segment" not in rules(discover([str(path.parent)]))


@pytest.mark.parametrize("name", ["{}.orig", "{}.bak"])
@pytest.mark.parametrize("high_watermark", [10, 5])
def test_a_longer_copy_beside_a_segment_that_was_cut_is_named_with_the_command_that_exchanges_them(
    tmp_path: Path, name: str, high_watermark: int, capsys: pytest.CaptureFixture[str]
) -> None:
    source = LogDirectory(tmp_path / "kafka-logs")
    orders = source.partition("orders-0")
    orders.append(5)
    orders.append(5)
    source.high_watermarks(orders_0=high_watermark)
    (log,) = orders.segments()
    whole = log.read_bytes()
    log.with_name(name.format(log.name)).write_bytes(whole)
    log.write_bytes(whole[: len(whole) // 2 + 20])
    discovery = discover([str(source.path)])
    if high_watermark == 5:  # a broker cut off what was never committed
        assert "not-a-segment" not in rules(discovery)
        return
    finding = only(discovery, "not-a-segment")
    assert f"has the offsets [5, 10), which {log.name} beside it has not" in finding.message
    subprocess.run(finding.message.split("`")[1], check=True, shell=True)
    assert log.read_bytes() == whole
    assert "not-a-segment" not in rules(discover([str(source.path)]))
    assert main(["verify", str(source.path)]) in (0, 1)
    assert "10 records" in capsys.readouterr().out
