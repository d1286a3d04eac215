"""Protobuf schemas in text become compiled schemas, by the compiler of the package grpcio-tools.

It runs in a process of its own: a schema may come from anywhere, and the compiler is native code. It reads the file. It
takes imports from the file's folder, or else from the files that Confluent's serializers have built in: they register
no reference for them. Each such name leads to one file, so a schema of a registry cannot import another file of this
machine.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.protobuf.descriptors import file_set, missing_imports
from logcore.values.registry.schemas import WriterSchema
from spark_jobs.errors import JobError, UsageError

_SECONDS = 60
_COMPILER = "grpc_tools"
_MAIN = "registered.proto"
"""Name that a schema of a registry gets; a registry has none for it."""
_NOT_FOUND = re.compile(r"(\S+): File not found\.")


def compiled_schema(path: str) -> str:
    """Return base64 of the `FileDescriptorSet` of a `.proto` file, with its imports and comments.

    Raises:
        UsageError: The compiler is not installed, or it refuses the file.
    """
    folder, name = os.path.split(os.path.abspath(path))
    compiled, problem = _compiled(folder, name)
    if compiled is None:
        raise UsageError(f"The schema {path} can't be compiled: {problem}")
    return compiled


@lru_cache(maxsize=1000)
def _compiled_texts(
    texts: tuple[tuple[str, str], ...], compiled: tuple[tuple[str, str], ...] = ()
) -> tuple[str | None, str]:
    """Compile the last of some files; the others, and those that are compiled, are what it imports."""
    with tempfile.TemporaryDirectory(prefix="loglake-proto-") as folder:
        for name, text in texts:
            path = os.path.normpath(os.path.join(folder, name))
            if os.path.commonpath([folder, path]) != folder or path == folder:
                return None, "a referenced schema has a name that leads out of its folder"
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            except ValueError:
                return None, "a referenced schema has a name that is no file name"
            except OSError as error:
                raise JobError(f"A schema can't be written for its compiler: {error.strerror}.") from error
        return _compiled(folder, texts[-1][0], dict(compiled))


def compiled_writer(schema: WriterSchema) -> WriterSchema:
    """Return a schema of a registry with Protobuf in text compiled, and with the built-in files that it imports.

    Some registries keep schemas as they get them: compiled ones of some clients, texts of others. Either may refer to
    the other. A reference comes before a built-in file of that name. Other formats are returned as they are.

    Raises:
        InvalidSchemaError: The compiler refuses the text.
        UsageError: The compiler is not installed.
        JobError: It did not end by itself.
    """
    if schema.format != "protobuf":
        return schema
    compiled = {name: text for name, text in schema.references.items() if _is_base64(text)}
    texts = {name: text for name, text in schema.references.items() if name not in compiled}
    if any(not name.endswith(".proto") for name in texts):
        raise InvalidSchemaError("the name of a referenced schema does not end with .proto.")
    if not _is_base64(schema.text):
        made = _of_texts((*sorted(texts.items()), (_MAIN, schema.text)), compiled)
        return replace(schema, text=made, references={})
    built_in = missing_imports(schema.text, compiled) & built_in_files().keys() - texts.keys()
    if not built_in and not texts:
        return schema
    imports = "".join(f'import "{name}";\n' for name in sorted(built_in | texts.keys()))
    # Without texts the compiler needs none of the references: all schemas with these imports share one run of it.
    known = compiled if texts else {}
    made = _of_texts((*sorted(texts.items()), (_MAIN, f'syntax = "proto3";\n{imports}')), known)
    return replace(schema, references={_MAIN: made, **compiled})


def _of_texts(texts: tuple[tuple[str, str], ...], compiled: Mapping[str, str]) -> str:
    made, problem = _compiled_texts(texts, tuple(sorted(compiled.items())))
    if made is not None:
        return made
    unknown = _NOT_FOUND.search(problem)
    if unknown is not None:
        raise InvalidSchemaError(f"it imports {unknown[1]}, which is neither a reference of the schema nor built in.")
    raise InvalidSchemaError(f"the compiler refuses it: {problem}.")


def _is_base64(text: str) -> bool:
    try:
        return bool(text) and bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _compiled(folder: str, name: str, known: Mapping[str, str] = MappingProxyType({})) -> tuple[str | None, str]:
    """The compiled schema in base64; or None and why. `known` has compiled files that it may import."""
    package = importlib.util.find_spec(_COMPILER)
    if package is None or package.origin is None:
        raise UsageError(
            "Protobuf schemas in text need the package grpcio-tools, which comes with the extra `lake`. Install it, or "
            "name a compiled schema in base64."
        )
    built_in = (f"-I{each}={path}" for each, path in built_in_files().items() if each not in known)
    with tempfile.TemporaryDirectory(prefix="loglake-proto-") as scratch:
        out = os.path.join(scratch, "schema")
        if known:
            with open(os.path.join(scratch, "known"), "wb") as file:
                file.write(file_set(known))
        command = [
            # Isolated, and not in a folder with files of others: Python would import modules from there.
            *(sys.executable, "-I", "-m", f"{_COMPILER}.protoc", f"-I{folder}", *built_in),
            *(("--descriptor_set_in=known",) if known else ()),
            *("--include_imports", "--include_source_info", f"--descriptor_set_out={out}", name),
        ]
        try:
            done = subprocess.run(
                command, cwd=scratch, capture_output=True, timeout=_SECONDS, check=False, text=True, errors="replace"
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            raise JobError(
                f"The compiler of Protobuf schemas did not end: {type(error).__name__}. Try again."
            ) from error
        if done.returncode < 0:
            raise JobError(f"The compiler of Protobuf schemas was ended by signal {-done.returncode}. Try again.")
        if done.returncode != 0 or not os.path.exists(out):
            return None, " ".join(done.stderr.split())[:500]
        with open(out, "rb") as file:
            return base64.b64encode(file.read()).decode(), ""


_SUFFIX = ".proto"


@lru_cache(maxsize=1)
def built_in_files() -> Mapping[str, str]:
    """Return paths by the names of imports. Files of packages that are not installed are left out."""
    return {
        **_files("google/protobuf", os.path.join(_folder("grpc_tools"), "_proto", "google", "protobuf")),
        **_files("google/type", _folder("google.type")),
        **_files("confluent", os.path.join(os.path.dirname(__file__), "confluent")),
    }


def _folder(package: str) -> str:
    """The folder of a package; one that does not exist if it is not installed. `google.type` has no module."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # of the package around it
        found = None
    places = None if found is None else found.submodule_search_locations
    return next(iter(places or ()), os.devnull)


def _files(name: str, folder: str) -> dict[str, str]:
    found = {}
    for below, _, names in os.walk(folder):
        for each in names:
            if each.endswith(_SUFFIX):
                path = os.path.join(below, each)
                found[f"{name}/{os.path.relpath(path, folder).replace(os.sep, '/')}"] = path
    return found
