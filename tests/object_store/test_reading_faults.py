"""What goes wrong at an object store while a log directory is read: one clear line each, and nothing else is lost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from logcore.cli.main import main
from logcore.storage.objects import answers, listing, settings
from tests.broker_directory import LogDirectory
from tests.object_store.faults import Answer, FaultyProxy, Request
from tests.object_store.gateway import upload
from tests.object_store.stalling import StallingProxy

pytestmark = pytest.mark.object_store

SEGMENT = "00000000000000000000.log"


@pytest.fixture
def logs(bucket: str, proxy: FaultyProxy, tmp_path: Path) -> str:
    """Three logs of 30 records."""
    made = LogDirectory(tmp_path / "logs")
    for name in ("orders-0", "orders-1", "payments-0"):
        made.partition(name).append(30)
    made.high_watermarks(orders_0=30, orders_1=30, payments_0=30)
    upload(made.path, f"{bucket}/logs")
    proxy.seen.clear()
    return f"{bucket}/logs"


def put(url: str, content: bytes) -> None:
    """Put an object past the proxy's rule, as another program does."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    obstore.put(S3Store(bucket), key, content)


def verify(
    path: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[dict[str, object]], dict[str, object], str]:
    """Exit code, findings, the summary, and stderr."""
    code = main(["verify", path, "--format", "jsonl"])
    got = capsys.readouterr()
    *findings, last = [json.loads(line) for line in got.out.splitlines()] or [{"summary": {}}]
    return code, [each for each in findings if each["severity"] != "info"], last["summary"], got.err


