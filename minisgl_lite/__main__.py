"""``python -m minisgl_lite`` is the command ``minisgl-lite``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
