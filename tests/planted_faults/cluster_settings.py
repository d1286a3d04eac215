"""Planted into what takes settings of topics from the metadata of a cluster."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

POLICIES = "tests/unit/spark_jobs/policies/test_topic_policies.py"
JOBS = "tests/jobs/test_cluster_policies.py"
NAMED_LATER = "tests/jobs/test_cluster_named_later.py"
LOST = "tests/unit/logcore/reading/internal_topics/test_lost_records.py"
COMMANDS = "tests/unit/logcore/cli/test_settings_from_metadata.py"

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
        "a lake has no cluster although its rows have one",
        "spark_jobs/cluster/cluster_job.py",
        "        claim(config.lake, plan.claimed)\n",
        "        pass\n",
        (NAMED_LATER, "-k", "keep_it or before_and_after"),
    ),
    Fault(
        "policies have no settings of a metadata log whose rows have no id yet",
        "spark_jobs/lake/cluster/cluster_settings.py",
        "    return cluster if has_rows else UNKNOWN_CLUSTER\n",
        "    return cluster if has_rows or True else UNKNOWN_CLUSTER\n",
        (NAMED_LATER, "-k", "was_not_there"),
    ),
    Fault(
        "settings that ended count",
        "spark_jobs/lake/cluster/cluster_settings.py",
        '    return row["valid_to_offset"] is None or (ended is not None and ended > time)\n',
        "    return ended is None or ended > _EPOCH\n",
        (JOBS, "-k", "removed_does_not_count"),
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
        "a whole batch with a wrong checksum at the end of the metadata log is no loss",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "            return _is_whole_batch(self.log, finding)\n",
        "            return False\n",
        (LOST, "-k", "damaged_record"),
    ),
    Fault(
        "a gap in the offsets of the metadata log is no loss of records",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "            if record.offset > self._next_offset:\n",
        "            if record.offset < self._next_offset:\n",
        (LOST, "-k", "missing_segment"),
    ),
    Fault(
        "a run does not read the metadata for policies",
        "pipelines/run/steps.py",
        " and run.policies.are_from_cluster:\n",
        " and not run.policies.are_from_cluster:\n",
        (JOBS, "-k", "each_run_reads"),
    ),
    Fault(
        "retain and compact follow settings in doubt",
        "logcore/cli/maintenance/maintenance.py",
        "        if doubt is not None and self.refuses_doubt:\n",
        "        if doubt is None and self.refuses_doubt and said is None:\n",
        (COMMANDS, "-k", "commands_that_remove"),
    ),
    Fault(
        "the metadata wins over a typed setting",
        "logcore/cli/maintenance/maintenance.py",
        " | dict(self.typed))\n",
        " | dict(self.typed) | {name: said[name].value for name in self.used if name in said})\n",
        (COMMANDS, "-k", "typed_setting_wins"),
    ),
    Fault(
        "a command takes settings that were said after its clock",
        "logcore/cli/maintenance/maintenance.py",
        "Moment(time_ms=self.as_of_ms)",
        "Moment()",
        (COMMANDS, "-k", "after_the_clock"),
    ),
    Fault(
        "retain and compact use the defaults for a topic that the metadata does not name",
        "logcore/cli/maintenance/maintenance.py",
        '            return {}, _in_doubt(metadata, f"It does not name',
        '            return {}, None and _in_doubt(metadata, f"It does not name',
        (COMMANDS, "-k", "does_not_name_at_the_clock"),
    ),
    Fault(
        "a metadata log that ends before its newest snapshot is whole",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "        if any(end > self._next_offset for end, _ in self.log.metadata_snapshots):\n",
        "        if any(end < 0 for end, _ in self.log.metadata_snapshots):\n",
        (LOST, "-k", "ends_before_its_newest_snapshot"),
    ),
    Fault(
        "a segment of the metadata that cannot be opened is no loss",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "        return any(base > last for base in self.log.unreadable)\n",
        "        return any(base < last for base in self.log.unreadable)\n",
        (LOST, "-k", "cannot_be_opened"),
    ),
    Fault(
        "an older copy of the metadata brings back what was removed",
        "spark_jobs/cluster/cluster_job.py",
        '    columns = ("valid_from_offset", "valid_to_offset")\n',
        '    columns = ("valid_from_offset",)\n',
        (JOBS, "-k", "bring_back"),
    ),
    Fault(
        "rows that wait because of damage stay certain",
        "spark_jobs/cluster/cluster_job.py",
        'row | {"standing": DOUBTFUL} if row',
        "row if row",
        (JOBS, "-k", "wait_because_of_damage"),
    ),
    Fault(
        "a log without a topic id has the settings of the topic of its name",
        "logcore/topics/topic_settings.py",
        "        if topic_id is None:\n",
        "        if topic_id == '':\n",
        (COMMANDS, "-k", "without_a_topic_id"),
    ),
    Fault(
        "a snapshot counts although a later one is damaged",
        "spark_jobs/cluster/metadata_rows.py",
        "            in_snapshot = end  # a later snapshot is not whole: it has what was said after this one\n",
        "            in_snapshot = None\n",
        ("tests/jobs/test_cluster_policies.py", "-k", "before_a_damaged_one"),
    ),
    Fault(
        "a record of an earlier time after the state at a time is not noticed",
        "logcore/reading/internal_topics/cluster_metadata.py",
        "        if record.timestamp <= time_ms and not record.is_control:\n",
        "        if record.timestamp < 0:\n",
        (COMMANDS, "-k", "clock_that_was_ahead"),
    ),
    Fault(
        "a topic has settings of an earlier one of its name",
        "spark_jobs/lake/cluster/cluster_settings.py",
        "    return ended is not None and ended <= topic",
        "    return ended is not None and ended < 0 and ended <= topic",
        (JOBS, "-k", "clock_of_a_controller"),
    ),
    Fault(
        "a broken partition.metadata is as none",
        "logcore/cli/maintenance/maintenance.py",
        "        if is_unusable:\n",
        "        if is_unusable and not topic:\n",
        (COMMANDS, "-k", "cannot_be_used"),
    ),
)
