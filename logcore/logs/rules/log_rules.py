"""Rules for the bytes of a log: batches of a segment, the log as a whole, and the files beside its segments.

The checks are in `logcore.logs.checks.validation` and `batch_rules`, `transactions` and `offset_ledger`, `log_check`
and `index_check`.
"""

from __future__ import annotations

from types import MappingProxyType

from logcore.logs.rules.lake_rules import RESTORE_AND_VALIDATE
from logcore.logs.rules.rule import Persistence, Rule, Severity

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
_FOR_GOOD, _ONE_RUN, _UNTIL_REPLACED = Persistence.FOR_GOOD, Persistence.ONE_RUN, Persistence.UNTIL_REPLACED

REINDEX = (
    "The segments are read without it. `loglake reindex {directory} --out {out}` makes a copy with new index files."
)
FILL = (
    "If another copy of the log has the offsets, `{run} --fill-from COPY` takes them; COPY is its log directory. "
    "{salvage}"
)
_SALVAGE = (
    "`loglake recover {directory} --out {out} --checkpoints-out {new} --salvage` writes a copy without these bytes, "
    "with all other good batches. It reports what is lost."
)
_LOST = "No command brings them back. Look for another copy of the partition."
_PRODUCER = "The records are kept and published. Look for the cause at the producer, not in the log."

SEGMENT_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "corrupt-bytes": Rule(
            _ERROR,
            _UNTIL_REPLACED,
            "Bytes of a segment cannot be trusted; the message says why. A lake keeps them in `quarantine`.",
            FILL,
            for_logs=_SALVAGE,
        ),
        "packed-segment": Rule(
            _ERROR,
            Persistence.WHILE_STOPPED,
            "A file has the name of a segment, and somebody packed it, for instance with gzip. Nothing is published "
            "from it, and the log does not grow.",
            "Unpack the file with the command of the message, in a copy of the log directory if a broker uses it, and "
            "read the log again: `{run}`.",
            for_logs="Unpack the file with the command of the message. `recover` does not unpack it.",
        ),
        "torn-tail": Rule(
            _INFO,
            _UNTIL_REPLACED,
            "A segment that is still written ends in a partial batch.",
            "Nothing: the next run reads the batch when it is complete.",
        ),
        "tail-hides-batches": Rule(
            _ERROR,
            Persistence.WHILE_STOPPED,
            "The end of a segment that is still written is not a partial batch, or it contains whole batches. Nothing "
            "of it is archived.",
            f"{_SALVAGE} `loglake run {{out}} --lake {{lake}} --move-source` then reads it. Or, where COPY is "
            "the log directory of another copy: `loglake run COPY --lake {lake}{log} --move-source`. A broker that "
            "starts on the log cuts these bytes off, with the committed records in them.",
            for_logs=_SALVAGE,
        ),
        "segment-without-batch": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A segment is not empty, and none of its batches can be read.",
            "Check that the file is a Kafka segment and was copied completely; copy it again from the broker.",
        ),
        "zero-padding": Rule(
            _INFO,
            _UNTIL_REPLACED,
            "A segment that is still written ends in zeros: room that the broker reserved.",
            "Nothing.",
        ),
        "zero-tail": Rule(
            _ERROR,
            _UNTIL_REPLACED,
            "A segment that was complete ends in zeros: records were lost.",
            FILL,
            for_logs=_SALVAGE,
        ),
        "bytes-after-segment": Rule(
            _WARNING,
            _ONE_RUN,
            "A closed segment has all its offsets, and more bytes after them: zeros, or others without a good batch. "
            "No record is lost.",
            "Nothing: the archive leaves these bytes out.",
            for_logs=_SALVAGE,
        ),
        "unknown-attribute-bits": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A batch has attribute bits that no known broker sets.",
            "The batch is read without them. Check whether a newer version of Kafka or another program wrote it.",
        ),
        "control-batch-shape": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A control batch does not contain exactly one record.",
            "Check which program wrote it: brokers write one record into each control batch.",
        ),
        "unknown-control-type": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A control record has an unknown type; it decides no transaction.",
            "Check whether a newer version of Kafka wrote it.",
        ),
        "leader-epoch-regression": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A batch has a lower leader epoch than the batch before.",
            "Compare with another replica: a flipped bit or a mixture of two replicas looks like this.",
        ),
        "max-timestamp-differs": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "The greatest timestamp in a batch header is not that of its records.",
            "The records keep their own timestamps. Expect `retention.ms` and look-ups by time to use the header.",
        ),
        "negative-timestamp": Rule(
            _INFO,
            _UNTIL_REPLACED,
            "A record has a timestamp below -1. Brokers of 3.9.2 accept such records in batches without compression.",
            "The number is in `timestamp_ms`. Check the clock or the serializer of the producer.",
        ),
        "timestamp-out-of-range": Rule(
            _INFO,
            _UNTIL_REPLACED,
            "A record has a timestamp outside the years 1 to 9999; `timestamp` is null.",
            "Use `timestamp_ms`, which keeps the number.",
        ),
        "sequence-gap": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A producer's batch skips sequence numbers: records were lost between producer and log.",
            _PRODUCER,
        ),
        "sequence-duplicate": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A producer's batch was written twice; both are kept.",
            "Readers that need each record once drop duplicates by key or by their own id.",
        ),
        "unusual-encoding": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "Numbers are encoded in another way than by Kafka; they are read as Kafka reads them.",
            "Check which client or program wrote the batch.",
        ),
        "header-name-not-utf8": Rule(
            _INFO,
            _UNTIL_REPLACED,
            "The name of a record header is not UTF-8.",
            "Use `header_keys_raw`, which keeps the bytes.",
        ),
        "inner-crc-differs": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A message inside a compressed message fails its own checksum.",
            "The outer checksum is right, so the message is kept. Compare its value with another source.",
        ),
        "inner-magic-differs": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A message inside a compressed message is of another format version.",
            "The message is read by its own version. Check which client wrote it.",
        ),
        "inner-bytes-left": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "The last message inside a compressed message is incomplete; it is dropped, as in Kafka.",
            "Check which client wrote it. Brokers and consumers do not see this message either.",
        ),
        "wrapper-offset-zero": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A compressed message has offset 0, though a message inside it has another; brokers skip it.",
            "`loglake recover {directory} --out {out} --checkpoints-out {new} --salvage` gives it the offset of its "
            "last message.",
        ),
        "messages-below-log-end": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "A compressed message begins below the end of the one before (KAFKA-3919); consumers skip what is below.",
            "Nothing is lost for a consumer. Its other records are published, each offset once.",
        ),
        "last-offset-delta-short": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "An old client left a batch's last offset delta 0, so Kafka's readers give its records too high offsets.",
            "All records are published, at the offsets that the broker counted. Update the client.",
        ),
        "ignored-bytes": Rule(
            _WARNING,
            _UNTIL_REPLACED,
            "Bytes that Kafka's readers ignore follow a compressed stream or a value; the records are read.",
            "Check which client wrote it.",
        ),
    }
)

