"""`python -m logcore.columns.kernels`: compile all kernels now, so that later commands do not wait for it."""

import sys
import time

from logcore.columns.kernels.compiling import compile_at_once, processes_for
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import TIMES_SLOWER, KernelsUnavailable, expected_seconds, library


def main() -> int:
    """Compile what is not in the cache, load everything, and print how long it took.

    A machine without a compiler is reported, and is not a failure.
    """
    begun = time.perf_counter()
    try:
        missing = library().missing(FAMILIES)
        if missing:
            processes = processes_for(missing)
            expected = expected_seconds(missing) / processes
            print(f"compiling {len(missing)} families of kernels in {processes} processes: about {expected:.0f} s")
            sys.stdout.flush()
            compile_at_once(missing)
        library().load(FAMILIES)
    except KernelsUnavailable as error:
        print(f"no compiled kernels here: {error}. The reference engine is used, {TIMES_SLOWER} times slower.")
        return 0
    print(f"kernels ready ({time.perf_counter() - begun:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
