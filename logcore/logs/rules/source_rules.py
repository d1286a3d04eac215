"""Rules for sources: paths and directories as they are found, and changes of a source since it was last read.

The checks are in `logcore.storage.discovery` and its neighbours (paths), and in `logcore.logs.growth.growth` and
`agreement`.
"""

from __future__ import annotations

from types import MappingProxyType

from logcore.logs.rules.lake_rules import OF_A_TABLE, RESTORE, RESTORE_AND_VALIDATE
from logcore.logs.rules.log_rules import FILL, REINDEX
from logcore.logs.rules.rule import Outcome, Persistence, Rule, Severity

_INFO, _WARNING, _ERROR, _UNCHECKED = Severity.INFO, Severity.WARNING, Severity.ERROR, Outcome.UNCHECKED
_READABLE = "Give the user read permission, or replace the disk. For an object store, do what the message says."
_FOR_GOOD, _ONE_RUN, _WHILE_STOPPED = Persistence.FOR_GOOD, Persistence.ONE_RUN, Persistence.WHILE_STOPPED

PATH_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "path-not-found": Rule(
            _ERROR,
            _ONE_RUN,
            "Nothing exists at a path that was named.",
            "Correct the path, or mount the volume that contains it.",
            _UNCHECKED,
        ),
        "nothing-chosen": Rule(
            _ERROR,
            _ONE_RUN,
            "Options that choose logs or offsets match nothing. Exit code 3 is that of `ls`, `ledger` and commands "
            "that check or write. Commands that show contents, such as `dump`, print the finding as information.",
            "Correct `--topic`, `--partition` or `--offsets`; `loglake ls {directory}` lists what there is.",
            _UNCHECKED,
        ),
        "unreadable": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "The operating system or the object store fails to read a file, a range of it, or a listing.",
            f"{_READABLE} Bytes that the disk has lost may be in another copy: `{{run}} --fill-from COPY`, where COPY "
            "is its log directory.",
            _UNCHECKED,
            for_logs=_READABLE,
        ),
        "not-a-log-directory": Rule(
            _ERROR,
            _ONE_RUN,
            "A directory contains nothing that a broker keeps in a log directory.",
            "Name what the message says: a log directory of a broker (`log.dirs`), a partition directory such as "
            "`orders-0`, or a `.log` file.",
            _UNCHECKED,
        ),
        "empty-directory": Rule(
            _ERROR,
            _ONE_RUN,
            "A directory that was named is empty.",
            "Mount the volume that belongs there, or correct the path.",
            _UNCHECKED,
        ),
        "no-segments": Rule(
            _WARNING,
            _ONE_RUN,
            "A partition directory contains no segment.",
            "Check that the copy is complete. If the broker has such a directory too, leave it out with `--topic` or "
            "`--partition`.",
        ),
        "not-a-segment": Rule(
            _ERROR,
            _ONE_RUN,
            "A file ends in `.log`, but is not a regular file with a base offset as its name; or a segment is packed.",
            "Do what the message says. A file in a partition directory is not read: move it away, or name it alone, as "
            "in `loglake dump FILE`, which reads a segment under any name.",
            _UNCHECKED,
        ),
        "illegal-topic-name": Rule(
            _ERROR,
            _ONE_RUN,
            "A partition directory has a name that no broker gives.",
            "Move the copy into a directory of its own, and give it the name `<topic>-<partition>` that it had at the "
            "broker.",
            _UNCHECKED,
        ),
        "unknown-directory": Rule(
            _INFO,
            _ONE_RUN,
            "A directory inside a log directory is not a partition.",
            "Nothing is read from it. Move it out of the log directory if it does not belong there.",
        ),
        "log-directory-missing": Rule(
            _WARNING,
            _ONE_RUN,
            "The file replication-offset-checkpoint has the high watermark of a log, of which there is no directory, "
            "and nothing proves its loss: there is no recovery-point-offset-checkpoint, or no other log of the topic. "
            "It was deleted by hand, renamed, or left out of a copy. A log that was deleted or moved just before the "
            "copy may still be named.",
            "Bring the directory back, or give it its name again. If the log was deleted on purpose, nothing is lost, "
            "and the policy `on_gone: accept` of its topic makes it information.",
            for_logs="Bring the directory back, or give it its name again. If the log was deleted on purpose, nothing "
            "is lost.",
        ),
        "log-lost": Rule(
            _ERROR,
            _ONE_RUN,
            "The file recovery-point-offset-checkpoint names a log with records, of which there is no directory, and "
            "other logs of the topic are there. A broker that deletes or moves a log removes its line at once: the "
            "directory was deleted by hand, or left out of a copy.",
            "Bring the directory back, or read the log from another replica. If it is gone for good, or was left out "
            "on purpose, `{policy:on_gone=accept}` makes it information.",
            for_logs="Bring the directory back, or read the log from another replica. If it was left out on purpose, "
            "choose the others by `--topic`.",
        ),
        "unread-segments": Rule(
            _INFO,
            _ONE_RUN,
            "A directory inside a log directory has segments, and has no partition's name. It is a warning where a "
            "checkpoint file names a log that is not there, and the directory's name has this log's name or topic.",
            "Give it the name `<topic>-<partition>` that it had at the broker. A log directory that lies below is read "
            "if it is named too. If it is an old copy, move it out of the log directory.",
        ),
        "zookeeper-directory": Rule(
            _INFO,
            _ONE_RUN,
            "A directory has the data of a ZooKeeper: snapshots and transaction logs. It is an error if the paths have "
            "nothing that the command reads.",
            "`loglake metadata {directory}` prints what it says of a Kafka cluster, `loglake groups {directory}` the "
            "groups of old consumers.",
            _UNCHECKED,
        ),
        "delete-directory": Rule(
            _INFO,
            _ONE_RUN,
            "The broker had queued this partition for deletion; `loglake run` leaves it out.",
            "Nothing. To look into it, name the directory in a command for logs, such as `loglake dump`.",
        ),
        "future-directory": Rule(
            _INFO,
            _ONE_RUN,
            "The broker was moving this replica between its log directories; `loglake run` leaves the new copy out.",
            "Nothing: the log is read from its other directory.",
        ),
        "stray-directory": Rule(
            _INFO,
            _ONE_RUN,
            "The replica was no longer assigned to its broker; `loglake run` leaves it out.",
            "Nothing. To look into it, name the directory in a command for logs, such as `loglake dump`.",
        ),
        "leftover-file": Rule(
            _INFO,
            _ONE_RUN,
            "A broker's start would remove these files (`*.deleted`, `*.cleaned`, index files without a segment); they "
            "are not read. An index file without a segment shows that somebody removed the segment.",
            "Nothing. Offsets that are missing have a finding of their own.",
        ),
        "interrupted-swap": Rule(
            _INFO,
            _ONE_RUN,
            "Cleaned segments were not yet in place; they are read as they would be after a broker's start.",
            "Nothing.",
        ),
        "oversized-segment": Rule(
            _WARNING,
            _ONE_RUN,
            "A segment is larger than 2 GiB, and no broker opens such a segment.",
            "Compare its size with the broker's file, and copy it again.",
        ),
        "broken-root-file": Rule(
            _WARNING,
            _ONE_RUN,
            "A checkpoint file of the log directory cannot be used; it is taken as absent.",
            "Copy the file again from the broker, or state its value with an option, such as `--high-watermark`.",
        ),
        "no-meta-properties": Rule(
            _WARNING,
            _ONE_RUN,
            "A log directory has no `meta.properties`, or one that is empty, cut or unreadable. The logs are read all "
            "the same. But a broker does not start, or does not use the directory; a lake may not learn its cluster.",
            "Copy the file again from the broker's disk: another directory's file does not fit. If it is lost there "
            "too, `kafka-storage.sh format --ignore-formatted` with the old cluster id writes it.",
        ),
        "broken-partition-file": Rule(
            _WARNING,
            _ONE_RUN,
            "`partition.metadata` or `leader-epoch-checkpoint` is invalid, for instance after a power cut, or "
            "`partition.metadata` is gone since an earlier run.",
            "The segments are read without it. If the message states a version, a newer Kafka wrote the file, and only "
            "a newer Loglake can read it. Otherwise copy the file again from the broker.",
        ),
        "corrupt-index": Rule(
            _WARNING,
            _ONE_RUN,
            "An index file contradicts itself.",
            REINDEX,
        ),
        "remote-tier": Rule(
            _WARNING,
            Persistence.WHILE_REMOTE,
            "Some offsets are only in the remote tier, and no remote storage was named that gives them.",
            "Name the remote storage: `{run} --remote DIR`, where DIR is its directory or `s3://` prefix. If the "
            "lake needs only the local part, do nothing.",
            for_logs="`loglake verify {directory} --remote DIR` reads them, or says why a segment cannot be used; "
            "DIR is the directory or `s3://` prefix of the remote storage.",
        ),
        "remote-tier-unproven": Rule(
            _WARNING,
            Persistence.WHILE_REMOTE,
            "Some offsets are below the first segment and not below the log start. They are in the remote tier or were "
            "deleted. Only `leader-epoch-checkpoint` shows which, and it is missing or broken. `retain` then deletes "
            "no segment of a tiered topic by age or size.",
            "Copy `leader-epoch-checkpoint` from the broker, or name a copy of the log that has it. Without it no "
            "remote segment is joined to the log.",
        ),
        "no-remote-metadata": Rule(
            _WARNING,
            _ONE_RUN,
            "`__remote_log_metadata`, which says which remote segments count, is not at the source. `retain` then "
            "deletes no local segment of a tiered topic by age or size; other commands go by what is in the storage.",
            "Name the log directories of all brokers that have partitions of that topic.",
        ),
        "remote-metadata": Rule(
            _WARNING,
            _ONE_RUN,
            "A record of `__remote_log_metadata` cannot be read or decoded, or cannot follow the records before it.",
            "It is left out. `loglake verify {directory} --topic __remote_log_metadata` checks the bytes of the topic.",
        ),
        "remote-segment-missing": Rule(
            _ERROR,
            _ONE_RUN,
            "The metadata says that a segment was copied to remote storage, and not all of its objects are there.",
            "Name the storage that has them, or bring the objects back, for instance from older versions in a bucket.",
        ),
        "remote-storage-empty": Rule(
            _ERROR,
            _ONE_RUN,
            "Remote storage that was named has no object of any segment, although the metadata says that segments were "
            "copied. Nothing is counted as lost, and the local part of the logs is read.",
            "Mount the storage, or correct the directory or prefix. If all objects were deleted, do without "
            "`--remote`: the offsets stay `remote`.",
            _UNCHECKED,
        ),
        "remote-segment-unreadable": Rule(
            _ERROR,
            _ONE_RUN,
            "A remote segment cannot be used: its manifest is wrong, it is stored as an Iceberg table, it lies there "
            "twice, it has another size than the metadata says, or the next segment begins inside of one of its "
            "batches.",
            "Do what the message says. Its offsets stay `remote`.",
            _UNCHECKED,
        ),
        "remote-orphan": Rule(
            _WARNING,
            _ONE_RUN,
            "Objects in remote storage belong to no segment: a copy did not end, a deletion left them, or no metadata "
            "names them.",
            "Loglake deletes nothing there. Before you delete them, look whether a broker copies segments now, and "
            "whether the source has all partitions of `__remote_log_metadata`.",
        ),
        "remote-range-left-out": Rule(
            _WARNING,
            Persistence.WHILE_REMOTE,
            "Remote storage has offsets that the lake has not, and they are not taken: a compacted segment of the lake "
            "spans them, no whole batches lie between archived offsets, or a segment cannot be copied.",
            "Do what the message says; each run tries again. Nothing, if the compacted segment or the archived offsets "
            "are enough. Otherwise read the log into a new lake, with its remote storage from the first run on.",
        ),
        "remote-overlap": Rule(
            _INFO,
            _ONE_RUN,
            "Some offsets of a log are in more than one remote segment: a copy was tried again, or leaders with other "
            "segments copied them.",
            "Nothing. Each offset is read once.",
        ),
        "other-remote-objects": Rule(
            _INFO,
            _ONE_RUN,
            "Remote storage has objects that are not parts of segments in a layout that Loglake reads.",
            "Nothing.",
        ),
        "no-high-watermark": Rule(
            _WARNING,
            _ONE_RUN,
            "There is no usable `replication-offset-checkpoint`; the log end is taken as the high watermark.",
            "Copy the file along with the log directory, or state the high watermark with `--high-watermark`.",
        ),
    }
)

