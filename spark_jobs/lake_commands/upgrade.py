"""``loglake upgrade LAKE``: bring a lake of an earlier version to this version's layout.

    loglake upgrade LAKE
    loglake upgrade LAKE --adopt-sources [--apply]

Prints one line for each thing that it did. It can be killed at any moment and run again. It changes nothing in a lake
that is up to date. `loglake run` does the same upgrade: of the layout before it ingests, and of a table before it
writes to it.

The lake is registered in the operator's home (``$LOGLAKE_HOME``), so that pages show it. What Dagster recorded of it
under keys of an earlier version is recorded under the lake's name too.

With ``--adopt-sources`` it shows what the lake's ``sources.json`` names. That file is only a hint that came with the
lake. Schedules and sensors use it only after ``--apply`` has registered it in the operator's home.

Exit codes: 0 done, or nothing to do; 3 no lake, or it could not be changed; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from logcore.exit_codes import ExitCode
from spark_jobs.lake_commands.outcome import guarded, recorded


class UpgradeCommand:
    """``loglake upgrade LAKE``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "upgrade",
            help="bring a lake to this version's layout",
            description="Bring a lake that an earlier version made to this version's layout, and say what was done. "
            "It can be killed and run again at any moment.",
        )
        parser.add_argument("lake", metavar="LAKE", help="a lake: its directory, or s3://bucket/prefix")
        parser.add_argument(
            "--adopt-sources",
            action="store_true",
            help="show the sources that the lake names; with --apply register them in $LOGLAKE_HOME, for schedules and "
            "sensors",
        )
        parser.add_argument("--apply", action="store_true", help="let --adopt-sources register them")
        parser.add_argument(
            "--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="what is logged"
        )
        parser.set_defaults(func=self.run)

    def run(self, options: argparse.Namespace) -> int:
        """Run the command; return the exit code."""
        return guarded(lambda: _upgrade(options))


upgrade_command = UpgradeCommand()


def _upgrade(options: argparse.Namespace) -> int:
    from logcore.cli.entry_points import LAKE_UPGRADE, of_group
    from spark_jobs.lake.errors import UsageError
    from spark_jobs.lake.setup import registry
    from spark_jobs.lake.store import storage

    if options.apply and not options.adopt_sources:
        raise UsageError("--apply needs --adopt-sources; without it there is nothing to apply.")
    lake = storage.absolute(options.lake)
    for line in _upgraded(lake, options.now_ms):
        sys.stdout.write(f"{line}\n")
    registry.register(lake)
    for point in of_group(LAKE_UPGRADE).values():
        for line in point.load()(lake):
            sys.stdout.write(f"{line}\n")
    if options.adopt_sources:
        for line in _adopted(lake, apply=options.apply):
            sys.stdout.write(f"{line}\n")
    return ExitCode.CLEAN


def _upgraded(lake: str, now_ms: int) -> Iterator[str]:
    """Do it; a line for each thing done. Raises JobError where no lake is."""
    from spark_jobs.lake.delta.commits import table_commit
    from spark_jobs.lake.errors import JobError
    from spark_jobs.lake.setup import identity
    from spark_jobs.lake.store.lease import hold
    from spark_jobs.lake.table_specs import TABLES

    if identity.read_identity(lake) is None:  # before the lease, which would create the directory
        raise JobError(f"There is no lake at {lake}: it has no {identity.LAKE_FILE}.")
    run_id = f"upgrade-{uuid.uuid4().hex}"
    with hold(lake, "loglake upgrade"), recorded(lake, "upgrade", now_ms, run_id) as run:
        before = identity.upgrade(lake)
        if before is None:
            raise JobError(f"The lake {lake} was removed meanwhile.")
        if before.layout != identity.LAYOUT_VERSION:
            yield f"{lake}: layout {before.layout} -> {identity.LAYOUT_VERSION}"
        described = [name for name in TABLES if table_commit.describe(lake, name)]
        run.wrote = bool(described) or before.layout != identity.LAYOUT_VERSION
    if described:
        yield f"{lake}: new columns and comments in {', '.join(described)}"
    elif before.layout == identity.LAYOUT_VERSION:
        yield f"{lake}: layout {before.layout} already; nothing to do"


def _adopted(lake: str, *, apply: bool) -> Iterator[str]:
    """Yield a line for each thing that the lake's hint names, and whether it is registered now."""
    from logcore.storage.source_errors import shown
    from spark_jobs.lake.setup import registry

    hinted = registry.hinted(lake)
    if not hinted:
        yield f"{lake}: it names no sources; register it with loglake run PATH... --lake {lake}"
        return
    for intake in hinted:
        options = [
            *(f"--topic {shown(topic)}" for topic in intake.topics),
            *(f"--partition {number}" for number in intake.partitions),
            *(f"--fill-from {shown(path)}" for path in intake.fill_from),
            *(f"--remote {shown(path)}" for path in intake.remote),
            *([f"--policies {shown(intake.policies)}"] if intake.policies else []),
        ]
        yield f"{lake} names: {' '.join([*map(shown, intake.paths), *options])}"
        for path in intake.paths:
            if not os.path.exists(path):
                yield f"  {shown(path)} does not exist on this machine"
    if not apply:
        yield f"not registered: look at these paths, then add --apply to register them in {registry.home()}"
        return
    new = registry.adopt(lake)
    yield f"registered in {registry.registration_file(lake)}" if new else "registered already; nothing changed"
