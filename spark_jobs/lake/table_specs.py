"""The declaration of every table of a lake: columns with their meanings, layout, row order, and what one row is.

A new table is one entry of ``TABLES``. Its schema, its columns in the UI, its page in docs/tables.md, its place in the
summary of ``loglake run`` and the order in which its files are merged are all derived from here.

``lake/delta/tables`` creates, opens and reads tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from logcore.columns.records_columns import RECORDS_COLUMNS, Column
from spark_jobs.lake.cluster_columns import CLUSTER_TABLES, SOURCE
from spark_jobs.lake.table_spec import TableSpec, table_of_columns

RECORD_TABLES = ("records", "records_uncommitted")
"""The tables of records, with the offset of each. The offset ledger counts them; rows may be deleted on purpose."""
FIRST_OF_SEGMENT = "segment"
"""In a row order: not a column, but the first offset of the row's segment."""


_STRING, _INT32, _INT64, _BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()

_LOG = (
    Column("log", _STRING, "key of the log: `<log_id>/<partition>`"),
    Column("topic", _STRING, "topic name"),
    Column("log_id", _STRING, "topic id and incarnation; a topic that is created again under its name is another log"),
    Column("partition", _INT32, "partition number"),
)
_AS_OF = Column("as_of_ms", _INT64, "clock of the run, epoch milliseconds")
PUBLISHED_AT = Column(
    "published_at",
    pa.timestamp("us", tz="UTC"),
    "clock of the run that wrote the row, in UTC; merges of files keep it",
)

PHASES = (
    "ingest",
    "validate",
    "publish",
    "replace",
    "check_foreign_rows",
    "decode",
    "latest",
    "cluster",
    "expectations",
    "retention",
    "compaction",
    "tidy_archive",
    "rebuild_indexes",
    "optimize",
)
"""Jobs that a run has as phases, in their order."""
_MEASURED = (
    Column("started_ms", _INT64, "when the run began, by the clock of its machine, epoch milliseconds"),
    Column("ended_ms", _INT64, "when this row was written, by the same clock"),
    *(
        Column(f"{phase}_ms", _INT64, f"milliseconds of the job `{phase}`; null where it had no work")
        for phase in PHASES
    ),
)
"""What a run measures: another run on the same input has other values."""

_OFFSETS_OF_LOG = pa.struct(
    [
        pa.field("log", _STRING),
        pa.field("log_start_offset", _INT64, metadata={"comment": "log start, as last seen at the source"}),
        pa.field("last_stable_offset", _INT64, metadata={"comment": "by the transactions in the lake"}),
        pa.field("high_watermark", _INT64, metadata={"comment": "greatest one seen; null: unknown"}),
        pa.field("log_end_offset", _INT64, metadata={"comment": "first offset after the archive's end"}),
    ]
)