WHOLE_LOG_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "batch-outside-transaction": Rule(
            _WARNING,
            _FOR_GOOD,
            "A producer wrote a batch outside its own open transaction.",
            "The batch is visible to every reader, whatever the outcome of the transaction is. Check the producer.",
        ),
        "transaction-outcome-lost": Rule(
            _ERROR,
            Persistence.WHILE_IN_LEDGER,
            "A transaction was open where offsets are lost, so its outcome is lost too.",
            FILL,
            for_logs=_LOST,
        ),
        "corrupt-offsets": Rule(
            _ERROR,
            Persistence.WHILE_IN_LEDGER,
            "The bytes of these offsets cannot be trusted.",
            FILL,
            for_logs=_SALVAGE,
        ),
        "missing-offsets": Rule(
            _ERROR,
            Persistence.WHILE_IN_LEDGER,
            "These offsets are gone, and nothing explains it.",
            FILL,
            for_logs=_LOST,
        ),
        "changed-after-publishing": Rule(
            _ERROR,
            _FOR_GOOD,
            "Archived bytes no longer agree with what was published from them; the rows stay.",
            RESTORE_AND_VALIDATE,
        ),
    }
)

SIDE_FILE_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "leader-epoch-differs": Rule(
            _WARNING,
            _ONE_RUN,
            "A batch has another leader epoch than `leader-epoch-checkpoint` states there.",
            "Compare with another replica, and copy the file from the one that is right. No command decides it.",
        ),
        "producer-sequence": Rule(
            _WARNING,
            _ONE_RUN,
            "A producer's batch does not follow its last one.",
            _PRODUCER,
        ),
        "producer-epoch-regression": Rule(
            _WARNING,
            _ONE_RUN,
            "A producer's batch has a lower epoch than the producer had before.",
            _PRODUCER,
        ),
        "index-missing": Rule(
            _INFO,
            _ONE_RUN,
            "A segment has no offset index.",
            "Nothing: a broker's start builds it, and so does `loglake reindex {directory} --out {out}`.",
        ),
        "index-partial-entry": Rule(
            _INFO,
            _ONE_RUN,
            "An index ends in bytes that are not a whole entry; brokers ignore them.",
            "Nothing.",
        ),
        "index-zeroed": Rule(_WARNING, _ONE_RUN, "An index contains zeros, although its segment is complete.", REINDEX),
        "leader-epochs-unproven": Rule(
            _INFO,
            _ONE_RUN,
            "There is no `leader-epoch-checkpoint` for these offsets, so a flipped leader epoch cannot be found.",
            "Copy the file along with the segments, if the broker has it.",
        ),
        "index-past-end": Rule(
            _WARNING,
            _ONE_RUN,
            "An index entry points after the end of its segment: the segment may have been cut.",
            "Compare the segment's size with the broker or with another replica, and copy it again.",
        ),
        "offset-index-differs": Rule(_WARNING, _ONE_RUN, "An offset index does not match its segment.", REINDEX),
        "time-index-differs": Rule(_WARNING, _ONE_RUN, "A time index does not match its segment.", REINDEX),
        "transaction-index-differs": Rule(_WARNING, _ONE_RUN, "A transaction index does not match the log.", REINDEX),
        "broken-snapshot": Rule(
            _WARNING,
            _ONE_RUN,
            "A producer snapshot cannot be used; a broker would delete it.",
            "`loglake reindex {directory} --out {out}` makes a copy with new producer snapshots.",
        ),
        "snapshot-not-whole": Rule(
            _ERROR,
            _ONE_RUN,
            "A KRaft snapshot lacks its header or footer record.",
            "Copy the file again from a controller.",
        ),
        "snapshot-differs": Rule(
            _WARNING,
            _ONE_RUN,
            "A producer snapshot differs from the state that the batches below it give.",
            "`loglake reindex {directory} --out {out}` makes a copy with new producer snapshots.",
        ),
        "checkpoint-beyond-log-end": Rule(
            _WARNING,
            _ONE_RUN,
            "A file beside the log names offsets above the log's end: the end may have been cut off.",
            "Compare with another replica. If the copy was made while the broker ran, copy it again.",
        ),
    }
)
