"""The lakes that are kept, and what each has to hold."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests import handmade
from tests.broker_directory import LogDirectory, Partition

HERE = Path(__file__).parent

Log = tuple[str, int]
Row = tuple[bytes | None, bytes | None]


def _plain(*ranges: Iterable[int]) -> dict[int, Row]:
    """Rows as `Partition.append` makes them."""
    return {offset: (b"k%d" % (offset % 7), b"v%d" % offset) for each in ranges for offset in each}


@dataclass(frozen=True, slots=True)
class Kept:
    """One archive; expectations are written by hand from what its script appended."""

    name: str
    layout: int
    rows: Mapping[Log, Mapping[int, Row]]
    """Key and value of what is published, by log and offset."""
    grown: Mapping[Log, Mapping[int, Row]]
    """What `grow` adds to that."""
    run_exit: int
    """Exit code of ``loglake run``, as the damage in it says."""
    verify_exit: int
    has_published_at: bool = True
    """Whether its rows have `published_at`; layout 1 did not."""
    """Exit code of ``loglake verify LAKE``: 1 where files have no digest of their rows yet. What was damaged at the
    source is kept as it was, which is no damage of the lake."""

    def unpack(self, folder: Path) -> Path:
        """`source`, `lake` and `policies.yaml` in this folder, with their modification times."""
        with tarfile.open(HERE / f"{self.name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        return folder


def grow(source: Path) -> None:
    """Every log goes on; the open transaction of orders-0 is committed."""
    directory = LogDirectory(source, cluster=None)
    orders, payments, changelog = (_reopened(source / name) for name in ("orders-0", "payments-0", "changelog-0"))
    orders.next_offset, payments.next_offset, changelog.next_offset = 60, 27, 15
    orders.marker(7, handmade.COMMIT)
    orders.append(4)
    payments.append(3)
    changelog.append(1)
    directory.high_watermarks(orders_0=65, payments_0=30, changelog_0=16)


def _reopened(path: Path) -> Partition:
    """An existing partition directory. `Partition` itself would write its metadata again."""
    made = Partition.__new__(Partition)
    made.path, made.topic_id, made.rows = path, None, {}
    return made


_ROWS: Mapping[Log, Mapping[int, Row]] = {
    ("orders", 0): _plain(range(25), range(26, 41), range(48, 58)),
    ("payments", 0): _plain(range(5)),
    ("changelog", 0): {
        0: (b"k0", b"old0"),
        1: (b"k1", b"old1"),
        4: (b"k4", b"old4"),
        6: (b"k0", b"new6"),
        7: (b"k1", b"new7"),
        8: (b"k9", b"new8"),
        9: (b"k0", b"newer9"),
        10: (b"k2", b"newer10"),
        11: (b"k1", b"newest11"),
        12: (b"k9", b"newest12"),
        13: (b"k5", b"v13"),
        14: (b"k6", b"v14"),
    },
}
_GROWN: Mapping[Log, Mapping[int, Row]] = {
    ("orders", 0): _plain(range(58, 60), range(61, 65)),
    ("changelog", 0): _plain([15]),
}

KEPT = (
    Kept(name="layout-1", layout=1, rows=_ROWS, grown=_GROWN, run_exit=2, verify_exit=1, has_published_at=False),
    Kept(name="layout-2", layout=2, rows=_ROWS, grown=_GROWN, run_exit=2, verify_exit=0),
)
