"""``make bench``: how fast we are, against others and against the machine.

    python -m tests.bench                       everything, onto the four pages of docs/results
    python -m tests.bench --page run            the cases of one page (reading, run, tables, maintenance), onto it
    python -m tests.bench --only small-lz4-16k  one case, onto the screen; may be repeated; globs are understood
    python -m tests.bench --quick               small segments and few rounds: whether it works, not how fast

Ends in 1 if a case failed or missed what it must reach.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from tests import results_page
from tests.bench import (
    cancelling,
    cleaning,
    commands,
    compaction,
    data_source,
    decoded_values,
    decoding,
    doubts,
    growing_lakes,
    journey,
    latest,
    latest_by_spark,
    maintaining,
    metadata_logs,
    objects,
    offset_commits,
    offset_maps,
    operating,
    parts,
    processes,
    publishing,
    recovering,
    remote_reading,
    remote_runs,
    scaling,
    small_transactions,
    spark_decoding,
    watching,
    whole_runs,
)
from tests.bench.corpora import home
from tests.bench.page import page
from tests.bench.pages import RESULTS, PageName
from tests.bench.results import Line, Verdict
from tests.bench.totals import Differ
from tests.kafka.distribution import Unavailable
from tests.object_store.gateway import NoGateway


def cases(arguments: argparse.Namespace) -> dict[str, Callable[[], Iterator[Line]]]:
    """What can be measured, by name."""
    quick, mib = arguments.quick, arguments.mib
    found: dict[str, Callable[[], Iterator[Line]]] = {
        case.name: partial(decoding.lines, case, mib, arguments.rounds) for case in decoding.CASES
    }
    for name in commands.NAMES:
        found[name] = partial(commands.lines, name, arguments.command_mib, arguments.command_rounds)
    found[doubts.NAME] = partial(doubts.lines, 1 << 16 if quick else 1 << 19, arguments.rounds)
    found[processes.START] = partial(processes.start_lines, 3 if quick else 11)
    found[processes.COLD] = partial(processes.cold_lines, mib, 1 if quick else 3)
    found[processes.MEMORY] = partial(processes.memory_lines, 64 if quick else 1024, 1 if quick else 3)
    for each in publishing.CASES:
        found[each.name] = partial(publishing.lines, each, arguments.publish_mib, arguments.publish_rounds)
    for whole in journey.CASES:
        found[whole.name] = partial(journey.lines, whole, arguments.publish_mib, arguments.publish_rounds)
    for decoded in decoded_values.CASES:
        found[decoded.name] = partial(
            decoded_values.lines,
            decoded,
            arguments.publish_mib // (8 if decoded.is_plain else 1) or 1,
            arguments.publish_rounds,
        )
    for against_spark in spark_decoding.CASES:
        found[against_spark.name] = partial(
            spark_decoding.lines, against_spark, arguments.publish_mib, arguments.publish_rounds
        )
    found[data_source.NAME] = partial(data_source.lines, arguments.publish_mib, arguments.publish_rounds)
    found[parts.PARTS] = partial(parts.lines, arguments.publish_mib, arguments.publish_rounds)
    for maintained in maintaining.CASES:
        found[maintained.name] = partial(maintaining.lines, maintained, arguments.publish_mib, arguments.publish_rounds)
    found[growing_lakes.INCREMENT] = partial(growing_lakes.increment_lines, 16 if quick else 256, 1 if quick else 5)
    found[growing_lakes.PARTITIONS] = partial(
        growing_lakes.partition_lines, 16 if quick else 256, 20 if quick else 1000, 1 if quick else 3
    )
    found[growing_lakes.NOTHING_NEW] = partial(growing_lakes.nothing_new_lines, 20 if quick else 1000)
    found[growing_lakes.MANY] = partial(growing_lakes.many_lines, 50 if quick else 10_000)
    found[small_transactions.SMALL] = partial(
        small_transactions.lines, 20_000 if quick else 1_000_000, 1 if quick else 3
    )
    for kept in (latest.EVEN, latest.RECENT):
        found[kept] = partial(
            latest.lines, kept, arguments.rows or (200_000 if quick else 20_000_000), arguments.publish_rounds
        )
    found[latest_by_spark.SPARK] = partial(
        latest_by_spark.lines, arguments.rows or (200_000 if quick else 20_000_000), arguments.whole_rounds or 1
    )
    found[latest_by_spark.KEYS] = partial(
        latest_by_spark.keys_lines, arguments.rows or (200_000 if quick else 100_000_000)
    )
    found[offset_commits.ROWS] = partial(
        offset_commits.rows_lines, arguments.rows or (200_000 if quick else 10_000_000), 1 if quick else 3
    )
    found[offset_commits.DUMP] = partial(
        offset_commits.dump_lines, arguments.rows or (200_000 if quick else 10_000_000), arguments.command_rounds
    )
    found[metadata_logs.METADATA] = partial(
        metadata_logs.lines, arguments.rows or (20_000 if quick else 1_000_000), 1 if quick else 3
    )
    found[watching.LATENCY] = partial(watching.lines, 5 if quick else 60)
    found[operating.TICK] = partial(operating.tick_lines, 100 if quick else 5_000, 1 if quick else 5)
    found[operating.NIGHT] = partial(operating.night_lines, 100 if quick else 5_000)
    found[cancelling.CANCEL] = partial(cancelling.lines, 64 if quick else 1024)
    found[objects.RUN] = partial(objects.run_lines, arguments.publish_mib, arguments.publish_rounds)
    found[objects.UNCHANGED] = partial(objects.unchanged_lines, 300 if quick else 10_000)
    found[remote_reading.READ] = partial(remote_reading.read_lines, mib, arguments.rounds)
    found[remote_reading.OFFSET] = partial(remote_reading.offset_lines, arguments.publish_mib)
    found[remote_runs.REFERENCE] = partial(remote_runs.reference_lines, 200 if quick else 10_000)
    found[compaction.HUGE] = partial(compaction.lines, arguments.publish_mib, arguments.publish_rounds)
    found[whole_runs.NOOP] = partial(whole_runs.noop_lines, 200 if quick else 10_000, 1 if quick else 5)
    found[whole_runs.SMALL] = partial(whole_runs.small_lines, 1 if quick else 3)
    found[whole_runs.MEMORY] = partial(
        whole_runs.memory_lines, 200 if quick else 10_000, 100_000 if quick else 10_000_000, arguments.publish_mib
    )
    for cleaned in cleaning.CASES:
        found[cleaned.name] = partial(cleaning.lines, cleaned, arguments.publish_mib, 1 if quick else 7)
    for filled in offset_maps.CASES:
        found[filled.name] = partial(offset_maps.lines, filled, quick=quick)
    for recovered in recovering.CASES:
        found[recovered.name] = partial(recovering.lines, recovered, arguments.publish_mib, 1 if quick else 7)
    found[scaling.COMPACTION] = partial(scaling.compaction_lines, arguments.publish_mib, 1 if quick else 3)
    found[scaling.RECOVERY] = partial(scaling.recovery_lines, arguments.publish_mib, 1 if quick else 5)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--quick", action="store_true", help="small segments and few rounds")
    parser.add_argument("--only", action="append", metavar="CASE", help="these cases (globs); repeatable")
    parser.add_argument("--page", type=PageName, choices=list(PageName), help="the cases of a page, and onto it")
    parser.add_argument("--mib", type=int, help="size of the segments, uncompressed (default 200)")
    parser.add_argument("--rounds", type=int, help="rounds of the decoding cases (default 11)")
    parser.add_argument("--whole-rounds", type=int, help="rounds of the cases of whole commands (default 3)")
    parser.add_argument(
        "--rows", type=int, help="rows of the cases of `latest` (default 20,000,000; latest-keys 100,000,000)"
    )
    parser.add_argument("-o", "--output", type=Path, help="write the figures onto this page")
    parser.add_argument("--list", action="store_true", help="names of the cases")
    arguments = parser.parse_args()
    arguments.command_mib = arguments.mib or (16 if arguments.quick else 250)
    arguments.command_rounds = arguments.whole_rounds or (1 if arguments.quick else 3)
    arguments.publish_mib = arguments.mib or (16 if arguments.quick else 1024)
    arguments.publish_rounds = arguments.whole_rounds or (1 if arguments.quick else 3)
    arguments.mib = arguments.mib or (16 if arguments.quick else 200)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 11)
    every = cases(arguments)
    if arguments.list:
        sys.stdout.write("\n".join(every) + "\n")
        return 0
    chosen = {
        name: run
        for name, run in every.items()
        if (arguments.only is None or any(fnmatchcase(name, pattern) for pattern in arguments.only))
        and (arguments.page is None or arguments.page.has(name))
    }
    if not chosen:
        parser.error(f"no such case; there are: {', '.join(every)}")
    home().mkdir(parents=True, exist_ok=True)
    missed = False
    for output, of_page in _pages(arguments, chosen):
        load = os.getloadavg()[0]
        lines, failures = _measured(of_page)
        missed |= bool(failures) or any(line.verdict is Verdict.MISSED for line in lines)
        if output is not None:
            _write(output, lines, failures, arguments, load)
    return 1 if missed else 0


def _pages(
    arguments: argparse.Namespace, chosen: dict[str, Callable[[], Iterator[Line]]]
) -> Iterator[tuple[Path | None, dict[str, Callable[[], Iterator[Line]]]]]:
    """The cases to measure, and the page to write them onto, if any. A full run writes every page."""
    if arguments.output is not None or arguments.quick or (arguments.only is not None and arguments.page is None):
        yield arguments.output, chosen
        return
    for page_name in [arguments.page] if arguments.page is not None else PageName:
        yield RESULTS / page_name.file, {name: run for name, run in chosen.items() if page_name.has(name)}


def _measured(chosen: dict[str, Callable[[], Iterator[Line]]]) -> tuple[list[Line], dict[str, str]]:
    """The lines of cases, and why others have none."""
    lines: list[Line] = []
    failures: dict[str, str] = {}
    for name, run in chosen.items():
        try:
            for line in run():
                lines.append(line)
                sys.stdout.write(line.text() + "\n")
                sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - one void case must not hide the others
            # The page is read elsewhere. For an unexpected error it shows the kind and no path.
            failures[name] = str(error) if isinstance(error, Differ | NoGateway | Unavailable) else type(error).__name__
            sys.stderr.write(f"{name} is void:\n{traceback.format_exc(limit=-3, chain=False)}")
    return lines, failures


def _write(
    output: Path, lines: list[Line], failures: dict[str, str], arguments: argparse.Namespace, load: float
) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        page(
            lines,
            failures,
            mib=arguments.mib,
            command_mib=arguments.command_mib,
            rounds=arguments.rounds,
            command_rounds=arguments.command_rounds,
            publish_mib=arguments.publish_mib,
            publish_rounds=arguments.publish_rounds,
            java_warm_ups=decoding.JAVA_WARM_UPS,
            load=load,
            command="make bench"
            if arguments.only is None and arguments.page is None
            else shlex.join(["python", "-m", "tests.bench", *sys.argv[1:]]),
        ),
        encoding="utf-8",
    )
    sys.stdout.write(f"written to {output}\n")
    if output in [RESULTS / each.file for each in PageName]:
        results_page.renew()
        sys.stdout.write(f"headline figures renewed in {results_page.PAGE}\n")


if __name__ == "__main__":
    sys.exit(main())
