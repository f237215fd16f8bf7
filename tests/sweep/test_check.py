"""What is checked before a sweep: data, networks, and losses against labels."""

import pytest

from exhume.errors import DataError, InputError
from exhume.sweep import Grid
from exhume.sweep.check import check

SMALL = {"data": "sphere", "ratio": 2, "attack": "exact"}
SIGNS = {"name": "sphere", "labels": "sign"}
ONE_HOT = {"name": "digits", "samples": 6, "classes": [1, 2, 3], "labels": "one-hot"}


def test_values_that_only_a_loader_or_a_network_can_judge_are_found_before_anything_runs():
    grid = Grid(
        data=[{"name": "sphere", "dim": -3}, {"name": "sphere", "dim": 4}, {"name": "sphere", "labels": "odd"}],
        victim=["rf", "resnet", {"kind": "mlp", "settings": {"first_scale": 0}}],
        ratio=2,
        attack="exact",
    )
    with pytest.raises(InputError) as caught:
        check(grid)
    lines = str(caught.value).splitlines()
    assert lines[0] == "data[0]: dim is -3; valid: a whole number of at least 1"
    assert lines[1].startswith("victim[1], on sphere: resnet takes images")
    assert lines[2].startswith("victim[2], on sphere: ")
    assert "first_scale" in lines[2]
    assert lines[3] == "data[2]: unknown labels 'odd'; valid: real, sign"


def test_missing_data_are_an_error_unless_the_cells_run_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("EXHUME_DATA", str(tmp_path))
    grid = Grid(**SMALL | {"data": "cifar10"})
    with pytest.raises(DataError, match=r"data: CIFAR-10 .* is not in"):
        check(grid)
    check(grid, elsewhere=True)


# A row for each: data, victim, and words of the complaint: the field, its value, why, and what is valid.
UNTRAINABLE = [
    ("sphere", {"loss": "logistic"}, ("victim.loss is 'logistic', on sphere: ", "-1 and +1", "; valid: square")),
    (ONE_HOT, {"loss": "logistic"}, ("victim.loss is 'logistic', on digits: ", "; valid: square")),
    ("sphere", {"kind": "mlp", "loss": "logistic"}, ("victim.loss is 'logistic', on sphere: ", "; valid: square")),
    (
        SIGNS,
        {"kind": "mlp", "loss": "cross-entropy"},
        ("victim.loss is 'cross-entropy', on sphere: ", "at least 2 outputs", "; valid: square, logistic"),
    ),
    (ONE_HOT, {"kind": "mlp", "loss": "logistic"}, ("3 outputs", "; valid: square, cross-entropy")),
    (SIGNS, {"loss": "logistic", "ridge": 0.5}, ("victim.ridge is 0.5; valid with logistic loss: 0",)),
    (
        SIGNS,
        {"loss": "logistic", "prune": 0.5},
        ("victim.prune_method is 'obs'; valid with logistic loss: magnitude",),
    ),
]


@pytest.mark.parametrize(("data", "victim", "words"), UNTRAINABLE)
def test_losses_that_the_labels_do_not_suit_are_refused(data, victim, words):
    with pytest.raises(InputError) as caught:
        check(Grid(**SMALL | {"data": data, "victim": victim}))
    (line,) = str(caught.value).splitlines()
    for word in words:
        assert word in line


def test_losses_that_the_labels_suit_pass():
    logistic = [{"loss": "logistic"}, {"loss": "logistic", "prune": 0.5, "prune_method": "magnitude"}]
    check(Grid(**SMALL | {"data": SIGNS, "victim": ["rf", *logistic, {"kind": "mlp", "loss": "logistic"}]}))
    networks = [{"kind": "mlp"}, {"kind": "two-layer", "loss": "cross-entropy"}]
    check(Grid(**SMALL | {"data": ONE_HOT, "victim": ["rf", *networks]}))
