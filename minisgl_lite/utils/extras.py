"""Optional packages are imported where they are used, never with the package itself."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import ``module``, which the extra ``extra`` of this package installs.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module!r} is needed here and not installed: pip install 'minisgl-lite[{extra}]'."
        ) from error
