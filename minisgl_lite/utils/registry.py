"""A table of named implementations (mini-sglang: utils/registry.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps a name to an implementation of one kind, in order of registration.

    ``type`` is the kind in words ("cache manager"); it stands in the errors.
    """

    def __init__(self, type: str) -> None:
        self._registry: dict[str, T] = {}
        self._type = type

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that files its item under ``name`` and returns the item unchanged.

        Raises:
            KeyError: the name is taken.
        """

        def file_item(item: T) -> T:
            if name in self._registry:
                raise KeyError(f"{self._type} {name!r} is registered already.")
            self._registry[name] = item
            return item

        return file_item

    def __getitem__(self, name: str) -> T:
        self.assert_supported(name)
        return self._registry[name]

    def __contains__(self, name: object) -> bool:
        return name in self._registry

    def supported_names(self) -> list[str]:
        return list(self._registry)

    def assert_supported(self, names: str | Iterable[str]) -> None:
        """Raises ValueError for the first of ``names`` that is not registered."""
        for name in names if isinstance(names, list | tuple) else [names]:
            if not isinstance(name, str) or name not in self._registry:
                known = ", ".join(self._registry) or "none"
                raise ValueError(f"unknown {self._type} {name!r}; known: {known}.")
