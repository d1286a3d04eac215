"""From kernels' Python to object code for one kind of processor. Imports Numba; imported only without cached code.

Numba translates and optimizes. Then LLVM writes plain object code, whose functions have names of our own and take a
result address, an error address and the frame. The code depends on nothing in the process that compiled it, so any
later process can load it without Numba.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numba as nb

from logcore.columns.kernels.call_frames import CallFrame
from logcore.columns.kernels.machine.functions import OPTIONS
from logcore.columns.kernels.machine.intrinsics import frame_type
from logcore.columns.kernels.machine.processor import Processor

Source: TypeAlias = Callable[..., Any]


def object_code(processor: Processor, kernels: Mapping[str, tuple[Source, type[CallFrame]]]) -> bytes:
    """Compile kernels to one object file for a processor. `kernels`: the source and the frame of each, by name."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=processor.name, features=processor.features, opt=3, reloc="pic", codemodel="default"
    )
    whole: llvm.ModuleRef | None = None
    for name, (source, frame) in kernels.items():
        module = llvm.parse_assembly(_intermediate_code(name, source, frame))
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    return target.emit_object(whole)


def _intermediate_code(name: str, source: Source, frame: type[CallFrame]) -> str:
    compiled = nb.njit(nb.int64(frame_type(frame)), **OPTIONS)(source)
    result = compiled.overloads[compiled.signatures[0]]
    code: str = result.library.get_llvm_str()
    return code.replace(result.fndesc.llvm_func_name, f"loglake_{name}")
