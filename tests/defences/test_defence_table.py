"""The table and the sentences that say where recovery ends."""

import pytest
import torch

from exhume.defences import Outcome, Utility, table, where_recovery_ends
from exhume.errors import InputError
from exhume.support.labels import error_of, kind_of


def outcome(defence, setting, strength, recovered, **values):
    verdict = values.pop("verdict", "exact" if recovered else "failed")
    utility = Utility(values.pop("train", None), values.pop("held_out", None), values.pop("change", None))
    total = None if recovered is None else 10
    return Outcome(defence, setting, strength, recovered, total, None, None, verdict, utility, **values)


PLAIN = outcome("none", "as it is", 0.0, 10, train=0.0, held_out=0.1)


def test_columns_are_aligned_and_reasons_are_told():
    refused = outcome("ridge", "ridge 1", 1.0, None, verdict=None, reason="needs the training inputs")
    lines = table([PLAIN, outcome("noise", "noise 10%", 0.1, 5), refused]).splitlines()
    header, _, plain, noise, ridge = lines
    assert plain.index("10 of 10") + 1 == noise.index("5 of 10")
    assert header.index("setting") == noise.index("noise 10%") == ridge.index("ridge 1")
    assert header.index("verdict") == plain.index("exact")
    assert ridge.endswith("not run: needs the training inputs")


def test_recovery_ends_at_the_weakest_setting_from_which_on_nothing_comes_back():
    family = [
        outcome("noise", "noise 30%", 0.3, 0, train=0.1, held_out=0.2, equations=300, unknowns=100),
        outcome("noise", "noise 1%", 0.01, 0),
        outcome("noise", "noise 10%", 0.1, 4),
        outcome("noise", "noise 100%", 1.0, 0),
    ]
    said = where_recovery_ends([PLAIN, *family])
    assert said["none"] == "Undefended: 10 of 10 samples recovered."
    assert said["noise"] == (
        "Noise: recovery ends at noise 30% (training error 0 to 0.1, held-out error 0.1 to 0.2). "
        "There are 3 weights for each unknown: a better attack may exist."
    )


def test_below_the_wall_it_is_said_that_the_weights_do_not_determine_the_samples():
    below = outcome("coordinates", "1/8", 8.0, 0, equations=50, unknowns=100, change=0.25)
    said = where_recovery_ends([PLAIN, below])["coordinates"]
    assert said.startswith("Fewer coordinates: recovery ends at 1/8 (outputs change by 25%).")
    assert "by themselves they do not determine the samples" in said


@pytest.mark.parametrize(
    ("recovered", "words"),
    [
        ((10, 10), "every setting up to b leaves all samples recoverable"),
        ((10, 3), "does not end recovery; the fewest samples are recovered at b, 3 of 10"),
        ((None, None), "not measured (too large)"),
    ],
)
def test_a_family_that_does_not_end_recovery_says_so(recovered, words):
    reasons = ["" if each is not None else "too large" for each in recovered]
    family = [
        outcome("ridge", setting, strength, each, reason=reason)
        for setting, strength, each, reason in zip("ab", (1.0, 2.0), recovered, reasons, strict=True)
    ]
    assert words in where_recovery_ends([PLAIN, *family])["ridge"]


def test_an_attack_that_fails_on_the_model_as_it_is_proves_nothing():
    failed = outcome("none", "as it is", 0.0, 2, verdict="failed")
    assert "A larger budget may recover more" in where_recovery_ends([failed])["none"]
    nothing = outcome("none", "as it is", 0.0, 0)
    said = where_recovery_ends([nothing, outcome("noise", "noise 1%", 0.01, 0)])
    assert "nothing to end" in said["noise"]


@pytest.mark.parametrize(
    ("labels", "outputs", "kind", "error"),
    [
        ([1.0, -1.0], [[0.1], [0.2]], "signs", 0.5),
        ([1.0, 0.0], [[0.6], [0.4]], "binary", 0.0),
        ([0, 2], [[1.0, 0, 0], [1.0, 0, 0]], "classes", 0.5),
        ([[1.0, 0], [0, 1.0]], [[0.9, 0.1], [0.8, 0.7]], "classes", 0.5),
        ([[1.0, -1.0], [-1.0, 1.0]], [[0.9, 0.1], [0.8, 0.9]], "classes", 0.0),
        ([2.0, 4.0], [[1.0], [4.0]], "numbers", 0.5),
        ([[0.5, 1.0]], [[0.5, 0.0]], "numbers", 0.5),
    ],
)
def test_errors_are_wrong_shares_of_classes_and_squares_of_numbers(labels, outputs, kind, error):
    labels, outputs = torch.tensor(labels), torch.tensor(outputs)
    assert kind_of(labels, outputs.shape[1]) == kind
    assert error_of(outputs, labels) == pytest.approx(error)


def test_classes_beyond_the_outputs_are_refused():
    with pytest.raises(InputError, match="classes 0 to 2"):
        kind_of(torch.tensor([0, 3]), 3)
