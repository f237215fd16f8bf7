"""Labels are read in one way: signs, classes, binary, or numbers."""

import pytest
import torch

from exhume.errors import InputError
from exhume.support.labels import (
    are_class_numbers,
    are_one_hot,
    are_signs,
    as_outputs,
    class_numbers,
    error_of,
    in_words,
    kind_of,
)

ONE_HOT = torch.eye(3)[[0, 2, 1, 1]]


@pytest.mark.parametrize(
    ("labels", "num_outputs", "kind"),
    [
        (torch.tensor([1.0, -1.0]), 1, "signs"),
        (torch.tensor([[1.0], [-1.0]]), 1, "signs"),
        (torch.tensor([0.0, 1.0]), 1, "binary"),
        (torch.tensor([0.5, 1.0]), 1, "numbers"),
        (torch.tensor([0, 2]), 3, "classes"),
        (ONE_HOT, 3, "classes"),
        (2 * ONE_HOT - 1, 3, "classes"),
        (torch.ones(4, 3), 3, "numbers"),
    ],
)
def test_kinds(labels, num_outputs, kind):
    assert kind_of(labels, num_outputs) == kind


@pytest.mark.parametrize(
    ("labels", "num_outputs"),
    [
        (torch.tensor([0, 3]), 3),
        (torch.tensor([-1, 1]), 3),
        (torch.tensor([0.5, 1]), 3),
        (ONE_HOT, 2),
        (ONE_HOT, 1),
        (torch.ones(2, 2, 2), 4),
    ],
)
def test_labels_of_another_model_are_refused(labels, num_outputs):
    with pytest.raises(InputError, match="fit"):
        kind_of(labels, num_outputs)


def test_conversions():
    classes = torch.tensor([0, 2, 1, 1])
    assert torch.equal(as_outputs(classes, 3), ONE_HOT.double())
    assert torch.equal(as_outputs(ONE_HOT, 3), ONE_HOT)
    assert as_outputs(torch.tensor([1.0, -1.0]), 1).shape == (2, 1)
    assert torch.equal(class_numbers(ONE_HOT), classes)
    assert torch.equal(class_numbers(classes), classes)
    assert are_one_hot(ONE_HOT)
    assert not are_one_hot(2 * ONE_HOT - 1)
    assert not are_one_hot(classes)
    assert are_signs(torch.tensor([1.0, -1.0]))
    assert not are_signs(torch.tensor([1.0, 0.0]))
    assert not are_class_numbers(torch.tensor([0.0, 2.0]), 2)


def test_errors():
    outputs = torch.tensor([[0.2, 0.1, 0.0], [0.0, 0.1, 0.9], [0.3, 0.2, 0.1], [0.0, 5.0, 0.0]])
    assert error_of(outputs, torch.tensor([0, 2, 1, 1])) == 0.25
    assert error_of(outputs, ONE_HOT) == 0.25
    assert error_of(torch.tensor([[0.1], [0.9]]), torch.tensor([-1.0, 1.0])) == 0.5
    assert error_of(torch.tensor([[0.1], [0.9]]), torch.tensor([0.0, 1.0])) == 0.0
    assert error_of(torch.tensor([[1.0], [2.0]]), torch.tensor([1.5, 2.5])) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("labels", "settings", "words"),
    [
        (torch.tensor([1.1, -0.9]), {}, ["+1", "-1"]),
        (torch.tensor([1.1, -0.9]), {"class_names": ("cat", "dog")}, ["dog", "cat"]),
        (torch.tensor([1.0, 0.9]), {}, ["1", "0.9"]),
        (torch.tensor([1.0, 0.9]), {"alphabet": "signs"}, ["+1", "+1"]),
        (torch.tensor([0, 2]), {"class_names": ("a", "b", "c")}, ["a", "c"]),
        (torch.tensor([0.9, 0.1])[None], {}, ["class 0"]),
        (torch.tensor([5.0, 0.1])[None], {}, ["5, 0.1"]),
        (torch.tensor([5.0, 0.1])[None], {"alphabet": "one-hot"}, ["class 0"]),
        (torch.tensor([0.1, 5.0])[None], {"class_names": ("a", "b")}, ["b"]),
        (torch.tensor([[0.25], [3.0]]), {}, ["0.25", "3"]),
    ],
)
def test_words(labels, settings, words):
    assert in_words(labels, **settings) == words
