"""The fast engine's inner loops, written for Numba: bytes in, columns out, no Python object for a record.

    slots      the layout of call frames and of the batch table; shared with the callers, imports nothing large
    families   the list of kernels, which ones are compiled together, and which work needs which
    library    the compiled kernels of this process: cached, loaded, called
    compiling  several families compiled at once, for `make setup`

The kernels themselves (`decoding`, `cleaning`, `recovering`), `building` and most of `machine` import Numba and are
imported only to compile.
"""
