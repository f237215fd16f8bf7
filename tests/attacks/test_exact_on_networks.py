"""Exact on networks recognises the noise floor of drift, corrects for drift if possible, and never calls it exact."""

from dataclasses import replace

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._base.count_tuning import CountTuning
from exhume.attacks._search.sample_count import samples_by_rank
from exhume.errors import TooFewEquations
from exhume.networks import ResNet, TwoLayer
from exhume.results.stop import Stop
from exhume.scoring.against_truth import score_samples
from exhume.support import checkpoint
from exhume.target.knowledge import Knowledge
from exhume.victims import RandomFeatures, train
from exhume.victims.trained_network import target


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", samples=6, labels="one-hot")


@pytest.fixture(scope="module")
def trained(digits):
    return train(TwoLayer(64, 400, 10, seed=3), digits.inputs, digits.labels, stable=True)


@pytest.fixture(scope="module")
def victim(digits, trained):
    return target(trained, knowledge=Knowledge.about(digits.labels))


@pytest.fixture(scope="module")
def result(victim):
    return exhume.reconstruct(victim, method="exact")


def test_drift_is_taken_out_and_the_error_bar_is_truthful(digits, result):
    judged = exhume.score(result, digits.inputs, true_labels=digits.labels)
    assert judged.recovered == 6
    assert judged.label_accuracy == 1
    assert result.stop is Stop.FLOOR
    assert result.certificate.verdict == "approximate"
    assert result.certificate.drift_floor > 2 * result.certificate.residual > 20 * result.certificate.floor
    assert judged.error / 3 < result.certificate.predicted_error < 3 * judged.error
    assert any(note.startswith("Drift") and "taken out" in note for note in result.notes)


@pytest.mark.slow  # that the correction helps is also shown by tests/attacks/test_drift_correction.py
def test_without_the_correction_the_error_is_several_times_larger(digits, victim, result):
    blind = exhume.Target(
        victim.feature_map, victim.displacement, victim.knowledge.model_copy(update={"label_alphabet": None})
    )
    plain = exhume.reconstruct(
        blind, seed=3, method="exact"
    )  # it does not know the trained head, so it cannot estimate the drift
    assert plain.certificate.drift_floor is None
    assert plain.stop is Stop.REPRODUCED  # the best that can be had without
    directions = [torch.nn.functional.normalize(each.double(), dim=1) for each in (digits.inputs, plain.samples)]
    uncorrected = score_samples(directions[1], directions[0]).error
    corrected = torch.nn.functional.normalize(result.samples.double(), dim=1)
    assert score_samples(corrected, directions[0]).error < uncorrected / 2


def test_features_that_did_not_move_are_solved_exactly(digits):
    victim = RandomFeatures(num_features=400).fit(digits.inputs, digits.labels)
    result = exhume.reconstruct(victim.target(knowledge=Knowledge.about(digits.labels)), method="exact")
    assert result.certificate.verdict == "exact"
    assert result.certificate.drift_floor is None
    assert exhume.score(result, digits.inputs).error < 1e-4
    assert result.steps < 60


def test_too_few_rows_are_not_taken_for_a_floor(victim):
    result = exhume.reconstruct(victim, num_samples=5, max_starts=1, max_passes=5000, method="exact")
    assert result.certificate.verdict == "failed"
    assert not result.stop.trusted


def test_the_number_of_samples_shows_in_the_rank_of_many_outputs(digits, victim):
    assert samples_by_rank(victim, CountTuning()) == 6
    first = replace(victim, displacement=victim.displacement[:4], trained_head=victim.trained_head[:4])
    assert samples_by_rank(first, CountTuning()) is None
    result = exhume.reconstruct(victim.assuming(num_samples=None), method="exact")
    assert result.samples.shape == (6, 64)
    assert result.evidence["rank"] == 6


@pytest.mark.parametrize(("outputs", "samples", "shown"), [(2, 6, None), (5, 6, None), (5, 4, None), (5, 3, 3)])
def test_outputs_that_add_up_to_zero_do_not_show_as_a_number_of_samples(outputs, samples, shown):
    """Cross-entropy moves k outputs in k - 1 directions, whatever the number of samples from k - 1 on."""
    training = data.load("sphere", dim=8, samples=samples)
    labels = torch.randn((samples, outputs), generator=torch.Generator().manual_seed(0))
    target = RandomFeatures(num_features=200).fit(training.inputs, labels - labels.mean(1, keepdim=True)).target()
    assert samples_by_rank(target, CountTuning()) == shown
    uncentred = RandomFeatures(num_features=200).fit(training.inputs, labels).target()
    assert samples_by_rank(uncentred, CountTuning()) == (samples if samples < outputs else None)


