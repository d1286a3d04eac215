"""The lakes of the demo, as Dagster shows them in a clone before anything ran, and the job that makes all of them."""

import os
import time

import dagster as dg

from spark_jobs.lake.view.registered_lakes import RegisteredLake, home_folder, lake_name

from .command.demo import SAMPLES, lakes_of_samples, run_demo
from .errors.step_errors import sentence_of

DEMO_JOB = "demo"


def demo_lakes() -> list[RegisteredLake]:
    """The lakes that the job makes, as if they were registered."""
    return [RegisteredLake(lake, lake_name(lake)) for lake in lakes_of_samples(home_folder())]


@dg.op(
    description="Unpack the bundled samples, register a lake for each of them, and take them in.",
    config_schema={"samples": dg.Field(str, str(SAMPLES), description="Folder of the samples")},
)
def make_lakes(context: dg.OpExecutionContext) -> None:
    """Do what `loglake demo` does, and report to this Dagster."""
    os.environ.setdefault("DAGSTER_HOME", context.instance.root_directory)
    try:
        run_demo(time.time_ns() // 1_000_000, context.op_config["samples"])
    except Exception as error:
        raise dg.Failure(sentence_of(error, "make_lakes", context.run_id), allow_retries=False) from error


@dg.job(
    name=DEMO_JOB,
    description="Makes all lakes of the demo from the bundled samples. Later it reports: nothing new.",
    executor_def=dg.in_process_executor,
)
def demo() -> None:
    """The button for the lakes of the demo."""
    make_lakes()
