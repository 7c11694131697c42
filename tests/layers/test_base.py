"""How ops name, hand out and take in their weights."""

from __future__ import annotations

import pytest
import torch

from minisgl_lite.layers import BaseOP, OPList, StateLessOP


class Leaf(BaseOP):
    def __init__(self, size: int) -> None:
        self.weight = torch.empty(size)
        self.bias = None
        self._scratch = torch.zeros(3)


class Borrower(StateLessOP):
    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf


class Tree(BaseOP):
    def __init__(self) -> None:
        self.first = Leaf(2)
        self.layers = OPList([Leaf(3), Leaf(4)])
        self.user = Borrower(self.first)


def test_state_dict_names_weights_by_path_and_leaves_out_private_and_borrowed_ones() -> None:
    names = list(Tree().state_dict())
    assert names == ["first.weight", "layers.0.weight", "layers.1.weight"]


def test_state_dict_hands_out_the_tensors_themselves() -> None:
    tree = Tree()
    assert tree.state_dict()["first.weight"] is tree.first.weight


def test_load_keeps_the_given_tensors_and_empties_the_dict() -> None:
    tree, weight = Tree(), torch.ones(2)
    given = {"first.weight": weight, "layers.0.weight": torch.ones(3)}
    given["layers.1.weight"] = torch.ones(4)
    tree.load_state_dict(given)
    assert tree.first.weight is weight
    assert given == {}
    assert tree.user.leaf.weight is weight


def full() -> dict[str, torch.Tensor]:
    return {name: torch.zeros_like(weight) for name, weight in Tree().state_dict().items()}


def test_load_names_a_missing_tensor_and_the_shape_it_should_have() -> None:
    given = full()
    del given["layers.1.weight"]
    with pytest.raises(ValueError, match=r"missing tensor 'layers\.1\.weight'.*\(4,\)"):
        Tree().load_state_dict(given)


def test_load_names_a_tensor_nobody_takes() -> None:
    with pytest.raises(ValueError, match=r"unexpected tensor 'extra\.weight' of shape \(7,\)"):
        Tree().load_state_dict(full() | {"extra.weight": torch.zeros(7)})


def test_load_names_a_misshapen_tensor_with_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"'layers\.0\.weight' has shape \(5,\).*shape \(3,\)"):
        Tree().load_state_dict(full() | {"layers.0.weight": torch.zeros(5)})


def test_load_refuses_integers() -> None:
    with pytest.raises(ValueError, match=r"'first\.weight'.*torch\.int64"):
        Tree().load_state_dict(full() | {"first.weight": torch.zeros(2, dtype=torch.int64)})


def test_an_op_without_a_computation_says_so() -> None:
    with pytest.raises(NotImplementedError, match="OPList"):
        OPList([Leaf(1)]).forward()
