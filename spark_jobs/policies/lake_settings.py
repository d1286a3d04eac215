"""The settings of a lake in ``policies.yaml``: when Dagster starts its jobs, and which tasks it starts.

Defaults are those of ``topic_policies.LakePolicy``.

This module defines what may be in the file. ``policies_file`` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.policies.policy_values import TIMES, OneOf, OwnSetting, Pace, PlaceList, WebAddress, WholeNumber

ON_CLOSED_SEGMENTS = "on closed segments"

LAKE_SETTINGS: Mapping[str, OwnSetting] = {
    setting.name: setting
    for setting in (
        OwnSetting(
            "ingest",
            Pace(("by hand", ON_CLOSED_SEGMENTS), 60_000),
            "When Dagster reads the sources: `every 5 min` (at least one minute; above a day, whole days), `on closed "
            "segments` by the sensor, or only `by hand`. `loglake watch` needs no schedule.",
        ),
        OwnSetting(
            "nightly",
            OneOf(("plan", "apply")),
            "What the nightly maintenance does, once its schedule is switched on in Dagster: `apply` carries out what "
            "the policies of topics say, `plan` only shows it.",
        ),
        OwnSetting(
            "engine",
            OneOf(("auto", "local", "spark")),
            "The job engine of runs that Dagster starts; `auto`: Spark, and `local` where there is no usable Java.",
        ),
        OwnSetting(
            "cluster",
            OneOf(("follow", "off")),
            "`follow`: runs write what Kafka's internal topics at the sources say into the tables `cluster_…`; `off` "
            "leaves that to `loglake cluster`.",
        ),
        OwnSetting(
            "alerts.webhook",
            WebAddress(),
            "Where alerts are posted as JSON: an address, or `env:NAME` for one in an environment variable. An address "
            "with a secret belongs in a variable.",
        ),
        OwnSetting(
            "alerts.max.lag",
            WholeNumber(0),
            "Offsets that a log may have ingested and not published before there is an alert.",
        ),
        OwnSetting(
            "expectations.rows",
            WholeNumber(0),
            "New rows from which on the job `expectations` checks each row with Great Expectations, if it runs on "
            "Spark. A backfill does so with any number, and so does a run after such a check has failed. Otherwise the "
            "rows of each range are counted.",
        ),
        OwnSetting(
            "runs.retention.ms",
            WholeNumber(0, units=TIMES),
            "Age in milliseconds after which nightly maintenance removes rows of the table `runs`. The newest row of "
            "each job stays. Not set: all stay.",
        ),
        OwnSetting(
            "remote",
            PlaceList(),
            "Remote storage of tiered topics, where a run names none with `--remote`: its segments and the local ones "
            "are one log. See [publishing.md](publishing.md#remote-storage).",
        ),
    )
}
"""Every setting of a lake by its name; docs/policies.md is generated from it."""
