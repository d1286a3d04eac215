"""A schema registry's address, against an HTTP server on loopback that answers as written here."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from logcore.values.prefix import SchemaId
from logcore.values.registry.schemas import Schemas, WriterSchema
from logcore.values.undecodable import Reason, Undecodable
from spark_jobs.decode import schema_sources
from spark_jobs.decode.schema_sources import RegistryAddress, RegistryCredentials, RegistryUnavailable
from spark_jobs.errors import UsageError
from tests.registry_server import OddServer, Registry

HTTP = "http:"
LOGIN = RegistryCredentials("env:LOGIN", "Basic dTpoaWRkZW4=")
GUID = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
REFERENCES = [{"name": "Inner", "subject": "inner", "version": 2}]
ANSWERS = {
    "/subjects/a-value/versions?deleted=true": [1, 2],
    "/subjects/a-value/versions/1?deleted=true": {"subject": "a-value", "version": 1, "id": 5, "schema": '"long"'},
    "/subjects/a-value/versions/2?deleted=true": {
        "subject": "a-value",
        "version": 2,
        "id": 7,
        "schema": "x",
        "guid": str(GUID),
        "ruleSet": {"domainRules": [{"type": "ENCRYPT"}]},
    },
    "/subjects/:.c:a-value/versions?deleted=true": [4],
    "/subjects/:.c:a-value/versions/4?deleted=true": {
        "id": 5,
        "schema": "whole",
        "schemaType": "PROTOBUF",
        "references": REFERENCES,
    },
    "/subjects/:.c:inner/versions/2?deleted=true": {"subject": ":.c:inner", "id": 6, "version": 2, "schema": "inner"},
    "/subjects/strange/versions?deleted=true": {"no": "list"},
    "/subjects/odd/versions?deleted=true": [1],
    "/subjects/odd/versions/1?deleted=true": ["no", "schema"],
    "/subjects/bare/versions?deleted=true": [1],
    "/subjects/bare/versions/1?deleted=true": {"id": 3, "schema": 9},
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(ANSWERS) as made:
        yield made


def refusal(known: Schemas, schema: SchemaId, subject: str) -> Reason:
    with pytest.raises(Undecodable) as caught:
        known.writer_schema(schema, subject)
    return caught.value.reason


def test_all_versions_of_a_subject_are_read_once_by_id_and_guid(registry):
    known = RegistryAddress(registry.address + "/").schemas(["a-value", "unknown"])
    assert known.writer_schema(5, "a-value") == WriterSchema("avro", '"long"', {})
    assert refusal(known, 7, "a-value") == Reason.ENCRYPTED
    assert refusal(known, GUID, "a-value") == Reason.ENCRYPTED
    assert refusal(known, 6, "a-value") == Reason.UNKNOWN_SCHEMA
    assert len(registry.asked) == 4


def test_references_are_asked_for_in_the_context_of_the_subject(registry):
    known = RegistryAddress(registry.address).schemas([":.c:a-value"])
    assert known.writer_schema(5, ":.c:a-value") == WriterSchema("protobuf", "whole", {"Inner": "inner"})


@pytest.mark.parametrize("subject", ["strange", "odd", "bare"])
def test_an_answer_that_is_no_schema_is_an_error(registry, subject):
    with pytest.raises(RegistryUnavailable, match="Check the address"):
        RegistryAddress(registry.address).schemas([subject])


def test_a_registry_that_fails_is_an_error(registry):
    registry.status = 500
    with pytest.raises(RegistryUnavailable, match="status 500"):
        RegistryAddress(registry.address).schemas(["a-value"])


def test_a_registry_that_is_too_slow_is_an_error(registry):
    registry.delay_s = 1
    with pytest.raises(RegistryUnavailable, match="did not answer"):
        RegistryAddress(registry.address, timeout_s=0.1).schemas(["a-value"])


def test_a_registry_that_sends_its_answer_byte_by_byte_is_not_awaited_forever():
    answer = b"HTTP/1.1 200 OK\r\n\r\n[" + b" " * 10_000 + b"]"
    with OddServer(answer, pause_s=0.01) as server, pytest.raises(RegistryUnavailable, match="TimeoutError"):
        RegistryAddress(server.address, timeout_s=0.1).schemas(["a-value"])


def test_a_registry_that_is_down_is_an_error():
    made = Registry({})
    made.server.server_close()
    with pytest.raises(RegistryUnavailable, match="did not answer: ConnectionRefusedError"):
        RegistryAddress(made.address).schemas(["a-value"])


def test_a_reference_to_the_latest_version_is_that_version_also_where_another_one_is_known():
    def version(number: int, inner: int) -> dict[str, object]:
        refers = [{"name": "Inner", "subject": "inner", "version": inner}]
        return {"version": number, "id": 10 + number, "schema": f"whole {number}", "references": refers}

    inner = "/subjects/inner/versions"
    answers = {
        "/subjects/a/versions?deleted=true": [1, 2],
        "/subjects/a/versions/1?deleted=true": version(1, 1),
        "/subjects/a/versions/2?deleted=true": version(2, -1),
        f"{inner}/1?deleted=true": {"version": 1, "id": 1, "schema": "first"},
        f"{inner}/latest?deleted=true": {"version": 3, "id": 3, "schema": "third"},
    }
    with Registry(answers) as registry:
        known = RegistryAddress(registry.address).schemas(["a"])
    assert known.writer_schema(11, "a").references == {"Inner": "first"}
    assert known.writer_schema(12, "a").references == {"Inner": "third"}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "did not answer: RemoteDisconnected"),
        (b"no HTTP at all\r\n\r\n", "did not answer: BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[1", "did not answer: IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[1", "Check the address"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n[1]", "did not answer: HTTPException"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "Check the address"),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe\xfd", "Check the address"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000, "Check the address"),
        (b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "answered with status 302"),
    ],
    ids=["nothing", "no-http", "cut-short", "shorter", "many-headers", "no-json", "no-text", "deep", "elsewhere"],
)
def test_an_odd_answer_is_an_error_of_ours(answer, says):
    with OddServer(answer) as server, pytest.raises(RegistryUnavailable, match=says):
        RegistryAddress(server.address).schemas(["a-value"])


def test_an_answer_that_is_too_large_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(schema_sources, "_LARGEST_ANSWER", 10)
    answer = b"HTTP/1.1 200 OK\r\n\r\n[1, 2, 3, 4, 5]"
    with OddServer(answer) as server, pytest.raises(RegistryUnavailable, match="Check the address"):
        RegistryAddress(server.address).schemas(["a-value"])


def test_a_subject_that_is_no_text_is_unknown_to_the_registry(registry):
    known = RegistryAddress(registry.address).schemas(["half a \ud800"])
    assert refusal(known, 5, "half a \ud800") == Reason.UNKNOWN_SCHEMA
    assert registry.asked == ["/subjects/half a ?/versions?deleted=true"]


@pytest.mark.parametrize(
    "address", ["file:///etc/hosts", "registry:8081", "http://", HTTP + "//a:b@host", HTTP + "//[x"]
)
def test_other_addresses_are_refused(address):
    with pytest.raises(UsageError):
        RegistryAddress(address)


def test_credentials_are_in_each_request():
    with Registry(ANSWERS, LOGIN.authorization) as registry:
        known = RegistryAddress(registry.address, credentials=LOGIN).schemas(["a-value"])
    assert known.writer_schema(5, "a-value") == WriterSchema("avro", '"long"', {})
    assert registry.authorizations == [LOGIN.authorization] * 3


@pytest.mark.parametrize(
    ("credentials", "says"),
    [
        (None, "name their place in decode.schemas.credentials"),
        (RegistryCredentials("env:LOGIN", "Basic d3Jvbmc6aGlkZGVu"), "Check the credentials in env:LOGIN"),
    ],
)
def test_a_registry_that_refuses_a_request_is_an_error_with_advice(credentials, says):
    with Registry(ANSWERS, LOGIN.authorization) as registry, pytest.raises(RegistryUnavailable, match=says) as caught:
        RegistryAddress(registry.address, credentials=credentials).schemas(["a-value"])
    assert "status 401" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "d3Jvbmc6aGlkZGVu" not in str(caught.value)


def test_credentials_do_not_follow_to_another_port():
    with Registry(ANSWERS) as elsewhere, Registry({}, LOGIN.authorization) as registry:
        registry.moved_to = elsewhere.address
        known = RegistryAddress(registry.address, credentials=LOGIN).schemas(["a-value"])
    assert known.writer_schema(5, "a-value") == WriterSchema("avro", '"long"', {})
    assert registry.authorizations == [LOGIN.authorization] * 3
    assert elsewhere.authorizations == [None] * 3


def test_credentials_follow_to_another_path_of_the_same_place():
    with Registry({f"/moved{path}": each for path, each in ANSWERS.items()}, LOGIN.authorization) as registry:
        registry.moved_to = f"{registry.address}/moved"
        known = RegistryAddress(registry.address, credentials=LOGIN).schemas(["a-value"])
    assert known.writer_schema(5, "a-value") == WriterSchema("avro", '"long"', {})
    assert registry.authorizations == [LOGIN.authorization] * 6
