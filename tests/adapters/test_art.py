"""The ART adapter attacks ART's estimators, checks its parameters, and returns samples and labels in ART's format."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from exhume import data
from exhume.errors import InputError

pytest.importorskip("art")
from art.attacks.attack import ReconstructionAttack
from art.defences.preprocessor import GaussianAugmentation, SpatialSmoothing
from art.estimators.classification import PyTorchClassifier, SklearnClassifier
from art.estimators.regression import PyTorchRegressor
from art.exceptions import EstimatorError
from sklearn.linear_model import LogisticRegression

from exhume.adapters.art import LastLayerReconstruction

MEAN, STD = 2.0, 0.5
SHAPE = (1, 8, 8)


def probe(labels, inputs):
    """A linear probe on a fixed conv layer, fitted in closed form."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 20, 3), nn.GELU(), nn.Flatten()).requires_grad_(False)
    head = nn.Linear(720, labels.shape[1], bias=False)
    head.weight.data = torch.linalg.lstsq(body(inputs), labels).solution.T
    return nn.Sequential(body, head)


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", samples=4, labels="one-hot")


@pytest.fixture(scope="module")
def pixels(digits):
    """What the user hands to `fit`: the estimator standardises it to what the model is trained on."""
    return (digits.inputs.reshape(-1, *SHAPE) * STD + MEAN).numpy()


def classifier_on(digits, **options):
    model = probe(digits.labels, digits.inputs.reshape(-1, *SHAPE))
    options = {"preprocessing": (MEAN, STD), "device_type": "cpu"} | options
    return PyTorchClassifier(model, nn.MSELoss(), input_shape=SHAPE, nb_classes=10, **options)


@pytest.fixture(scope="module")
def classifier(digits):
    return classifier_on(digits)


def assert_same_rows(found, true, tolerance=1e-4):
    distances = np.abs(found[:, None] - true[None]).reshape(len(found), len(true), -1).max(2)
    assert sorted(distances.argmin(1)) == list(range(len(true)))
    assert distances.min(1).max() < tolerance
    return distances.argmin(1)


def test_a_classifiers_training_set_comes_back_in_the_units_of_fit_with_its_labels(classifier, digits, pixels):
    classifier.model.train()  # as ART leaves it after fit
    attack = LastLayerReconstruction(classifier, initial_head="zero")
    assert isinstance(attack, ReconstructionAttack)
    assert attack.result is None
    samples, labels = attack.reconstruct(np.empty((0, *SHAPE), dtype=np.float32))
    assert samples.shape == (4, *SHAPE)
    assert samples.dtype == labels.dtype == np.float32
    order = assert_same_rows(samples, pixels)
    np.testing.assert_array_equal(labels, digits.labels.numpy()[order])
    assert attack.result.certificate.verdict == "exact"
    assert classifier.model.training  # the estimator is left as it was


def test_known_samples_are_not_looked_for_again(classifier, pixels):
    attack = LastLayerReconstruction(classifier, initial_head=np.zeros((10, 720), dtype=np.float32), num_samples=4)
    samples, labels = attack.reconstruct(pixels[:2], y=np.eye(10)[:2])
    assert_same_rows(samples, pixels[2:])
    assert labels.shape == (2, 10)
    assert attack.result.knowledge.known_samples == 2
    model_inputs = (pixels[:2] - MEAN) / STD
    torch.testing.assert_close(
        attack.result.knowledge.samples, torch.from_numpy(model_inputs).reshape(2, -1), rtol=0, atol=1e-6
    )


def test_a_regressors_labels_are_its_outputs(digits, pixels):
    targets = torch.tensor([[0.5, -2.0], [1.0, 3.0], [-0.25, 0.0], [4.0, 1.0]])
    model = probe(targets, digits.inputs.reshape(-1, *SHAPE))
    regressor = PyTorchRegressor(model, nn.MSELoss(), input_shape=SHAPE, preprocessing=(MEAN, STD), device_type="cpu")
    attack = LastLayerReconstruction(regressor, initial_head="zero", num_samples=4)
    samples, labels = attack.reconstruct(np.empty((0, *SHAPE)))
    order = assert_same_rows(samples, pixels)
    np.testing.assert_allclose(labels, targets.numpy()[order], atol=1e-4)


def test_labels_that_the_weights_do_not_determine_are_nan():
    torch.manual_seed(0)
    inputs = torch.randn(3, 6)
    body = nn.Sequential(nn.Linear(6, 300, bias=False), nn.Tanh())  # odd: every sample's sign is hidden
    head = nn.Linear(300, 4, bias=False)
    head.weight.data = torch.linalg.lstsq(body(inputs).detach(), torch.eye(4)[:3]).solution.T
    odd = PyTorchClassifier(nn.Sequential(body, head), nn.MSELoss(), (6,), 4, device_type="cpu")
    attack = LastLayerReconstruction(odd, initial_head="zero", num_samples=3)
    samples, labels = attack.reconstruct(np.empty((0, 6)))
    assert attack.result.labels is None
    assert samples.shape == (3, 6)
    assert labels.shape == (3, 4)
    assert np.isnan(labels).all()


