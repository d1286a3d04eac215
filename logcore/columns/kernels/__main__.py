"""`python -m logcore.columns.kernels`: compile the kernels now, so that nobody waits for it later."""

import sys
import time

from logcore.columns.kernels.library import KernelsUnavailable, library


def main() -> int:
    """Compile and load; says how long it took. Without a compiler that is said too, and no failure."""
    begun = time.perf_counter()
    try:
        library()
    except KernelsUnavailable as error:
        print(f"no compiled kernels here: {error}. NumPy does their work, more slowly.")
        return 0
    print(f"kernels ready ({time.perf_counter() - begun:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
