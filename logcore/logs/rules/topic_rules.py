"""Rules about what the records of Kafka's own topics say."""

from __future__ import annotations

from types import MappingProxyType

from logcore.logs.rules.rule import Persistence, Rule, Severity

TOPIC_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "message-not-read": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "A record of an internal topic has another type, another version or other bytes than the known schemas.",
            "Use a Loglake whose schemas are as new as the broker. The record's bytes are kept, and the other records "
            "count.",
        ),
        "message-not-interpreted": Rule(
            Severity.INFO,
            Persistence.ONE_RUN,
            "Records of an internal topic were read, but Loglake does not compute a state from records of their type.",
            "`loglake dump --decode` shows their fields.",
        ),
        "group-partitions-missing": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "The paths have only some of the partitions of `__consumer_offsets`. Each group is in one: the list "
            "lacks groups.",
            "Name the log directories of all disks and brokers that have the other partitions.",
        ),
        "group-partitions-unknown": Rule(
            Severity.INFO,
            Persistence.ONE_RUN,
            "The paths may have all partitions of `__consumer_offsets`: no `__cluster_metadata` is there to say so.",
            "Name the folder `metadata.log.dir` of a controller too.",
        ),
        "coordinator-partitions-missing": Rule(
            Severity.INFO,
            Persistence.ONE_RUN,
            "The paths have only some of the partitions of `__transaction_state`. Each transactional id is in one: the "
            "transactions of all other ids have no coordinator in the list.",
            "Name the log directories of all disks and brokers that have the other partitions.",
        ),
        "transaction-torn": Rule(
            Severity.ERROR,
            Persistence.ONE_RUN,
            "A transaction is committed in one partition and aborted or open in another, or it has ended for its "
            "coordinator and a partition has no marker. Readers see a part of it.",
            "Compare other copies of the partitions that the message names: the marker may be in one of them.",
        ),
        "transaction-hanging": Rule(
            Severity.ERROR,
            Persistence.ONE_RUN,
            "A partition has data of a transaction that no coordinator will end. Readers with `read_committed` stop "
            "there, and the log is not cleaned or tiered from there on.",
            "Check with `kafka-transactions.sh find-hanging` at the brokers; its `abort` writes the marker.",
        ),
        "commit-beyond-log-end": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "A group has committed an offset beyond the end of its log, so that the log has lost records or is older.",
            "Compare the sources: copies of one moment agree. Otherwise reset the group's offset before it reads on.",
        ),
        "commit-below-log-start": Rule(
            Severity.INFO,
            Persistence.ONE_RUN,
            "A group has committed an offset below the start of its log: records were deleted before the group read "
            "them. It reads on where its `auto.offset.reset` says.",
            "Nothing, if the group is not used any more. Otherwise look at its lag and at the topic's retention.",
        ),
        "metadata-log-starts-late": Rule(
            Severity.ERROR,
            Persistence.ONE_RUN,
            "No snapshot of the cluster's metadata reaches the first offset of its log, so that records are missing.",
            "Copy the snapshots along with the log.",
        ),
        "snapshots-at-one-offset": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "Several snapshots of the cluster's metadata end at one offset. The one with the highest epoch is used.",
            "Find out where the others come from: the snapshots of one log never do that.",
        ),
        "metadata-transaction-open": Rule(
            Severity.INFO,
            Persistence.ONE_RUN,
            "A transaction in the cluster's metadata has no end, so that its records do not count.",
            "Nothing, if the controller was writing.",
        ),
        "zookeeper-damaged": Rule(
            Severity.ERROR,
            Persistence.ONE_RUN,
            "The Adler-32 sum of a snapshot or a transaction of ZooKeeper is wrong, or its bytes contradict "
            "themselves. An earlier snapshot is used, and the other transactions count.",
            "Copy the file again from another server of the ensemble.",
        ),
        "zookeeper-cut-off": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "ZooKeeper was stopped, or copied, while it wrote: a log ends inside a transaction, or a snapshot before "
            "its end.",
            "Nothing, if the copy is complete: ZooKeeper leaves such files out at its start too.",
        ),
        "zookeeper-transactions-missing": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "The files of a ZooKeeper lack transactions, so that the state may be another.",
            "Copy all files `log.*`, and with them the newest files `snapshot.*`.",
        ),
        "settings-in-doubt": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "Records of the cluster's metadata are lost, or cannot be read, so that the settings in it may be older "
            "ones; or it does not name the topic at that time. Nothing is taken from it.",
            "Type the settings with `--config`, or copy `__cluster_metadata-0` again from another controller.",
        ),
        "no-internal-topic": Rule(
            Severity.WARNING,
            Persistence.ONE_RUN,
            "None of the chosen logs is of the internal topic that the command reads.",
            "Name the log directory that has the topic: `__consumer_offsets` is on all brokers, "
            "`__cluster_metadata` in `metadata.log.dir`.",
        ),
    }
)
