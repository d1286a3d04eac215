"""Planted into what takes settings of topics from the metadata of a cluster."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

POLICIES = "tests/unit/spark_jobs/policies/test_topic_policies.py"
JOBS = "tests/jobs/test_cluster_policies.py"

FAULTS = (
    Fault(
        "the cluster wins over a line of the policies",
        "spark_jobs/policies/topic_policies.py",
        "        if said is None or setting.field in stated or setting.name not in said.settings:\n",
        "        if said is None or setting.name not in said.settings:\n",
        (POLICIES, "-k", "wins"),
    ),
    Fault(
        "a topic without retention.ms has the seven days of Kafka",
        "spark_jobs/policies/topic_policies.py",
        "    retention_ms: int = UNLIMITED\n",
        "    retention_ms: int = 604_800_000\n",
        (JOBS, "-k", "nothing_is_due_after_any_time"),
    ),
    Fault(
        "settings that were said after the clock of the run count",
        "spark_jobs/lake/cluster/cluster_settings.py",
        "    if begun is not None and begun > time:\n",
        "    if begun is not None and begun > time + timedelta(days=1):\n",
        (JOBS, "-k", "after_the_clock"),
    ),
    Fault(
        "retention follows settings in doubt",
        "spark_jobs/policies/topic_policies.py",
        "        if doubt is None:\n            return replace",
        "        if True:\n            return replace",
        (JOBS, "-k", "damaged_record"),
    ),
    Fault(
        "settings of another topic of the name count",
        "logcore/topics/topic_settings.py",
        "        if topic_id != self.topic_id:\n",
        "        if topic_id is None:\n",
        (JOBS, "-k", "made_again"),
    ),
    Fault(
        "an older copy of the metadata brings back what was removed",
        "spark_jobs/cluster/cluster_job.py",
        '    columns = ("valid_from_offset", "valid_to_offset")\n',
        '    columns = ("valid_from_offset",)\n',
        (JOBS, "-k", "bring_back"),
    ),
)
