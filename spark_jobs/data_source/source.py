"""The data source `loglake` of Spark. `pyspark_loglake` offers it.

A session of Spark loads this module when it looks for data sources, so readers are loaded when one is made.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from spark_jobs.data_source.source_columns import KAFKA_COLUMNS, spark_types
from spark_jobs.data_source.source_options import DataSourceOptions


class LoglakeSource(DataSource):
    """Records of logs, with the options and columns of Spark's Kafka source.

    Example:
        >>> spark.read.format("loglake").option("subscribe", "orders").load("/var/lib/kafka")
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "loglake"

    def schema(self) -> str:
        """The columns of Spark's Kafka source. A schema of the user chooses among them and some more."""
        names = (*KAFKA_COLUMNS, "headers") if DataSourceOptions.of(self.options).include_headers else KAFKA_COLUMNS
        types = spark_types()
        return ", ".join(f"{name} {types[name]}" for name in names)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a batch."""
        from spark_jobs.data_source.log_readers import LogReader

        return LogReader(DataSourceOptions.of(self.options).for_batch(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of a stream."""
        from spark_jobs.data_source.log_readers import LogStreamReader

        return LogStreamReader(DataSourceOptions.of(self.options).for_stream(), schema)


class _FilteredSource(LoglakeSource):
    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_jobs.data_source.log_readers import FilteringLogReader

        return FilteringLogReader(DataSourceOptions.of(self.options).for_batch(), schema)


def register(spark: SparkSession) -> None:
    """Register the data source with pushed filters: on topic, partition, offset and timestamp.

    Without it Spark finds the data source too, and filters rows after they were read.

    Args:
        spark: The session, classic or Connect. Its setting for filters of Python data sources is switched on.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(_FilteredSource)
