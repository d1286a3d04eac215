"""From the kernels' Python to object code for one kind of processor. Brings Numba; imported only where none is cached.

Numba translates and optimizes; LLVM is then asked for plain object code whose functions have names of our own and take
a result address, an error address and the frame. It holds nothing of the process it was made in, so that any later
process can load it without Numba.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba as nb

from logcore.columns.kernels.cleaning.cleaning import index, rewrite_kernel, survivors
from logcore.columns.kernels.cleaning.keyed import hash_bytes, hash_keys
from logcore.columns.kernels.cleaning.newest import find_newest, move_part, put_newest, spread_part, take_part
from logcore.columns.kernels.cleaning.surviving import mark_newest, newest_rows
from logcore.columns.kernels.decoding.batches import hop, walk_kernel
from logcore.columns.kernels.decoding.deflate import judge_gzip
from logcore.columns.kernels.decoding.frames import inflate
from logcore.columns.kernels.decoding.lines import lines
from logcore.columns.kernels.decoding.messages import emit_messages, unfold
from logcore.columns.kernels.decoding.records import records_kernel
from logcore.columns.kernels.machine.intrinsics import FRAME
from logcore.columns.kernels.machine.processor import Processor
from logcore.columns.kernels.recovering.recovering import recover_kernel


def sources(processor: Processor) -> dict[str, Callable[..., Any]]:
    """The kernels by name."""
    return {
        "walk": walk_kernel(processor.has_crc32c),
        "hop": hop,
        "inspect": records_kernel(emits=False),
        "emit": records_kernel(emits=True),
        "inflate": inflate,
        "judge_gzip": judge_gzip,
        "unfold": unfold,
        "emit_messages": emit_messages,
        "lines": lines,
        "hash_keys": hash_keys,
        "hash_bytes": hash_bytes,
        "put_newest": put_newest,
        "find_newest": find_newest,
        "spread_part": spread_part,
        "move_part": move_part,
        "take_part": take_part,
        "mark_newest": mark_newest,
        "newest_rows": newest_rows,
        "survivors": survivors,
        "rewrite": rewrite_kernel(processor.has_crc32c),
        "index": index,
        "recover": recover_kernel(processor.has_crc32c),
    }


def object_code(processor: Processor) -> bytes:
    """Every kernel, compiled for a processor. Takes several seconds."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=processor.name, features=processor.features, opt=3, reloc="pic", codemodel="default"
    )
    whole: llvm.ModuleRef | None = None
    for name, source in sources(processor).items():
        module = llvm.parse_assembly(_intermediate_code(name, source))
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    return target.emit_object(whole)


def _intermediate_code(name: str, source: Callable[..., Any]) -> str:
    compiled = nb.njit(
        nb.int64(FRAME),
        nogil=True,
        error_model="numpy",
        boundscheck=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )(source)
    result = compiled.overloads[compiled.signatures[0]]
    code: str = result.library.get_llvm_str()
    return code.replace(result.fndesc.llvm_func_name, f"loglake_{name}")
