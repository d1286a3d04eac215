"""`python -m logcore.columns.kernels`: compile the kernels now, so that nobody waits for it later."""

import sys
import time

from logcore.columns.kernels.library import TIMES_SLOWER, KernelsUnavailable, library


def main() -> int:
    """Compile and load, and print how long it took. A machine without a compiler is reported; it is no failure."""
    begun = time.perf_counter()
    try:
        library()
    except KernelsUnavailable as error:
        print(f"no compiled kernels here: {error}. The reference engine does their work, {TIMES_SLOWER} times slower.")
        return 0
    print(f"kernels ready ({time.perf_counter() - begun:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
