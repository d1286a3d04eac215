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

_DEFINED_IN = {
    "columns.records_columns": ("RECORDS_SCHEMA",),
    "errors": ("CorruptRecordError", "CorruptionReason", "LogError", "OffsetOutOfRange"),
    "library.damage": ("DamageFound",),
    "library.log": ("Log", "open_partition", "open_segment"),
    "library.log_directory": ("LogDirectory", "open_log_directory"),
    "library.log_meaning": ("TransactionReport",),
    "library.validation": ("ValidationReport", "ValidationTotals"),
    "logs.lookup": ("OffsetAnswer",),
    "logs.model.broker_line": ("BrokerLine",),
    "logs.model.findings": ("Finding", "Severity"),
    "logs.model.offset_ledger": ("LedgerRange", "OffsetState"),
    "logs.model.topic_config": ("TopicConfig",),
    "logs.model.transactions": ("Transaction", "TransactionState"),
    "logs.writer.writer": ("LogWriter",),
    "reading.consumer_log": ("LogBatch",),
    "reading.read_options": ("ReadRules",),
    "records.builder": ("build_batch",),
    "records.compression": ("Codec",),
    "records.control": ("ControlType",),
    "records.model": ("BatchHeader", "Record", "TimestampType"),
    "segments.filenames": ("TopicPartition",),
    "storage.partition_output": ("write_partition",),
    "storage.source_errors": ("SourceChanged", "SourceUnreadable"),
}
"""The public names by the module that defines them, below this package."""

_MODULES = {name: module for module, names in _DEFINED_IN.items() for name in names}


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
