"""All of them."""

from __future__ import annotations

from tests.planted_faults import (
    cluster_settings,
    columns,
    decoding,
    internal_topics,
    jobs,
    lake,
    logs,
    maintenance,
    newest_rows,
    operation,
    orchestration,
    remote_storage,
    values,
)

FAULTS = (
    *logs.FAULTS,
    *columns.FAULTS,
    *lake.FAULTS,
    *jobs.FAULTS,
    *decoding.FAULTS,
    *newest_rows.FAULTS,
    *maintenance.FAULTS,
    *remote_storage.FAULTS,
    *operation.FAULTS,
    *orchestration.FAULTS,
    *values.FAULTS,
    *internal_topics.FAULTS,
    *cluster_settings.FAULTS,
)
