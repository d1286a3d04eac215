"""The library comes from the jar of the installed Spark, wherever that is. No file of it remains afterwards."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from spark_jobs.engine import snappy_library
from spark_jobs.engine.snappy_library import load_snappy_java

SYMBOL = "Java_org_xerial_snappy_SnappyNative_rawCompress__JJJ"
MEMBER = "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"


def spark_at(monkeypatch: pytest.MonkeyPatch, origin: Path | None) -> None:
    """The only PySpark there is has its `__init__` here."""
    spec = None if origin is None else importlib.machinery.ModuleSpec("pyspark", None, origin=str(origin))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")


def jar(folder: Path, content: bytes, member: str = MEMBER, version: str = "1.1.10.8") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"snappy-java-{version}.jar", "w") as archive:
        archive.writestr(member, content)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What would have been loaded."""
    seen: list[bytes] = []

    def load(content: bytes) -> object:
        seen.append(content)
        return object()

    monkeypatch.setattr(snappy_library, "_loaded", load)
    return seen


def test_the_installed_sparks_is_loaded() -> None:
    assert hasattr(load_snappy_java(), SYMBOL)


def test_a_library_for_which_there_is_no_room_is_left_out() -> None:
    code = (
        "import resource\n"
        "from spark_jobs.engine.snappy_library import load_snappy_java\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))\n"
        "print(load_snappy_java())"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_nothing_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert load_snappy_java() is not None
    assert list(tmp_path.iterdir()) == []


def test_without_files_in_memory_one_is_loaded_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delattr(os, "memfd_create", raising=False)
    seen = []
    load = ctypes.CDLL

    def loading(name: str) -> ctypes.CDLL:
        seen.append(Path(name).parent)
        return load(name)

    monkeypatch.setattr(ctypes, "CDLL", loading)
    assert hasattr(load_snappy_java(), SYMBOL)
    assert seen == [tmp_path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("package", "jars"),
    [
        ("site/pyspark/__init__.py", "site/pyspark/jars"),
        ("site/pyspark/python/lib/pyspark.zip/pyspark/__init__.py", "site/pyspark/jars"),
        ("spark/python/pyspark/__init__.py", "spark/jars"),
        ("spark/python/lib/pyspark.zip/pyspark/__init__.py", "spark/jars"),
    ],
)
def test_the_jar_is_found_in_a_package_and_in_a_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: list[bytes], package: str, jars: str
) -> None:
    spark_at(monkeypatch, tmp_path / package)
    jar(tmp_path / jars, b"the library")
    assert load_snappy_java() is not None
    assert loaded == [b"the library"]


@pytest.mark.usefixtures("loaded")
def test_without_spark_or_its_jar_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_at(monkeypatch, None)
    assert load_snappy_java() is None
    spark_at(monkeypatch, tmp_path / "pyspark" / "__init__.py")
    assert load_snappy_java() is None


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("system", "machine"), [("linux", "sparc"), ("win32", "x86_64"), ("linux", "aarch64")])
def test_on_a_system_that_the_jar_does_not_know_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    spark_at(monkeypatch, tmp_path / "pyspark" / "__init__.py")
    jar(tmp_path / "pyspark" / "jars", b"the library")
    assert load_snappy_java() is not None
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert load_snappy_java() is None


@pytest.mark.usefixtures("loaded")
def test_with_another_c_library_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_at(monkeypatch, tmp_path / "pyspark" / "__init__.py")
    jar(tmp_path / "pyspark" / "jars", b"the library")
    assert load_snappy_java() is not None
    monkeypatch.setattr(os, "confstr", lambda name: None)
    assert load_snappy_java() is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF and no more", b"\0" * (16 << 20) + b"too large"])
def test_what_is_no_library_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    spark_at(monkeypatch, tmp_path / "pyspark" / "__init__.py")
    jar(tmp_path / "pyspark" / "jars", content)
    assert load_snappy_java() is None


def test_a_jar_that_is_no_zip_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_at(monkeypatch, tmp_path / "pyspark" / "__init__.py")
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "pyspark" / "jars" / "snappy-java-1.1.10.8.jar").write_bytes(b"no zip")
    assert load_snappy_java() is None


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("damage", [b"\xff" * 8, b"\x00" * 8], ids=["no deflate block", "a stored block too long"])
def test_a_jar_whose_library_does_not_inflate_gives_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    spark_at(monkeypatch, tmp_path / "pyspark" / "__init__.py")
    folder = tmp_path / "pyspark" / "jars"
    folder.mkdir(parents=True)
    path = folder / "snappy-java-1.1.10.8.jar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, b"the library " * 50)
    content = bytearray(path.read_bytes())
    begin = 30 + len(MEMBER)
    content[begin : begin + len(damage)] = damage
    path.write_bytes(content)
    assert load_snappy_java() is None
