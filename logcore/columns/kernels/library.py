"""The compiled kernels of this process: found in the cache or compiled into it, loaded, and called.

    the cache     one file for each family, kind of processor and version of the family. Its name has a digest of
                  the family's sources and of the compiler. It is written under a temporary name and renamed, under a
                  lock: if many workers start at once, one compiles and the others wait and load
    where         $LOGLAKE_HOME/kernels, else the virtual environment, else the user's cache folder
    loading       a family when it is first needed, through LLVM alone, some milliseconds; Numba is imported only to
                  compile

Numba's own cache is beside the source file of a function, and does not work in a zip that Spark shipped. This cache
does not need the file.
"""

import ctypes
import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from logcore.columns.kernels import codec_numbers
from logcore.columns.kernels.call_frames import Address, CallFrame
from logcore.columns.kernels.families import FAMILIES, PACKAGE, Family, Work
from logcore.columns.kernels.machine.tables import checksum_tables
from logcore.garbage_collection import collector_paused
from logcore.storage.machine.module_sources import ModuleSources, installed_version
from logcore.storage.machine.object_code import cached_object_code, find_object_code

if TYPE_CHECKING:
    from logcore.columns.kernels.machine.processor import Processor

_LOG = logging.getLogger(__name__)

SHORT_BLOCK = 256

TIMES_SLOWER = "50 to 300"
"""The time of the reference engine divided by that of the kernels, for small records of every codec."""

ENGINE_VARIABLE = "LOGLAKE_ENGINE"
"""Names the engine to use instead of the fastest one: kernels or reference."""

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_FRAMES = {kernel.name: kernel.frame for family in FAMILIES for kernel in family.kernels}
_BUILDING = "building"
"""The module with the compiler options of all families."""


class KernelsUnavailable(Exception):
    """The kernels cannot be used on this machine, with the reason. The reference engine gives the same results."""


class Library:
    """The kernels of one process, for several threads. A call releases the interpreter's lock."""

    def __init__(self, processor: "Processor | None" = None) -> None:
        """Load LLVM; the kernels are loaded when they are needed.

        Args:
            processor: The processor to compile for; None for this machine's.

        Raises:
            KernelsUnavailable: LLVM cannot be loaded.
        """
        try:
            import llvmlite.binding as llvm

            from logcore.columns.kernels.machine.processor import this_processor
        except (ImportError, OSError) as error:
            raise KernelsUnavailable(f"llvmlite cannot be loaded: {error}") from error
        self.processor = this_processor() if processor is None else processor
        self._llvm = llvm
        self._sources = ModuleSources(PACKAGE)
        self._functions: dict[str, Callable[..., int]] = {}
        self._engines: dict[Family, Any] = {}  # they own the memory of the compiled code
        self._failures: dict[Family, str] = {}
        self._lock = threading.Lock()
        self.tables = checksum_tables(SHORT_BLOCK)
        self.tables_address = Address(ctypes.addressof(self.tables))
        self._result = ctypes.c_int64()
        self._error = ctypes.c_void_p()

    def call(self, name: str, frame: CallFrame) -> None:
        """Call a kernel with a frame. Its family is loaded first if necessary.

        Raises:
            KernelsUnavailable: The family cannot be loaded.
            TypeError: The kernel takes another frame.
        """
        if _FRAMES[name] is not type(frame):
            raise TypeError(f"{name} takes {_FRAMES[name].__name__}, not {type(frame).__name__}")
        function = self._functions.get(name)
        if function is None:
            self.load([family for family in FAMILIES if name in (kernel.name for kernel in family.kernels)])
            function = self._functions[name]
        function(ctypes.addressof(self._result), ctypes.addressof(self._error), ctypes.addressof(frame))

    def load(self, families: Sequence[Family]) -> None:
        """Load families. Those that are not in the cache of this machine are compiled now, which takes seconds.

        Raises:
            KernelsUnavailable: One cannot be loaded: a package is missing, or the compiler failed.
        """
        if all(family in self._engines for family in families):
            return
        with self._lock:
            self._load([family for family in families if family not in self._engines])

    def missing(self, families: Sequence[Family]) -> list[Family]:
        """Return the families that are neither loaded nor in the cache."""
        return [
            family
            for family in families
            if family not in self._engines and find_object_code(self.cache_name(family)) is None
        ]

    def cache_name(self, family: Family) -> str:
        """Return the name of a family's object code in the cache. It has a digest of all inputs of the code."""
        import llvmlite

        digest = hashlib.sha256()
        for fact in (
            self.processor,
            family.module,
            [(kernel.name, kernel.frame.described()) for kernel in family.kernels],
            llvmlite.__version__,
            installed_version("numba"),
            sys.implementation.cache_tag,
            codec_numbers.VALUES,
        ):
            digest.update(f"{fact!r}\n".encode())
        digest.update(self._sources.digest([family.module, _BUILDING]))
        return f"{family.name}-{self.processor.name}-{digest.hexdigest()[:24]}"

    def _load(self, families: list[Family]) -> None:
        for family in families:
            if family in self._failures:
                raise KernelsUnavailable(self._failures[family])
        compiled = self.missing(families)
        if compiled:
            _LOG.warning(
                "compiling once for this machine and version, about %.0f s: the kernels %s",
                expected_seconds(compiled),
                ", ".join(family.name for family in compiled),
            )
        begun = time.perf_counter()
        for family in families:
            try:
                self._load_one(family)
            except KernelsUnavailable as error:
                self._failures[family] = str(error)
                raise
        if compiled:
            _LOG.info("compiled in %.1f s", time.perf_counter() - begun)

    def _load_one(self, family: Family) -> None:
        code = cached_object_code(self.cache_name(family), lambda: _compiled(family, self.processor))
        llvm = self._llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(self.processor.triple).create_target_machine()
        # The parts of the code refer to each other across at most 2 GiB. llvmlite's own memory manager reserves one
        # block for all; LLVM's does not, and it aborts the process if the address space is crowded.
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        functions: dict[str, Callable[..., int]] = {}
        for kernel in family.kernels:
            address = engine.get_function_address(f"loglake_{kernel.name}")
            if not address:
                raise KernelsUnavailable(f"the compiled code lacks the kernel {kernel.name}")
            functions[kernel.name] = _FUNCTION(address)
        self._functions |= functions
        self._engines[family] = engine


