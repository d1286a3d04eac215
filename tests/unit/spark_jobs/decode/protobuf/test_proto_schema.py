"""The compiler of Protobuf schemas fails: it dies, does not end, or is not there. That is no fault of the schema."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.registry.schemas import WriterSchema
from spark_jobs.decode.protobuf import proto_schema
from spark_jobs.decode.protobuf.proto_schema import compiled_writer
from spark_jobs.errors import JobError


def schema(name: str) -> WriterSchema:
    """One that no other test has compiled: compiled ones are kept."""
    return WriterSchema("protobuf", f'syntax = "proto3"; message {name} {{ int64 id = 1; }}', {})


def instead_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))


@pytest.mark.parametrize(
    ("name", "does", "says"),
    [
        ("Killed", "kill -KILL $$", "ended by signal 9. Try again"),
        ("Crashed", "kill -SEGV $$", "ended by signal 11. Try again"),
        ("Endless", "exec sleep 60", "did not end: TimeoutExpired. Try again"),
    ],
)
def test_a_compiler_that_does_not_end_by_itself_is_an_error_of_the_job_and_is_tried_again(
    tmp_path, monkeypatch, name, does, says
):
    with monkeypatch.context() as patched:
        patched.setattr(proto_schema, "_SECONDS", 0.2 if name == "Endless" else 60)
        instead_of_python(tmp_path, patched, does)
        with pytest.raises(JobError, match=says):
            compiled_writer(schema(name))
    assert compiled_writer(schema(name)).text


def test_a_compiler_that_cannot_be_started_is_an_error_of_the_job(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with pytest.raises(JobError, match="did not end: FileNotFoundError"):
        compiled_writer(schema("Missing"))


def test_a_compiler_that_refuses_the_text_is_a_bad_schema(tmp_path, monkeypatch):
    instead_of_python(tmp_path, monkeypatch, "echo not this one >&2; exit 1")
    with pytest.raises(InvalidSchemaError, match="the compiler refuses it: not this one"):
        compiled_writer(schema("Refused"))


USE = 'syntax = "proto3"; import "a.proto"; import "b.proto"; message Use { A a = 1; B b = 2; }'


def test_a_compiled_reference_may_be_a_set_of_files():
    files = [FileDescriptorProto(name=f"{name.lower()}.proto", syntax="proto3") for name in "AB"]
    for file, name in zip(files, "AB", strict=True):
        file.message_type.add(name=name)
    known = base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()
    made = compiled_writer(WriterSchema("protobuf", USE, {"a.proto": known})).text
    assert [file.name for file in FileDescriptorSet.FromString(base64.b64decode(made)).file][:2] == [
        "a.proto",
        "b.proto",
    ]


def test_compiled_schemas_with_the_same_built_in_imports_need_one_run_of_the_compiler(monkeypatch):
    runs = []
    run = proto_schema._compiled

    def counted(*arguments: Any) -> tuple[str | None, str]:
        runs.append(arguments)
        return run(*arguments)

    monkeypatch.setattr(proto_schema, "_compiled", counted)
    proto_schema._compiled_texts.cache_clear()
    for at in range(20):
        other = FileDescriptorProto(name="a.proto", syntax="proto3", package=f"p{at}")
        made = FileDescriptorProto(name=f"{at}.proto", dependency=["a.proto", "google/type/date.proto"])
        texts = [base64.b64encode(each.SerializeToString()).decode() for each in (made, other)]
        ready = compiled_writer(WriterSchema("protobuf", texts[0], {"a.proto": texts[1]}))
        assert len(ready.references) == 2
    assert len(runs) == 1


def test_a_damaged_compiled_reference_is_a_bad_schema():
    for damaged in (b"\x0a\xff", b"\x0a\x05ab"):
        known = base64.b64encode(damaged).decode()
        with pytest.raises(InvalidSchemaError, match="descriptor is damaged"):
            compiled_writer(WriterSchema("protobuf", USE, {"a.proto": known}))


def test_a_disk_that_cannot_take_a_schema_is_an_error_of_the_job(monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(proto_schema.os, "makedirs", full)
    with pytest.raises(JobError, match="can't be written for its compiler: No space left"):
        compiled_writer(schema("Full"))
