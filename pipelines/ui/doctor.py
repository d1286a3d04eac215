"""The check of ``loglake doctor`` for Dagster: its home can be written."""

from __future__ import annotations

from collections.abc import Iterator

from logcore.cli.doctor.checks import CheckedPlaces, CheckState, InstallationCheck
from logcore.cli.doctor.installation import folder_check
from spark_jobs.errors import UsageError
from spark_jobs.lake.view.registered_lakes import dagster_home

from ..command.history import check_outside_lakes

_ADVICE = "Name another folder with DAGSTER_HOME. A home that is read-only needs a database in its dagster.yaml."


def dagster_checks(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    """Yield the check of Dagster's home.

    Args:
        places: Not used: there is one home for all lakes.
    """
    try:
        yield folder_check("dagster", str(check_outside_lakes(dagster_home())), _ADVICE, CheckState.WARNING)
    except UsageError as error:
        yield InstallationCheck("dagster", CheckState.FAILED, str(error))