def library() -> Library:
    """Return this process's kernels.

    Raises:
        KernelsUnavailable: LLVM cannot be loaded.
    """
    found = _tried_once()
    if isinstance(found, KernelsUnavailable):
        raise found
    return found


@cache
def _tried_once() -> Library | KernelsUnavailable:
    try:
        return Library()
    except KernelsUnavailable as error:
        return error


def is_chosen(work: Work = Work.WALK) -> bool:
    """Whether the kernels for a work are available and LOGLAKE_ENGINE names no other engine."""
    return os.environ.get(ENGINE_VARIABLE, "kernels") == "kernels" and is_available(work)


def is_available(work: Work = Work.WALK) -> bool:
    """Whether the kernels for a work can be used here; they are compiled if necessary.

    If not, a warning reports each reason once in a process.
    """
    try:
        library().load(work.value)
    except KernelsUnavailable as error:
        _warn(str(error))
        return False
    return True


def expected_seconds(families: Sequence[Family]) -> float:
    """Estimate the seconds that one process needs to compile families, with the start of the compiler."""
    return 0.5 + sum(family.seconds for family in families)


@cache
def _warn(reason: str) -> None:
    _LOG.warning(
        "The compiled engine is not available on this machine (%s): the reference engine is used, %s times slower.",
        reason,
        TIMES_SLOWER,
    )


def _compiled(family: Family, processor: "Processor") -> bytes:
    try:
        from logcore.columns.kernels.building import object_code
    except ImportError as error:
        raise KernelsUnavailable(f"Numba cannot be loaded: {error}") from error
    try:
        sources = import_module(f"{PACKAGE}.{family.module}").kernels(processor.has_crc32c)
        with collector_paused():  # Numba makes many objects that stay
            return object_code(processor, {each.name: (sources[each.name], each.frame) for each in family.kernels})
    except Exception as error:
        # A compiler of another version or on another system may raise anything; the reference engine needs none.
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]  # Numba's texts have many lines
        raise KernelsUnavailable(f"the kernels cannot be compiled: {reason}") from error
