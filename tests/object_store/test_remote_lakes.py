"""Lakes of tiered logs with remote storage in a bucket: by copy and by reference; objects that change or vanish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.ingest.intake_results import IntakeResults
from spark_jobs.lake.store import local_copies
from tests.broker_directory import LogDirectory
from tests.conformance.conftest import Corpus
from tests.conformance.lakes import AS_OF_MS, TABLE_OF, CorpusLake, by_log
from tests.conformance.remote_lakes import LAYOUTS, MODES, TIERED, run_all, stored_as, with_private_key
from tests.conformance.snapshots import Snapshot
from tests.conformance.test_tables import same_as_consumed
from tests.in_process import InProcessExecutor, without_spark
from tests.object_store.gateway import Gateway, upload
from tests.object_store.test_run import rows
from tests.remote_storage import RemoteStorage, tiered
from tests.spark.cycle import Lake

pytestmark = pytest.mark.object_store

Tier = tuple[LogDirectory, Lake, str, RemoteStorage]
FAST = ("files-copy", "both-reference")


@pytest.fixture(autouse=True)
def in_process(tmp_path: Path) -> Iterator[None]:
    with with_private_key(tmp_path), without_spark():
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"))


def delete(url: str) -> None:
    """Delete an object."""
    import obstore
    from obstore.store import S3Store

    bucket, _, key = url.removeprefix("s3://").partition("/")
    obstore.delete(S3Store(bucket), key)


@pytest.mark.parametrize("snapshot", TIERED, ids=str)
@pytest.mark.parametrize(
    ("layout", "mode"),
    [
        pytest.param(layout, mode, id=f"{layout}-{mode}", marks=() if f"{layout}-{mode}" in FAST else pytest.mark.long)
        for layout in LAYOUTS
        for mode in MODES
    ],
)
def test_the_tables_have_what_the_brokers_consumer_received(
    gateway_bucket: str, corpus: Corpus, snapshot: Snapshot, layout: str, mode: str, tmp_path: Path
) -> None:
    case, lake = corpus.case(snapshot), CorpusLake(tmp_path / "lake")
    upload(case / "logdir", f"{gateway_bucket}/broker/logs")
    upload(stored_as(layout, case / "remote", tmp_path / "stored"), f"{gateway_bucket}/tier")
    places = (f"{gateway_bucket}/broker/logs", "first", f"{gateway_bucket}/tier")
    run_all(str(lake.path), *places, mode=mode)
    for isolation_level in TABLE_OF:
        same_as_consumed(corpus, snapshot, isolation_level, lake.consumed(isolation_level))
    segments = lake.rows("segments")
    if mode == "reference":
        assert all(row["path"].startswith("s3://") and row["etag"] for row in segments)
    else:
        assert not any("://" in row["path"] for row in segments)
    before = segments, lake.rows("findings")
    run_all(str(lake.path), *places, mode=mode)
    assert (lake.rows("segments"), lake.rows("findings")) == before


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_the_lake_may_be_in_a_bucket_too(gateway_bucket: str, corpus: Corpus, mode: str, tmp_path: Path) -> None:
    snapshot, lake = TIERED[-1], f"{gateway_bucket}/lake"
    case = corpus.case(snapshot)
    upload(stored_as("both", case / "remote", tmp_path / "stored"), f"{gateway_bucket}/tier")
    run_all(lake, str(case / "logdir"), "first", f"{gateway_bucket}/tier", mode=mode)
    for isolation_level, table in TABLE_OF.items():
        same_as_consumed(corpus, snapshot, isolation_level, by_log(rows(lake, table)))


@pytest.fixture(params=["files", "chunks"])
def tier(request: pytest.FixtureRequest, gateway_bucket: str, tmp_path: Path) -> Tier:
    """A local source, a local lake, the address of its remote storage, and the same storage in a directory."""
    source = LogDirectory(tmp_path / "source")
    storage = tiered(source, tmp_path / "remote", layout=request.param)
    upload(storage.path, f"{gateway_bucket}/tier")
    return source, Lake(tmp_path / "lake"), f"{gateway_bucket}/tier", storage


def test_another_object_under_the_name_of_a_registered_one_is_a_finding_and_that_log_waits(
    tier: Tier, tmp_path: Path
) -> None:
    source, lake, remote, storage = tier
    other = source.partition("payments-0", "DDDDDDDDDDDDDDDDDDDDDQ")
    other.append(5)
    source.high_watermarks(orders_0=50, payments_0=5)
    lake.turn(source.path, remote=(remote,), mode="reference")
    before = lake.published("orders")
    assert len(before) == 50
    storage.replace(tmp_path / "others")
    upload(storage.path, remote)
    other.append(5)
    source.high_watermarks(orders_0=50, payments_0=10)
    lake.turn(source.path, remote=(remote,), mode="reference")
    assert lake.stopped() == {"orders-0": "source-changed", "payments-0": None}
    assert lake.published("orders") == before
    assert len(lake.published("payments")) == 10


def test_an_object_that_is_replaced_before_its_records_are_published_is_not_published(
    tier: Tier, tmp_path: Path
) -> None:
    source, lake, remote, storage = tier
    config = IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS, remote=(remote,), mode="reference")
    launch.run(config)
    storage.replace(tmp_path / "others")
    upload(storage.path, remote)
    lake.turn(source.path, remote=(remote,), mode="reference")
    assert lake.stopped()["orders-0"] == "source-changed"
    assert not set(lake.published("orders")) & set(range(10, 20))


def test_a_run_by_reference_reads_each_remote_object_as_often_as_a_copy(
    tier: Tier, gateway: Gateway, tmp_path: Path
) -> None:
    source, _, remote, storage = tier
    names = [f"{remote.removeprefix('s3://')}/{path.relative_to(storage.path).as_posix()}" for path in storage.logs()]
    counts = []
    for mode in MODES:
        lake = Lake(tmp_path / mode)
        before = {name: gateway.requests(name)["GetObject"] for name in names}
        with local_copies.keeping(str(lake.path)):
            lake.turn(source.path, remote=(remote,), mode=mode)
        assert len(lake.published("orders")) == 50
        counts.append({name: gateway.requests(name)["GetObject"] - before[name] for name in names})
    copied, registered = counts
    assert registered == copied
    if storage.layout == "chunks":  # the manifests name the last offsets of others
        assert registered == dict.fromkeys(names, 1)


def test_on_a_cluster_a_fused_task_downloads_its_object_once(tier: Tier, gateway: Gateway, tmp_path: Path) -> None:
    """No driver keeps copies there: the task does, as long as it runs."""
    source, _, remote, storage = tier
    names = [f"{remote.removeprefix('s3://')}/{path.relative_to(storage.path).as_posix()}" for path in storage.logs()]
    counts = []
    for place in ("driver", "task"):
        lake = Lake(tmp_path / place)
        before = {name: gateway.requests(name)["GetObject"] for name in names}
        kept = local_copies.keeping(str(lake.path)) if place == "driver" else nullcontext()
        with kept, IntakeResults() as results:
            lake.turn(source.path, remote=(remote,), mode="reference", results=results)
            assert not local_copies.keeps_registered() or place == "driver"
        assert len(lake.published("orders")) == 50
        counts.append({name: gateway.requests(name)["GetObject"] - before[name] for name in names})
    # Small segments share a file of `records`: `publish` reads them once more.
    assert counts[1] == {name: count + 1 for name, count in counts[0].items()}


def test_bytes_that_were_kept_are_not_used_for_another_version(tier: Tier, tmp_path: Path) -> None:
    source, lake, remote, storage = tier
    config = IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS, remote=(remote,), mode="reference")
    with local_copies.keeping(str(lake.path)):
        launch.run(config)
        storage.replace(tmp_path / "others")
        upload(storage.path, remote)
        second = Lake(tmp_path / "second")
        second.turn(source.path, remote=(remote,), mode="reference")
    assert second.published("orders")[15] == (b"k1", b"w15")


@pytest.mark.parametrize("mode", MODES)
def test_an_object_that_vanishes_after_the_listing_is_a_finding(tier: Tier, mode: str) -> None:
    source, lake, remote, storage = tier
    config = IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS, remote=(remote,), mode=mode)
    planned = ingest.plan(config)
    name = storage.logs()[1].relative_to(storage.path).as_posix()
    delete(f"{remote}/{name}")
    report = ingest.apply(planned, config, InProcessExecutor())
    said = [placed.finding.rule for placed in report.findings if placed.finding.file == f"{remote}/{name}"]
    assert sorted(said) == ["remote-range-left-out", "source-changed"]
    assert [row["next_offset"] for row in lake.rows("logs")] == [50]
    upload(storage.path, remote)
    lake.turn(source.path, remote=(remote,), mode=mode)
    assert len(lake.published("orders")) == 50


def test_a_bucket_that_cannot_be_listed_is_a_finding_and_the_local_log_goes_on(tier: Tier) -> None:
    source, lake, _, _ = tier
    lake.turn(source.path, remote=("s3://no-such-bucket-here/tier",))
    assert lake.ledger("orders") == [(0, 30, "remote"), (30, 50, "present")]
    assert "unreadable" in lake.rules()


def test_verify_calls_segments_of_a_prefix_without_any_object_not_checked(
    tier: Tier, capsys: pytest.CaptureFixture[str]
) -> None:
    source, lake, remote, storage = tier
    lake.turn(source.path, remote=(remote,), mode="reference")
    first, *others = (path for path in sorted(storage.path.rglob("*")) if path.is_file())
    delete(f"{remote}/{first.relative_to(storage.path).as_posix()}")
    for path in storage.logs():
        delete(f"{remote}/{path.relative_to(storage.path).as_posix()}")
    assert main(["verify", str(lake.path)]) == 2
    for path in others:
        delete(f"{remote}/{path.relative_to(storage.path).as_posix()}")
    capsys.readouterr()
    assert main(["verify", str(lake.path), "--format", "jsonl"]) == 1
    *findings, _ = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [each["rule"] for each in findings] == ["archive-not-checked"] * 3
    assert f"the remote storage {remote} has no object of a segment" in findings[0]["message"]
