"""Checks of decoding: the kernels, and for each codec whether the fast functions of its library are found."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from importlib import metadata

from logcore.cli import entry_points
from logcore.cli.doctor.checks import CheckState, InstallationCheck
from logcore.columns.decoding.fast_paths import FastPath, fast_paths
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import (
    ENGINE_VARIABLE,
    TIMES_SLOWER,
    KernelsUnavailable,
    Library,
    expected_seconds,
    library,
)
from logcore.records.compression import Codec
from logcore.records.snappy_encoder import jvm_encoder, use_library

_REINSTALL = "Install the wheel of {} from PyPI again. Until then everything works, only more slowly."


def decoding_checks() -> Iterator[InstallationCheck]:
    """Check the kernels and the functions that they call."""
    yield engine_check()
    yield _crc32c_check()
    for path in fast_paths():
        yield codec_check(path)
    yield _snappy_encoder_check()


def engine_check() -> InstallationCheck:
    """Check which decoding engine is used, and whether its kernels are compiled. Nothing is compiled."""
    if os.environ.get(ENGINE_VARIABLE) == "reference":
        text = f"{ENGINE_VARIABLE}=reference: the reference engine decodes, {TIMES_SLOWER} times slower."
        return InstallationCheck("kernels", CheckState.WARNING, text, f"Unset {ENGINE_VARIABLE}.")
    try:
        kernels = library()
        missing = kernels.missing(FAMILIES)
        kernels.load([family for family in FAMILIES if family not in missing])
    except KernelsUnavailable as error:
        return _fallback(str(error))
    versions = f"LLVM by llvmlite {_version('llvmlite')}, for {kernels.processor.name}"
    if not missing:
        return InstallationCheck("kernels", CheckState.OK, f"{len(FAMILIES)} families are compiled; {versions}")
    if importlib.util.find_spec("numba") is None:
        return _fallback(f"{len(missing)} of {len(FAMILIES)} families are not compiled, and Numba is not installed")
    text = (
        f"{len(missing)} of {len(FAMILIES)} families are not compiled yet; {versions}. "
        f"The first command that needs them compiles them, all in about {expected_seconds(missing):.0f} s."
    )
    return InstallationCheck("kernels", CheckState.INFO, text)


def codec_check(path: FastPath) -> InstallationCheck:
    """Check the fast functions of a codec, or of a checksum."""
    if path.is_complete:
        text = f"{', '.join(path.functions)} of {path.package} {_version(path.package)}"
        return InstallationCheck(path.codec, CheckState.OK, text)
    if path.hidden:
        text = f"{path.package} {_version(path.package)} hides {', '.join(path.hidden)}"
    else:
        text = f"a function of {path.package} {_version(path.package)} does not give the expected answer"
    text += f"; {path.instead}."
    advice = _REINSTALL.format(path.package)
    if path.package == "zlib":
        advice = "Use a Python whose zlib is a module of its own, as those of Debian. Everything works without it."
        return InstallationCheck(path.codec, CheckState.INFO, text, advice)
    return InstallationCheck(path.codec, CheckState.WARNING, text, advice)


def _crc32c_check() -> InstallationCheck:
    try:
        kernels: Library = library()
    except KernelsUnavailable:
        return InstallationCheck("crc32c", CheckState.INFO, "The kernels are not used, so it was not checked.")
    if kernels.processor.has_crc32c:
        return InstallationCheck("crc32c", CheckState.OK, "by the processor's instruction")
    return InstallationCheck(
        "crc32c", CheckState.INFO, f"by tables: there is no instruction for {kernels.processor.name}"
    )


def _snappy_encoder_check() -> InstallationCheck:
    codec = Codec.SNAPPY.kafka_name
    use_library(entry_points.load_snappy_java)
    if jvm_encoder():
        return InstallationCheck(codec, CheckState.OK, "snappy-java's library compresses to the bytes of a broker")
    text = "Snappy batches that compaction writes have other bytes than a broker's, and the same records."
    return InstallationCheck(codec, CheckState.INFO, text, "The extra `lake` brings snappy-java's library.")


def _fallback(reason: str) -> InstallationCheck:
    text = f"{reason.rstrip('.')}. The reference engine decodes, {TIMES_SLOWER} times slower."
    return InstallationCheck("kernels", CheckState.WARNING, text, "Install numba again, with its llvmlite.")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)" if importlib.util.find_spec(package) is None else "of Python"
