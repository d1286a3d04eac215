"""`dump` shows what a consumer would see, or all there is, whatever is damaged."""

import json
import os
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.dumped_records import Captured, dump


def offsets(capsys: Captured, *arguments: str, code: int = 0) -> list[object]:
    return [line["offset"] for line in dump(capsys, *arguments, code=code)]


class TestWhatADirectoryShows:
    """Like a broker to a consumer."""

    def test_records_without_markers(self, root: Path, capsys: Captured) -> None:
        assert offsets(capsys, str(root)) == [0, 1, 2, 3, 5, 7]

    def test_nothing_at_or_above_the_high_watermark(self, root: Path, capsys: Captured) -> None:
        for high_watermark, expected in ((7, [0, 1, 2, 3, 5]), (2, [0, 1]), (0, []), (99, [0, 1, 2, 3, 5, 7])):
            made.write_checkpoint(root, "replication-offset-checkpoint", orders=high_watermark)
            assert offsets(capsys, str(root), code=2 if high_watermark > 8 else 0) == expected

    def test_nothing_below_the_log_start(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "log-start-offset-checkpoint", orders=2)
        assert offsets(capsys, str(root)) == [2, 3, 5, 7]

    def test_a_checkpoint_without_the_partition_shows_nothing(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", payments=0)
        assert offsets(capsys, str(root)) == []

    @pytest.mark.parametrize("content", [None, ""])
    def test_no_checkpoint_shows_everything_with_a_warning(
        self, root: Path, capsys: Captured, content: str | None
    ) -> None:
        path = root / "replication-offset-checkpoint"
        path.unlink() if content is None else path.write_text(content)
        assert offsets(capsys, str(root), code=1) == [0, 1, 2, 3, 5, 7]

    def test_the_high_watermark_can_be_decided_otherwise(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=2)
        assert offsets(capsys, "--high-watermark", "log-end", str(root)) == [0, 1, 2, 3, 5, 7]
        assert offsets(capsys, "--high-watermark", "1", str(root)) == [0]
        assert offsets(capsys, "--high-watermark", "checkpoint", str(root)) == [0, 1]

    def test_all_shows_everything(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=2)
        made.write_checkpoint(root, "log-start-offset-checkpoint", orders=1)
        assert offsets(capsys, "--all", str(root)) == [0, 1, 2, 3, 5, 7]

    def test_a_named_file_shows_everything_and_misses_no_checkpoint(self, root: Path, capsys: Captured) -> None:
        (root / "replication-offset-checkpoint").unlink()
        assert offsets(capsys, str(root / "orders-0" / "00000000000000000005.log")) == [5, 7]
        assert capsys.readouterr().err == ""

    def test_several_logs_come_by_topic_partition_and_offset(self, root: Path, capsys: Captured) -> None:
        (root / "meta.properties").unlink()  # as of an old broker, whose logs have no topic id
        (root / "orders-0" / "partition.metadata").unlink()
        for name in ("orders-10", "orders-2", "alpha-0"):
            (root / name).mkdir()
            (root / name / "00000000000000000000.log").write_bytes(made.FIRST)
        lines = dump(capsys, "--all", str(root))
        order = [(line["topic"], line["partition"], line["offset"]) for line in lines]
        assert order == sorted(order)
        assert len({entry[:2] for entry in order}) == 4

    def test_the_same_partition_from_two_paths_is_shown_once(
        self, root: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        other = tmp_path / "other" / "orders-0"
        other.mkdir(parents=True)
        (other / "00000000000000000000.log").write_bytes(made.FIRST)
        (tmp_path / "other" / "replication-offset-checkpoint").write_text("0\n1\norders 0 3\n")
        assert offsets(capsys, str(root), str(tmp_path / "other"), code=1) == [0, 1, 2, 3, 5, 7]

    def test_directories_out_of_use_are_not_shown(self, root: Path, capsys: Captured) -> None:
        os.rename(root / "orders-0", root / "orders-0.478272f0a33c41a18c274462e3ef6713-delete")
        assert offsets(capsys, str(root)) == []


class TestReadCommitted:
    """Aborted and undecided records are hidden."""

    def test_aborted_records_are_hidden_and_committed_ones_shown(self, root: Path, capsys: Captured) -> None:
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 5, 7]

    def test_a_marker_at_the_high_watermark_decides_nothing(self, root: Path, capsys: Captured) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=6)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2]
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=7)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 5]

    def test_an_open_transaction_ends_what_is_shown(self, root: Path, capsys: Captured) -> None:
        active = root / "orders-0" / "00000000000000000005.log"
        active.write_bytes(made.COMMITTED + made.LAST)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2]

    def test_gaps_that_compaction_left_do_not_hide_outcomes(self, root: Path, capsys: Captured) -> None:
        (root / "orders-0" / "00000000000000000000.log").write_bytes(made.FIRST)
        shifted = handmade.batch(
            [handmade.record(0, b"c", b"kept")],
            base_offset=20,
            attributes=handmade.TRANSACTIONAL,
            producer_id=9,
            producer_epoch=0,
        )
        commit = handmade.marker(30, handmade.COMMIT, producer_id=9)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(shifted + commit)
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=31)
        made.write_checkpoint(root, "cleaner-offset-checkpoint", orders=31)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 20]

    def test_a_record_outside_of_its_producers_transaction_is_shown(self, root: Path, capsys: Captured) -> None:
        plain = handmade.simple_batch(4, [(b"p", b"plain")], producer_id=9, producer_epoch=0)
        more = handmade.patch(made.ABORTED, 7, b"\x05")
        abort = handmade.marker(6, handmade.ABORT, producer_id=9)
        (root / "orders-0" / "00000000000000000005.log").unlink()
        (root / "orders-0" / "00000000000000000000.log").write_bytes(made.FIRST + made.ABORTED + plain + more + abort)
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=7)
        assert offsets(capsys, "--isolation.level", "read_committed", str(root)) == [0, 1, 2, 4]

    def test_uncommitted_is_the_default(self, root: Path, capsys: Captured) -> None:
        assert offsets(capsys, str(root)) == offsets(capsys, "--isolation.level", "read_uncommitted", str(root))


