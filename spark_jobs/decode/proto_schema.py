"""Protobuf schemas in text become compiled schemas, by the compiler of the package grpcio-tools.

It runs in a process of its own: a schema may come from anywhere, and the compiler is native code. It reads the file. It
takes imports from the file's folder and from Google's own schemas, such as `google/protobuf/timestamp.proto`.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import subprocess
import sys
import tempfile

from spark_jobs.lake.errors import UsageError

_SECONDS = 60
_COMPILER = "grpc_tools"


def compiled_schema(path: str) -> str:
    """Return base64 of the `FileDescriptorSet` of a `.proto` file, with its imports and comments.

    Raises:
        UsageError: The compiler is not installed, or it refuses the file.
    """
    package = importlib.util.find_spec(_COMPILER)
    if package is None or package.origin is None:
        raise UsageError(
            "Protobuf schemas in text need the package grpcio-tools, which comes with the extra `lake`. Install it, or "
            "name a compiled schema in base64."
        )
    folder, name = os.path.split(os.path.abspath(path))
    known = os.path.join(os.path.dirname(package.origin), "_proto")
    with tempfile.TemporaryDirectory(prefix="loglake-proto-") as scratch:
        out = os.path.join(scratch, "schema")
        command = [
            *(sys.executable, "-m", f"{_COMPILER}.protoc", f"-I{folder}", f"-I{known}"),
            *("--include_imports", "--include_source_info", f"--descriptor_set_out={out}", name),
        ]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False, text=True, errors="replace"
            )
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"The schema {path}: the compiler did not end within {_SECONDS} s.") from error
        if done.returncode != 0 or not os.path.exists(out):
            raise UsageError(f"The schema {path} can't be compiled: {' '.join(done.stderr.split())[:500]}")
        with open(out, "rb") as file:
            return base64.b64encode(file.read()).decode()
