"""Planted into what Dagster sees of a lake: steps, run configuration, partitions, definitions for others."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CONFIGURATION = "tests/dagster/test_run_configuration.py"
PIPES = "tests/dagster/test_pipes.py"
MAINTENANCE = "tests/dagster/test_maintenance_checks.py"
OF_PARTITIONS = "tests/dagster/test_red_checks.py"

FAULTS = (
    Fault(
        "the sensor requests a run of what the command line has taken in",
        "pipelines/sensors.py",
        "if is_taken_in and settled.requested is None:",
        "if not is_taken_in:",
        ("tests/dagster/test_command_line_reports.py", "-k", "sensor"),
    ),
    Fault(
        "the engine of a run is not used",
        "pipelines/run/steps.py",
        "        engine = self.ran_by or self.request.engine",
        '        engine = "auto"',
        (CONFIGURATION, "-k", "engine"),
    ),
    Fault(
        "a run for other logs than its partitions is not refused",
        "pipelines/assets.py",
        "    if run.is_backfill and run.request.logs and",
        "    if not run.is_backfill and run.request.logs and",
        (CONFIGURATION, "-k", "cannot_be_carried_out"),
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
        "a red check does not say where",
        "pipelines/run/check_definitions.py",
        "facts[WHERE] = table_value(",
        "table_value(",
        (OF_PARTITIONS, "-k", "names_lake"),
    ),
    Fault(
        "a table is materialized in a run that did not change it",
        "pipelines/catalog/tables.py",
        "_last_version(instance, key) != table_version(lake.path, table.name)",
        "table_version(lake.path, table.name) is not None",
        ("tests/dagster/test_tables_as_assets.py", "-k", "changed_no_table"),
    ),
)
