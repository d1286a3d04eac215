"""Requests for runs, as values."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.registry import remember
from tests.dagster.conftest import Define


def launch(define: Define, instance: dg.DagsterInstance, job: str, request: dg.RunRequest):
    """What the daemon does with a run request, in this process."""
    return (
        define()
        .resolve_job_def(job)
        .execute_in_process(
            instance=instance, run_config=request.run_config, tags=dict(request.tags), raise_on_error=False
        )
    )


def with_policies(lake: str, source: Path, text: str) -> Path:
    policies = source.parent / f"{Path(lake).name}.yaml"
    policies.write_text(text)
    remember(lake, Intake((str(source),), policies=str(policies)))
    return policies


def configs_of(requests: list[dg.RunRequest]) -> list[tuple[dg.RunRequest, dict]]:
    """Each request, and the only configuration in it."""
    found = []
    for request in requests:
        (op,) = request.run_config["ops"].values()
        found.append((request, op["config"] if "config" in op else op["ops"]["begin"]["config"]))
    return found