def test_a_module_must_be_told_its_samples_if_the_rank_does_not_show_them(digits):
    labels = digits.labels.argmax(1).float()
    network = train(ResNet((1, 8, 8), 2), digits.inputs, labels, stable=True, max_steps=20).network
    public = exhume.Target.last_layer(network, initial_head="zero", input_shape=(1, 8, 8))
    with pytest.raises(exhume.InputError, match="does not show in a head of 1 outputs; pass num_samples"):
        exhume.reconstruct(public, method="exact")


def test_an_unknown_head_costs_accuracy_and_the_result_says_so(digits, trained, result):
    public = exhume.Target.last_layer(
        trained.network, initial_head="unknown", input_shape=(64,), knowledge=Knowledge.about(digits.labels)
    )
    blind = exhume.reconstruct(public, max_starts=1, max_passes=3000, method="exact")
    assert blind.knowledge.initial_head == "unknown"
    assert any(note.startswith("Initial head: unknown") for note in blind.notes)
    assert blind.certificate.residual > 10 * result.certificate.residual
    assert blind.certificate.verdict != "exact"


def test_a_decayed_head_on_a_frozen_body_needs_no_initial_weights(digits):
    """After long weight decay the head lies in the span of the features, whatever its initial weights were."""
    network = TwoLayer(64, 400, 10, seed=3).eval().requires_grad_(False)
    features = network.features(digits.inputs)
    system = features @ features.T + 0.3 * torch.eye(6)
    network.head.weight.data = torch.linalg.solve(system, digits.labels).T @ features
    public = exhume.Target.last_layer(
        network, initial_head="unknown", input_shape=(64,), knowledge=Knowledge(num_samples=6)
    )
    result = exhume.reconstruct(public, method="exact")
    assert result.certificate.verdict == "exact"
    assert exhume.score(result, digits.inputs).error < 1e-4


def test_weight_decay_of_the_whole_network_is_followed_end_to_end(digits):
    network = TwoLayer(64, 800, 10, seed=3).double()
    decayed = train(network, digits.inputs, digits.labels, weight_decay=0.02, stable=True, max_steps=2000)
    assert 0.5 < decayed.decay < 0.95
    result = exhume.reconstruct(target(decayed, knowledge=Knowledge(num_samples=6)), method="exact")
    assert exhume.score(result, digits.inputs).recovered == 6
    assert result.certificate.verdict == "approximate"


@pytest.fixture(scope="module")
def smooth(digits):
    """A network that determines norms, so that the search frees the norms half-way."""
    trained = train(TwoLayer(64, 400, 10, "gelu", seed=3), digits.inputs, digits.labels, stable=True)
    return target(trained, knowledge=Knowledge(num_samples=6))


@pytest.mark.parametrize(("kind", "method"), [("victim", "exact"), ("victim", "descent"), ("smooth", "exact")])
@pytest.mark.parametrize("at", [2, 12])
def test_interrupted_attack_on_a_network_resumes_to_the_same_answer(kind, method, at, tmp_path, monkeypatch, request):
    victim = request.getfixturevalue(kind)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    options = {"max_steps": 60, "tolerance": 0} if method == "descent" else {}
    reports, later = [], []
    whole = exhume.reconstruct(victim, method=method, progress=reports.append, **options)
    path = tmp_path / "checkpoint.safetensors"

    def interrupt(event):
        if event.step >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exhume.reconstruct(victim, method=method, checkpoint=path, progress=interrupt, **options)
    assert path.exists()
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 60.0)  # saving takes longer than the steps
    resumed = exhume.reconstruct(victim, method=method, checkpoint=path, resume=True, progress=later.append, **options)
    assert 0 < len(later) < len(reports)  # it did not start anew
    assert later == reports[-len(later) :]
    assert torch.equal(resumed.samples, whole.samples)
    assert (resumed.steps, resumed.passes, resumed.stop) == (whole.steps, whole.passes, whole.stop)
    assert resumed.history == whole.history


def test_two_classes_under_cross_entropy_have_the_equations_of_one_output():
    """Their rows are opposite: 250 features of a head of 500 weights do not determine 6 samples of 64 numbers."""
    digits = data.load("digits", samples=6, classes=(0, 1))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 250), torch.nn.GELU(), torch.nn.Linear(250, 2))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(50):
        loss = torch.nn.functional.cross_entropy(model(digits.inputs), (digits.labels > 0).long())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    target = exhume.Target.last_layer(
        model.eval(), initial_head=before, input_shape=(64,), knowledge=exhume.Knowledge(num_samples=6)
    )
    with pytest.raises(TooFewEquations, match="251 equations cannot determine 390 unknowns"):
        exhume.Exact()(target)