def test_a_listing_that_stops_half_way_is_not_used(logs, proxy, capsys, monkeypatch):
    monkeypatch.setattr(listing, "PAGE_OBJECTS", 1)

    def rule(request: Request) -> Answer | None:
        return Answer.error(500, "InternalError") if "continuation-token" in request.query else None

    def in_small_pages(request: Request, answer: Answer) -> Answer:
        if request.query.get("prefix") != "logs/":
            return answer
        text = answer.content.decode()
        first, end = text.index("<Contents>"), text.index("</Contents>") + len("</Contents>")
        cut = text[:end] + "</ListBucketResult>"
        token = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
        assert first < end
        return Answer(200, cut.replace("<IsTruncated>false</IsTruncated>", token).encode(), {})

    proxy.rule, proxy.changes = rule, in_small_pages
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [(each["rule"], each["file"]) for each in findings] == [("unreadable", logs)]
    assert "its listing stopped after 1 objects, and no part of it is used" in str(findings[0]["message"])
    assert summary["files"] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (400, "ExpiredToken", "credentials for the object store at * have expired: ExpiredToken. Renew them"),
        (403, "InvalidAccessKeyId", "does not accept the credentials: InvalidAccessKeyId. Correct AWS_ACCESS_KEY_ID"),
        (403, "AccessDenied", "denies access: AccessDenied. Check what the credentials allow: s3:ListBucket"),
        (503, "SlowDown", "is overloaded (SlowDown): it refused every attempt. Run again later"),
        (404, "NoSuchBucket", "there is no bucket * Correct the name"),
    ],
)
def test_a_store_that_refuses_is_one_line_that_says_what_to_do(logs, proxy, capsys, monkeypatch, status, code, words):
    monkeypatch.setenv("LOGLAKE_STORE_TIMEOUT", "60")  # all attempts end earlier, also on a busy machine
    proxy.rule = lambda request: Answer.error(status, code) if request.kind == "list" else None
    for command in ("ls", "dump", "ledger"):
        assert main([command, logs]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error unreadable: ")
        for part in words.split("*"):
            assert part.strip() in line
        assert proxy.address.removeprefix("http://") in line
        assert "not-secret" not in line


def test_credentials_that_expire_between_listing_and_reading_lose_no_log(logs, proxy, capsys):
    proxy.rule = lambda request: (
        Answer.error(400, "ExpiredToken") if request.path.endswith(f"orders-1/{SEGMENT}") else None
    )
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [(each["rule"], each["file"]) for each in findings] == [("unreadable", f"{logs}/orders-1/{SEGMENT}")]
    assert "have expired" in str(findings[0]["message"])
    assert (summary["records"], summary["logs"]["clean"]) == (60, 2)


def test_an_object_replaced_between_listing_and_reading_is_a_finding(logs, proxy, capsys):
    def rule(request: Request) -> Answer | None:
        if request.path.endswith(f"orders-1/{SEGMENT}") and request.method == "GET":
            proxy.rule = None
            put(f"{logs}/orders-1/{SEGMENT}", b"the bytes of another segment" * 100)
        return None

    proxy.rule = rule
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [(each["rule"], each["file"]) for each in findings] == [("source-changed", f"{logs}/orders-1/{SEGMENT}")]
    assert "another object took its name after it was listed" in str(findings[0]["message"])
    assert (summary["records"], summary["logs"]["clean"]) == (60, 2)


def test_a_store_that_ignores_the_condition_does_not_hide_a_replaced_object(logs, proxy, capsys):
    """Its answer has another ETag, and the same size."""
    other = b'"00000000000000000000000000000000"'

    def changes(request: Request, answer: Answer) -> Answer:
        if not request.path.endswith(f"orders-1/{SEGMENT}"):
            return answer
        return Answer(answer.status, answer.content, answer.headers | {"ETag": other.decode()})

    proxy.changes = changes
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [each["rule"] for each in findings] == ["source-changed"]
    assert "it has another ETag" in str(findings[0]["message"])
    assert summary["records"] == 60


@pytest.mark.parametrize("state", ["replication-offset-checkpoint", "orders-1/leader-epoch-checkpoint"])
def test_a_state_file_that_was_replaced_makes_its_logs_wait(logs, proxy, capsys, state):
    """With another high watermark, or without leader epochs, a log would mean something else."""

    def rule(request: Request) -> Answer | None:
        if request.path.endswith(state):
            proxy.rule = None
            put(f"{logs}/{state}", b"0\n1\norders 1 5\n")
        return None

    proxy.rule = rule
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [(each["rule"], each["file"]) for each in findings] == [("source-changed", f"{logs}/{state}")]
    assert summary["records"] == (0 if state.startswith("replication") else 60)


def test_an_object_that_vanishes_is_a_finding(logs, proxy, capsys):
    proxy.rule = lambda request: (
        Answer.error(404, "NoSuchKey") if request.path.endswith(f"orders-1/{SEGMENT}") else None
    )
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [each["rule"] for each in findings] == ["source-changed"]
    assert "the object was removed after it was listed" in str(findings[0]["message"])
    assert summary["records"] == 60


@pytest.mark.parametrize("listed", [-10, 10])
def test_an_object_of_another_size_than_listed_is_a_finding(logs, proxy, capsys, listed):
    """A listing may be older than the object."""

    def changes(request: Request, answer: Answer) -> Answer:
        if request.query.get("prefix") == "logs/":
            text = answer.content.decode()
            at = text.index("<Size>", text.index(f"orders-1/{SEGMENT}")) + len("<Size>")
            end = text.index("</Size>", at)
            text = f"{text[:at]}{int(text[at:end]) + listed}{text[end:]}"
            return Answer(200, text.encode(), answer.headers)
        return answer

    proxy.changes = changes
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [(each["rule"], each["file"]) for each in findings] == [("source-changed", f"{logs}/orders-1/{SEGMENT}")]
    assert "where" in str(findings[0]["message"])
    assert summary["records"] == 60


def test_a_store_that_fails_twice_and_then_answers_is_not_an_error(logs, proxy, capsys):
    proxy.rule = lambda request: Answer.error(503, "SlowDown") if request.number < 2 else None
    code, findings, summary, _ = verify(logs, capsys)
    assert (code, findings, summary["records"]) == (0, [], 90)


def test_a_body_that_ends_early_is_read_again(logs, proxy, capsys):
    cut: list[str] = []

    def changes(request: Request, answer: Answer) -> Answer:
        if request.path.endswith(SEGMENT) and request.path not in cut:
            cut.append(request.path)
            return Answer(answer.status, answer.content[:50], answer.headers | {"Content-Length": "50"})
        return answer

    proxy.changes = changes
    code, findings, summary, _ = verify(logs, capsys)
    assert len(cut) == 3
    assert code in (0, 3)
    assert summary["records"] == 90 - 30 * len(findings)
    assert {each["rule"] for each in findings} <= {"source-changed"}


def test_an_endpoint_that_does_not_answer_ends_within_the_stated_time(server, bucket, tmp_path, monkeypatch, capsys):
    made = LogDirectory(tmp_path / "logs")
    made.partition("orders-0").append(3)
    upload(made.path, f"{bucket}/logs")
    with StallingProxy(server) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL", between.address)
        monkeypatch.setenv(settings.TIMEOUT_VARIABLE, "3")
        between.stall()
        started = time.monotonic()
        assert main(["ls", f"{bucket}/logs"]) == 3
        assert time.monotonic() - started < 8
        (line,) = capsys.readouterr().err.splitlines()
        assert "did not answer for" in line
        assert f"{settings.TIMEOUT_VARIABLE} is 3" in line
    answers.silence.ended()


def test_an_endpoint_that_is_not_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-secret")
    assert main(["ls", "s3://bucket/logs"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "the object store at http://127.0.0.1:1 cannot be reached" in line
    answers.silence.ended()


def test_too_many_objects_are_refused_with_advice(logs, proxy, capsys, monkeypatch):
    monkeypatch.setattr(listing, "MOST_OBJECTS", 5)
    code, findings, summary, _ = verify(logs, capsys)
    assert code == 3
    assert [each["rule"] for each in findings] == ["unreadable"]
    assert "contains more than 5 objects. Name the log directories below it." in str(findings[0]["message"])
    assert summary["files"] == 0


def test_a_wrong_name_is_wrong_usage(capsys):
    for path in ("gs://bucket/logs", "s3://", "s3://key:secret@bucket/logs"):
        assert main(["ls", path]) == 64
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert "secret@" not in line
