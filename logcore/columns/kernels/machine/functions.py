"""How the functions that kernels call are compiled.

inlined    LLVM replaces each call by the body. The compiler infers the types of the function once
merged     Numba replaces each call by the body before it infers types. Every call costs as much compile time
           as the whole body, so this is only for the few functions where it makes the code faster
called     stays a function
"""

from typing import Any

import numba as nb

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    # Nothing calls these functions from Python.
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}

inlined = nb.njit(forceinline=True, **OPTIONS)
merged = nb.njit(inline="always", **OPTIONS)
called = nb.njit(**OPTIONS)
