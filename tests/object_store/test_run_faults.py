"""What goes wrong at an object store while a run reads its source: that log waits, and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from logcore.storage.objects import listing
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobReport, PublishConfig, ValidateConfig
from spark_jobs.errors import UsageError
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.lake.store import storage
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import OTHER_TOPIC_ID, TOPIC_ID, LogDirectory
from tests.object_store.faults import Answer, FaultyProxy, Request
from tests.object_store.gateway import upload
from tests.spark.conftest import tasks_in_process  # noqa: F401 - a fixture
from tests.spark.cycle import AS_OF_MS

pytestmark = [pytest.mark.object_store, pytest.mark.usefixtures("tasks_in_process")]

SEGMENT = f"{0:020d}.log"
NAMES = ("orders-0", "orders-1", "payments-0")


class Source:
    """A log directory of three logs, and its copy in a bucket."""

    def __init__(self, folder: Path, url: str) -> None:
        self.logs, self.url = LogDirectory(folder), url
        ids = dict(zip(NAMES, (TOPIC_ID, TOPIC_ID, OTHER_TOPIC_ID), strict=True))
        self.partitions = {name: self.logs.partition(name, ids[name]) for name in NAMES}

    def sync(self, records: int) -> None:
        """Append records to each log, and put all files again."""
        for partition in self.partitions.values():
            partition.append(records)
        ends = {name.replace("-", "_"): each.next_offset for name, each in self.partitions.items()}
        self.logs.high_watermarks(**ends)
        upload(self.logs.path, self.url)

    def put(self, path: str, content: bytes) -> None:
        """Put one object, as another program does."""
        bucket, _, key = f"{self.url}/{path}".removeprefix("s3://").partition("/")
        obstore.put(S3Store(bucket), key, content)


@pytest.fixture
def source(bucket: str, proxy: FaultyProxy, tmp_path: Path) -> Source:
    made = Source(tmp_path / "source", f"{bucket}/logs")
    made.sync(10)
    return made


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def turn(lake: str, source: Source, run_id: str, **ingest: Any) -> JobReport:
    """Run the jobs; the report of ingest."""
    configs = (
        IngestConfig(lake, (source.url,), run_id, AS_OF_MS, **ingest),
        ValidateConfig(lake, run_id, AS_OF_MS),
        PublishConfig(lake, run_id, AS_OF_MS),
    )
    first, *_ = [launch.run(config) for config in configs]
    return first


def published(lake: str) -> dict[str, int]:
    """Number of records by log."""
    table = open_table(lake, "records")
    counts = dict.fromkeys(NAMES, 0)
    if table is not None:
        for row in open_dataset(lake, "records", table).to_table(columns=["topic", "partition"]).to_pylist():
            counts[f"{row['topic']}-{row['partition']}"] += 1
    return counts


def stops(lake: str) -> dict[str, str]:
    """Why logs stopped."""
    table = open_table(lake, "logs")
    rows = [] if table is None else open_dataset(lake, "logs", table).to_table().to_pylist()
    return {f"{row['topic']}-{row['partition']}": row["stopped"] for row in rows if row["stopped"]}


def of_paths(report: JobReport) -> list[tuple[str, str]]:
    """Rule and file of the current findings about the source."""
    return [(each.rule, each.file) for each in report.plan.of_paths]


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_an_object_replaced_between_listing_and_copy_makes_its_log_wait(source, proxy, lake, mode):
    other = b"the bytes of another segment" * 100

    def rule(request: Request) -> Answer | None:
        if request.path.endswith(f"orders-1/{SEGMENT}") and request.method == "GET":
            proxy.rule = None
            source.put(f"orders-1/{SEGMENT}", other)
        return None

    kept = (source.logs.path / "orders-1" / SEGMENT).read_bytes()
    proxy.rule = rule
    turn(lake, source, "run-1", mode=mode)
    assert published(lake) == {"orders-0": 10, "orders-1": 0, "payments-0": 10}
    assert stops(lake) == {"orders-1": "source-changed"}
    source.put(f"orders-1/{SEGMENT}", kept)
    turn(lake, source, "run-2", mode=mode)
    assert published(lake) == dict.fromkeys(NAMES, 10)
    assert stops(lake) == {}


@pytest.mark.long
def test_an_object_replaced_before_it_is_copied_by_the_store_is_not_archived(source, proxy, bucket):
    lake, copied = f"{bucket}/lake", []

    def rule(request: Request) -> Answer | None:
        if request.headers.get("x-amz-copy-source", "").endswith(f"orders-1/{SEGMENT}"):
            copied.append(request.path)
            source.put(f"orders-1/{SEGMENT}", b"the bytes of another segment" * 100)
        return None

    proxy.rule = rule
    turn(lake, source, "run-1")
    assert copied
    assert published(lake) == dict.fromkeys(NAMES, 10)
    kept = (source.logs.path / "orders-1" / SEGMENT).read_bytes()
    assert storage.read(f"s3:/{copied[0]}") == kept


@pytest.mark.long
def test_a_listing_that_stops_half_way_changes_nothing_and_the_next_run_continues(source, proxy, lake, monkeypatch):
    turn(lake, source, "run-1")
    source.sync(5)
    monkeypatch.setattr(listing, "PAGE_OBJECTS", 1)
    monkeypatch.setenv("LOGLAKE_STORE_TIMEOUT", "60")  # all attempts end earlier, also on a busy machine

    def in_small_pages(request: Request, answer: Answer) -> Answer:
        if request.query.get("prefix") != "logs/" or "continuation-token" in request.query:
            return answer
        text = answer.content.decode()
        cut = text[: text.index("</Contents>") + len("</Contents>")] + "</ListBucketResult>"
        token = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
        return Answer(200, cut.replace("<IsTruncated>false</IsTruncated>", token).encode(), {})

    proxy.changes = in_small_pages
    proxy.rule = lambda request: Answer.error(500, "InternalError") if "continuation-token" in request.query else None
    report = turn(lake, source, "run-2")
    assert of_paths(report) == [("unreadable", source.url)]
    assert published(lake) == dict.fromkeys(NAMES, 10)
    assert stops(lake) == {}
    proxy.rule = proxy.changes = None
    turn(lake, source, "run-3")
    assert published(lake) == dict.fromkeys(NAMES, 15)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(Answer.error(400, "ExpiredToken"), "have expired"), (Answer.error(404, "NoSuchKey"), "was removed after")],
)
def test_credentials_that_expire_and_objects_that_vanish_cost_their_log_a_run(source, proxy, lake, answer, words):
    proxy.rule = lambda request: answer if request.path.endswith(f"orders-1/{SEGMENT}") else None
    turn(lake, source, "run-1")
    assert published(lake) == {"orders-0": 10, "orders-1": 0, "payments-0": 10}
    table = open_table(lake, "logs")
    assert table is not None
    reasons = [row["stopped_because"] for row in open_dataset(lake, "logs", table).to_table().to_pylist()]
    assert [words in reason for reason in reasons if reason] == [True]
    proxy.rule = None
    turn(lake, source, "run-2")
    assert published(lake) == dict.fromkeys(NAMES, 10)


def test_reads_that_a_busy_store_refuses_are_repeated(source, proxy, lake):
    refused: set[str] = set()

    def rule(request: Request) -> Answer | None:
        if request.method != "GET" or request.path in refused:
            return None
        refused.add(request.path)
        return Answer.error(503, "SlowDown")

    proxy.rule = rule
    report = turn(lake, source, "run-1")
    assert {f"/{source.url.removeprefix('s3://')}/{name}/{SEGMENT}" for name in NAMES} <= refused
    assert of_paths(report) == []
    assert published(lake) == dict.fromkeys(NAMES, 10)


def test_a_high_watermark_that_cannot_be_read_publishes_nothing(source, proxy, lake):
    """Without it records would be published that the cluster may still truncate."""
    proxy.rule = lambda request: (
        Answer.error(403, "AccessDenied") if request.path.endswith("replication-offset-checkpoint") else None
    )
    report = turn(lake, source, "run-1")
    assert of_paths(report) == [("unreadable", f"{source.url}/replication-offset-checkpoint")]
    assert published(lake) == dict.fromkeys(NAMES, 0)
    proxy.rule = None
    turn(lake, source, "run-2")
    assert published(lake) == dict.fromkeys(NAMES, 10)


def test_an_object_replaced_between_registration_and_publishing_is_not_published(source, proxy, lake):
    launch.run(IngestConfig(lake, (source.url,), "run-1", AS_OF_MS, mode="reference"))
    source.put(f"orders-1/{SEGMENT}", b"?" * 500)
    launch.run(ValidateConfig(lake, "run-1", AS_OF_MS))
    launch.run(PublishConfig(lake, "run-1", AS_OF_MS))
    assert published(lake) == {"orders-0": 10, "orders-1": 0, "payments-0": 10}


def test_an_address_that_cannot_be_used_is_wrong_usage(lake):
    with pytest.raises(UsageError, match="gs:// is no object store that Loglake supports"):
        launch.source_place("gs://bucket/logs")
    with pytest.raises(UsageError, match="gs:// is no object store"):
        launch.plan(IngestConfig(lake, ("gs://bucket/logs",), "run-1", AS_OF_MS))


def test_credentials_that_allow_only_the_source_are_enough(source, proxy, lake):
    """So the first run cannot see whether the bucket around it is a lake."""
    proxy.rule = lambda request: Answer.error(403, "AccessDenied") if request.path.endswith("/lake.json") else None
    launch.check_run(lake, [source.url], [], NO_POLICIES)
    assert any(request.path.endswith("/lake.json") for request in proxy.seen)
