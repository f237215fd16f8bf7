"""Behaviour of the digits data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits as oracle

from exhume.data import load
from exhume.errors import InputError


def test_first_digits_come_in_file_order_with_parity_labels() -> None:
    data = load("digits", samples=12, standardise="none")
    expected = torch.from_numpy(oracle().data).float() / 16
    assert torch.equal(data.inputs, expected[:12])
    assert torch.equal(data.non_members, expected[12:24])
    assert data.labels.tolist() == [1.0 if digit % 2 else -1.0 for digit in oracle().target[:12]]
    assert data.picture is not None
    assert data.picture.shape == (1, 8, 8)


def test_two_classes_are_balanced_and_signed_in_the_given_order() -> None:
    data = load("digits", samples=6, classes=[7, 2], standardise="none")
    expected = torch.from_numpy(oracle().data).float() / 16
    sevens, twos = (np.flatnonzero(oracle().target == digit)[:6] for digit in (7, 2))
    assert torch.equal(data.inputs, expected[np.concatenate([sevens[:3], twos[:3]])])
    assert torch.equal(data.non_members, expected[np.concatenate([sevens[3:], twos[3:]])])
    assert data.labels.tolist() == [-1, -1, -1, 1, 1, 1]


def test_one_hot_columns_are_the_digits() -> None:
    data = load("digits", samples=3, classes="4,0,9", labels="one-hot")
    assert data.labels.shape == (3, 10)
    assert data.labels.argmax(dim=1).tolist() == [4, 0, 9]
    assert data.labels.sum(dim=1).tolist() == [1, 1, 1]


def test_three_classes_keep_parity_labels() -> None:
    assert load("digits", samples=3, classes=[4, 1, 6]).labels.tolist() == [-1, 1, -1]


def test_non_members_are_cut_where_the_data_end() -> None:
    assert len(load("digits", samples=1790).non_members) == 7


def test_impossible_selections_are_refused() -> None:
    with pytest.raises(InputError, match=r"1798.*1797"):
        load("digits", samples=1798)
    with pytest.raises(InputError, match=r"7.*2 classes"):
        load("digits", samples=7, classes=[0, 1])
    with pytest.raises(InputError, match="class 0: wanted 200 samples, available 178"):
        load("digits", samples=200, classes=[0])
    with pytest.raises(InputError, match="unknown class 11"):
        load("digits", samples=2, classes=[0, 11])
    with pytest.raises(InputError, match="twice"):
        load("digits", samples=2, classes=[3, "3"])