def test_a_failed_attack_says_so(classifier, caplog):
    attack = LastLayerReconstruction(classifier, initial_head="zero", num_samples=4, max_passes=1)
    attack.reconstruct(np.empty((0, *SHAPE)))
    assert attack.result.certificate.verdict == "failed"
    assert f"The reconstruction failed: {attack.result.certificate.reason}" in caplog.text


def test_parameters_are_checked_when_made_and_when_set(classifier):
    attack = LastLayerReconstruction(classifier, initial_head="zero")
    attack.set_params(num_samples=4, method="descent")
    assert (attack.num_samples, attack.method) == (4, "descent")
    assert "num_samples=4" in repr(attack)
    with pytest.raises(ValueError, match="cannot be set for this attack"):
        attack.set_params(batch_size=2)
    for name, value, message in (
        ("method", "magic", "unknown method 'magic'; valid: auto, descent, exact"),
        ("num_samples", 0, "num_samples is 0; valid: a whole number of at least 1"),
        ("num_samples", 2.5, "num_samples is 2.5"),
        ("seed", -1, "seed is -1"),
        ("max_passes", float("nan"), "max_passes is nan; valid: a number above 0"),
        ("head", 3, "head is 3; valid: a layer's name"),
        ("initial_head", "none", "initial_head is 'none'; valid: weights, 'zero' or 'unknown'"),
        ("initial_bias", {}, "initial_bias is a mapping"),
        ("knowledge", {"norm": 1}, "knowledge is a dict; valid: an exhume.Knowledge"),
    ):
        with pytest.raises(InputError, match=message):
            attack.set_params(**{name: value})
        with pytest.raises(InputError, match=message):
            LastLayerReconstruction(classifier, **{name: value})
        setattr(attack, name, getattr(LastLayerReconstruction(classifier), name))


def test_other_estimators_are_refused():
    with pytest.raises(EstimatorError, match="PyTorchEstimator"):
        LastLayerReconstruction(SklearnClassifier(LogisticRegression()))


def test_preprocessing_that_cannot_be_undone_is_refused(digits):
    blurred = classifier_on(digits, preprocessing_defences=SpatialSmoothing(apply_fit=True))
    with pytest.raises(InputError, match="trained behind SpatialSmoothing, which cannot be undone"):
        LastLayerReconstruction(blurred)
    noisy = classifier_on(digits, preprocessing_defences=GaussianAugmentation(augmentation=False))
    with pytest.raises(InputError, match="GaussianAugmentation"):
        LastLayerReconstruction(noisy)


def test_preprocessing_in_prediction_only_is_ignored(digits, pixels):
    blurred = classifier_on(digits, preprocessing_defences=SpatialSmoothing(apply_fit=False))
    samples, _ = LastLayerReconstruction(blurred, initial_head="zero").reconstruct(np.empty((0, *SHAPE)))
    assert_same_rows(samples, pixels)


def test_a_mean_for_each_channel_is_undone():
    torch.manual_seed(0)
    inputs = torch.randn(3, 2, 5, 5)
    mean, std = np.array([1.0, -3.0]), np.array([0.5, 2.0])
    body = nn.Sequential(nn.Conv2d(2, 30, 3), nn.GELU(), nn.Flatten()).requires_grad_(False)
    head = nn.Linear(270, 4, bias=False)
    head.weight.data = torch.linalg.lstsq(body(inputs), torch.eye(4)[:3]).solution.T
    estimator = PyTorchClassifier(
        nn.Sequential(body, head), nn.MSELoss(), (2, 5, 5), 4, preprocessing=(mean, std), device_type="cpu"
    )
    raw = inputs.numpy() * std.reshape(1, 2, 1, 1) + mean.reshape(1, 2, 1, 1)
    np.testing.assert_allclose(estimator.predict(raw.astype(np.float32)), np.eye(4)[:3], atol=1e-3)
    samples, _ = LastLayerReconstruction(estimator, initial_head="zero").reconstruct(np.empty((0, 2, 5, 5)))
    assert_same_rows(samples, raw, tolerance=1e-3)


def test_samples_and_labels_must_fit(classifier, pixels):
    attack = LastLayerReconstruction(classifier, initial_head="zero", num_samples=4)
    with pytest.raises(InputError, match=r"samples of shape \(64,\); valid: \(1, 8, 8\)"):
        attack.reconstruct(pixels[:2].reshape(2, 64))
    with pytest.raises(InputError, match="y has 3 labels and x 2 samples"):
        attack.reconstruct(pixels[:2], y=np.eye(10)[:3])


def test_exhume_alone_does_not_load_the_toolbox_and_without_it_the_error_says_how_to_get_it():
    lines = (
        "import sys, exhume, exhume.adapters",
        "assert 'art' not in sys.modules",
        "sys.modules['art'] = None",
        "try:",
        "    import exhume.adapters.art",
        "except ImportError as error:",
        "    print(error)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install 'exhume[art]'" in done.stdout
