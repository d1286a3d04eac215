"""A picture of the logs of a lake along their offsets."""

from __future__ import annotations

from collections.abc import Sequence

from logcore.logs.ledger.ledger_picture import LogPicture, ledger_picture
from spark_jobs.lake.view.log_state import LogState


def picture_of(logs: Sequence[LogState]) -> str:
    """One strip per topic partition, as an SVG document; damaged ones first if there are very many."""
    return ledger_picture([pictured(log) for log in logs])


def pictured(log: LogState) -> LogPicture:
    """What a picture shows of a log."""
    return LogPicture(
        log.label,
        log.ledger,
        log.segment_offsets,
        log.row.high_watermark,
        log.published_to,
        tuple(each.first_offset for each in log.open_transactions),
    )
