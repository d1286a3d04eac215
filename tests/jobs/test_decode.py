"""`decode`: rows of `records` become rows of `decoded/<topic>` or of `undecoded/<topic>`, each exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, JobReport
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

TEXT = 'topics:\n  "*":\n    decode.value: string\n    decode.key: string\n'


class Decoded:
    """A lake with one topic and a policy."""

    def __init__(self, tmp_path: Path) -> None:
        self.source, self.lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
        self.orders = self.source.partition("orders-0")
        self.policies = tmp_path / "policies.yaml"
        self.policies.write_text(TEXT)

    def append(self, *rows: tuple[bytes | None, bytes | None]) -> None:
        """Write one batch, and publish it."""
        if not self.orders.segments():
            self.orders.roll()
        self.orders.write(
            handmade.simple_batch(self.orders.next_offset, list(rows), base_timestamp=1_700_000_000_000, leader_epoch=0)
        )
        self.orders.next_offset += len(rows)
        self.source.high_watermarks(orders_0=self.orders.next_offset)
        self.lake.turn(self.source.path)

    def decode(self, **options: Any) -> JobReport:
        config = DecodeConfig(str(self.lake.path), "decode", AS_OF_MS, str(self.policies), **options)
        return launch.run("decode", config)

    def rows(self, kind: str = "decoded") -> list[dict[str, Any]]:
        path = self.lake.path / "tables" / kind / "orders"
        if not path.is_dir():
            return []
        return sorted(DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=lambda row: row["offset"])

    def versions(self) -> list[int]:
        return [DeltaTable(str(self.lake.path / "tables" / kind / "orders")).version() for kind in KINDS]


KINDS = ("decoded", "undecoded")


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    return Decoded(tmp_path)


def test_every_row_is_decoded_or_undecoded_with_its_reason_and_bytes(lake: Decoded) -> None:
    lake.append((b"a", b"one"), (None, "zwölf".encode()), (b"c", None), (b"d", b"\xff!"), (b"\xfe", b"\xff"))
    report = lake.decode()
    assert [(r["offset"], r["key"], r["value"], r["is_tombstone"]) for r in lake.rows()] == [
        (0, "a", "one", False),
        (1, None, "zwölf", False),
        (2, "c", None, True),
    ]
    bad = lake.rows("undecoded")
    assert [(r["offset"], r["key"], r["value"], r["part"], r["reason"]) for r in bad] == [
        (3, b"d", b"\xff!", "value", "INVALID_UTF8"),
        (4, b"\xfe", b"\xff", "key", "INVALID_UTF8"),
    ]
    assert report.metrics == {"decoded": 3, "undecoded": 2, "waiting": 0}
    published = {row["offset"]: row for row in lake.lake.rows("records")}
    for row in [*lake.rows(), *bad]:
        same = ("log_id", "partition", "timestamp", "headers", "published_at")
        assert {name: row[name] for name in same} == {name: published[row["offset"]][name] for name in same}


def test_a_second_run_writes_nothing_and_new_rows_follow(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.decode()
    before = lake.versions()
    report = lake.decode()
    assert (lake.versions(), report.changed) == (before, ())
    lake.append((b"b", b"two"), (b"c", b"\xff"))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == ["one", "two"]
    assert [row["offset"] for row in lake.rows("undecoded")] == [2]


def test_without_a_policy_nothing_is_decoded(lake: Decoded) -> None:
    lake.append((b"a", b"one"))
    lake.policies.write_text('topics:\n  "*":\n    salvage: permissive\n')
    assert lake.decode().plan == {"topics": []}
    assert lake.rows() == []


def test_the_command_says_for_each_topic_what_it_did(lake: Decoded, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append((b"a", b"one"), (b"b", b"\xff"))
    arguments = ["decode", str(lake.lake.path), "--policies", str(lake.policies)]
    assert main.main(arguments) == 1
    assert capsys.readouterr().out == "orders: 1 decoded, 1 undecoded, 1 INVALID_UTF8, 0 offsets left\n"
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == "orders: 0 decoded, 0 undecoded, 0 offsets left\n"
