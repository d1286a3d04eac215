"""The root files of a log directory that is put together from maintained partitions."""

from pathlib import Path

from logcore.logs.model.partition_directory import RootLines
from logcore.segments.filenames import TopicPartition
from logcore.storage.partition_output import write_root_files

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_partitions_put_into_one_log_directory_one_after_the_other_keep_their_lines(tmp_path: Path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "cleaner-offset-checkpoint").write_text("0\n3\na 0 1\nb 0 2\nc 0 3\n")
    write_root_files(str(source), str(target), A, RootLines(first_dirty_offset=10, high_watermark=12))
    write_root_files(str(source), str(target), B, RootLines(high_watermark=22))
    lines = (target / "cleaner-offset-checkpoint").read_text().splitlines()
    assert (lines[:2], sorted(lines[2:])) == (["0", "2"], ["a 0 10", "c 0 3"])
    lines = (target / "replication-offset-checkpoint").read_text().splitlines()
    assert (lines[:2], sorted(lines[2:])) == (["0", "2"], ["a 0 12", "b 0 22"])
    assert sorted(path.name for path in target.iterdir()) == [
        "cleaner-offset-checkpoint",
        "replication-offset-checkpoint",
    ]


def test_the_last_line_of_a_root_file_that_goes_leaves_an_empty_one(tmp_path: Path):
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\na 0 5\n")
    write_root_files(str(tmp_path), str(tmp_path / "target"), A, RootLines())
    assert (tmp_path / "target" / "log-start-offset-checkpoint").read_text() == "0\n0\n"
