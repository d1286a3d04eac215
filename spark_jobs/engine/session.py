"""The only place that builds a SparkSession: with Delta, one session per process, quiet, the same on every machine.

Environment variables, all optional:

======================= ===============================================================================================
``LOGLAKE_SPARK_MASTER`` ``spark.master``; default ``local[*]``
``LOGLAKE_SPARK_CONF``   more settings: a JSON object, or the path of a file like ``spark-defaults.conf``
``LOGLAKE_JARS_DIR``     and others: the source of the Delta jars, see :mod:`spark_jobs.engine.jars`
``LOGLAKE_HOME``         scratch space of this machine, see :mod:`spark_jobs.lake.setup.home`
``AWS_*``                access to a lake on an object store, see :mod:`spark_jobs.lake.store.object_store`
======================= ===============================================================================================

Secrets are never on a command line, which every user of a machine can read. ``AWS_*`` is not a setting: workers get it
in the environment of their Python processes, sent with the tasks. A setting with a secret-like name is given to the JVM
after its start, not as an argument.

Importing this module does not import pyspark, so an empty plan does not load it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from logcore.columns.kernels.library import ENGINE_VARIABLE, is_chosen
from spark_jobs.engine import class_archive
from spark_jobs.engine.jars import delta_jars
from spark_jobs.engine.java import java_home
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.setup.home import local_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
# A local JVM runs for about a minute, and most of the work is in Python. The second compiler and the parallel collector
# cost more than they save (a small job: 16 s with these options, 21 s without). spark.driver.extraJavaOptions replaces
# them.
LOCAL_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_FOR_WORKERS = re.compile(r"PYTHONPATH$|LOGLAKE_(?!SPARK_|JARS_|IVY_)")
# Spark's own pattern has `access[.]?key`, which does not match AWS_ACCESS_KEY_ID.
REDACTED = r"(?i)secret|password|passwd|token|credential|access[._]?key"
_REDACTION = "spark.redaction.regex"

ARCHIVE_NAME = "loglake"
"""The name in ``spark.archives`` of the archive that :mod:`spark_jobs.engine.worker_environment` writes."""

# Spark's "active session" belongs to a thread. Ours belongs to the process, because steps run in any thread.
_session: SparkSession | None = None


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def get_session(lake: str | Path | None = None, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process, started on first use (5 s); a later call gets the same one.

    Args:
        lake: Names the application. Used only by the call that starts the session.
        conf: Additional settings, which override ours and the environment's. Used only by the call that starts the
            session.

    Raises:
        JobError: There is no usable Java, or there are no usable Delta jars.
        UsageError: ``LOGLAKE_SPARK_CONF`` cannot be read.
    """
    global _session
    if _session is not None:
        return _session
    settings = session_settings(lake, conf)
    _prepare_environment(settings)

    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    # pyspark prints every failed query as JSON with the whole Java stack, in addition to the exception that it raises.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # py4j logs with the root logger, and a traceback, what it raises.
    logging.getLogger().addFilter(_is_not_of_py4j)
    secret = {name for name in settings if re.search(REDACTED, name)}
    # pyspark starts its JVM with an argument for each setting known by then; the context gets the rest when it runs.
    visible = SparkConf().setAll([(name, value) for name, value in settings.items() if name not in secret])
    try:
        # In another thread, because interrupts reach only the main thread. An interrupt inside PySpark's start would
        # delete the folder in which the JVM announces itself, and the JVM would then run for ever.
        with ThreadPoolExecutor(max_workers=1) as starter:
            starter.submit(SparkContext._ensure_initialized, conf=visible).result()
    except PySparkRuntimeError as error:
        raise JobError(
            f"Spark's Java ({os.environ['JAVA_HOME']}/bin/java) ended before it could be used; its output is above. "
            "If it mentions memory, raise the limit (`ulimit -v`, or the container's) or lower "
            "spark.driver.memory in LOGLAKE_SPARK_CONF."
        ) from error
    context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    # The environment of Python workers: sent with each task, and in no setting, event log or page of Spark.
    context.environment.update({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    if settings["spark.master"].startswith("local") and ENGINE_VARIABLE not in os.environ and not is_chosen():
        context.environment[ENGINE_VARIABLE] = "reference"  # the driver warned already; its workers do not
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    _session = builder.getOrCreate()
    return _session


def stop_session() -> None:
    """End the session of this process, if there is one. The next :func:`get_session` starts another."""
    global _session
    if _session is not None:
        _session.stop()
        _session = None


def session_settings(lake: str | Path | None = None, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """All settings that :func:`get_session` gives Spark, by name: ours, the environment's, then `conf`."""
    settings = _our_settings(lake) | _settings_of_environment() | dict(conf or {})
    local = settings["spark.master"].startswith("local")
    if not local:
        settings = _settings_of_workers() | settings
    java_options = settings.get("spark.driver.extraJavaOptions", LOCAL_JVM_OPTIONS if local else "")
    archived = class_archive.options(Path(settings["spark.jars"].partition(",")[0]).parent) if local else ""
    settings["spark.driver.extraJavaOptions"] = " ".join(part for part in (_LOGGING, archived, java_options) if part)
    return settings


def _our_settings(lake: str | Path | None) -> dict[str, str]:
    return {
        "spark.app.name": f"loglake {Path(lake).name}" if lake is not None else "loglake",
        "spark.master": os.environ.get("LOGLAKE_SPARK_MASTER") or "local[*]",
        "spark.jars": ",".join(str(path) for path in delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(local_home() / "spark-warehouse"),
        # the defaults (200, 50, 10000) are for large clusters and cost seconds on our small tables
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _REDACTION: REDACTED,
    }


def _settings_of_workers() -> dict[str, str]:
    """The environment of a cluster's executors: the paths of packages, and one folder for compiled kernels.

    There each application has its own working directory, and would compile the kernels again. Credentials are not
    included: :func:`get_session` sends those with the tasks.
    """
    given = {name: value for name, value in os.environ.items() if _FOR_WORKERS.match(name)}
    given["LOGLAKE_HOME"] = str(local_home())
    return {f"spark.executorEnv.{name}": value for name, value in given.items()}


def _settings_of_environment() -> dict[str, str]:
    given = os.environ.get("LOGLAKE_SPARK_CONF", "").strip()
    if not given:
        return {}
    if given.startswith("{"):
        try:
            return {name: str(value) for name, value in json.loads(given).items()}
        except ValueError as error:
            raise UsageError(f"LOGLAKE_SPARK_CONF is not a JSON object: {error}") from error
    try:
        lines = Path(given).read_text().splitlines()
    except OSError as error:
        raise UsageError(f"LOGLAKE_SPARK_CONF names {given}, which cannot be read: {error.strerror}") from error
    # like Java properties: the name ends at the first blank or equals sign
    pairs = (re.fullmatch(r"\s*([^\s=#][^\s=]*)\s*[\s=]\s*(.*?)\s*", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def _prepare_environment(settings: Mapping[str, str]) -> None:
    """Set the variables that pyspark reads when it starts its JVM and its Python workers."""
    os.environ["JAVA_HOME"] = str(java_home())
    if settings["spark.master"].startswith("local"):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable  # not the PATH's python3
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        # At the same path on every worker, unless it travels with the job or is named by hand.
        archives = settings.get("spark.archives", "").split(",")
        is_shipped = any(address.strip().endswith(f"#{ARCHIVE_NAME}") for address in archives)
        os.environ.setdefault("PYSPARK_PYTHON", f"./{ARCHIVE_NAME}/bin/python" if is_shipped else sys.executable)
