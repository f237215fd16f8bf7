"""Few calls lie between an attack and the matrix products of its searches."""

import sys
from pathlib import Path

import pytest
import torch
from torch.overrides import TorchFunctionMode

import exhume
from exhume import data

PACKAGE = str(Path(exhume.__file__).parent)
PRODUCTS = {torch.mm, torch.matmul, torch.addmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.addmm_}
# Functions of the package from `Attack.__call__` to the one that multiplies, both included.
MOST_CALLS = 10


class Calls(TorchFunctionMode):
    """Notes the package's calls on the stack at every matrix product inside a stage of an attack."""

    def __init__(self):
        super().__init__()
        self.of_products = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in PRODUCTS:
            names = calls()
            if "run_stage" in names:
                self.of_products.append(names)
        return function(*args, **(kwargs or {}))


def calls():
    """The package's functions on the stack, from `Attack.__call__` on."""
    frame, names = sys._getframe(2), []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            names.append(frame.f_code.co_name)
            if names[-1] == "__call__":
                return names[::-1]
        frame = frame.f_back
    return []


@pytest.mark.parametrize(
    ("dim", "outputs"), [(12, 1), (12, 2), (260, 1)], ids=["SubsetSearch", "DirectSearch", "BasisSearch"]
)
def test_products_of_a_search_are_few_calls_away(dim, outputs):
    training = data.load("sphere", dim=dim, samples=4)
    labels = training.labels if outputs == 1 else torch.stack([training.labels, training.labels.flip(0)], 1)
    target = exhume.RandomFeatures(num_features=6 * dim * 4).fit(training.inputs, labels).target()
    with Calls() as noted:
        result = exhume.reconstruct(target, num_samples=4)
    assert result.certificate.verdict == "exact"
    assert len(noted.of_products) > 100
    longest = max(noted.of_products, key=len)
    assert len(longest) <= MOST_CALLS, longest
