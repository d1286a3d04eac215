"""The fast engine's inner loops, written for Numba: bytes in, columns out, no Python object for a record.

    call_frames  the one argument of a kernel: a structure of named fields; each folder has its kernels' frames
    batch_row    the columns of the batch table
    families     the list of kernels, which ones are compiled together, and which work needs which
    library      the compiled kernels of this process: cached, loaded, called
    compiling    several families compiled at once, for `make setup`

The kernels themselves (`decoding`, `cleaning`, `recovering`), `building` and most of `machine` import Numba and are
imported only to compile.
"""
