"""Call frames: the one argument of a kernel, a structure of named fields that the caller shares with it.

    fields      numbers, addresses of buffers, and room for results; 64 bits each
    one layout  `layout` makes a C structure of a class's annotations, and `building` makes the type of the kernel's
                argument of that structure. So caller and kernel always agree on the place of a field
    checked     an unknown field is an error: of the compiler in a kernel, of mypy and of Python in a caller. A number
                is no address: for the compiler and for mypy
    families    `families` lists the frame of each kernel, and `Library.call` refuses any other one

Imports nothing large: callers load kernels without Numba.
"""

import ctypes
from typing import TYPE_CHECKING, Any, NewType, TypeAlias, TypeVar, get_type_hints

from logcore.columns.kernels import codec_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

Address = NewType("Address", int)
"""Address of a buffer or a function."""
NOWHERE = Address(0)
"""There is no such buffer or function."""
Unsigned = NewType("Unsigned", int)
"""A number of 64 bits without a sign."""
AddressOfEachCodec: TypeAlias = ctypes.Array[ctypes.c_uint64]
"""An address for each codec number."""

_TYPES: dict[Any, Any] = {
    int: ctypes.c_int64,
    Address: ctypes.c_uint64,
    Unsigned: ctypes.c_uint64,
    AddressOfEachCodec: ctypes.c_uint64 * codec_numbers.NUMBERS,
}

# How a kernel ended: the field `status` of a frame.
DONE = 0
DOUBT = 1
"""At a batch that it does not accept. It used nothing of it, and the slow reader must validate it."""
FULL = 2
"""No room for more; call again with the same frame and fresh buffers."""
FOREIGN = 3
"""At a batch whose codec the kernel does not have."""

SLACK = 64
"""Extra bytes after the capacity of every output buffer: copies write 32 bytes at once."""


class CallFrame(ctypes.Structure):
    """A frame of zeros. Subclasses annotate their fields as int, `Address`, `Unsigned` or `AddressOfEachCodec`."""

    __slots__ = ()

    @property
    def address(self) -> Address:
        """Address of the frame, for the frame of another kernel."""
        return Address(ctypes.addressof(self))

    @classmethod
    def described(cls) -> str:
        """The layout as text."""
        return f"{cls.__name__} " + ", ".join(f"{name} {kind.__name__}" for name, kind, *_ in cls._fields_)


def address_of(array: "npt.NDArray[Any]") -> Address:
    """Address of an array's first element. The caller keeps the array as long as a frame has the address."""
    return Address(array.ctypes.data)


Frame = TypeVar("Frame", bound=CallFrame)


def layout(frame: type[Frame]) -> type[Frame]:
    """Lay a frame out by its annotations. Decorator of every frame.

    Raises:
        TypeError: A field has another type, or the class allows other attributes.
    """
    if frame.__dict__.get("__slots__") != ():
        raise TypeError(f"{frame.__name__} needs `__slots__ = ()`: else a misspelt field would be a new attribute")
    hints = get_type_hints(frame)
    unknown = [name for name, kind in hints.items() if kind not in _TYPES]
    if unknown:
        raise TypeError(f"{frame.__name__}: no type for {', '.join(unknown)}")
    frame._fields_ = [(name, _TYPES[kind]) for name, kind in hints.items()]
    return frame
