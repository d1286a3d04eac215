"""Kafka's log on disk, as a library: bytes in, values out.

`import logcore` offers the public API, which docs/library.md explains: `open_log_directory`, `open_partition` and
`open_segment` give logs to read, `LogWriter` writes one. What `__all__` names is public and stays as it is; modules
and their other names may change.

The package's parts: `records` says what a batch is, `segments` what a segment and its side files are, `logs` what a
partition's log means. `columns` turns records into Arrow, and `storage` is the only place that opens a file. `reading`
finds logs and their visible offsets, and `library` is the public API. There is no Spark, no scheduler and no clock in
here. Importing the package imports nothing else: each public name is loaded when it is first used (PEP 562).

Example:
    >>> import logcore
    >>> log = logcore.open_partition("logs/orders-0")
    >>> sum(1 for _ in log.records())
    1200
"""

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would take most of the import's time
if TYPE_CHECKING:
    from logcore.columns.records_columns import RECORDS_SCHEMA
    from logcore.errors import CorruptionReason, CorruptRecordError, LogError, OffsetOutOfRange
    from logcore.library.damage import DamageFound
    from logcore.library.log import Log, open_partition, open_segment
    from logcore.library.log_directory import LogDirectory, open_log_directory
    from logcore.library.log_meaning import TransactionReport
    from logcore.library.validation import ValidationReport, ValidationTotals
    from logcore.logs.lookup import OffsetAnswer
    from logcore.logs.model.broker_line import BrokerLine
    from logcore.logs.model.findings import Finding, Severity
    from logcore.logs.model.offset_ledger import LedgerRange, OffsetState
    from logcore.logs.model.topic_config import TopicConfig
    from logcore.logs.model.transactions import Transaction, TransactionState
    from logcore.logs.writer.writer import LogWriter
    from logcore.reading.consumer_log import LogBatch
    from logcore.reading.read_options import ReadRules
    from logcore.records.builder import build_batch
    from logcore.records.compression import Codec
    from logcore.records.control import ControlType
    from logcore.records.model import BatchHeader, Record, TimestampType
    from logcore.segments.filenames import TopicPartition
    from logcore.storage.partition_output import write_partition
    from logcore.storage.source_errors import SourceChanged, SourceUnreadable

__version__ = "0.1.0"

__all__ = [
    "RECORDS_SCHEMA",
    "BatchHeader",
    "BrokerLine",
    "Codec",
    "ControlType",
    "CorruptRecordError",
    "CorruptionReason",
    "DamageFound",
    "Finding",
    "LedgerRange",
    "Log",
    "LogBatch",
    "LogDirectory",
    "LogError",
    "LogWriter",
    "OffsetAnswer",
    "OffsetOutOfRange",
    "OffsetState",
    "ReadRules",
    "Record",
    "Severity",
    "SourceChanged",
    "SourceUnreadable",
    "TimestampType",
    "TopicConfig",
    "TopicPartition",
    "Transaction",
    "TransactionReport",
    "TransactionState",
    "ValidationReport",
    "ValidationTotals",
    "__version__",
    "build_batch",
    "open_log_directory",
    "open_partition",
    "open_segment",
    "write_partition",
]

_MODULES = {
    "RECORDS_SCHEMA": "columns.records_columns",
    "BatchHeader": "records.model",
    "BrokerLine": "logs.model.broker_line",
    "Codec": "records.compression",
    "ControlType": "records.control",
    "CorruptRecordError": "errors",
    "CorruptionReason": "errors",
    "DamageFound": "library.damage",
    "Finding": "logs.model.findings",
    "LedgerRange": "logs.model.offset_ledger",
    "Log": "library.log",
    "LogBatch": "reading.consumer_log",
    "LogDirectory": "library.log_directory",
    "LogError": "errors",
    "LogWriter": "logs.writer.writer",
    "OffsetAnswer": "logs.lookup",
    "OffsetOutOfRange": "errors",
    "OffsetState": "logs.model.offset_ledger",
    "ReadRules": "reading.read_options",
    "Record": "records.model",
    "Severity": "logs.model.findings",
    "SourceChanged": "storage.source_errors",
    "SourceUnreadable": "storage.source_errors",
    "TimestampType": "records.model",
    "TopicConfig": "logs.model.topic_config",
    "TopicPartition": "segments.filenames",
    "Transaction": "logs.model.transactions",
    "TransactionReport": "library.log_meaning",
    "TransactionState": "logs.model.transactions",
    "ValidationReport": "library.validation",
    "ValidationTotals": "library.validation",
    "build_batch": "records.builder",
    "open_log_directory": "library.log_directory",
    "open_partition": "library.log",
    "open_segment": "library.log",
    "write_partition": "storage.partition_output",
}
"""Where each public name is defined, below this package."""


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
