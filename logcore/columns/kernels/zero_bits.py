"""How many zero bits a number begins or ends with, by the processor's instructions for it."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _counted(builder: Any, value: Any, name: str) -> Any:
    word, bit = ir.IntType(64), ir.IntType(1)
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [word, bit]), f"llvm.{name}.i64")
    return builder.call(count, [value, bit(0)])


@intrinsic
def trailing_zeros(typing, value):
    """How many of the lowest bits are zero; 64 for zero."""

    def generate(context, builder, signature, args):
        return _counted(builder, args[0], "cttz")

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing, value):
    """How many of the highest bits are zero; 64 for zero."""

    def generate(context, builder, signature, args):
        return _counted(builder, args[0], "ctlz")

    return types.int64(types.int64), generate
