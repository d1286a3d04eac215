"""Call frames: caller and kernel agree on every field, and a wrong field is an error before a kernel runs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from logcore.columns.kernels.call_frames import Address, AddressOfEachCodec, CallFrame, Unsigned, address_of, layout
from logcore.columns.kernels.decoding.decoding_frames import HopFrame, InflateFrame, RecordsFrame, WalkFrame
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import Library

FRAMES = sorted({kernel.frame for family in FAMILIES for kernel in family.kernels}, key=lambda frame: frame.__name__)


@layout
class Example(CallFrame):
    """One field of each type."""

    __slots__ = ()

    source: Address
    count: int
    secret: Unsigned
    decoders: AddressOfEachCodec
    total: int


def test_fields_have_64_bits_in_the_order_of_their_annotations() -> None:
    assert [getattr(Example, name).offset for name in ("source", "count", "secret", "decoders", "total")] == [
        0,
        8,
        16,
        24,
        24 + 8 * 8,
    ]
    assert ctypes.sizeof(Example) == 12 * 8


def test_a_new_frame_is_zero() -> None:
    for frame in FRAMES:
        assert bytes(frame()) == bytes(ctypes.sizeof(frame))


@pytest.mark.parametrize("name", ["rowz", "wanted_keys", "target"])
def test_a_caller_cannot_set_a_field_that_a_frame_lacks(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(RecordsFrame(), name, 1)


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.__name__)
def test_no_frame_accepts_other_attributes(frame: type[CallFrame]) -> None:
    with pytest.raises(AttributeError):
        frame().no_such_field = 1  # type: ignore[attr-defined]


def test_a_frame_that_would_accept_other_attributes_is_refused() -> None:
    with pytest.raises(TypeError, match="__slots__"):

        @layout
        class Open(CallFrame):
            count: int


def test_a_field_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(TypeError, match="Odd: no type for share"):

        @layout
        class Odd(CallFrame):
            __slots__ = ()

            count: int
            share: float


def test_a_kernel_refuses_the_frame_of_another() -> None:
    with pytest.raises(TypeError, match="hop takes HopFrame, not WalkFrame"):
        Library().call("hop", WalkFrame())
    with pytest.raises(TypeError, match="walk takes WalkFrame, not HopFrame"):
        Library().call("walk", HopFrame())


def test_caller_and_kernel_agree_on_every_field() -> None:
    """A kernel that reads each field in turn sees what the caller put there."""
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    from logcore.columns.kernels.machine.intrinsics import frame_type

    for frame in FRAMES:
        compiled = frame_type(frame)
        places = {name: compiled.offset(name) for name in compiled.fields}
        assert places == {name: getattr(frame, name).offset for name, *_ in frame._fields_}
        assert compiled.size == ctypes.sizeof(frame)


def wrong_kernels() -> dict[str, tuple[Any, str]]:
    """Kernels with a wrong field of `InflateFrame`, and what the compiler's message names."""
    from logcore.columns.kernels.machine.intrinsics import numbers

    def unknown_field(frame: Any) -> int:
        return frame.no_such_field  # type: ignore[no-any-return]

    def foreign_field(frame: Any) -> int:
        frame.ceiling = 1
        return 0

    def number_as_address(frame: Any) -> int:
        return numbers(frame.room)[0]  # type: ignore[no-any-return]

    return {"unknown": (unknown_field, "no_such_field"), "foreign": (foreign_field, "ceiling")} | {
        "number": (number_as_address, "int64")
    }


@pytest.mark.parametrize("which", ["unknown", "foreign", "number"])
def test_the_compiler_refuses_a_wrong_field(which: str) -> None:
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    from logcore.columns.kernels.building import object_code
    from logcore.columns.kernels.machine.processor import this_processor

    source, named = wrong_kernels()[which]
    with pytest.raises(Exception, match=named):
        object_code(this_processor(), {"wrong": (source, InflateFrame)})


def test_the_compiler_takes_a_right_field() -> None:
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    from logcore.columns.kernels.building import object_code
    from logcore.columns.kernels.machine.processor import this_processor

    def right(frame: Any) -> int:
        frame.used = frame.room
        return frame.room  # type: ignore[no-any-return]

    assert object_code(this_processor(), {"right": (right, InflateFrame)})


def test_the_address_of_an_array_is_that_of_its_first_element() -> None:
    held = np.arange(5, dtype=np.int64)
    assert ctypes.c_int64.from_address(address_of(held[2:])).value == 2
