"""Planted into the codec of Kafka's messages and into what internal topics say."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

BY_HAND = "tests/unit/logcore/messages/test_messages_by_hand.py"
EVERY_SCHEMA = "tests/unit/logcore/messages/test_every_schema.py"
DECODED = "tests/unit/logcore/topics/test_decoded_records.py"
GROUPS = "tests/unit/logcore/topics/test_group_states.py"
CLUSTER = "tests/unit/logcore/topics/test_cluster_states.py"
COMMANDS = "tests/unit/logcore/cli/test_internal_topics.py"
BAD_MESSAGES = "tests/unit/logcore/cli/test_bad_messages.py"
CLUSTER_RECORDS = "tests/jobs/test_cluster_records.py"
CLUSTER_TABLES = "tests/conformance/test_cluster_tables.py"
GAPS = "tests/jobs/test_cluster_gaps.py"
IN_A_RUN = "tests/jobs/test_cluster_in_a_run.py"
NAMED_LATER = "tests/jobs/test_cluster_named_later.py"
OF_GROUPS = "tests/unit/logcore/cli/test_groups.py"
OF_CLUSTER = "tests/jobs/test_cluster.py"
PLACEMENT = "tests/unit/spark_jobs/lake/view/test_placement.py"
KILLED = "tests/crash/test_cluster.py"

FAULTS = (
    Fault(
        "messages have control characters as somebody chose them",
        "logcore/texts.py",
        "    if text.isprintable():\n        return text\n",
        "    if text:\n        return text\n",
        ("tests/unit/logcore/cli/test_hostile_names.py", "-k", "three_disks"),
    ),
    Fault(
        "a member does not have the partitions that it is to give up",
        "logcore/topics/group_states.py",
        'current.get("partitionsPendingRevocation", ())',
        'current.get("nothing", ())',
        ("tests/unit/logcore/topics/test_group_states.py", "-k", "gives_them_up"),
    ),
    Fault(
        "an array is read before its elements are known to fit",
        "logcore/messages/reader.py",
        "        if count * layout.least_bytes > self._end - self.position:\n",
        "        if count < 0:\n",
        (BY_HAND, "-k", "refused_before"),
    ),
    Fault(
        "a message may have any number of elements",
        "logcore/messages/reader.py",
        "        self._elements -= elements\n",
        "        self._elements -= 0\n",
        (BY_HAND, "-k", "than_the_limit"),
    ),
    Fault(
        "unknown tagged fields are dropped",
        "logcore/messages/reader.py",
        "                unknown[str(tag)] = self._take(size)\n",
        "                self._take(size)\n",
        (BY_HAND, "-k", "unknown_tagged"),
    ),
    Fault(
        "a field that is only tagged is read from old versions too",
        "logcore/messages/schemas.py",
        "  previousProducerId int64 1+ tag 0 1+",
        "  previousProducerId int64 0+ tag 0 1+",
        (BY_HAND, "-k", "tagged_versions_alone"),
    ),
    Fault(
        "encodings that Kafka does not write count as exact",
        "logcore/messages/reader.py",
        "                    self.is_exact = False\n",
        "                    pass\n",
        (BY_HAND, "-k", "are_read_and_marked"),
    ),
    Fault(
        "the bytes of a record that may hold a secret are shown",
        "logcore/topics/secrets.py",
        "    if not is_metadata:\n",
        "    if True:\n",
        (DECODED, "-k", "no_secret"),
    ),
    Fault(
        "keys of SCRAM are shown",
        "logcore/topics/secrets.py",
        '    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey", "iterations"),\n',
        '    "UserScramCredentialRecord": ("salt", "iterations"),\n',
        (DECODED, "-k", "no_secret"),
    ),
    Fault(
        "commits of a transaction count before its marker",
        "logcore/topics/group_states.py",
        "        if producer_id is not None:\n",
        "        if producer_id is not None and producer_id < 0:\n",
        (GROUPS, "-k", "marker"),
    ),
    Fault(
        "a marker replaces a later commit",
        "logcore/topics/group_states.py",
        "            if present is None or present.record_offset < commit.record_offset:\n",
        "            if present is None or present.record_offset != commit.record_offset:\n",
        (GROUPS, "-k", "not_replaced"),
    ),
    Fault(
        "records of an aborted metadata transaction count",
        "logcore/topics/cluster_states.py",
        '        elif name == "AbortTransactionRecord":\n'
        "            self._pending = None\n"
        '        elif name == "EndTransactionRecord":\n',
        '        elif name in ("EndTransactionRecord", "AbortTransactionRecord"):\n',
        (CLUSTER, "-k", "aborted"),
    ),
    Fault(
        "a snapshot without a footer is used",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "        self.is_whole = is_closed and not is_damaged\n",
        "        self.is_whole = not is_damaged\n",
        (COMMANDS, "-k", "without_a_footer"),
    ),
    Fault(
        "of two snapshots at one offset the older counts",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "    for end, path in reversed(log.metadata_snapshots):\n",
        "    for end, path in sorted(log.metadata_snapshots, key=lambda snapshot: -snapshot[0]):\n",
        (BAD_MESSAGES, "-k", "two_snapshots"),
    ),
    Fault(
        "the metadata log is published along with other internal topics",
        "spark_jobs/publish/publish_job.py",
        "    if topic == METADATA_TOPIC:\n",
        "    if False:\n",
        (CLUSTER_RECORDS, "-k", "only_when_it_is_named"),
    ),
    Fault(
        "the ids of delegation tokens are shown",
        "logcore/topics/secrets.py",
        '    "DelegationTokenRecord": ("tokenId", "hmac"),\n',
        '    "DelegationTokenRecord": ("hmac",),\n',
        (CLUSTER_RECORDS, "-k", "no_secret"),
    ),
    Fault(
        "the bytes of a delegation token that was cut are shown",
        "logcore/topics/secrets.py",
        "_TYPES_WITH_SECRETS = (4, 10, 11, 26)\n",
        "_TYPES_WITH_SECRETS = (4, 11, 26)\n",
        (CLUSTER_RECORDS, "-k", "no_secret"),
    ),
    Fault(
        "states of transactions are named by the next number",
        "spark_jobs/cluster/read_tasks.py",
        '    "Empty",\n    "Ongoing",\n',
        '    "Ongoing",\n    "Empty",\n',
        (CLUSTER_TABLES, "-k", "transactional_ids"),
    ),
    Fault(
        "a transaction of the previous producer id has no transactional id",
        "spark_jobs/cluster/read_tasks.py",
        '    names = ("producerId", "previousProducerId", "nextProducerId")\n',
        '    names = ("producerId", "nextProducerId")\n',
        (IN_A_RUN, "-k", "another_producer_id"),
    ),
    Fault(
        "a transactional id that expired loses its earlier producer id",
        "spark_jobs/cluster/read_tasks.py",
        "            latest.pop(name, None)\n",
        "            latest.pop(name, None)\n            producer_ids.pop(name, None)\n",
        (IN_A_RUN, "-k", "another_producer_id"),
    ),
    Fault(
        "the alarm of a hanging transaction looks at current producer ids only",
        "spark_jobs/lake/view/open_transactions.py",
        "        if not found.names.keys() >= set(producer_ids):",
        "        if False and not found.names.keys() >= set(producer_ids):",
        (IN_A_RUN, "-k", "another_producer_id"),
    ),
    Fault(
        "rows of a cluster whose id was not known stay beside those with the id",
        "spark_jobs/cluster/cluster_job.py",
        "both_names(logs), TABLES",
        "logs, TABLES",
        (NAMED_LATER,),
    ),
    Fault(
        "commits that only the table has lose their rows when the id of the cluster is known",
        "spark_jobs/cluster/new_commits.py",
        "        for known in (named, named_rows(lake, COMMITS, place)):\n",
        "        for known in (named,):\n",
        (NAMED_LATER, "-k", "no_longer_has"),
    ),
    Fault(
        "a transaction that its coordinator still waits for hangs",
        "spark_jobs/lake/view/open_transactions.py",
        "age > max(HANGING_MS, self.timeout_ms or 0)",
        "age > HANGING_MS",
        (IN_A_RUN, "-k", "only_after"),
    ),
    Fault(
        "the timeout of another transaction of the producer counts",
        "spark_jobs/lake/view/open_transactions.py",
        "                timeout_ms=coordinators.timeouts.get((each.producer_id, each.topic_partition)),\n",
        "                timeout_ms=max(coordinators.timeouts.values(), default=None),\n",
        (IN_A_RUN, "-k", "only_after"),
    ),
    Fault(
        "a commit of an open transaction comes back after its tombstone",
        "logcore/topics/group_states.py",
        "                pending.pop((group, partition), None)\n",
        "                pending.get((group, partition))\n",
        (GROUPS, "-k", "open_transactions_too"),
    ),
    Fault(
        "a directory that is not assigned yet is called lost",
        "spark_jobs/lake/view/placement.py",
        '    "AAAAAAAAAAAAAAAAAAAAAQ": "not assigned yet",\n    "AAAAAAAAAAAAAAAAAAAAAg": "lost",\n',
        '    "AAAAAAAAAAAAAAAAAAAAAg": "not assigned yet",\n    "AAAAAAAAAAAAAAAAAAAAAQ": "lost",\n',
        (PLACEMENT, "-k", "reserved"),
    ),
    Fault(
        "a partition without eligible leaders changes when they are cleared",
        "logcore/topics/cluster_states.py",
        '            if fields["eligible_leader_replicas"] or fields["last_known_elr"]:\n',
        "            if fields:\n",
        (CLUSTER, "-k", "loses_its_eligible"),
    ),
    Fault(
        "an assignment that cannot be read hides its group",
        "logcore/topics/group_states.py",
        '    entries: Any = () if message is None else message.fields["assignedPartitions"]\n',
        '    entries: Any = message.fields["assignedPartitions"]  # type: ignore[union-attr]\n',
        (BAD_MESSAGES, "-k", "damaged_assignment"),
    ),
    Fault(
        "a group whose only commit is in a transaction is not there",
        "logcore/topics/group_states.py",
        "        self._of(group).has_committed = True\n",
        "        self._of(group).has_committed = producer_id is None\n",
        (GROUPS, "-k", "first_commit"),
    ),
    Fault(
        "bytes of a credential of an unknown version are shown in outputs",
        "logcore/topics/secrets.py",
        "_TYPES_WITH_SECRETS = (4, 10, 11, 26)\n",
        "_TYPES_WITH_SECRETS = (4, 10, 26)\n",
        (CLUSTER_RECORDS, "-k", "no_secret"),
    ),
    Fault(
        "a log whose last segment cannot be read ends before it",
        "logcore/reading/internal_topics/log_ends.py",
        "base >= last.base_offset for base in log.unreadable)",
        "base < 0 for base in log.unreadable)",
        (OF_GROUPS, "-k", "may_reach"),
    ),
    Fault(
        "internal topics of another cluster are written into a lake",
        "spark_jobs/cluster/cluster_job.py",
        "    held = cluster_of_logs(config.lake, logs, config.cluster)\n",
        "    held = config.cluster\n",
        (OF_CLUSTER, "-k", "another_cluster"),
    ),
    Fault(
        "commits in damaged bytes are forgotten",
        "spark_jobs/cluster/new_commits.py",
        "        next_gap = read.gap if read.gap is not None and read.gap < read_to else _NO_GAP\n",
        "        next_gap = _NO_GAP\n",
        (GAPS, "-k", "become_readable"),
    ),
    Fault(
        "commits that are read again have rows twice",
        "spark_jobs/cluster/new_commits.py",
        '            rows = _without(rows, known["record_offset"])\n',
        "            rows = rows.slice(0)\n",
        (GAPS, "-k", "each_row_once"),
    ),
    Fault(
        "tentative commits stay although the cluster has other ones there",
        "spark_jobs/cluster/new_commits.py",
        '            again = tentative.intersection(rows["record_offset"].to_pylist())\n',
        "            again = set[int]()\n",
        (GAPS, "-k", "log_lost"),
    ),
    Fault(
        "the frontier of commits is recorded without their rows",
        "spark_jobs/cluster/cluster_job.py",
        "        commits.append(config.lake, COMMITS, rows, config.run_id, new.guards, new.expected)\n",
        "        commits.append(config.lake, COMMITS, rows.slice(0, 0), config.run_id, new.guards, new.expected)\n"
        "        commits.append(config.lake, COMMITS, rows, config.run_id)\n",
        (KILLED, "-k", "before_each_commit"),
    ),
    Fault(
        "what a run remembers counts although a table has changed",
        "spark_jobs/lake/cluster/last_reading.py",
        '        if kept["lake"] != lake or basis not in (None, kept):\n',
        '        if kept["lake"] != lake:\n',
        (IN_A_RUN, "-k", "remembers"),
    ),
    Fault(
        "a run without news reads all internal topics again",
        "spark_jobs/cluster/cluster_job.py",
        "        last_reading.keep(config.lake, last_reading.written_basis(plan.basis, config), plan.outline)\n",
        "        last_reading.keep(config.lake, plan.basis, plan.outline)\n",
        (IN_A_RUN, "-k", "without_news"),
    ),
    Fault(
        "rows of a log that cannot be read are removed",
        "spark_jobs/cluster/cluster_job.py",
        "        places = sources[table.name] - set(made.waits)\n",
        "        places = sources[table.name]\n",
        (IN_A_RUN, "-k", "cannot_be_read"),
    ),
    Fault(
        "a watch that skipped the tables of the cluster never catches up",
        "pipelines/command/watch.py",
        "            self._cluster_waits = True\n",
        "            self._cluster_waits = False\n",
        (IN_A_RUN, "-k", "once_a_minute"),
    ),
    Fault(
        "replicas that a reassignment adds count as missing",
        "spark_jobs/lake/view/placement.py",
        "    if len(set(isr)) < len(set(replicas) - set(adding)):\n",
        "    if len(set(isr)) < len(set(replicas)):\n",
        (PLACEMENT, "-k", "worst_problem"),
    ),
    Fault(
        "the alarm of a hanging transaction looks at other producers",
        "spark_jobs/lake/view/open_transactions.py",
        '    where: list[tuple[str, str, object]] = [("producer_id", "in", sorted(producer_ids))]\n',
        '    where: list[tuple[str, str, object]] = [("producer_id", "not in", sorted(producer_ids))]\n',
        (IN_A_RUN, "-k", "hanging"),
    ),
)
