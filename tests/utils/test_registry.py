from __future__ import annotations

import pytest

from minisgl_lite.utils import Registry


def test_register_returns_the_item() -> None:
    registry: Registry = Registry("Thing")

    @registry.register("a")
    def make() -> str:
        return "made"

    assert make is not None and make() == "made"
    assert registry["a"] is make
    assert registry.supported_names() == ["a"]


def test_a_second_item_of_one_name_is_refused() -> None:
    registry: Registry = Registry("Thing")
    registry.register("a")(int)
    with pytest.raises((ValueError, KeyError), match="a"):
        registry.register("a")(str)
    assert registry["a"] is int


def test_unknown_name_lists_what_is_there() -> None:
    registry: Registry = Registry("Thing")
    registry.register("a")(int)
    registry.register("b")(str)
    with pytest.raises((ValueError, KeyError)) as error:
        registry["c"]
    assert all(word in str(error.value) for word in ("Thing", "c", "a", "b"))
    registry.assert_supported(["a", "b"])
    registry.assert_supported("a")
    with pytest.raises(ValueError, match="c"):
        registry.assert_supported(["a", "c"])
