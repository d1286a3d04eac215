"""The files that are built in are those of confluent-kafka, and no others can be imported."""

from __future__ import annotations

import base64
import importlib.util

import pytest
from confluent_kafka.schema_registry.common import protobuf as theirs
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from logcore.values.registry.schemas import WriterSchema
from spark_jobs.decode.protobuf.proto_schema import built_in_files, compiled_writer


class Pool:
    """Keeps what the library puts into a pool of descriptors: all that it has built in."""

    def __init__(self) -> None:
        self.files: dict[str, FileDescriptorProto] = {}

    def AddSerializedFile(self, content: bytes) -> None:  # noqa: N802
        file = FileDescriptorProto.FromString(content)
        self.files[file.name] = file


def built_into_the_library() -> dict[str, FileDescriptorProto]:
    pool = Pool()
    theirs._init_pool(pool)
    return pool.files


def compiled(name: str) -> FileDescriptorProto:
    text = f'syntax = "proto3"; import "{name}";'
    made = compiled_writer(WriterSchema("protobuf", text, {})).text
    files = FileDescriptorSet.FromString(base64.b64decode(made)).file
    return next(file for file in files if file.name == name)


def declared(file: FileDescriptorProto) -> list[str]:
    """All that a file says, without where and in which words. A compiler adds the names in JSON."""
    kept = FileDescriptorProto.FromString(file.SerializeToString())
    kept.ClearField("source_code_info")
    kept.ClearField("options")
    return [line for line in str(kept).splitlines() if not line.lstrip().startswith("json_name: ")]


@pytest.mark.parametrize("name", sorted(name for name in built_into_the_library() if name.startswith("confluent/")))
def test_each_confluent_file_declares_what_the_library_declares(name: str) -> None:
    assert declared(compiled(name)) == declared(built_into_the_library()[name])


def test_all_files_that_the_library_has_built_in_can_be_imported() -> None:
    names = set(built_into_the_library())
    assert len(names) > 25
    assert names <= built_in_files().keys()
    imports = "".join(f'import "{name}";' for name in sorted(names))
    made = compiled_writer(WriterSchema("protobuf", f'syntax = "proto3"; {imports}', {})).text
    files = FileDescriptorSet.FromString(base64.b64decode(made)).file
    assert names <= {file.name for file in files}


def test_only_schemas_are_built_in() -> None:
    folders = ("google/protobuf/", "google/type/", "confluent/")
    assert [name for name in built_in_files() if not (name.endswith(".proto") and name.startswith(folders))] == []


def test_a_package_that_is_not_installed_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> object:
        if name == "google.type":
            raise ModuleNotFoundError(name)
        return None if name == "grpc_tools" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    found = built_in_files.__wrapped__()
    assert sorted(found) == [
        "confluent/meta.proto",
        "confluent/type/decimal.proto",
        "confluent/type/variant.proto",
        "confluent/types/decimal.proto",
    ]
