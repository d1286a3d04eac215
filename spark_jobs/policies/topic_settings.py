"""The settings of a topic in ``policies.yaml``: name, values, and what each one does.

Names, ranges and defaults are as in Kafka's LogConfig and CleanerConfig if Kafka has the setting. The range of
``segment.bytes`` is from before the lower bound of 1 MiB in 4.0. Defaults are those of ``topic_policies.TopicPolicy``.

This module defines what may be in the file. ``policies_file`` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from logcore.logs.model.broker_line import BrokerLine
from spark_jobs.policies.compression import CODECS, GREATEST_LEVEL, LEAST_LEVEL
from spark_jobs.policies.policy_values import (
    SIZES,
    TIMES,
    FilePath,
    Name,
    NameList,
    OneOf,
    OwnSetting,
    Ratio,
    Setting,
    SomeOf,
    TopicOrAddress,
    VariableOrPath,
    WholeNumber,
)

UNLIMITED = -1

CLEANUP_POLICIES = ("compact", "delete")

INT32_MAX = 2**31 - 1

FORMATS = (
    "json",
    "avro",
    "protobuf",
    "string",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "boolean",
    "uuid",
    "bytes",
)
"""Formats of keys and values that ``loglake decode`` knows; the names of numbers are those of Kafka's serializers."""

SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        OwnSetting(
            "from",
            OneOf(("cluster",)),
            "`cluster`: Kafka's settings without a line here are those that `__cluster_metadata` says of each topic, "
            "as of the run's clock. Only settings that were made for the topic are there. Others have the defaults of "
            "this page, so without `cleanup.policy` or `retention.*` nothing is removed.",
            stored_as="settings_from",
        ),
        Setting(
            "cleanup.policy",
            SomeOf(CLEANUP_POLICIES),
            "What may be removed: `delete` lets retention remove old segments, `compact` lets cleaning remove older "
            "records of a key. With an empty list only offsets below the log start may be removed.",
        ),
        Setting(
            "retention.ms",
            WholeNumber(UNLIMITED, units=TIMES),
            "Age in milliseconds after which retention removes a segment; -1 is unlimited. Kafka's default is seven "
            "days; here nothing is removed by default.",
        ),
        Setting(
            "retention.bytes",
            WholeNumber(UNLIMITED, units=SIZES),
            "Size of a log in bytes above which retention removes its oldest segments; -1 is unlimited.",
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            Ratio(),
            "Part of a log that must be uncleaned before it is cleaned again.",
        ),
        Setting(
            "min.compaction.lag.ms",
            WholeNumber(0, units=TIMES),
            "Time in milliseconds for which a record is not cleaned.",
        ),
        Setting(
            "max.compaction.lag.ms",
            WholeNumber(1, units=TIMES),
            "Time in milliseconds after which a log is cleaned, whatever its dirty ratio.",
        ),
        Setting(
            "delete.retention.ms",
            WholeNumber(0, units=TIMES),
            "Time in milliseconds for which cleaning keeps tombstones and transaction markers.",
        ),
        Setting(
            "segment.bytes",
            WholeNumber(14, INT32_MAX, units=SIZES),
            "Greatest size in bytes of a segment that cleaning writes.",
        ),
        Setting(
            "segment.index.bytes",
            WholeNumber(4, INT32_MAX, units=SIZES),
            "Greatest size in bytes of an index; it also bounds how many segments cleaning joins.",
        ),
        Setting(
            "index.interval.bytes",
            WholeNumber(0, INT32_MAX, units=SIZES),
            "Bytes of a segment between two entries of its indexes.",
        ),
        Setting(
            "file.delete.delay.ms",
            WholeNumber(0, units=TIMES),
            "Time in milliseconds between the removal of a segment and the deletion of its files; never less than a "
            "day in a lake.",
        ),
        Setting(
            "producer.id.expiration.ms",
            WholeNumber(1, units=TIMES),
            "Time in milliseconds after which an idle producer is forgotten. Until then cleaning keeps its last batch.",
        ),
        Setting(
            "log.cleaner.dedupe.buffer.size",
            WholeNumber(48, units=SIZES),
            "Size in bytes of Kafka's offset map. A round of cleaning ends when the map is full, and "
            "the next round begins there. Not set: the map is unlimited.",
        ),
        OwnSetting(
            "compaction.spread.bytes",
            WholeNumber(0, units=SIZES),
            "A log with more bytes to clean than this is cleaned by many tasks. With more bytes of new rows, many "
            "tasks find its newest rows for `latest`.",
        ),
        OwnSetting(
            "active.min.growth",
            WholeNumber(0, units=SIZES),
            "Bytes by which the active segment must have grown before a run of a sensor or schedule reads it.",
        ),
        OwnSetting(
            "publish.min.bytes",
            WholeNumber(0, units=SIZES),
            "A run of a sensor or schedule publishes a log when at least this many bytes of final records wait.",
        ),
        OwnSetting(
            "publish.max.delay",
            WholeNumber(0, units=TIMES),
            "Time in milliseconds after which a run of a sensor or schedule publishes a log, however little there is.",
            stored_as="publish_max_delay_ms",
        ),
        OwnSetting(
            "on_truncate",
            OneOf(("stop", "follow")),
            "When a source diverges below what is published: `stop` the log, or `follow` the source as a new "
            "incarnation of the log.",
        ),
        OwnSetting(
            "on_recreate",
            OneOf(("stop", "append")),
            "When a topic was created again under its name: `stop` the log, or `append` the new topic as a new "
            "incarnation of the log.",
        ),
        OwnSetting(
            "on_trim",
            OneOf(("keep", "follow")),
            "When the source moves its log start: `keep` the offsets below it in the archive, or `follow`: retention "
            "removes them.",
            removes_nothing=False,
        ),
        OwnSetting(
            "on_gone",
            OneOf(("warn", "accept")),
            "When a log directory no longer has the directory of a log: `warn` in each run, or `accept` that it was "
            "deleted or is read elsewhere. Its rows stay. `accept` holds for every log of the topic, and "
            "a note of runs and of `loglake status` names each.",
        ),
        OwnSetting(
            "on_unfollowed",
            OneOf(("warn", "accept")),
            "When no policy asks for the table `decoded/<topic>` or `latest/<topic>` any more: `warn` in each run, or "
            "`accept` that the table stays as it is.",
        ),
        OwnSetting(
            "salvage",
            OneOf(("strict", "permissive")),
            "`strict` publishes a log up to its first damage; `permissive` also publishes what follows the damage.",
        ),
        OwnSetting(
            "records.retention.ms",
            WholeNumber(0, units=TIMES),
            "Age in milliseconds after which rows leave the tables of the topic, also decoded and latest ones. They "
            "leave from the beginning of a log up to its first younger row, or row without a timestamp. The archive "
            "keeps its segments. Not set: rows never expire.",
        ),
        OwnSetting(
            "parquet.codec",
            OneOf(CODECS),
            "Codec of keys, values and headers in the Parquet files that publish, replace and optimize write. Files "
            "that are there stay as they are, and stay valid.",
        ),
        OwnSetting(
            "parquet.level",
            WholeNumber(LEAST_LEVEL, GREATEST_LEVEL),
            "Level of the codec `zstd`; other codecs have none. Higher is slower.",
        ),
        OwnSetting(
            "expectations.suite",
            FilePath(),
            "A suite of Great Expectations as JSON, evaluated on the published rows: on Spark if the job runs there, "
            "else in chunks of 100,000. An expectation on each row is met when it is met in every chunk.",
        ),
        OwnSetting(
            "latest",
            OneOf(("delete", "soft-delete")),
            "Keep the newest row of each key in the table `latest/<topic>`, by `loglake latest`. A record without a "
            "value removes the row of its key (`delete`), or makes it a row with `is_deleted` (`soft-delete`). Not "
            "set: the topic has no such table.",
        ),
        OwnSetting(
            "decode.key",
            OneOf(FORMATS),
            "Format of the keys in the table `decoded/<topic>`. Not set: they stay bytes.",
        ),
        OwnSetting(
            "decode.key.schema",
            FilePath(),
            "File with the schema of the keys.",
        ),
        OwnSetting(
            "decode.value",
            OneOf(FORMATS),
            "Format of the values in the table `decoded/<topic>`. Not set: they stay bytes. Without `decode.key` and "
            "`decode.value` the topic has no such table.",
        ),
        OwnSetting(
            "decode.value.schema",
            FilePath(),
            "File with the schema of the values.",
        ),
        OwnSetting(
            "decode.schemas",
            TopicOrAddress(),
            "Where the schemas are that keys and values name by id: a topic of the lake, such as `_schemas`, or the "
            "address of a schema registry. For parts in `json`, `avro` or `protobuf` without a schema file.",
        ),
        OwnSetting(
            "decode.schemas.credentials",
            VariableOrPath(),
            "Where the credentials are for the address in `decode.schemas`: a file, or `env:NAME` for an environment "
            "variable. Its text is `USER:PASSWORD` or `Bearer TOKEN`. Not set: the registry gets none.",
        ),
        OwnSetting(
            "decode.framing",
            OneOf(("header-or-prefix", "prefix")),
            "Where rows name their schemas. `header-or-prefix`: in a header `__key_schema_id` or `__value_schema_id`, "
            "otherwise before the bytes. `prefix`: always before the bytes.",
        ),
        OwnSetting(
            "decode.key.subjects",
            NameList(),
            "Subjects whose schemas keys may name. Not set: `<topic>-key`.",
        ),
        OwnSetting(
            "decode.value.subjects",
            NameList(),
            "Subjects whose schemas values may name. Not set: `<topic>-value`.",
        ),
        OwnSetting(
            "decode.key.message",
            Name(),
            "Name of the Protobuf message of keys, such as `Order` or `Order.Item`. Not set: the first of the schema.",
        ),
        OwnSetting(
            "decode.value.message",
            Name(),
            "Name of the Protobuf message of values. Not set: the first of the schema.",
        ),
        OwnSetting(
            "on_schema_change",
            OneOf(("add", "wait", "undecoded")),
            "What a new schema in `decode.schemas` does. `add`: new fields become columns, and a log waits at the "
            "first row whose schema changes a column. `wait`: new fields wait too. `undecoded`: as `add`, but rows "
            "whose schema changes a column go to `undecoded/<topic>`.",
        ),
        OwnSetting(
            "decode.undecoded.max",
            Ratio(),
            "Share of the newest rows that may be undecodable without a warning of `undecoded_share_steady`. 1 accepts "
            "every share. Not set: the share must not rise.",
        ),
        OwnSetting(
            "decode.expectations.suite",
            FilePath(),
            "A suite as for `expectations.suite`, evaluated on the rows of `decoded/<topic>`. Fields have columns such "
            "as `value.price`.",
        ),
        OwnSetting(
            "compat",
            OneOf(tuple(str(line) for line in BrokerLine)),
            "The line of brokers whose bytes maintenance writes; `4.0` means 4.0 to 4.3.",
            removes_nothing=False,
        ),
    )
}
"""Every setting of a topic by its name; docs/policies.md is generated from it."""
