"""Every snapshot of every case of the corpus, and which real tool read exactly those files.

A case is one archive: a cluster's life. A snapshot is its log directory at one moment, with what real tools said about
that moment. The table is written by hand, so that a glob that finds nothing cannot pass for a success;
`test_archives.py` holds it against what the archives contain.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"

BOTH = ("read_uncommitted", "read_committed")
UNCOMMITTED = ("read_uncommitted",)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One log directory at one moment.

    consumed: isolation levels at which a real consumer read these very files, all from beginning to end.
    consumed_from: the consumer's output where it is not under the snapshot's own name (legacy cases).
    payload: whether the dump tool was asked for keys and values too. listing: Kafka's FileRecords listed every batch
    and record of these files (legacy cases). dump: folder with the dump tool's text about these files, within `oracle`.
    """

    era: str
    case: str
    name: str
    consumed: tuple[str, ...] = BOTH
    payload: bool = True
    dump: str | None = None
    listing: bool = False
    consumed_from: str = ""

    def __str__(self) -> str:
        return f"{self.case}/{self.name}"

    @property
    def archive(self) -> Path:
        """The packed case."""
        return CORPUS / self.era / f"{self.case}.tar.xz"

    def consumer_file(self, isolation_level: str) -> str:
        """Path of the consumer's output, within `oracle`."""
        if self.era == "modern":
            return f"{self.name}/{isolation_level}.jsonl"
        return f"{isolation_level}{self.consumed_from}"


def _modern(case: str, *names: str, consumed: tuple[str, ...] = BOTH, payload: bool = True, dump: bool = True) -> list:
    return [
        Snapshot("modern", case, name, consumed, payload, f"{name}/dump" if dump else None)
        for name in (names or ("logdir",))
    ]


def _legacy(case: str, name: str = "logdir", consumed: tuple[str, ...] = (), suffix: str = ".jsonl", dump: bool = True):
    return Snapshot(
        "legacy", case, name, consumed, "big" not in case, "dump" if dump else None, listing=True, consumed_from=suffix
    )


SNAPSHOTS: tuple[Snapshot, ...] = (
    *_modern("bigvalue-v2-4.3.1"),
    *_modern("cluster-metadata-4.4.0", consumed=()),
    *_modern("codecs-v2-3.9.2"),
    *_modern("codecs-v2-4.3.1"),
    *_modern("compaction-3.9.2", "before1", "after1", "before2", "after2", payload=False),
    *_modern("compaction-4.1.2", "before1", "after1", "before2", "after2", payload=False),
    *_modern("compaction-4.4.0", "before1", "after1", "before2", "after2", "before3", "after3", payload=False),
    *_modern("internal-topics-4.4.0", "logdir", "compacted"),
    *_modern("recovery-damage-clean-4.4.0", "base", consumed=UNCOMMITTED, dump=False),
    *_modern("recovery-damage-clean-4.4.0", "before", consumed=(), payload=False),
    *_modern("recovery-damage-clean-4.4.0", "after", payload=False),
    *_modern("recovery-damage-unclean-4.4.0", "base", consumed=UNCOMMITTED, dump=False),
    *_modern("recovery-damage-unclean-4.4.0", "before", consumed=(), payload=False),
    *_modern("recovery-damage-unclean-4.4.0", "after", payload=False),
    *_modern("recovery-damage-unclean-rp-4.4.0", "base", consumed=UNCOMMITTED, dump=False),
    *_modern("recovery-damage-unclean-rp-4.4.0", "before", consumed=(), payload=False),
    *_modern("recovery-damage-unclean-rp-4.4.0", "after", payload=False),
    *_modern("recovery-fatal-4.4.0", "base", dump=False),
    *_modern(
        "recovery-fatal-4.4.0",
        "before-bad-dir",
        "before-cluster-id",
        "before-epoch-junk",
        "before-flip-len",
        "before-flip-magic",
        "before-garbage100",
        "before-hw-junk",
        "before-meta-junk",
        "before-rp-junk",
        "before-txnidx-junk",
        "before-zeros40",
        "after-flip-len",
        "after-flip-magic",
        consumed=(),
        dump=False,
    ),
    *_modern("recovery-kill9-4.4.0", "before", consumed=()),
    *_modern("recovery-kill9-4.4.0", "after"),
    *_modern("replicas-4.4.0", "clean-n1", "clean-n2", "clean-n3", "lag-n1", "lag-n2", payload=False),
    *_modern("replicas-4.4.0", "lag-n3", "diverged-n1", consumed=(), payload=False),
    *_modern("replicas-4.4.0", "diverged-n2", "truncated-n1", "truncated-n2", payload=False),
    *_modern("retention-4.3.1", "before", "mid", "after", payload=False),
    *_modern("tiered-3.9.2", consumed=()),
    *_modern("tiered-3.9.2", "remote", consumed=()),
    *_modern("tiered-4.3.1", consumed=()),
    *_modern("tiered-4.3.1", "remote", consumed=()),
    *_modern("timestamps-v2-4.4.0"),
    *_modern("transactions-3.9.2"),
    *_modern("transactions-4.4.0"),
    _legacy("compact-2.8.2", "before", UNCOMMITTED, ".jsonl.gz"),
    _legacy("compact-2.8.2", "after", dump=False),
    _legacy("compact-2.8.2", "after-3.9.2", dump=False),
    _legacy("compact-2.8.2", "after-4.1.2", dump=False),
    _legacy("compact-2.8.2", "after-4.4.0", dump=False),
    _legacy("compact-2.8.2", "before2", dump=False),
    _legacy("compact-2.8.2", "after2", UNCOMMITTED, "_after2.jsonl.gz", dump=False),
    _legacy("compact-2.8.2", "after2-3.9.2", dump=False),
    _legacy("compact-2.8.2", "after2-4.1.2", dump=False),
    _legacy("compact-2.8.2", "after2-4.4.0", dump=False),
    *(
        snapshot
        for case in ("crash-0.9.0.1", "crash-0.10.2.2", "crash-2.8.2")
        for snapshot in (_legacy(case, "before", dump=False), _legacy(case, "after", UNCOMMITTED))
    ),
    *(
        _legacy(case, consumed=UNCOMMITTED)
        for case in (
            "docs-0.8.2.2",
            "groups-0.8.2.2",
            "groups-0.9.0.1",
            "groups-0.10.2.2",
            "groups-1.1.1",
            "groups-2.2.2",
            "groups-2.8.2",
            "mixed-format-2.8.2",
            "mixed-upgrade",
            "upconvert-2.8.2",
            "v0-0.8.2.2",
        )
    ),
    *(_legacy(case, consumed=BOTH) for case in ("txn-0.11.0.3", "txn-2.8.2")),
    *(_legacy(case, consumed=UNCOMMITTED, suffix=".jsonl.gz") for case in ("v0-0.9.0.1", "v1-0.10.0.1", "v1-0.10.2.2")),
)
"""All of them. Order: by case, then by time."""


