"""The data source of Spark reads logs and lakes of a bucket. Its workers get the access from their environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS
from tests.object_store.gateway import Gateway, upload
from tests.spark.cycle import AS_OF_MS

READ = """
import json, sys
from spark_jobs.engine.session import get_session
read = get_session().read.format("loglake").option("minPartitions", "4").load(sys.argv[1])
print(json.dumps([(row.offset, row.key.hex(), row.value.hex()) for row in read.collect()]))
"""
"""In a process of its own: the JVM of this one may have been started without access to the bucket."""

pytestmark = [pytest.mark.object_store, pytest.mark.spark, pytest.mark.long]


def test_a_log_directory_and_a_lake_of_a_bucket_give_the_rows(
    gateway: Gateway, gateway_bucket: str, tmp_path: Path
) -> None:
    source = LogDirectory(tmp_path / "logs")
    orders = source.partition("orders-0")
    orders.append(30)
    orders.roll()
    orders.append(20)
    source.high_watermarks(orders_0=50)
    upload(source.path, f"{gateway_bucket}/logs")
    launch.run(IngestConfig(f"{gateway_bucket}/lake", (str(source.path),), "ingest", AS_OF_MS))

    for place in ("logs", "lake"):
        done = subprocess.run(
            [sys.executable, "-c", READ, f"{gateway_bucket}/{place}"],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=10 * WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        rows = {int(at): (bytes.fromhex(key), bytes.fromhex(value)) for at, key, value in json.loads(done.stdout)}
        assert rows == orders.rows, place
        assert gateway.settings["AWS_SECRET_ACCESS_KEY"] not in done.stderr
