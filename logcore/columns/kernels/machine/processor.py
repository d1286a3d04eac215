"""The kinds of processor that the kernels distinguish.

There are two kinds of x86-64, so that different machines of a cluster can share compiled code: those with AVX2 and the
instruction for CRC-32C (sold since about 2013), and all others. If LLVM used a missing instruction, the process would
end. So the processor's features are read first.
"""

from dataclasses import dataclass

import llvmlite.binding as llvm

MODERN = "x86-64-v3"
_NEEDED = ("sse4.2", "crc32", "avx2", "bmi2", "fma")


@dataclass(frozen=True, slots=True)
class Processor:
    """A kind of processor, in LLVM's terms."""

    triple: str
    name: str
    features: str
    has_crc32c: bool


def this_processor() -> Processor:
    """The kind of processor that this process runs on."""
    triple = llvm.get_process_triple()
    if not triple.startswith("x86_64"):
        return Processor(triple, "generic", "", has_crc32c=False)
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know the features of this machine
        features = {}
    # Older versions of LLVM include the instruction in SSE 4.2 and do not name it.
    if all(features.get(name, name == "crc32" and "crc32" not in features) for name in _NEEDED):
        return Processor(triple, MODERN, "+crc32", has_crc32c=True)
    return Processor(triple, "x86-64", "", has_crc32c=False)
