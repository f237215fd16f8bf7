"""Training losses: closed forms against autograd, curvature bounds, and the labels each takes."""

import pytest
import torch

from exhume.errors import InputError
from exhume.training import losses

SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0])
ONE_HOT = torch.eye(3)[[0, 2, 1, 1, 0]]
LABELS = {"square": torch.linspace(-1, 1, 15).reshape(5, 3), "logistic": SIGNS, "cross-entropy": ONE_HOT}


@pytest.fixture(params=sorted(losses.LOSSES))
def case(request):
    loss = losses.get(request.param)
    num_outputs = 1 if request.param == "logistic" else 3
    targets = loss.targets(LABELS[request.param].double(), num_outputs)
    outputs = 2 * torch.randn((5, num_outputs), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return loss, outputs, targets


def test_gradient_is_the_derivative_of_the_value(case):
    loss, outputs, targets = case
    leaf = outputs.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(loss.value(leaf, targets), leaf)
    torch.testing.assert_close(loss.gradient(outputs, targets), expected)


def test_curvature_is_bounded_and_the_bound_is_reached(case):
    loss, outputs, targets = case
    bound = loss.largest_curvature(*outputs.shape)

    def largest(point):
        hessian = torch.autograd.functional.hessian(lambda f: loss.value(f, targets), point)
        return float(torch.linalg.eigvalsh(hessian.reshape(outputs.numel(), -1))[-1])

    assert largest(outputs) <= bound * (1 + 1e-12)
    level = torch.zeros_like(outputs)
    level[:, 2:] = -50.0  # the two remaining classes are equally likely: the steepest place of cross-entropy
    assert largest(level) == pytest.approx(bound, rel=1e-6)


def test_values_by_hand():
    outputs = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    one_hot = torch.eye(2)
    assert float(losses.get("square").value(outputs, one_hot)) == pytest.approx(4 / 4)
    expected = (torch.log1p(torch.exp(torch.tensor(-1.0))) + torch.log1p(torch.exp(torch.tensor(-3.0)))) / 2
    torch.testing.assert_close(losses.get("cross-entropy").value(outputs, one_hot), expected)
    logistic = losses.get("logistic").value(torch.tensor([[1.0], [-3.0]]), torch.tensor([[1.0], [-1.0]]))
    torch.testing.assert_close(logistic, expected)


def test_class_numbers_become_one_hot_rows():
    assert torch.equal(losses.get("cross-entropy").targets(torch.tensor([0, 2, 1, 1, 0]), 3), ONE_HOT.long())


@pytest.mark.parametrize(
    ("loss", "labels", "outputs", "message"),
    [
        ("square", torch.zeros(5, 2), 3, r"labels of shape \(5, 2\) do not fit 3 outputs; valid: \(n, 3\)"),
        ("square", torch.zeros(5), 3, "do not fit 3 outputs"),
        ("logistic", torch.tensor([1.0, 0.5]), 1, "labels -1 and \\+1, not 0.5"),
        ("logistic", ONE_HOT, 3, "one output.*use cross-entropy"),
        ("cross-entropy", SIGNS, 1, "at least 2 outputs"),
        ("cross-entropy", SIGNS, 2, "classes 0 to 1; these range from -1 to 1"),
        ("cross-entropy", torch.tensor([0, 3]), 3, "classes 0 to 2; these range from 0 to 3"),
        ("cross-entropy", torch.full((5, 3), 1 / 3), 3, "not one-hot"),
        ("cross-entropy", torch.eye(3), 4, r"one-hot labels \(n, 4\).*these are \(3, 3\)"),
    ],
)
def test_labels_that_do_not_fit_are_named(loss, labels, outputs, message):
    with pytest.raises(InputError, match=message):
        losses.get(loss).targets(labels, outputs)


def test_unknown_loss_lists_the_valid_ones():
    with pytest.raises(InputError, match="unknown loss 'hinge'; valid: cross-entropy, logistic, square"):
        losses.get("hinge")
