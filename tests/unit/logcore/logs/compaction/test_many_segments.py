"""A plan of compaction looks at each transaction index once, however many segments a log has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from logcore.segments.side_files import transaction_index
from tests import handmade

SEGMENTS = 120
ABORTED = 100
"""The number of the only segment with an aborted transaction."""


def test_indexes_without_entries_are_not_searched_for_each_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    producer = {"producer_id": 9, "producer_epoch": 0, "leader_epoch": 0}
    for number in range(SEGMENTS):
        base, content = 2 * number, b""
        if number == ABORTED:
            content = handmade.simple_batch(
                base, [(b"k", b"lost")], attributes=handmade.TRANSACTIONAL, base_sequence=0, **producer
            ) + handmade.marker(base + 1, 0, **producer)
        else:
            content = handmade.simple_batch(base, [(b"k", b"v"), (b"%d" % number, b"w")], leader_epoch=0)
        (directory / f"{base:020d}.log").write_bytes(content)
    searched: list[tuple[Any, ...]] = []
    collect = transaction_index.collect

    def counted(*arguments: Any) -> Any:
        searched.append(arguments)
        return collect(*arguments)

    monkeypatch.setattr(transaction_index, "collect", counted)
    code = main(["compact", str(directory), "--plan", "--config", "cleanup.policy=compact", "--high-watermark", "240"])
    assert code in (0, 1), capsys.readouterr().err
    assert 0 < len(searched) <= SEGMENTS
