"""The native library of snappy-java, extracted from a jar of a Spark installation and loaded without a JVM.

PySpark is located and not imported. Its jars are in the nearest folder ``jars`` above it, in a package or in a whole
distribution. The library itself needs only the C library, and is loaded in memory: nothing stays on disk.
:func:`logcore.records.snappy_encoder.use_library` takes :func:`load_snappy_java` and checks the result.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import platform
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

_LOG = logging.getLogger(__name__)

_PACKAGE = "pyspark"
_JARS = "snappy-java-*.jar"
_NATIVE = "org/xerial/snappy/native"
_MEMBERS = {
    ("linux", "x86_64"): "Linux/x86_64/libsnappyjava.so",
    ("linux", "aarch64"): "Linux/aarch64/libsnappyjava.so",
    ("darwin", "x86_64"): "Mac/x86_64/libsnappyjava.dylib",
    ("darwin", "arm64"): "Mac/aarch64/libsnappyjava.dylib",
}
_FOLDERS_ABOVE = 5
"""Levels from a module in `python/lib/pyspark.zip` up to its Spark folder."""
_LARGEST_LIBRARY = 16 << 20


def load_snappy_java() -> ctypes.CDLL | None:
    """Load the library; every call loads it again.

    Returns:
        None without PySpark, without its jar, or where the jar has no library for this system.
    """
    member = _MEMBERS.get((sys.platform, platform.machine()))
    jar = _jar()
    if member is None or jar is None or not _is_glibc_or_mac():
        return None
    try:
        with zipfile.ZipFile(jar) as archive:
            entry = archive.getinfo(f"{_NATIVE}/{member}")
            if entry.file_size > _LARGEST_LIBRARY:
                return None
            return _loaded(archive.read(entry))
    except (OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        _LOG.debug("snappy-java's native library cannot be loaded: %s", error)
        return None


def _jar() -> Path | None:
    try:
        found = importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None:
        return None
    for folder in list(Path(found.origin).parents)[:_FOLDERS_ABOVE]:
        jars = sorted((folder / "jars").glob(_JARS))
        if jars:
            return jars[-1]
    return None


def _is_glibc_or_mac() -> bool:
    """Whether this C library is supported: a library built for another one may load, and then fail when it is
    called.
    """
    if sys.platform != "linux":
        return True
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, OSError):
        return False


def _loaded(content: bytes) -> ctypes.CDLL:
    """Load a library from memory; where the system has no in-memory files, from a file that is removed at once."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("libsnappyjava", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:  # all of it: half a library kills the process
                file.write(content)
            library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        except OSError:
            os.close(descriptor)
            raise
        # It stays open: the loader identifies libraries by name, and would take the next file of this name for this
        # one.
        return library
    with tempfile.NamedTemporaryFile(prefix="libsnappyjava") as file:
        file.write(content)
        file.flush()
        return ctypes.CDLL(file.name)
