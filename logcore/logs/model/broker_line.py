"""The lines of Kafka releases whose brokers write different bytes, and their differences.

    line   brokers      what it changes
    3.9    3.9.x        cleaning keeps the format of v0 and v1 messages
    4.0    4.0 to 4.3   cleaning rewrites them as v2 (KAFKA-13093); like 3.9 it keeps the batch that ends the range;
                        an offset is searched by the base offsets of batches, in earlier lines by their last offsets
    4.4    4.4 on       cleaning keeps the batch that ends at the high watermark instead (KAFKA-20452)

Belongs here: the names and their consequences, not how cleaning works.
"""

from __future__ import annotations

from enum import StrEnum


class BrokerLine(StrEnum):
    """A line of releases. The values are those of `--compat`."""

    V3_9 = "3.9"
    V4_0 = "4.0"
    V4_4 = "4.4"

    @property
    def converts_old_formats(self) -> bool:
        """Whether cleaning rewrites v0 and v1 messages as v2 batches."""
        return self is not BrokerLine.V3_9

    @property
    def finds_by_base_offset(self) -> bool:
        """Whether a batch is searched by its base offset, as FileRecords.searchForOffsetFromPosition does."""
        return self is not BrokerLine.V3_9

    @property
    def retains_without_policy(self) -> bool:
        """Whether `local.retention.*` of a tiered topic counts although its `cleanup.policy` is empty.

        4.3 does so already, but the line 4.0 has brokers that do not.
        """
        return self is BrokerLine.V4_4

    def refuses_aborted_version(self, version: int) -> bool:
        """Whether a broker that reads an entry of a transaction index of this version, an int16, does not start.

        Before 4.4, AbortedTxn.version reads the first of its two bytes alone, and negative ones are accepted.
        """
        return version != 0 if self is BrokerLine.V4_4 else version >> 8 > 0

    @property
    def keeps_batch_at_high_watermark(self) -> bool:
        """Whether cleaning keeps an empty batch that ends at the high watermark. Earlier lines keep the one that ends
        the cleaned range.
        """
        return self is BrokerLine.V4_4


DEFAULT_LINE = BrokerLine.V4_4
