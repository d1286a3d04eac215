"""Who reads the table while it is published, replaced and merged sees what one run left, never a part of it."""

from __future__ import annotations

import threading
from collections import Counter

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from spark_jobs.contracts import OptimizeConfig, ReplaceConfig
from spark_jobs.launch import run
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake


class Reader:
    """Reads the whole table again and again; `seen` is what it found, by version."""

    def __init__(self, uri: str) -> None:
        self.seen: dict[int, Counter[tuple[str, int]]] = {}
        self.error: BaseException | None = None
        self._uri = uri
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    table = DeltaTable(self._uri)
                except TableNotFoundError:
                    continue
                rows = table.to_pyarrow_table(columns=["topic", "offset"]).to_pylist()
                found = Counter((row["topic"], row["offset"]) for row in rows)
                assert self.seen.setdefault(table.version(), found) == found
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self.error = error


def test_every_version_that_a_reader_meets_is_what_one_run_left(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    left: list[set[tuple[str, int]]] = [set()]
    with Reader(str(tmp_path / "lake" / "tables" / "records")) as reader:
        for _ in range(4):
            orders.append(20)
            payments.append(10)
            source.high_watermarks(orders_0=orders.next_offset, payments_0=payments.next_offset)
            lake.turn(source.path)
            left.append({("orders", o) for o in orders.rows} | {("payments", o) for o in payments.rows})
        published = DeltaTable(str(tmp_path / "lake" / "tables" / "records")).version()
        run(OptimizeConfig(str(lake.path), "merge", AS_OF_MS, apply=True))
        run(ReplaceConfig(str(lake.path), "again", AS_OF_MS, start_offset=0, end_offset=30))
        merged = DeltaTable(str(tmp_path / "lake" / "tables" / "records")).version()
    assert reader.error is None
    assert merged > published, "nothing was merged, so nothing was tested"
    assert len(reader.seen) >= 4
    for version, found in reader.seen.items():
        assert set(found.values()) <= {1}, f"version {version} has a row twice"
        assert set(found) in left, f"version {version} is a part of a run"
