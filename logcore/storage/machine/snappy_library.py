"""The native library of snappy-java, taken out of the jar that a Spark brings along and loaded without a JVM.

PySpark is looked up and not imported; its jars lie in the nearest folder `jars` above it, be it a package or a whole
distribution. The library itself needs only the C library, and lives in memory: nothing stays on disk.
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
"""From a module in `python/lib/pyspark.zip` up to the Spark that it belongs to."""
_LARGEST_LIBRARY = 16 << 20


def load_snappy_java() -> ctypes.CDLL | None:
    """The library, loaded anew by every call; None where there is no PySpark, no such jar, or none for this system."""
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
    """A library made for another C library may be loaded, and fail when it is called."""
    if sys.platform != "linux":
        return True
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, OSError):
        return False


def _loaded(content: bytes) -> ctypes.CDLL:
    """Code from memory; where the system has no files in memory, from a file that is removed at once."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("libsnappyjava", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        except OSError:
            os.close(descriptor)
            raise
        # It stays open: the loader knows libraries by their names, and would take the next one there for this one.
        return library
    with tempfile.NamedTemporaryFile(prefix="libsnappyjava") as file:
        file.write(content)
        file.flush()
        return ctypes.CDLL(file.name)
