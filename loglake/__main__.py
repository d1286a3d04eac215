"""`python -m loglake`: the command line, where the folder of its script is not on the PATH."""

from __future__ import annotations

import sys

from logcore.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
