"""Runs the command line program: python3 -m jobq."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
