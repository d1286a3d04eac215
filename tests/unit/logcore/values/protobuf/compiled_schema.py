"""Protobuf schemas in text, compiled as others compile them, and the library's classes of them."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def descriptor_set(text: str) -> bytes:
    """The `FileDescriptorSet` of a schema, with comments and imports."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.proto").write_text(text)
        known = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
        options = ("--include_imports", "--include_source_info", "--descriptor_set_out=out")
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"-I{known}", *options, "a.proto"]
        subprocess.run(command, cwd=folder, check=True)
        return (Path(folder) / "out").read_bytes()


def schema_text(text: str) -> str:
    """The schema as our decoder takes it."""
    return base64.b64encode(descriptor_set(text)).decode()


def library_class(text: str, message: str) -> Any:
    """The library's class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set(text)).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
