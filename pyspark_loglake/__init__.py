"""Logs of Kafka as DataFrames: ``spark.read.format("loglake").load("/var/lib/kafka")``.

Spark finds `DefaultSource` by the name of this package. `register` also lets Spark push filters down.
"""

from spark_jobs.data_source.source import LoglakeSource as DefaultSource
from spark_jobs.data_source.source import register

__all__ = ["DefaultSource", "register"]
