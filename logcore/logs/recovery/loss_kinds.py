"""What `recover` and `reindex` report as losses: each kind, how bad it is, and what it means."""

from __future__ import annotations

from collections.abc import Mapping

from logcore.logs.rules.rule import Severity

LOSS_KINDS: Mapping[str, tuple[Severity, str]] = {
    "cut": (Severity.ERROR, "bytes after the first damage, which a broker cuts off"),
    "dropped-segment": (Severity.ERROR, "a later segment, which a broker removes after a cut"),
    "unreadable": (Severity.ERROR, "bytes of `--salvage` that the disk failed to read"),
    "damage-kept": (
        Severity.ERROR,
        "bytes that stay and that cannot be read, also in segments that a broker does not look into",
    ),
    "missing": (
        Severity.ERROR,
        "offsets that no segment holds and no cleaning explains, by the rules of `ledger`: between "
        "segments, or below the high watermark",
    ),
    "log-end-fell": (Severity.ERROR, "a wrong index entry lowers the log's end; readers end there"),
    "index-misleads": (Severity.ERROR, "an index of the result points to a wrong position; readers may miss records"),
    "end-jumps": (Severity.ERROR, "the last segment is empty and begins above the log's end; readers wait in the gap"),
    "producers-forgotten": (
        Severity.ERROR,
        "no producer snapshot exists; producers' sequences and open transactions are forgotten",
    ),
    "damaged-segment": (
        Severity.ERROR,
        "of `reindex`: a damaged segment, for which side files cannot be built, or only in part",
    ),
    "bytes-after-segment": (
        Severity.WARNING,
        "of `reindex`: bytes after the last offset of a closed segment, which are not indexed",
    ),
    "torn-tail": (Severity.WARNING, "an unfinished write at the end of the log"),
    "not-indexed": (Severity.INFO, "of `reindex`: an unfinished write or reserved space at the end of the log"),
    "length-repaired": (Severity.WARNING, "`--salvage` kept a batch and corrected its length or offset"),
    "offset-repaired": (Severity.WARNING, "`--salvage` kept a batch and corrected its length or offset"),
    "time-index-empty": (Severity.WARNING, "a time index is missing; retention uses the file's time of change"),
    "metadata-missing": (Severity.WARNING, "`partition.metadata` is missing; a KRaft broker moves the log away"),
}