def snapshot(text: str) -> Snapshot:
    """The snapshot of that name, `case/name`."""
    return next(entry for entry in SNAPSHOTS if str(entry) == text)


DAMAGE = "damaged on purpose: no consumer read it"
FATAL = "a broker marked clean and damaged: it does not start, or serves what it should not"
NOT_CONSUMED = {
    "cluster-metadata-4.4.0/logdir": "no consumer may read `__cluster_metadata`; all other topics are empty",
    "recovery-damage-clean-4.4.0/before": DAMAGE,
    "recovery-damage-unclean-4.4.0/before": DAMAGE,
    "recovery-damage-unclean-rp-4.4.0/before": DAMAGE,
    **{str(entry): FATAL for entry in SNAPSHOTS if entry.case == "recovery-fatal-4.4.0" and entry.name != "base"},
    "recovery-kill9-4.4.0/before": "the broker had been killed; the next start changed the files",
    "replicas-4.4.0/lag-n3": "a replica that lagged: consumers read the leader",
    "replicas-4.4.0/diverged-n1": "the leader that was killed: consumers had read it before",
    "tiered-3.9.2/logdir": "consumers were served from the remote store too",
    "tiered-3.9.2/remote": "a remote store is no log directory",
    "tiered-4.3.1/logdir": "consumers were served from the remote store too",
    "tiered-4.3.1/remote": "a remote store is no log directory",
    **{
        f"compact-2.8.2/{name}": "not consumed; listed by FileRecords"
        for name in (
            "after",
            "after-3.9.2",
            "after-4.1.2",
            "after-4.4.0",
            "before2",
            "after2-3.9.2",
            "after2-4.1.2",
            "after2-4.4.0",
        )
    },
    "crash-0.9.0.1/before": DAMAGE,
    "crash-0.10.2.2/before": DAMAGE,
    "crash-2.8.2/before": DAMAGE,
}
"""Snapshots that no consumer read as they are, and why. `test_damaged.py`, `test_recovery.py`, `test_parts.py`
and the listings of `test_batches.py` say what is expected of them."""
