"""Planted into what Dagster sees of a lake: steps, run configuration, partitions, definitions for others."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CONFIGURATION = "tests/dagster/test_run_configuration.py"
PROJECT = "tests/dagster/test_strangers_project.py"
VIEWS = "tests/dagster/test_partition_views.py"
FAILED_STEPS = "tests/dagster/test_failed_steps.py"
PIPES = "tests/dagster/test_pipes.py"
MAINTENANCE = "tests/dagster/test_maintenance_checks.py"

FAULTS = (
    Fault(
        "a step whose events are not stored runs again and finds nothing new",
        "pipelines/resources.py",
        "        self._not_recorded[run_id, step] = done",
        "        self._not_recorded.clear()",
        (FAILED_STEPS, "-k", "while_a_step_is_recorded_is_retried"),
    ),
    Fault(
        "the sensor requests a run of what the command line has taken in",
        "pipelines/sensors.py",
        "if is_taken_in and settled.requested is None:",
        "if not is_taken_in:",
        ("tests/dagster/test_command_line_reports.py", "-k", "sensor"),
    ),
    Fault(
        "a listing that failed is a change of the source",
        "pipelines/run/source_listing.py",
        "    except StoreFailed:\n        raise\n    except (LogError, AddressError):  #",
        "    except (LogError, AddressError):  #",
        ("tests/object_store/test_sensor.py", "-k", "skips_the_tick and list"),
    ),
    Fault(
        "two lakes of one code location have launchers of their own",
        "pipelines/lake_definitions.py",
        "@cache\ndef _launcher()",
        "def _launcher()",
        (PROJECT, "-k", "two_lakes"),
    ),
    Fault(
        "keys of logs that are gone stay",
        "pipelines/partitions.py",
        "        for key in known - wanted - held:",
        "        for key in held - known:",
        (VIEWS, "-k", "gone"),
    ),
    Fault(
        "a run that is recorded late removes new keys",
        "pipelines/partitions.py",
        "        for key in known - wanted - held:",
        "        for key in known - wanted:",
        (VIEWS, "-k", "fewer_logs"),
    ),
    Fault(
        "the engine of a run is not used",
        "pipelines/run/steps.py",
        "        engine = self.ran_by or self.request.engine",
        '        engine = "auto"',
        (CONFIGURATION, "-k", "engine"),
    ),
    Fault(
        "a time of the run configuration reaches no job",
        "pipelines/catalog/run_configuration.py",
        '        if value in (None, "", []):\n',
        '        if value in (None, "", []) or name != field.name:\n',
        (CONFIGURATION, "-k", "range_of_time"),
    ),
    Fault(
        "a run for other logs than its partitions is not refused",
        "pipelines/assets.py",
        "    if run.is_backfill and run.request.logs and",
        "    if not run.is_backfill and run.request.logs and",
        (CONFIGURATION, "-k", "cannot_be_carried_out"),
    ),
    Fault(
        "an error of the report through Pipes ends the run",
        "pipelines/command/run_lake.py",
        "            self._is_broken = True\n            _complain(error)",
        "            raise",
        (PIPES, "-k", "report_that_breaks"),
    ),
    Fault(
        "a process with damage ends with 0 although no check shows it",
        "pipelines/command/run_lake.py",
        " and set(failing) <= set(self.expected_checks)",
        "",
        (PIPES, "-k", "damage_is_a_red_check"),
    ),
    Fault(
        "a check of maintenance that looked at nothing passes",
        "pipelines/run/maintenance_steps.py",
        "    if not looked_at:\n        return",
        "    if looked_at < 0:\n        return",
        (MAINTENANCE, "-k", "looked_at_nothing"),
    ),
    Fault(
        "a plan that is not carried out stays green",
        "pipelines/run/maintenance_steps.py",
        "if not applied and ages and max(ages) > OLD_MS",
        "if applied and ages and max(ages) > OLD_MS",
        (MAINTENANCE, "-k", "is_not_carried_out"),
    ),
    Fault(
        "answers of maintenance replace those of the intake",
        "pipelines/events.py",
        "for a in done.answers if a.asset not in OF_MAINTENANCE",
        "for a in done.answers",
        (MAINTENANCE, "-k", "look_for_work_compares"),
    ),
    Fault(
        "a lake without an interval has a schedule that skips every minute",
        "pipelines/schedules.py",
        "return lake.policy.ingest if isinstance(lake.policy.ingest, int) else None",
        "return lake.policy.ingest if isinstance(lake.policy.ingest, int) else _MINUTE_MS",
        ("tests/dagster/test_schedules.py", "-k", "without_an_interval"),
    ),
)
