"""A schema registry's address, against an HTTP server on loopback that answers as written here."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote
from uuid import UUID

import pytest

from logcore.values.registry.schemas import WriterSchema
from logcore.values.undecodable import Reason, Undecodable
from spark_jobs.decode.registry_address import RegistryAddress, RegistryUnavailable
from spark_jobs.lake.errors import UsageError

HTTP = "http:"
GUID = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
REFERENCES = [{"name": "Inner", "subject": "inner", "version": 2}]
ANSWERS = {
    "/schemas/ids/5?subject=:.:": {"schema": '"long"'},
    "/schemas/ids/5/versions?subject=:.:&deleted=true": [{"subject": "a-value", "version": 1}],
    "/schemas/ids/5?subject=:.c:": {"schema": "whole", "schemaType": "PROTOBUF", "references": REFERENCES},
    "/schemas/ids/5/versions?subject=:.c:&deleted=true": [{"subject": ":.c:a-value", "version": 1}],
    "/subjects/:.c:inner/versions/2?deleted=true": {"subject": ":.c:inner", "id": 6, "version": 2, "schema": "inner"},
    f"/schemas/guids/{GUID}?subject=:.:": {"schema": '"long"'},
    f"/schemas/guids/{GUID}/ids?subject=:.:&deleted=true": [{"context": ".", "id": 5}, {"context": ".c", "id": 7}],
    "/schemas/ids/7?subject=:.:": {"schema": "x", "ruleSet": {"domainRules": [{"type": "ENCRYPT"}]}},
    "/schemas/ids/7/versions?subject=:.:&deleted=true": [{"subject": "a-value", "version": 2}],
    "/schemas/ids/8?subject=:.:": ["no", "schema"],
    "/schemas/ids/9?subject=:.:": {"schema": 9},
}


class Registry:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200
        self.delay_s = 0.0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = unquote(self.path)
                registry.asked.append(path)
                time.sleep(registry.delay_s)
                answer = ANSWERS.get(path)
                status = 404 if registry.status == 200 and answer is None else registry.status
                body = json.dumps(answer or {"error_code": 40403}).encode()
                with contextlib.suppress(BrokenPipeError):  # the client that does not wait is part of a test
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def refusal(known: RegistryAddress, schema: int, subject: str) -> Reason:
    with pytest.raises(Undecodable) as caught:
        known.writer_schema(schema, subject)
    return caught.value.reason


def test_a_schema_is_asked_for_once(registry):
    known = RegistryAddress(registry.address + "/")
    for _ in range(3):
        assert known.writer_schema(5, "a-value") == WriterSchema("avro", '"long"', {})
    assert len(registry.asked) == 2
    assert refusal(known, 6, "a-value") == Reason.UNKNOWN_SCHEMA
    assert refusal(known, 6, "a-value") == Reason.UNKNOWN_SCHEMA
    assert len(registry.asked) == 3


def test_a_guid_is_known_by_the_subjects_of_its_ids_in_this_context(registry):
    assert RegistryAddress(registry.address).writer_schema(GUID, "a-value").text == '"long"'
    assert not any("/schemas/ids/7/" in path for path in registry.asked)


def test_references_are_asked_for_in_the_context_of_the_subject(registry):
    known = RegistryAddress(registry.address)
    assert known.writer_schema(5, ":.c:a-value") == WriterSchema("protobuf", "whole", {"Inner": "inner"})


def test_another_subject_and_encrypted_fields_are_refused(registry):
    known = RegistryAddress(registry.address)
    assert refusal(known, 5, "b-value") == Reason.OTHER_SUBJECT
    assert known.writer_schema(5, "b-value", any_subject=True).text == '"long"'
    assert refusal(known, 7, "a-value") == Reason.ENCRYPTED


@pytest.mark.parametrize("schema", [8, 9])
def test_an_answer_that_is_no_schema_is_an_error(registry, schema):
    with pytest.raises(RegistryUnavailable, match="Check the address"):
        RegistryAddress(registry.address).writer_schema(schema, "a-value")


def test_a_registry_that_fails_is_an_error_and_is_asked_again(registry):
    known = RegistryAddress(registry.address)
    registry.status = 500
    with pytest.raises(RegistryUnavailable, match="status 500"):
        known.writer_schema(5, "a-value")
    registry.status = 200
    assert known.writer_schema(5, "a-value").text == '"long"'


def test_a_registry_that_is_too_slow_is_an_error(registry):
    registry.delay_s = 1
    with pytest.raises(RegistryUnavailable, match="did not answer"):
        RegistryAddress(registry.address, timeout_s=0.1).writer_schema(5, "a-value")


def test_a_registry_that_is_down_is_an_error():
    made = Registry()
    made.server.server_close()
    with pytest.raises(RegistryUnavailable, match="did not answer: ConnectionRefusedError"):
        RegistryAddress(made.address).writer_schema(5, "a-value")


@pytest.mark.parametrize(
    "address", ["file:///etc/hosts", "registry:8081", "http://", HTTP + "//a:b@host", HTTP + "//[x"]
)
def test_other_addresses_are_refused(address):
    with pytest.raises(UsageError):
        RegistryAddress(address)