_SPECS = (
    table_of_columns(
        "records",
        "A record, as a `read_committed` consumer sees it, with the columns of Spark's Kafka source and where it came "
        "from.",
        (*RECORDS_COLUMNS, PUBLISHED_AT),
        # log_id too: tails and merges find the log of a file by its statistics alone. published_at: a reader of new
        # rows opens new files only.
        statistics=("partition", "offset", "timestamp", "log_id", "published_at"),
        row_order=("log_id", "partition", "offset"),
        partition_by=("topic",),
        in_summary=True,
        run_columns=(PUBLISHED_AT.name,),
    ),
    table_of_columns(
        "records_uncommitted",
        "A record up to the high watermark, whatever the state of its transaction; only in lakes that were run with "
        "`--isolation.level read_uncommitted`.",
        (
            *RECORDS_COLUMNS,
            Column(
                "transaction_state",
                _STRING,
                "`committed` (also of a record in no transaction), `aborted`, `open` or `unknown`",
            ),
        ),
        statistics=("partition", "offset", "timestamp", "log_id"),
        row_order=("log_id", "partition", "offset"),
        partition_by=("topic",),
        in_summary=True,
    ),
    table_of_columns(
        "offset_ledger",
        "A range of offsets of a log in one state; the ranges of a log cover it from 0 to its end without gap or "
        "overlap.",
        (
            *_LOG,
            Column("start_offset", _INT64, "first offset of the range"),
            Column("end_offset", _INT64, "first offset after the range"),
            Column(
                "state",
                _STRING,
                "what became of these offsets: `present`, `control`, `aborted`, `open`, `compacted`, `empty`, "
                "`trimmed`; `remote`, with a warning; or, with an alarm, `unknown`, `missing`, `corrupt`",
            ),
            Column("records", _INT64, "records of that state in the range"),
            Column("gaps", _INT64, "offsets in the range that no record holds"),
            Column(
                "gap_state",
                _STRING,
                "why: `compacted`, `control` (commit markers), or `compacted, control`; null where there are none",
            ),
            Column(
                "evidence",
                _STRING,
                "why the range has its state: one of the values listed below; null if the batches suffice",
            ),
            Column("published", _BOOL, "whether the range is below the frontier"),
            Column(
                "archived",
                _STRING,
                "whether the archive still has it: `held`, `retained-away`, `compacted-away`; `erased` or `expired`, "
                "which nothing writes yet",
            ),
            Column(
                "withdrawn",
                _BOOL,
                "whether its rows were deleted from `records` on purpose, and that is recorded",
            ),
            Column("markers", _INT64, "commit markers among the gaps"),
        ),
        statistics=("log", "start_offset"),
        row_order=("log", "start_offset"),
        in_summary=True,
        of_validation=True,
    ),
    table_of_columns(
        "findings",
        "One finding of a run: its rule, its severity, its place and a message. Findings stay as history.",
        (
            Column("finding_id", _STRING, "digest of rule, place and message: a finding is recorded once"),
            Column("run_id", _STRING, "run that found it"),
            Column("rule", _STRING, "rule id; `loglake help RULE` explains it"),
            Column("severity", _STRING, "`info`, `warning` or `error`"),
            Column("log", _STRING, "key of the log; null where it is about no single log"),
            Column("topic", _STRING, "topic name; null where it is about no single log"),
            Column("partition", _INT32, "partition number; null where it is about no single log"),
            Column("segment_id", _STRING, "archived segment; null where it is about no single segment"),
            Column("file", _STRING, "path of the file; null where it is about no file"),
            Column("position", _INT64, "position in that file, bytes"),
            Column("nbytes", _INT64, "bytes concerned from there on"),
            Column("start_offset", _INT64, "first offset concerned"),
            Column("end_offset", _INT64, "first offset after those concerned"),
            Column("message", _STRING, "one sentence for people, without keys or values of records"),
            _AS_OF,
        ),
        statistics=("finding_id", "log", "segment_id"),
        row_order=("log", "as_of_ms", "finding_id"),
        in_summary=True,
    ),
    table_of_columns(
        "quarantine",
        "Bytes of a segment that cannot be trusted, as they are; a row has at most 1 MiB, and a longer range takes "
        "several rows.",
        (
            Column("segment_id", _STRING, "archived segment"),
            *_LOG,
            Column("position", _INT64, "position of the bytes in the segment"),
            Column("size", _INT64, "number of bytes"),
            Column("expected_offset", _INT64, "offset that was expected there"),
            Column("reason", _STRING, "why they cannot be trusted: one of the values listed below"),
            Column("message", _STRING, "the same as a sentence"),
            Column("bytes", pa.binary(), "the bytes"),
        ),
        statistics=("segment_id", "log", "position"),
        row_order=(),  # rows of up to 1 MiB: joined file by file, and within a file a segment's rows are in order
        in_summary=True,
        of_validation=True,
    ),
    table_of_columns(
        "batches",
        "A record batch of a segment with its header fields, or a range of bytes that cannot be trusted.",
        (
            Column("segment_id", _STRING, "archived segment"),
            *_LOG,
            Column("position", _INT64, "position of the batch, bytes from the segment's start"),
            Column("size", _INT64, "bytes of the batch, its length field included"),
            Column("base_offset", _INT64, "first offset; of untrusted bytes the offset that was expected there"),
            Column("last_offset", _INT64, "last offset; null for untrusted bytes"),
            Column("leader_epoch", _INT32, "leader epoch; -1 none"),
            Column("magic", _INT32, "format version: 0, 1 or 2"),
            Column("crc", _INT64, "checksum as written"),
            Column("attributes", _INT32, "attribute bits as written"),
            Column("codec", _STRING, "`none`, `gzip`, `snappy`, `lz4` or `zstd`"),
            Column("timestamp_type", _STRING, "`CreateTime`, `LogAppendTime` or, in format 0, `NoTimestampType`"),
            Column("base_timestamp", _INT64, "timestamp that those of the records count from, epoch milliseconds"),
            Column("max_timestamp", _INT64, "greatest timestamp by the header, epoch milliseconds"),
            Column("delete_horizon_ms", _INT64, "when cleaning may drop tombstones and markers; null where not set"),
            Column("producer_id", _INT64, "producer id; -1 none"),
            Column("producer_epoch", _INT32, "producer epoch; -1 none"),
            Column("base_sequence", _INT32, "sequence number of the first record; -1 none"),
            Column("record_count", _INT32, "records in the batch"),
            Column("is_transactional", _BOOL, "whether it belongs to a transaction"),
            Column("is_control", _BOOL, "whether it is a control batch"),
            Column("control_type", _STRING, "`COMMIT` or `ABORT` of a transaction marker; null for data"),
            Column("verdict", _STRING, "`ok`, or the reason why the bytes cannot be trusted, as in `quarantine`"),
        ),
        statistics=("segment_id", "log", "base_offset", "last_offset"),
        # Within a log by segment, in the order of their first offsets, and by position: as the log pass reads them.
        row_order=("log", FIRST_OF_SEGMENT, "segment_id", "position"),
        in_summary=True,
        of_validation=True,
    ),
    table_of_columns(
        "transactions",
        "A transaction of a producer in a log, and how it ended.",
        (
            *_LOG,
            Column("producer_id", _INT64, "producer id"),
            Column("producer_epoch", _INT32, "producer epoch"),
            Column("first_offset", _INT64, "first offset of the transaction in the log"),
            Column("last_offset", _INT64, "last offset of its records"),
            Column("marker_offset", _INT64, "offset of the marker that ended it; null where none is known"),
            Column("state", _STRING, "`committed`, `aborted`, `open` or `unknown`"),
        ),
        statistics=("log", "first_offset"),
        row_order=("log", "first_offset", "producer_id"),
        in_summary=True,
        of_validation=True,
    ),
    table_of_columns(
        "segments",
        "A segment of the archive, live or retired.",
        (
            Column("segment_id", _STRING, "digest of log, place and bytes: same bytes, same id"),
            *_LOG,
            Column("base_offset", _INT64, "first offset that the segment may hold"),
            Column("next_offset", _INT64, "first offset after its last one"),
            Column("path", _STRING, "segment file; relative to the lake, absolute where registered at its source"),
            Column("start", _INT64, "position in that file where the segment's bytes begin"),
            Column("size", _INT64, "bytes"),
            Column("sealed", _BOOL, "whether the broker had closed the segment when it was read"),
            Column("digest", _STRING, "SHA-256 of its bytes"),
            Column("modified_ms", _INT64, "modification time at the source, epoch milliseconds"),
            Column("max_timestamp", _INT64, "greatest record timestamp, epoch milliseconds"),
            Column("generation", _INT32, "0 as taken from the source, higher after each rewrite"),
            Column("origin_file", _STRING, "file at the source that the bytes come from"),
            Column("origin_position", _INT64, "position in that file"),
            Column("origin_base_offset", _INT64, "base offset in that file's name"),
            Column("last_batch_base_offset", _INT64, "of its last batch: base offset"),
            Column("last_batch_epoch", _INT32, "of its last batch: leader epoch"),
            Column("last_batch_crc", _INT64, "of its last batch: checksum"),
            Column("last_batch_size", _INT64, "of its last batch: bytes"),
            Column("last_batch_end", _INT64, "of its last batch: position after it in the origin file"),
            Column("retired_ms", _INT64, "when it was retired, epoch milliseconds; null while it is live"),
            Column("replaced_by", _STRING, "segment that replaces it"),
            Column(
                "retired_because",
                _STRING,
                "why: `retention`, `compaction`, `cut-back`, `filled`, `merged`; null while it is live",
            ),
            Column("deleted_ms", _INT64, "when its files were deleted; null while they are kept"),
            Column("etag", _STRING, "ETag of the object at its source; null for other files, and in the archive"),
            Column("chunk_map", pa.binary(), "of an object in chunks: what its manifest says; null: read the manifest"),
            Column("archived_ms", _INT64, "clock of the run that put it into the archive, epoch milliseconds"),
            Column("archived_by", _STRING, "that run: one of ingest, or of the maintenance that wrote the segment"),
        ),
        # A watched lake has very many rows of joined slices, which plans do not read.
        statistics=("segment_id", "log", "base_offset", "retired_ms", "retired_because"),
        row_order=("log", "base_offset", "generation", "segment_id"),
        in_summary=True,
        run_columns=("archived_by",),
        separated_by="retired_because",
    ),
    table_of_columns(
        "logs",
        "A log (one incarnation of a topic partition), and what was last seen of its source.",
        (
            *_LOG,
            Column("incarnation", _INT32, "0 for the first log of this topic partition, then counted up"),
            Column("topic_id", _STRING, "topic id; null where the source states none"),
            Column("cluster", _STRING, "cluster id"),
            Column("source", _STRING, "partition directory that the log is taken from"),
            Column("next_offset", _INT64, "first offset after the archive's end"),
            Column("log_start_offset", _INT64, "log start when the log was first taken"),
            Column("source_log_start_offset", _INT64, "log start as last seen"),
            Column("high_watermark", _INT64, "greatest one seen; null: unknown, the log end is taken for it"),
            Column("leader_epochs", _STRING, "JSON `[[epoch, start_offset], ...]`"),
            Column("cleaner_checkpoint", _INT64, "offset up to which the source was cleaned; null where unknown"),
            Column("gaps", _STRING, "JSON `[[start, end, evidence], ...]`: offsets gone before they were read"),
            _AS_OF,
            Column("stopped", _STRING, "rule id of why the log does not grow; null while it does"),
            Column("stopped_because", _STRING, "the same as a sentence"),
            Column("stopped_file", _STRING, "file at which it stopped, as it was seen"),
        ),
        statistics=("log",),
        row_order=("log",),
    ),
    table_of_columns(
        "validations",
        "A validated segment: its verdict, its counts, and what became of each of its bytes.",
        (
            Column("segment_id", _STRING, "archived segment"),
            *_LOG,
            Column("base_offset", _INT64, "first offset that the segment may hold"),
            Column("verdict", _STRING, "`clean`, `torn` (ends in a partial batch) or `corrupt`"),
            Column("rules_version", _INT32, "version of the rules that it was validated by"),
            Column("batches", _INT64, "batches that can be trusted"),
            Column("records", _INT64, "data records in them"),
            Column("control_records", _INT64, "control records in them"),
            Column("file_bytes", _INT64, "bytes of the segment: the sum of the four columns that follow"),
            Column("valid_bytes", _INT64, "bytes of batches that can be trusted"),
            Column("quarantined_bytes", _INT64, "bytes that cannot be trusted"),
            Column("tail_bytes", _INT64, "bytes of a partial batch at the end"),
            Column("padding_bytes", _INT64, "zeros at the end"),
            Column("findings", _INT64, "number of findings on the segment"),
            Column("split_points", _STRING, "JSON `[[position, base_offset], ...]`, about every 64 MiB"),
            Column("digest", _STRING, "SHA-256 of the bytes that were validated"),
            _AS_OF,
        ),
        statistics=("segment_id", "log"),
        row_order=("log", "base_offset", "segment_id"),
        of_validation=True,
    ),
    table_of_columns(
        "log_actions",
        "What maintenance or `recover` did to a segment, and why; or why retention keeps the first segment that stays.",
        (
            Column("run_id", _STRING, "run that decided it"),
            *_LOG,
            Column("segment_id", _STRING, "segment that was retired, merged, kept or deleted"),
            Column(
                "action",
                _STRING,
                "`retention`, `compaction`, `keep`, `recovery`, `merge`, `delete` or `delete-orphan`",
            ),
            Column(
                "rule",
                _STRING,
                "the setting that led to it, `log-start-offset` or `orphan`; of `recovery` also a kind of loss",
            ),
            Column("reason", _STRING, "the reason as a sentence"),
            Column("bytes_before", _INT64, "bytes of the segment"),
            Column("bytes_after", _INT64, "bytes of what replaces it"),
            Column("records_before", _INT64, "records of the segment"),
            Column("records_after", _INT64, "records of what replaces it"),
            _AS_OF,
        ),
        statistics=("log", "segment_id"),
        row_order=("log", "as_of_ms", "segment_id"),
    ),
    table_of_columns(
        "withdrawals",
        "A range of offsets whose rows were deleted from `records` on purpose, or have expired.",
        (
            *_LOG,
            Column("start_offset", _INT64, "first offset of the range"),
            Column("end_offset", _INT64, "first offset after the range"),
            Column("records", _INT64, "published records in the range, whose rows are gone"),
            Column("table_version", _INT64, "version of `records` in which they were gone"),
            Column("run_id", _STRING, "run that recorded it"),
            Column("who", _STRING, "user who withdrew them, or `retention`"),
            Column("withdrawn_ms", _INT64, "when, epoch milliseconds"),
            Column("reason", _STRING, "`--reason`; null where none was given. Of expired rows the setting"),
            Column(
                "cause", _STRING, "`withdrawn` (by `loglake withdraw`), `expired` (`records.retention.ms`) or `unknown`"
            ),
        ),
        statistics=("log", "start_offset"),
        row_order=("log", "start_offset"),
    ),
    table_of_columns(
        "runs",
        "A run of intake or maintenance, or another command, that did work, failed, or had another number of failed "
        "checks than the run before. A run that was killed or interrupted has no row; the next run continues its work. "
        "Times are measured, so no comparison of tables uses them.",
        (
            Column("run_id", _STRING, "run, also in Dagster, in the other tables and in their commits"),
            Column(
                "job",
                _STRING,
                "`intake` or `maintenance`; else the command that wrote: `decode`, `latest`, `cluster`, `withdraw` "
                "or `repair`",
            ),
            Column(
                "started_by",
                _STRING,
                "`run`, `watch`, `demo`, `decode` …: that command; in Dagster `schedule`, `sensor`, `backfill`, or "
                "`dagster`: a person or another program",
            ),
            _AS_OF,
            Column("outcome", _STRING, "`succeeded` or `failed`; a red check does not fail a run"),
            Column("failed_step", _STRING, "step that failed; null where none did"),
            Column("error", _STRING, "class of its error, without the text; null where no step failed"),
            Column("engine", _STRING, "`local` or `spark`: what ran the tasks; null where there were none"),
            Column("changed_logs", _INT64, "logs that the run changed"),
            Column("segments", _INT64, "segments that it archived"),
            Column("bytes", _INT64, "bytes of these segments"),
            Column("records", _INT64, "records that it published, for the first time or again"),
            Column("deleted_bytes", _INT64, "bytes of the files that it deleted: of retired segments and of tables"),
            Column("failed_checks", _INT64, "checks that failed"),
            Column("findings_error", _INT64, "open findings of severity `error` in the lake, after its last step"),
            Column("findings_warning", _INT64, "the same of severity `warning`"),
            Column("findings_info", _INT64, "the same of severity `info`"),
            Column("lag_offsets", _INT64, "offsets that are archived and not published, after its last step"),
            Column("open_transactions", _INT64, "transactions that have not ended, after its last step"),
            Column(
                "oldest_open_transaction_age_ms",
                _INT64,
                "age of the oldest one at `as_of_ms`; null where there is none, or its beginning is unknown",
            ),
            Column(
                "logs",
                pa.list_(_OFFSETS_OF_LOG),
                "each log that the run changed, and how far it was after the last step; null where no step read that",
            ),
            *_MEASURED,
        ),
        statistics=("started_ms", "run_id"),
        row_order=("started_ms", "run_id"),
        run_columns=("run_id", *(column.name for column in _MEASURED)),
    ),
)

_OF_CLUSTER = tuple(
    table_of_columns(each.name, each.one_row, each.columns, statistics=(SOURCE,), row_order=each.row_order)
    for each in CLUSTER_TABLES
)

TABLES: Mapping[str, TableSpec] = {spec.name: spec for spec in (*_SPECS, *_OF_CLUSTER)}
"""Every table by its name, those first that a reader asks for first."""

LOGS = TABLES["logs"].schema
SEGMENTS = TABLES["segments"].schema
VALIDATIONS = TABLES["validations"].schema
BATCHES = TABLES["batches"].schema
FINDINGS = TABLES["findings"].schema
QUARANTINE = TABLES["quarantine"].schema
TRANSACTIONS = TABLES["transactions"].schema
OFFSET_LEDGER = TABLES["offset_ledger"].schema
WITHDRAWALS = TABLES["withdrawals"].schema
LOG_ACTIONS = TABLES["log_actions"].schema
RUNS = TABLES["runs"].schema
"""The columns, as Arrow schemas, of the tables that jobs write."""
