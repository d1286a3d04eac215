"""The commands for logs read a log directory on an object store as they read it on a disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logcore
from logcore.cli.main import main
from tests.broker_directory import LogDirectory
from tests.object_store.gateway import Gateway, upload

pytestmark = pytest.mark.object_store

SAMPLES = ["codecs-v2-4.3.1", "transactions-4.4.0", "damaged", "internal-topics-4.4.0", "timestamps-v2-4.4.0"]
COMMANDS = {
    "ls": ["ls"],
    "verify": ["verify", "--format", "jsonl"],
    "ledger": ["ledger", "--format", "jsonl"],
    "transactions": ["transactions", "--as-of", "2030"],
    "offsets": ["offsets", "--at", "max-timestamp"],
    "dump": ["dump", "--format", "jsonl"],
    "batches": ["dump", "--batches"],
    "indexes": ["dump", "--indexes"],
    "checkpoints": ["dump", "--checkpoints"],
}
WRITTEN_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
"""Objects have the time when they were put."""


def said(capsys: pytest.CaptureFixture[str], path: str, *command: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; the path is replaced, and in findings the times of files too."""
    code = main([command[0], path, *command[1:]])
    got = capsys.readouterr()
    out, err = (text.replace(path, "PATH") for text in got)
    return code, WRITTEN_AT.sub("TIME", out) if command[0] == "verify" else out, WRITTEN_AT.sub("TIME", err)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_command_says_of_objects_what_it_says_of_files(name, gateway_bucket, sample, capsys):
    logdir = sample(name).logdir
    upload(logdir, f"{gateway_bucket}/broker/logs")
    for command, words in COMMANDS.items():
        local = said(capsys, str(logdir), *words)
        assert said(capsys, f"{gateway_bucket}/broker/logs", *words) == local, command
        assert local[1], command


def test_a_partition_directory_and_a_segment_can_be_named_alone(gateway_bucket, tmp_path, capsys):
    logs = LogDirectory(tmp_path / "logs")
    orders = logs.partition("orders-0")
    orders.append(40)
    orders.roll()
    orders.append(20)
    logs.high_watermarks(orders_0=50)
    upload(logs.path, f"{gateway_bucket}/logs")
    for below in ("orders-0", f"orders-0/{40:020d}.log"):
        local = said(capsys, str(logs.path / below), "dump", "--format", "jsonl")
        assert local[:2] == said(capsys, f"{gateway_bucket}/logs/{below}", "dump", "--format", "jsonl")[:2]
        assert local[1].count("\n") == (50 if below == "orders-0" else 20)


def test_the_library_opens_a_log_on_an_object_store(gateway_bucket, sample):
    local = logcore.open_log_directory(sample("codecs-v2-4.3.1").logdir)
    upload(sample("codecs-v2-4.3.1").logdir, f"{gateway_bucket}/logs")
    remote = logcore.open_log_directory(f"{gateway_bucket}/logs")
    assert len(local.logs) == len(remote.logs) >= 5
    for here, there in zip(local.logs, remote.logs, strict=True):
        assert (there.topic, there.partition, there.topic_id) == (here.topic, here.partition, here.topic_id)
        assert list(there.records()) == list(here.records())
        assert [batch.header for batch in there.batches()] == [batch.header for batch in here.batches()]


def test_a_bucket_can_be_a_log_directory_itself(gateway_bucket, tmp_path, capsys):
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders-0").append(3)
    logs.high_watermarks(orders_0=3)
    upload(logs.path, f"{gateway_bucket}/copy")
    local = said(capsys, str(logs.path), "ls")
    assert local[0] == 0
    import obstore
    from obstore.store import S3Store

    store = S3Store(gateway_bucket.removeprefix("s3://"))
    for page in obstore.list(store, "copy/"):
        for meta in page:
            obstore.rename(store, meta["path"], meta["path"].removeprefix("copy/"))
    assert said(capsys, gateway_bucket, "ls") == local


@pytest.mark.long
def test_a_large_segment_is_read_in_ranges_and_few_requests(gateway: Gateway, gateway_bucket, tmp_path, capsys):
    logs = LogDirectory(tmp_path / "logs")
    orders = logs.partition("orders-0")
    orders.append(60, per_batch=1, tag=b"x" * 1_000_000)
    logs.high_watermarks(orders_0=60)
    upload(logs.path, f"{gateway_bucket}/logs")
    before = gateway.requests(gateway_bucket.removeprefix("s3://"))["GetObject"]
    assert main(["verify", f"{gateway_bucket}/logs"]) == 0
    assert "60 records" in capsys.readouterr().out
    requests = gateway.requests(gateway_bucket.removeprefix("s3://"))["GetObject"] - before
    assert 4 <= requests <= 25  # of at most 8 MiB, and the small files
    assert main(["dump", f"{gateway_bucket}/logs", "--offsets", "58..59", "--format", "jsonl"]) == 0
    assert '"offset":58' in capsys.readouterr().out


def test_a_prefix_without_objects_does_not_exist(gateway_bucket, capsys):
    code, out, _ = said(capsys, f"{gateway_bucket}/nothing", "verify")
    assert code == 3
    assert "error path-not-found: PATH does not exist." in out


def test_maintenance_wants_a_local_copy(capsys):
    for command in ("retain", "compact", "recover", "reindex"):
        assert main([command, "s3://bucket/logs/orders-0", "--plan"]) == 64
        assert "needs a copy on a local disk" in capsys.readouterr().err


def test_the_source_is_only_read(gateway: Gateway, gateway_bucket, sample, capsys):
    upload(sample("damaged").logdir, f"{gateway_bucket}/logs")
    name = gateway_bucket.removeprefix("s3://")
    before = gateway.requests(name)
    for words in COMMANDS.values():
        said(capsys, f"{gateway_bucket}/logs", *words)
    done = gateway.requests(name) - before
    assert set(done) <= {"GetObject", "HeadObject", "ListObjectsV2"}
    assert done["GetObject"] > 10


def test_files_of_other_kinds_beside_the_logs_are_named(gateway_bucket, tmp_path, capsys):
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders-0").append(3)
    logs.high_watermarks(orders_0=3)
    (logs.path / "lost+found").mkdir()
    (logs.path / "lost+found" / "x").touch()
    (logs.path / "orders-0" / "notes.log").touch()
    upload(logs.path, f"{gateway_bucket}/logs")
    local = said(capsys, str(logs.path), "verify")
    assert said(capsys, f"{gateway_bucket}/logs", "verify") == local
    assert "not-a-segment" in local[1]


def test_nothing_of_the_source_is_kept_on_this_machine(gateway_bucket, sample, tmp_path: Path, monkeypatch, capsys):
    upload(sample("codecs-v2-4.3.1").logdir, f"{gateway_bucket}/logs")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["verify", f"{gateway_bucket}/logs"]) == 0
    assert list(tmp_path.rglob("*")) == []
