"""The compiled kernels of this process: found in the cache or compiled into it, loaded, and called.

    the cache     one file a kind of processor and version of the kernels, named by a digest of their sources and of
                  the compiler; it is written beside its place and renamed, under a lock, so that of many workers that
                  start at once one compiles and the others wait and load
    where         $LOGLAKE_HOME/kernels, else the virtual environment, else the user's cache folder
    loading       through LLVM alone, some ten milliseconds; Numba is imported only to compile

Numba's own cache finds its place by the file that a function was read from, and finds none in a zip that Spark shipped;
this one does not ask for it.
"""

import ctypes
import hashlib
import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from logcore.columns.kernels.machine.tables import checksum_tables
from logcore.storage.machine.object_code import cached_object_code, source_digest

_LOG = logging.getLogger(__name__)

NAMES = (
    *("walk", "hop", "inspect", "emit", "inflate", "judge_gzip", "unfold"),
    *("emit_messages", "lines"),
    *("hash_keys", "hash_bytes", "put_newest", "find_newest", "spread_part", "move_part", "take_part"),
    *("mark_newest", "newest_rows", "survivors", "rewrite", "index", "recover"),
)
SHORT_BLOCK = 256

TIMES_SLOWER = "50 to 300"
"""The time of the reference engine over that of the kernels, for small records of every codec."""

ENGINE_VARIABLE = "LOGLAKE_ENGINE"
"""Names the engine to use instead of the fastest one: kernels or reference."""

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class KernelsUnavailable(Exception):
    """The kernels cannot be used on this machine; the text says why. The reference engine gives the same results."""


class Library:
    """The kernels, ready to be called. A call releases the interpreter's lock."""

    def __init__(self, functions: dict[str, Callable[..., int]], keep: tuple[Any, ...]) -> None:
        self._functions = functions
        self._keep = keep  # what the compiled code lives in
        self.tables = checksum_tables(SHORT_BLOCK)
        self.tables_address = ctypes.addressof(self.tables)
        self._result = ctypes.c_int64()
        self._error = ctypes.c_void_p()

    def call(self, name: str, frame: int) -> None:
        """Call a kernel with the frame at an address."""
        self._functions[name](ctypes.addressof(self._result), ctypes.addressof(self._error), frame)


def library() -> Library:
    """This process's kernels, compiled first if no earlier process on this machine did.

    Raises KernelsUnavailable: a package they need is missing, or the compiler failed.
    """
    found = _tried_once()
    if isinstance(found, KernelsUnavailable):
        raise found
    return found


@cache
def _tried_once() -> Library | KernelsUnavailable:
    try:
        return _loaded()
    except KernelsUnavailable as error:
        return error


def _loaded() -> Library:
    try:
        import llvmlite
        import llvmlite.binding as llvm

        from logcore.columns.kernels.machine.processor import this_processor
    except (ImportError, OSError) as error:
        raise KernelsUnavailable(f"llvmlite cannot be loaded: {error}") from error
    processor = this_processor()
    name = f"{processor.name}-{_version(processor.triple, llvmlite.__version__)}"
    code = cached_object_code(name, lambda: _compiled(processor))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(processor.triple).create_target_machine()
    # The parts of the code refer to each other across at most 2 GiB. llvmlite's own memory manager reserves one block
    # for all; LLVM's does not, and it aborts the process where the address space is crowded.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    functions: dict[str, Callable[..., int]] = {}
    for kernel in NAMES:
        address = engine.get_function_address(f"loglake_{kernel}")
        if not address:
            raise KernelsUnavailable(f"the compiled code lacks the kernel {kernel}")
        functions[kernel] = _FUNCTION(address)
    return Library(functions, (engine,))


def is_chosen() -> bool:
    """Whether the kernels work here and LOGLAKE_ENGINE names no other engine."""
    return os.environ.get(ENGINE_VARIABLE, "kernels") == "kernels" and is_available()


@cache
def is_available() -> bool:
    """Whether the kernels work here. If not, one warning per process reports it."""
    try:
        library()
    except KernelsUnavailable as error:
        _LOG.warning(
            "The compiled engine is not available on this machine (%s): the reference engine is used, %s times slower.",
            error,
            TIMES_SLOWER,
        )
        return False
    return True


def _compiled(processor: Any) -> bytes:
    try:
        from logcore.columns.kernels.building import object_code
    except ImportError as error:
        raise KernelsUnavailable(f"Numba cannot be loaded: {error}") from error
    _LOG.info("compiling kernels for %s, once a machine; this takes some seconds", processor.name)
    try:
        return object_code(processor)
    except Exception as error:
        # A compiler of another version or on another system may raise anything; the reference engine needs none.
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]  # Numba's texts have many lines
        raise KernelsUnavailable(f"the kernels cannot be compiled: {reason}") from error


def _version(triple: str, compiler: str) -> str:
    """A digest of what decides what the compiled code is. Each line of Numba goes with one version of llvmlite, and
    kernels that are cached shall work where there is no Numba, so that is not asked."""
    digest = hashlib.sha256(f"{triple} llvmlite {compiler}\n".encode())
    digest.update(source_digest("logcore.columns.kernels"))
    return digest.hexdigest()[:24]
