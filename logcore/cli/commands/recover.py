"""`loglake recover`: the logs that a broker's unclean start would leave, or more than it would leave.

Exit codes: 0 nothing is lost · 1 warnings · 2 something is cut, dropped or hidden · 3 a broker would not start, or the
directory cannot be read. The new directory is written with 0, 1 and 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cache, partial

from logcore.cli.maintenance import maintenance
from logcore.cli.maintenance.copy_progress import CopyProgress
from logcore.cli.maintenance.maintenance import LogSettings
from logcore.cli.maintenance.recovered_logs import RecoveredLogs
from logcore.columns.engines import segment_recovery
from logcore.columns.verified_batches import read_verified
from logcore.logs.model.findings import Finding
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.losses import cleaned_below
from logcore.logs.recovery.proposal import RecoveryPlan, root_refusal
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.segments.filenames import is_coordinator_topic

_USED = ("cleanup.policy", "segment.index.bytes", "index.interval.bytes")
_ADVICE = " With --salvage its good batches are kept."


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `recover`."""
    parser.description = (
        "Make a copy of a partition directory as a broker leaves it when it starts after a kill: the "
        "valid prefix of the log from the recovery point on, with rebuilt side files. The report lists what the broker "
        "loses, damaged bytes that it leaves in the log, and offsets that are in no file. With --salvage no good batch "
        "is lost: damaged bytes are cut out, and good batches after them and later segments are kept. For whole log "
        "directories each chosen log is copied, from the directory whose copy has the history."
    )
    maintenance.add_arguments(parser, several=True)
    parser.add_argument("--salvage", action="store_true", help="keep what a broker would lose")
    parser.add_argument(
        "--side",
        metavar="PATH",
        help="the log directory or partition directory whose copy is followed if the evidence does not decide",
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    settings = maintenance.check_arguments(arguments, _USED)
    progress = CopyProgress()
    stated = list(maintenance.given_root_options(arguments))

    def plan_of(directory: PartitionDirectory, settings: LogSettings, read: Sequence[Finding]) -> RecoveryPlan:
        refusal = None if arguments.salvage else root_refusal(read, stated)
        if refusal is not None:
            return RecoveryPlan({}, refusal=refusal)
        return plan_recovery(
            directory,
            settings.config,
            line=arguments.compat,
            as_of_ms=maintenance.as_of_ms(arguments),
            salvage=arguments.salvage,
            gaps=_gap_rules(directory, settings.config),
            recover=progress.watched(segment_recovery()),
            read=read_verified,
        )

    return RecoveredLogs(arguments, settings, plan_of, progress, "" if arguments.salvage else _ADVICE).run()


def _gap_rules(directory: PartitionDirectory, config: TopicConfig) -> GapRules:
    is_compacted = config.compacts or is_coordinator_topic(directory.topic_partition.topic)
    return GapRules(directory.first_dirty_offset, is_compacted, cleaned_below=cache(partial(cleaned_below, directory)))
