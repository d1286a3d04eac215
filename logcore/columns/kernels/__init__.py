"""The fast engine's inner loops, written for Numba: bytes in, columns out, no Python object a record.

    slots      what a call frame and the batch table hold; shared with the callers, brings nothing
    library    the compiled kernels of this process: cached, loaded, called
    tables     numbers that the checksums look up
    processor  which kinds of processor there are

The kernels themselves (building, intrinsics, checksums, values, batches, records, messages, frames, deflate, lines)
bring Numba and are imported only to compile.
"""
