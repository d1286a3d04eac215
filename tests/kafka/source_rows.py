"""Rows of a data source of Spark for several sets of options. A program, because a JVM gets its jars when it starts.

``python -m tests.kafka.source_rows FORMAT QUERIES OUTPUT [JAR ...]``: QUERIES is JSON, a list of sets of options.
OUTPUT is a pickle: for each set its rows, or the text of the error.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def main(kind: str, queries: str, output: str, *jars: str) -> None:
    """Run the queries."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(jars),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answers: list[Any] = []
    for options in json.loads(Path(queries).read_text()):
        try:
            frame = spark.read.format(kind).options(**options).load()
            answers.append(frame.orderBy("topic", "partition", "offset").toArrow().to_pylist())
        except Exception as error:  # noqa: BLE001 - some errors of the JVM have no class of PySpark
            answers.append(str(error))
    Path(output).write_bytes(pickle.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
