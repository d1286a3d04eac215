"""All of them."""

from __future__ import annotations

from tests.planted_faults import (
    chunk_maps,
    cluster_settings,
    columns,
    data_source,
    decoding,
    fast_readers,
    internal_topics,
    jobs,
    lake,
    logs,
    maintenance,
    newest_rows,
    operation,
    orchestration,
    pages,
    remote_storage,
    rounds,
    scale,
    values,
)

FAULTS = (
    *logs.FAULTS,
    *columns.FAULTS,
    *lake.FAULTS,
    *jobs.FAULTS,
    *decoding.FAULTS,
    *data_source.FAULTS,
    *newest_rows.FAULTS,
    *maintenance.FAULTS,
    *remote_storage.FAULTS,
    *chunk_maps.FAULTS,
    *scale.FAULTS,
    *rounds.FAULTS,
    *operation.FAULTS,
    *orchestration.FAULTS,
    *pages.FAULTS,
    *values.FAULTS,
    *fast_readers.FAULTS,
    *internal_topics.FAULTS,
    *cluster_settings.FAULTS,
)
