"""The checks of tables of topics, each on what the lake contains now: decoded ones, those of the latest rows, and those
of the cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from logcore.logs.model.findings import Severity, offsets_text
from logcore.logs.rules.advice import filled
from logcore.topics.internal_topics import InternalTopic
from spark_jobs.contracts import JobReport
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.harmed_places import harmed_place
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import ClusterOutline, DecodedOutline, FollowingOutline, LatestOutline

from ..metadata.values import table_value
from .check_definitions import (
    CLUSTER_FOLLOWS_SOURCES,
    DECODED_ROWS_EQUAL_RECORDS,
    LATEST_FOLLOWS_RECORDS,
    NO_COMMIT_BEYOND_LOG_END,
    SCHEMAS_OF_OWN_SUBJECT,
    UNDECODED_SHARE_STEADY,
    CheckAnswer,
    CheckDefinition,
    Failure,
    counted,
)

_SHOWN = 5
"""Schema ids that a line names at most."""


def _advice(check: CheckDefinition, state: LakeState, topic: str, share: str = "SHARE") -> str:
    place = replace(harmed_place(state.lake, table=f"{check.of_topics}/{topic}"), topic=topic)
    return filled(check.what_to_do.replace("SHARE", share), place)  # before a name is in it


def _commands_in(waits: str) -> str:
    """What to do about a topic that waits: its reason ends with the command that helps."""
    return ", or ".join(dict.fromkeys(re.findall("`loglake [^`]+`", waits)))


def _failures_of_tables(
    check: CheckDefinition,
    state: LakeState,
    topics: Sequence[TopicAsset],
    kinds: Sequence[str],
    waiting: Mapping[str, str | None],
    name: str,
) -> list[Failure]:
    """Failures because another program changed tables of topics, and of topics that wait.

    Args:
        kinds: The job, and the kinds of its tables.
        waiting: Why topics wait, by name.
        name: Of the table of a topic, with a field for the topic.
    """
    failures = [
        Failure(what, what_to_do=_advice(check, state, topic.topic), topic=topic.topic)
        for topic in topics
        for what in topic.changed_tables(*kinds)
    ]
    for topic, why in waiting.items():
        if why is not None:
            what = f"the {name.format(topic)} waits: {why}"
            failures.append(Failure(what, severity=Severity.WARNING, what_to_do=_commands_in(why), topic=topic))
    return failures


def decoded_rows_equal_records(
    state: LakeState, topics: Sequence[DecodedTopic], report: JobReport[FollowingOutline[DecodedOutline]] | None
) -> CheckAnswer:
    """Check that decoded tables have every row of `records`, and that no topic waits.

    Args:
        topics: The topics that a policy decodes.
        report: Of the job `decode` in this run; None: it did not run.
    """
    told = () if report is None else report.plan.topics
    failures = [
        Failure(
            f"{each.records:,} rows of records, {each.decoded:,} decoded and {each.undecoded:,} undecoded",
            each.log,
            f"{topic.topic}-{each.partition} of lake {state.name}",
            offsets_text(0, each.end),
            what_to_do=_advice(DECODED_ROWS_EQUAL_RECORDS, state, topic.topic),
        )
        for topic in topics
        for each in topic.balances
        if not each.holds
    ]
    kinds, waiting = ("decode", "decoded", "undecoded"), {topic.topic: topic.waits for topic in told}
    failures += _failures_of_tables(DECODED_ROWS_EQUAL_RECORDS, state, topics, kinds, waiting, "decoded table of {}")
    notes = [
        f"{topic.topic}: could not be decoded in this run: "
        + ", ".join(f"{rows:,} {reason}" for reason, rows in sorted(topic.undecoded.items()))
        for topic in told
        if topic.undecoded
    ]
    notes += [f"{topic.topic}: {topic.retried}" for topic in told if topic.retried]
    rows, undecoded = sum(topic.rows for topic in topics), sum(topic.undecoded for topic in topics)
    listed: list[list[str | int | None]] = [[topic.topic, topic.rows, topic.undecoded] for topic in topics]
    return DECODED_ROWS_EQUAL_RECORDS.answer(
        state.lake,
        failures,
        f"{counted(rows, 'row')} decoded and {undecoded:,} undecoded, in {counted(len(topics), 'topic')}",
        {
            "decoded rows": rows,
            "undecoded rows": undecoded,
            "topics": table_value(["topic", "decoded rows", "undecoded rows"], listed),
        },
        notes,
    )


def undecoded_share_steady(state: LakeState, topics: Sequence[DecodedTopic]) -> CheckAnswer:
    """Check that some of the newest rows of each topic decode, and hardly fewer than of those before.

    Args:
        topics: The topics that a policy decodes.
    """
    failures = [
        Failure(
            f"{topic.topic}: {topic.share.newest_undecoded:,} of the {topic.share.newest:,} newest rows could not be "
            f"decoded, before that {topic.share.earlier_undecoded:,} of {topic.share.earlier:,}",
            severity=Severity.WARNING,
            what_to_do=_advice(UNDECODED_SHARE_STEADY, state, topic.topic, _accepted(topic)),
            topic=topic.topic,
        )
        for topic in topics
        if topic.share.rises(topic.policy.decode_undecoded_max)
    ]
    listed: list[list[str | int | None]] = [
        [each.topic, f"{each.share.of_newest:.2%}", f"{each.share.of_earlier:.2%}"] for each in topics
    ]
    return UNDECODED_SHARE_STEADY.answer(
        state.lake,
        failures,
        f"the share of undecoded rows has not risen in {counted(len(topics), 'topic')}",
        {"shares": table_value(["topic", "of the newest rows", "of the rows before"], listed)},
    )


def _accepted(topic: DecodedTopic) -> str:
    """The share of now in whole percent, as a policy accepts it."""
    return f"{math.ceil(topic.share.of_newest * 100) / 100:g}"


def schemas_of_own_subject(state: LakeState, topics: Sequence[DecodedTopic]) -> CheckAnswer:
    """Check that no newest row names a schema of another subject.

    Args:
        topics: The topics that a policy decodes.
    """
    failures = [
        Failure(
            f"{counted(each.rows, 'newest row')} with a schema of another subject{_listed(each.schema_ids)}",
            each.log,
            f"{topic.topic}-{each.partition} of lake {state.name}",
            f"{each.offset}",
            severity=Severity.WARNING,
            what_to_do=_advice(SCHEMAS_OF_OWN_SUBJECT, state, topic.topic),
        )
        for topic in topics
        for each in topic.of_other_subjects
    ]
    return SCHEMAS_OF_OWN_SUBJECT.answer(
        state.lake,
        failures,
        f"no newest row names a schema of another subject in {counted(len(topics), 'topic')}",
        {"rows": sum(each.rows for topic in topics for each in topic.of_other_subjects)},
    )


def _listed(schema_ids: Collection[int]) -> str:
    if not schema_ids:
        return ""  # the rows name it by a GUID
    more = len(schema_ids) - _SHOWN
    shown = ", ".join(str(schema) for schema in sorted(schema_ids)[:_SHOWN])
    return (
        f" ({'schema id' if len(schema_ids) == 1 else 'schema ids'} {shown}{f' and {more} more' if more > 0 else ''})"
    )


def latest_follows_records(
    state: LakeState, topics: Sequence[LatestTopic], report: JobReport[FollowingOutline[LatestOutline]] | None
) -> CheckAnswer:
    """Check that tables of the latest rows were made of the rows of `records`, and that no topic waits.

    Args:
        topics: The topics whose policy has `latest`.
        report: Of the job `latest` in this run; None: it did not run.
    """
    planned = () if report is None else report.plan.topics
    failures = [
        Failure(
            f"latest/{topic.topic} was made of {each.recorded:,} rows of records, and these are {each.records:,} now",
            each.log,
            f"{topic.topic}-{each.partition} of lake {state.name}",
            offsets_text(0, each.end),
            what_to_do=_advice(LATEST_FOLLOWS_RECORDS, state, topic.topic),
        )
        for topic in topics
        for each in topic.bases
        if each.recorded != each.records
    ]
    waiting = {topic.topic: topic.waits for topic in planned}
    failures += _failures_of_tables(
        LATEST_FOLLOWS_RECORDS, state, topics, ("latest", "latest"), waiting, "table latest/{}"
    )
    notes = [f"{topic.topic}: {topic.note}" for topic in planned if topic.note]
    listed: list[list[str | int | None]] = [[topic.topic, topic.rows] for topic in topics]
    return LATEST_FOLLOWS_RECORDS.answer(
        state.lake,
        failures,
        f"{counted(sum(topic.rows for topic in topics), 'row')} in {counted(len(topics), 'topic')}",
        {"topics": table_value(["topic", "rows"], listed)},
        notes,
    )


def cluster_follows_sources(state: LakeState, reading: ClusterOutline) -> CheckAnswer:
    """Check that no internal topic waits.

    Args:
        state: The lake.
        reading: Of the job `cluster`.
    """
    waits = sorted(reading.waits.items())
    names = (log.rpartition("/")[2].rpartition("-") for log in reading.logs)
    there = sorted({int(number) for topic, _, number in names if topic == InternalTopic.CONSUMER_OFFSETS})
    least = there[-1] + 1 if there else 0
    some = f"of __consumer_offsets the sources have only {', '.join(map(str, there))} of at least {least} partitions"
    return CLUSTER_FOLLOWS_SOURCES.answer(
        state.lake,
        [Failure(f"{log} waits: {why}", severity=Severity.WARNING) for log, why in waits],
        f"the tables follow {counted(len(reading.logs), 'internal log')}",
        {"internal logs": len(reading.logs)},
        [f"{some}; the tables have no groups of the others"] if len(there) < least else (),
    )


def no_commit_beyond_log_end(state: LakeState, reading: ClusterOutline) -> CheckAnswer:
    """Check that no group has committed an offset beyond the end of a log.

    Args:
        state: The lake.
        reading: Of the job `cluster`.
    """
    found = reading.beyond_log_end
    return NO_COMMIT_BEYOND_LOG_END.answer(
        state.lake,
        [Failure(message.removesuffix("."), severity=Severity.WARNING) for message in found],
        "every committed offset is within its log",
        {"commits beyond the end of a log": len(found)},
    )
