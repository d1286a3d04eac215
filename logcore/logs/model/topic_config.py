"""The configuration of a topic as maintenance needs it, with Kafka's own names and defaults.

Times are in milliseconds, sizes in bytes. `producer.id.expiration.ms` and `log.cleaner.dedupe.buffer.size` belong to a
broker in Kafka. They are included here because they decide the result of a topic's maintenance.

Source: Kafka LogConfig, TopicConfig, CleanerConfig, TransactionLogConfig. Belongs here: names, defaults and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

UNLIMITED = -1
AS_RETENTION = -2
"""As `local.retention.*`: the value of `retention.*` counts."""
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One attribute for each name, dots and dashes as underscores."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    """Of `compact` and `delete`; may be empty."""
    retention_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    max_message_bytes: int = 1_048_588
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    message_timestamp_type: str = "CreateTime"
    producer_id_expiration_ms: int = 86_400_000
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    local_retention_ms: int = AS_RETENTION
    local_retention_bytes: int = AS_RETENTION
    log_cleaner_dedupe_buffer_size: int | None = None
    """Bytes of Kafka's offset map, with 24 for each key, filled up to nine tenths: a round ends when it is full. None:
    no limit."""

    @property
    def compacts(self) -> bool:
        """Whether `cleanup.policy` has `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether `cleanup.policy` has `delete`."""
        return "delete" in self.cleanup_policy

    @property
    def is_tiered(self) -> bool:
        """Whether a part of the log may be in remote storage only. A broker tiers no topic that is compacted."""
        return self.remote_storage_enable and not self.compacts

    @property
    def copies_to_remote(self) -> bool:
        """Whether `local.retention.*` decides about local segments, as far as remote storage has them."""
        return self.is_tiered and not self.remote_log_copy_disable

    @property
    def local_limit_ms(self) -> int:
        """The age after which a local segment is deleted."""
        is_own = self.copies_to_remote and self.local_retention_ms != AS_RETENTION
        return self.local_retention_ms if is_own else self.retention_ms

    @property
    def local_limit_bytes(self) -> int:
        """The size of the local log above which its oldest segments are deleted."""
        is_own = self.copies_to_remote and self.local_retention_bytes != AS_RETENTION
        return self.local_retention_bytes if is_own else self.retention_bytes


def kafka_name(attribute: str) -> str:
    """Kafka's name of an attribute of `TopicConfig`."""
    return attribute.replace("_", ".")


_LEAST = {
    "retention_ms": -1,
    "retention_bytes": -1,
    "local_retention_ms": AS_RETENTION,
    "local_retention_bytes": AS_RETENTION,
    "segment_bytes": 14,
    "segment_ms": 1,
    "segment_index_bytes": 4,
    "flush_messages": 1,
    "log_cleaner_dedupe_buffer_size": 24,
}
_INT32 = {"segment_bytes", "segment_index_bytes", "index_interval_bytes", "max_message_bytes"}
_POLICIES = ("compact", "delete")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_BOOLEANS = {"remote_storage_enable", "remote_log_copy_disable"}


def topic_config(values: Mapping[str, str]) -> TopicConfig:
    """Parse a topic's configuration. Names that are not given have their defaults.

    Args:
        values: Texts by Kafka's names.

    Raises:
        ValueError: A name is unknown here, or Kafka would refuse a value.
    """
    known = {kafka_name(field.name): field.name for field in fields(TopicConfig)}
    read: dict[str, Any] = {}
    for name, text in values.items():
        if name not in known:
            raise ValueError(f"{name!r} is not a configuration used here; known are {', '.join(sorted(known))}")
        read[known[name]] = _value(known[name], name, text.strip())
    return TopicConfig(**read)


def _value(attribute: str, name: str, text: str) -> Any:
    if attribute == "cleanup_policy":
        policies = tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))
        if not set(policies) <= set(_POLICIES):
            raise ValueError(f"{name} may contain compact and delete, not {text!r}")
        return policies
    if attribute == "message_timestamp_type":
        if text not in _TIMESTAMP_TYPES:
            raise ValueError(f"{name} is CreateTime or LogAppendTime, not {text!r}")
        return text
    if attribute in _BOOLEANS:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text!r}")
        return text.lower() == "true"
    if attribute == "min_cleanable_dirty_ratio":
        return _ratio(name, text)
    least = _LEAST.get(attribute, 0)
    most = _INT32_MAX if attribute in _INT32 else _INT64_MAX
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or not least <= int(text) <= most:
        raise ValueError(f"{name} is a number from {least} to {most}, not {text!r}")
    return int(text)


def _ratio(name: str, text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError(f"{name} is a number from 0 to 1, not {text!r}")
    return ratio
