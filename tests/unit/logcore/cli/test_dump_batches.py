"""`dump` shows batches, and the files beside segments."""

from pathlib import Path

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made
from tests.unit.logcore.cli.dumped_records import Captured, dump


class TestBatches:
    """Headers, whatever the directory shows of the records."""

    def test_a_line_has_these_keys_in_this_order(self, root: Path, capsys: Captured) -> None:
        first = dump(capsys, "--batches", str(root))[0]
        assert list(first.items()) == [
            ("topic", "orders"),
            ("partition", 0),
            ("segment", 0),
            ("position", 0),
            ("size", len(made.FIRST)),
            ("magic", 2),
            ("base_offset", 0),
            ("last_offset", 2),
            ("record_count", 3),
            ("codec", "none"),
            ("timestamp_type", "CreateTime"),
            ("max_timestamp", 1_700_000_000_002),
            ("delete_horizon_ms", None),
            ("producer_id", -1),
            ("producer_epoch", -1),
            ("base_sequence", -1),
            ("is_transactional", False),
            ("is_control", False),
            ("control_type", None),
            ("leader_epoch", 3),
            ("crc", handmade.crc32c(made.FIRST[21:])),
            ("crc_ok", True),
        ]

    def test_control_batches_and_those_above_the_high_watermark_are_among_them(
        self, root: Path, capsys: Captured
    ) -> None:
        made.write_checkpoint(root, "replication-offset-checkpoint", orders=0)
        lines = dump(capsys, "--batches", str(root))
        assert [line["base_offset"] for line in lines] == [0, 3, 4, 5, 6, 7]
        assert [line["control_type"] for line in lines] == [None, None, "ABORT", None, "COMMIT", None]
        assert [line["segment"] for line in lines] == [0, 0, 0, 5, 5, 5]

    def test_a_batch_whose_crc_fails_is_shown_as_such(self, root: Path, capsys: Captured) -> None:
        (root / "orders-0" / "00000000000000000000.log").write_bytes(handmade.flip(made.SEALED, 70))
        lines = dump(capsys, "--batches", str(root), code=2)
        assert [line["crc_ok"] for line in lines] == [False, True, True, True, True, True]

    def test_batches_can_be_chosen_by_offset_producer_and_number(self, root: Path, capsys: Captured) -> None:
        def chosen(*options: str) -> list[object]:
            return [line["base_offset"] for line in dump(capsys, "--batches", *options, str(root))]

        assert chosen("--offsets", "2..5") == [0, 3, 4]
        assert chosen("--producer-id", "9") == [3, 4, 5, 6]
        assert chosen("--limit", "2") == [0, 3]

    def test_text_says_the_same_by_name(self, root: Path, capsys: Captured) -> None:
        assert main(["dump", "--batches", "--limit", "1", str(root)]) == 0
        text = capsys.readouterr().out
        assert "base_offset 0  last_offset 2  record_count 3  codec none" in text
        assert "  is_transactional false  is_control false  leader_epoch 3  " in text
        assert text.endswith("  crc_ok true\n")


class TestSideFiles:
    """Indexes and checkpoints."""

    def test_index_entries_are_absolute(self, root: Path, capsys: Captured) -> None:
        assert dump(capsys, "--indexes", str(root)) == [
            {
                "topic": "orders",
                "partition": 0,
                "segment": 0,
                "index": "offset",
                "offset": 3,
                "position": len(made.FIRST),
            },
            {
                "topic": "orders",
                "partition": 0,
                "segment": 0,
                "index": "time",
                "offset": 4,
                "timestamp": 1_700_000_000_200,
            },
        ]

    def test_a_damaged_index_is_a_warning_and_the_rest_continues(self, root: Path, capsys: Captured) -> None:
        (root / "orders-0" / "00000000000000000000.index").write_bytes(b"\xff" * 16)
        lines = dump(capsys, "--indexes", str(root), code=1)
        assert [line["index"] for line in lines] == ["time"]

    def test_checkpoints_are_lines(self, root: Path, capsys: Captured) -> None:
        lines = dump(capsys, "--checkpoints", str(root))
        assert [line["file"] for line in lines] == [
            "meta.properties",
            "replication-offset-checkpoint",
            "partition.metadata",
            "leader-epoch-checkpoint",
        ]
        assert lines[1] == {"file": "replication-offset-checkpoint", "topic": "orders", "partition": 0, "offset": 8}
        assert lines[3]["epoch"] == 3

    def test_a_broken_checkpoint_is_a_warning(self, root: Path, capsys: Captured) -> None:
        (root / "log-start-offset-checkpoint").write_text("broken")
        assert len(dump(capsys, "--checkpoints", str(root), code=1)) == 4
