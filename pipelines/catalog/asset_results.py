"""What a step made of its asset: one description, from which Dagster's events and the report by Pipes are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_jobs.contracts import LogChange
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.log_state import LogState
from spark_jobs.lake.view.shown_tables import table_address, table_figures

from ..metadata import reporting
from ..metadata.values import Cell, Metadata, PathValue, Value, table_value
from ..run.chains import Product
from ..run.outcome import StepResult

ROWS = "dagster/partition_row_count"
_ADDED = (
    "segments",
    "archive bytes",
    "batches",
    "records",
    "quarantined bytes",
    "offsets not published",
)
"""Figures of topic partitions that can be added for the whole lake."""


@dataclass(frozen=True, slots=True)
class AssetResult:
    """What a step made of its asset.

    Attributes:
        product: The asset.
        state: The lake after the step.
        changes: What changed, by log key.
        as_of_ms: The clock of the run.
    """

    product: Product
    state: LakeState
    changes: Mapping[str, LogChange]
    as_of_ms: int

    @classmethod
    def of(cls, product: Product, state: LakeState, done: StepResult, as_of_ms: int) -> AssetResult:
        """The result of a step."""
        return cls(product, state, done.changes, as_of_ms)

    @property
    def changed(self) -> list[LogState]:
        """The logs that changed."""
        return [log for log in self.state.logs if log.log in self.changes]

    def of_log(self, log: LogState, *, with_pictures: bool = True) -> Metadata:
        """The metadata of one topic partition.

        Args:
            log: The log.
            with_pictures: Whether tables and pictures belong to it.
        """
        figures = self.product.metadata(log, self.changes.get(log.log), self.as_of_ms)
        return {**figures, **(self.product.pictures(log) if with_pictures else {})}

    def summary(self) -> Metadata:
        """The metadata of all changed topic partitions together."""
        return reporting.summary_metadata(self.state.lake, (self.changes[log.log] for log in self.changed))

    def of_lake(self) -> Metadata:
        """The metadata of the asset as a whole: what changed, and figures of all topic partitions together."""
        changed = self.changed
        totals: dict[str, int] = {}
        for log in self.state.logs:
            for name, value in self.product.metadata(log, None, self.as_of_ms).items():
                if name in (*_ADDED, ROWS) and isinstance(value, int):
                    totals[name] = totals.get(name, 0) + value
        rows = totals.pop(ROWS, None)
        whole: dict[str, Value] = {
            "topic partitions": len(self.state.logs),
            "topic partitions changed": len(changed),
            **{name: value for name, value in self.summary().items() if name.endswith(" of this run")},
            **totals,
            **({} if rows is None else {"dagster/row_count": rows}),
            **self._size(),
            "lake": PathValue(self.state.lake),
            "dagster/uri": table_address(self.state.lake, self.product.table),
        }
        if changed:
            figures = [{"topic partition": log.topic_partition, **dict(self._cells(log))} for log in changed]
            columns = list(dict.fromkeys(name for each in figures for name in each))
            whole["what changed"] = table_value(columns, [[each.get(name) for name in columns] for each in figures])
        return whole

    def _cells(self, log: LogState) -> Iterator[tuple[str, Cell]]:
        """The figures of a topic partition that fit into a row."""
        for name, value in self.of_log(log, with_pictures=False).items():
            if name == ROWS:
                yield "rows", value if isinstance(value, int) else None
            elif isinstance(value, str | int) and name != "log" and not name.startswith("dagster/"):
                yield name, value

    def _size(self) -> Metadata:
        """Bytes and files of the table, where the asset is the table."""
        if self.product.table != self.product.name:
            return {}
        figures = table_figures(self.state.lake, self.product.table)
        return {} if figures is None else {"bytes": figures.size, "files": figures.files}