GROWTH_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "topic-recreated": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "The source has a topic of the same name with another topic id; the log does not grow.",
            "`{policy:on_recreate=append}` takes the new topic as a new incarnation of the log. Or take it into "
            "another lake.",
        ),
        "source-diverged": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "The source has other batches than the archive at the same offsets; the log does not grow.",
            "Find out which of the two is right, for instance after an unclean leader election. If it is the source: "
            "`{policy:on_truncate=follow}`. If not: `loglake run COPY --lake {lake}{log} --move-source`, where "
            "COPY is a log directory that agrees with the archive.",
        ),
        "source-behind": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "The source ends before the archive does; the log does not grow.",
            "Wait until the replica has caught up, or take the log from another one: `loglake run COPY --lake "
            "{lake}{log} --move-source`, where COPY is its log directory. If the source was truncated for good, "
            "read it into a new lake.",
        ),
        "source-cleaned": Rule(
            _ERROR,
            _FOR_GOOD,
            "The source was cleaned above the archive's end, so records were removed before they were read.",
            "These records are lost unless another copy still has them. Run `loglake run` more often, or raise "
            "`min.compaction.lag.ms` on the cluster.",
        ),
        "segments-not-named": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "Segments were named one by one, and the next one of the log is not among them.",
            "Name the missing segments too, or name the partition directory.",
            _UNCHECKED,
        ),
        "trimmed-before-ingest": Rule(
            _ERROR,
            Persistence.WHILE_IN_LEDGER,
            "The source dropped offsets before they were read.",
            f"{FILL} Run more often than retention removes segments.",
        ),
        "source-trimmed": Rule(
            _INFO,
            _FOR_GOOD,
            "The source dropped offsets that the archive has. The archive keeps copied segments. In mode `reference` "
            "it has only their addresses: published rows stay, and their bytes are gone.",
            "Nothing, if segments are copied. With the policy `on_trim: follow` retention removes the offsets here "
            "too. A source of mode `reference` must not change: `loglake verify {lake}` names what is gone.",
        ),
        "source-compacted": Rule(
            _INFO,
            _FOR_GOOD,
            "The source was cleaned at offsets that the archive has; the archive keeps its records.",
            "Nothing. A policy with `cleanup.policy: compact` cleans the archive too.",
        ),
        "high-watermark-fell": Rule(
            _WARNING,
            _ONE_RUN,
            "The source's high watermark is lower than the one the lake has taken in; what is published stays.",
            "Check that the source is the newest replica. The warning ends with the first run that reads a high "
            "watermark as high as before.",
        ),
        "log-start-fell": Rule(
            _WARNING,
            _ONE_RUN,
            "The log began at a higher offset: an earlier run saw it, or `leader-epoch-checkpoint` shows it. The file "
            "`log-start-offset-checkpoint`, or its line, is lost, so commands for logs show records that were deleted. "
            "A lake keeps the log start that it has.",
            "Copy `log-start-offset-checkpoint` again from the broker. If it is lost there too, the command of the "
            "message makes a copy of the log that begins where it began.",
        ),
        "tail-cut-back": Rule(
            _INFO,
            _FOR_GOOD,
            "The source took back offsets that were not yet published, and so did the archive.",
            "Nothing.",
        ),
        "incarnation-opened": Rule(
            _WARNING,
            _FOR_GOOD,
            "A changed source is followed as a new incarnation of its log, as its policy requires.",
            "Readers of `records` distinguish the incarnations by `log_id`: offsets are unique only within a `log_id`.",
        ),
        "range-filled": Rule(
            _INFO,
            _FOR_GOOD,
            "Offsets that were missing or corrupt were found later, and are now in the archive.",
            "Nothing.",
        ),
        "range-not-filled": Rule(
            _WARNING,
            _ONE_RUN,
            "A copy has offsets that are lost here. To take them would drop the only copy of later batches.",
            "Put the later batches into the segment of their offsets at the source, as a replica has them. Then the "
            "next run takes the lost offsets: `{run_of_log}`.",
        ),
        "source-moved": Rule(
            _INFO,
            _FOR_GOOD,
            "From now on a log is taken from another directory.",
            "Nothing. `--move-source` takes it from another directory again.",
        ),
        "source-changed": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "A source file changed while it was read, or an object after it was listed.",
            "`{run}` reads it again. If it happens each time, read a snapshot or a copy of the log directory.",
            _UNCHECKED,
            for_logs="Run the command again. If it happens each time, read a snapshot or a copy of the log directory.",
        ),
        "second-source": Rule(
            _WARNING,
            _ONE_RUN,
            "A topic partition is taken from another directory, and this copy of it is not read. It is information if "
            "the copy has nothing that the lake lacks, or the log was moved away from it by `--move-source`.",
            "Nothing, or take the log from this directory: `loglake run {directory} --lake {lake} --move-source`.",
        ),
        "source-gone": Rule(
            _ERROR,
            _ONE_RUN,
            "The known source of a log no longer exists, and a named directory continues the log. It is not read.",
            "If the log was moved, run the command of the message. If the volume of the old source is not mounted, "
            "mount it, and run again.",
            _UNCHECKED,
        ),
        "log-gone": Rule(
            _WARNING,
            _ONE_RUN,
            "A log directory no longer has the directory of a log that the lake read there. Nothing new is read of the "
            "log. It is information if the whole topic is gone, as after its deletion, or with the policy "
            "`on_gone: accept`.",
            "If it was deleted on purpose or is read elsewhere, `{policy:on_gone=accept}` keeps its rows and ends the "
            "warning. If a broker moved the partition: `loglake run COPY --lake {lake}{log} --move-source`, where COPY "
            "is its log directory now.",
        ),
        "several-copies": Rule(
            _WARNING,
            _ONE_RUN,
            "A topic partition is in several directories. If each is of another broker, the copies do not part and the "
            "used one has all offsets, it is information.",
            "Run the command of the message, if there is one. Else nothing, if the named copy is the right one. If it "
            "is not, read the other one into a new lake.",
            for_logs="Run the command of the message, if there is one. Else nothing, if the named copy is the right "
            "one. If it is not, name only the directory of another.",
        ),
        "copy-absent": Rule(
            _WARNING,
            _ONE_RUN,
            "`compare` was given several paths, and one of them has no copy of a log that it should have: another "
            "path is of the same broker, or `__cluster_metadata` says so.",
            "Nothing, if the log does not belong there. Else look for its directory, or name it too.",
        ),
        "copies-undecided": Rule(
            _ERROR,
            _ONE_RUN,
            "A topic partition is in several directories, and no evidence says which copy has its history, or which "
            "name is that of the topic.",
            "Name only the partition directory to use, such as `disk1/orders-0`. Name the directory with "
            "`__cluster_metadata-0` too, if there is one.",
            _UNCHECKED,
        ),
        "copy-under-another-name": Rule(
            _WARNING,
            _ONE_RUN,
            "A partition directory has the topic id of a topic with another name, or the records of another partition: "
            "somebody kept a copy, or renamed or exchanged directories. It is not published, and `recover` does not "
            "write it. It is information if the log itself has all offsets of the copy.",
            "Run the command of the message, if there is one. Else move the directory out of the log directory. If it "
            "is the only copy, give it its old name. To read it as it is, name it alone: `loglake dump {directory}`.",
        ),
        "topic-ids-differ": Rule(
            _WARNING,
            _ONE_RUN,
            "A topic has several ids, so its partitions are of topics that were created at different times.",
            "Name only the directories of one of them.",
        ),
        "high-watermark-beyond-log-end": Rule(
            _ERROR,
            Persistence.UNTIL_LOG_END_PASSED,
            "Committed offsets are above the last one that can be read.",
            "If the copy was made while the broker ran, run again on a newer copy. If another replica has the offsets, "
            "`loglake run COPY --lake {lake}{log} --move-source` reads the log from there; COPY is its log directory. "
            "If none has: `{run_of_log} --high-watermark log-end`.",
            for_logs="If the copy was made while the broker ran, copy it again. Otherwise look for another replica: no "
            "command brings the offsets back.",
        ),
        "offsets-given-up": Rule(
            _INFO,
            _FOR_GOOD,
            "Committed offsets were lost at the end of a log, and the options of a run said to go on without them.",
            "Nothing: the log goes on at its end, and later records may have these offsets. If another replica has the "
            "lost records: `loglake run COPY --lake {lake}{log} --move-source`; COPY is its log directory.",
        ),
        "archive-unreadable": Rule(
            _ERROR,
            _ONE_RUN,
            "An archived file is gone or cannot be read.",
            RESTORE,
            _UNCHECKED,
        ),
        "archive-not-written": Rule(
            _ERROR,
            _WHILE_STOPPED,
            "The archive could not take a segment: the disk is full, or there is no permission to write.",
            "Make room below `{lake}/archive`, or give permission to write there. Then: `{run}`.",
            _UNCHECKED,
        ),
        "log-not-judged": Rule(
            _ERROR,
            _ONE_RUN,
            "The log as a whole could not be validated: its batches contradict each other or what was archived.",
            "`loglake verify {directory}` verifies the log alone, `loglake verify {lake}` the archive. Repair what "
            "they report, and run again.",
            _UNCHECKED,
        ),
        "archive-changed": Rule(
            _ERROR,
            Persistence.UNTIL_REPLACED,
            "Archived bytes are not those that were copied.",
            RESTORE_AND_VALIDATE,
        ),
        "output-mismatch": Rule(
            _ERROR,
            Persistence.UNTIL_PUBLISHED,
            "The table `records` is not what frontier and ledger say, so the log is not published.",
            "For a lost frontier: `loglake repair {lake} --frontiers --apply`. For rows that differ: "
            "`{run_of_log} --replace ..`.",
        ),
        "table-file-damaged": Rule(
            _ERROR,
            _FOR_GOOD,
            "A data file of a table cannot be read, or is not what its statistics say.",
            OF_A_TABLE,
        ),
        "table-file-rebuilt": Rule(
            _INFO,
            _ONE_RUN,
            "A data file of `records` could not be read; its rows were written again from the archive.",
            "Nothing. Check the disk that lost the file.",
        ),
    }
)