class TestFilters:
    """Options that choose records."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--offsets", "2..5"], [2, 3]),
            (["--offsets", "5.."], [5, 7]),
            (["--offsets", "..1"], [0]),
            (["--offsets", "3..3"], []),
            (["--since", "1700000000300"], [5, 7]),
            (["--until", "1700000000002"], [0, 1]),
            (["--since", "2023-11-14T22:13:20.100", "--until", "2023-11-14T23:13:20.500+01:00"], [3, 5]),
            (["--key", "k1"], [0]),
            (["--key", "0xff"], [2]),
            (["--key", "0x"], []),
            (["--header", "trace"], [0]),
            (["--header", "trace=0x0001"], [0]),
            (["--header", "trace=no"], []),
            (["--header", "no"], []),
            (["--producer-id", "9"], [3, 5]),
            (["--producer-id", "9", "--control"], [3, 4, 5, 6]),
            (["--producer-id", "-1"], [0, 1, 2, 7]),
            (["--limit", "4"], [0, 1, 2, 3]),
            (["--limit", "2"], [0, 1]),
            (["--limit", "0"], []),
            (["--limit", "99"], [0, 1, 2, 3, 5, 7]),
            (["--topic", "ord*"], [0, 1, 2, 3, 5, 7]),
            (["--topic", "ORD*"], []),
            (["--partition", "1"], []),
            (["--control"], [0, 1, 2, 3, 4, 5, 6, 7]),
        ],
    )
    def test_only_requested_parts_are_shown(
        self, root: Path, capsys: Captured, options: list[str], expected: list[int]
    ) -> None:
        assert offsets(capsys, *options, str(root)) == expected


class TestDamage:
    """Said on stderr, passed over, and in the exit code."""

    def test_a_flipped_bit_costs_its_batch_and_is_exit_code_2(self, root: Path, capsys: Captured) -> None:
        path = root / "orders-0" / "00000000000000000000.log"
        path.write_bytes(handmade.flip(made.SEALED, 70))
        assert main(["dump", "--format", "jsonl", str(root)]) == 2
        captured = capsys.readouterr()
        assert [json.loads(line)["offset"] for line in captured.out.splitlines()] == [3, 5, 7]
        (line,) = captured.err.splitlines()
        assert line.startswith("error corrupt-bytes: ")
        assert str(path) in line
        assert "position 0" in line

    def test_a_torn_tail_is_information_and_exit_code_0(self, root: Path, capsys: Captured) -> None:
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(made.UNDER_WAY)
        assert main(["dump", str(root)]) == 0
        assert capsys.readouterr().err.startswith("info torn-tail: ")

    def test_a_torn_sealed_segment_is_damage(self, root: Path, capsys: Captured) -> None:
        path = root / "orders-0" / "00000000000000000000.log"
        path.write_bytes(made.SEALED[:-1])
        assert offsets(capsys, str(root), code=2) == [0, 1, 2, 3, 5, 7]

    def test_a_named_file_that_others_follow_is_sealed(self, root: Path) -> None:
        path = root / "orders-0" / "00000000000000000000.log"
        path.write_bytes(made.SEALED[:-1])
        assert main(["dump", str(path)]) == 2

    def test_messages_of_old_formats_are_dumped_too(self, root: Path, capsys: Captured) -> None:
        before = offsets(capsys, str(root))
        with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
            file.write(handmade.message_v1(8, 1000, b"k", b"v") + handmade.wrapper_v0([9, 11]))
        (root / "replication-offset-checkpoint").unlink()
        assert offsets(capsys, str(root), code=1) == [*before, 8, 9, 11]

    def test_a_segment_that_goes_away_is_reported_and_the_rest_continues(
        self, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from logcore.logs.model.sources import SegmentFile
        from logcore.reading import segment_reading
        from logcore.storage.discovery import SourceUnreadable
        from logcore.storage.source_bytes import SourceBytes

        def gone(path: str, *, sealed: bool, seen: SegmentFile | None) -> object:
            if path.endswith("00000000000000000000.log"):
                raise SourceUnreadable("it cannot be read: gone.", file=path)
            return SourceBytes(path, sealed=sealed, seen=seen)

        monkeypatch.setattr(segment_reading, "SourceBytes", gone)
        assert offsets(capsys, str(root), code=3) == [5, 7]

    def test_no_payload_reaches_stderr(self, root: Path, capsys: Captured) -> None:
        secret = handmade.simple_batch(5, [(b"secretkey", b"secretvalue")], count=7)
        (root / "orders-0" / "00000000000000000005.log").write_bytes(secret + made.LAST)
        assert main(["dump", "--all", str(root)]) == 2
        assert "secret" not in capsys.readouterr().err

    def test_nothing_is_written_into_a_source(self, root: Path) -> None:
        def state() -> list[tuple[str, int, int]]:
            return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))]

        before = state()
        for options in ([], ["--batches"], ["--indexes"], ["--checkpoints"], ["--isolation.level", "read_committed"]):
            main(["dump", *options, str(root)])
        assert state() == before
