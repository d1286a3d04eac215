"""`loglake reindex`: index files and producer snapshots as a broker's recovery writes them; segments are copied
unchanged.

Exit codes, as those of `verify`: 0 also if the log ends in an incomplete batch or in zeros · 1 bytes follow the last
offset of a closed segment · 2 a segment is damaged: its side files are unchanged · 3 not possible.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from logcore.cli.maintenance import maintenance
from logcore.cli.maintenance.copy_progress import CopyProgress
from logcore.cli.maintenance.maintenance import LogSettings
from logcore.cli.maintenance.recovered_logs import RecoveredLogs
from logcore.columns.engines import segment_recovery
from logcore.columns.verified_batches import read_verified
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.reindexing import plan_reindex

_USED = ("segment.index.bytes", "index.interval.bytes")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `reindex`."""
    parser.description = (
        "Make a copy of a partition directory whose .index, .timeindex, .txnindex and .snapshot files are "
        "rebuilt from the segments, as a broker's recovery of all of them writes them. Segments are not changed; "
        "side files of a damaged segment are not changed either. For whole log directories each chosen log is "
        "copied, from the directory whose copy has the history."
    )
    maintenance.add_arguments(parser, several=True)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    settings = maintenance.check_arguments(arguments, _USED)
    progress = CopyProgress()

    def plan_of(directory: PartitionDirectory, settings: LogSettings, _: Sequence[Finding]) -> RecoveryPlan:
        return plan_reindex(
            directory,
            settings.config,
            line=arguments.compat,
            as_of_ms=maintenance.as_of_ms(arguments),
            recover=progress.watched(segment_recovery()),
            read=read_verified,
        )

    return RecoveredLogs(arguments, settings, plan_of, progress).run()
