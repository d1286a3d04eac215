"""Planted into the codec of Kafka's messages and into what internal topics say."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

DECODED = "tests/unit/logcore/topics/test_decoded_records.py"
GROUPS = "tests/unit/logcore/topics/test_group_states.py"
CLUSTER = "tests/unit/logcore/topics/test_cluster_states.py"
COMMANDS = "tests/unit/logcore/cli/test_internal_topics.py"
CLUSTER_RECORDS = "tests/jobs/test_cluster_records.py"
IN_A_RUN = "tests/jobs/test_cluster_in_a_run.py"
OF_CLUSTER = "tests/jobs/test_cluster.py"
KILLED = "tests/crash/test_cluster.py"

FAULTS = (
    Fault(
        "the bytes of a record that may hold a secret are shown",
        "logcore/topics/secrets.py",
        "    if not is_metadata:\n",
        "    if True:\n",
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
        "the metadata log is published along with other internal topics",
        "spark_jobs/publish/publish_job.py",
        "    if topic == METADATA_TOPIC:\n",
        "    if False:\n",
        (CLUSTER_RECORDS, "-k", "only_when_it_is_named"),
    ),
    Fault(
        "a transaction that its coordinator still waits for hangs",
        "spark_jobs/lake/view/open_transactions.py",
        "age > max(HANGING_MS, self.timeout_ms or 0)",
        "age > HANGING_MS",
        (IN_A_RUN, "-k", "only_after"),
    ),
    Fault(
        "internal topics of another cluster are written into a lake",
        "spark_jobs/cluster/cluster_job.py",
        "    held = cluster_of_logs(config.lake, logs, config.cluster)\n",
        "    held = config.cluster\n",
        (OF_CLUSTER, "-k", "another_cluster"),
    ),
    Fault(
        "the frontier of commits is recorded without their rows",
        "spark_jobs/cluster/cluster_job.py",
        "        commits.append(config.lake, COMMITS, rows, config.run_id, new.guards, new.expected)\n",
        "        commits.append(config.lake, COMMITS, rows.slice(0, 0), config.run_id, new.guards, new.expected)\n"
        "        commits.append(config.lake, COMMITS, rows, config.run_id)\n",
        (KILLED, "-k", "before_each_commit"),
    ),
)
