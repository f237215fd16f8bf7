"""The subspace attack works below the wall p = dn, corrects for drift, and reports what its result depends on."""

import math
from dataclasses import dataclass

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks import subspace
from exhume.errors import InputError
from exhume.networks import MLP, TwoLayer
from exhume.results.stop import Stop
from exhume.target.knowledge import Knowledge
from exhume.victims import RandomFeatures, train
from exhume.victims.trained_network import target


@dataclass
class Training:
    inputs: torch.Tensor
    labels: torch.Tensor


@pytest.fixture(scope="module")
def training():
    """Six samples of dimension 300 in six classes."""
    return Training(data.load("sphere", dim=300, samples=6, seed=0).inputs, torch.eye(6))


@pytest.fixture(scope="module")
def public(training):
    """Six outputs of 100 neurons: 600 weights of the head, a third of d n."""
    trained = train(TwoLayer(300, 100, 6, seed=2), training.inputs, training.labels, stable=True)
    assert trained.drift > 0.1
    return target(trained, knowledge=Knowledge(label_alphabet="one-hot"))


@pytest.fixture(scope="module")
def result(public):
    return exhume.reconstruct(public, method="subspace")


def test_samples_come_back_below_the_wall_with_norms_labels_and_their_number(training, result):
    judged = exhume.score(result, training.inputs, true_labels=training.labels)
    assert (judged.recovered, judged.label_accuracy, judged.compared) == (6, 1.0, "vectors")
    assert judged.error < 0.02
    assert result.evidence["rank"] == result.samples.shape[0] == 6
    assert result.evidence["subspace"] == "first-layer"
    assert result.stop is Stop.FLOOR
    assert result.certificate.verdict == "approximate"


def test_certificate_counts_the_subspace_and_its_bars_are_truthful(training, result):
    assert result.certificate.equations == 600
    assert result.certificate.unknowns == 6 * (6 - 1 + 6)
    errors = [match.error for match in exhume.score(result, training.inputs).matches]
    assert sum(errors) / 6 < 3 * result.certificate.predicted_error
    assert result.certificate.residual < result.certificate.drift_floor / 10  # retracing took most of the drift out


def test_summary_says_what_it_rests_on(result):
    for words in ("initial body known", "6 of 300 dimensions", "both ends", "retraced"):
        assert words in result.summary()


def test_full_space_attacks_fail_there(training, public):
    told = public.assuming(num_samples=6)
    with pytest.raises(InputError, match="600 equations cannot determine 1830 unknowns"):
        exhume.reconstruct(told, method="exact")
    exact = exhume.reconstruct(told, method="exact", allow_underdetermined=True, max_starts=1)
    assert exact.certificate.verdict == "failed"
    assert exhume.score(exact, training.inputs).error > 0.5


def test_both_ends_and_retracing_each_bring_the_error_down(training, public, result):
    def error(**options):
        found = exhume.reconstruct(public, method="subspace", max_starts=1, **options)
        return exhume.score(found, training.inputs).error

    ends = error(retrace_passes=0)
    assert exhume.score(result, training.inputs).error < 0.5 * ends
    assert ends < 0.5 * error(refine=False)


def test_paper_steps_are_retraced_with_smaller_steps(training):
    trained = train(TwoLayer(300, 100, 6, seed=2), training.inputs, training.labels, step_size=1e-4)
    found = exhume.reconstruct(target(trained, knowledge=Knowledge(label_alphabet="one-hot")), method="subspace")
    assert exhume.score(found, training.inputs).error < 0.01


def test_the_search_begins_at_samples_unmixed_from_the_first_layer(training, public, monkeypatch):
    class Begun(Exception):
        pass

    def begin(_problem, _count, _starts, rows):
        raise Begun(rows)

    monkeypatch.setattr(subspace, "DirectSearch", begin)
    with pytest.raises(Begun) as begun:
        exhume.reconstruct(public, method="subspace")
    (rows,) = begun.value.args  # in coordinates of the subspace, in which norms of sqrt(300) are sqrt(6)
    found, true = rows @ rows.T, training.inputs @ training.inputs.T * 6 / 300
    assert found.flatten().sort().values.tolist() == pytest.approx(true.flatten().sort().values.tolist(), abs=1e-3)


def test_unknown_initial_weights_are_asked_for(public):
    with pytest.raises(InputError, match="initial weights are not known"):
        exhume.reconstruct(public.assuming(initial_body="unknown"), method="subspace")


def test_one_output_goes_through_the_search_of_exact():
    signs = data.load("digits", samples=4)
    trained = train(TwoLayer(64, 400, 1, seed=0), signs.inputs, signs.labels, stable=True)
    found = exhume.reconstruct(target(trained, knowledge=Knowledge(label_alphabet="signs")), method="subspace")
    judged = exhume.score(found, signs.inputs)
    assert judged.recovered == 4
    assert judged.error < 0.02


def test_deeper_networks_use_features_at_both_ends(training):
    trained = train(MLP(300, (150, 150), 6, seed=0), training.inputs, training.labels, stable=True)
    public = target(trained, knowledge=Knowledge(label_alphabet="one-hot"))
    both, plain = (exhume.reconstruct(public, method="subspace", refine=refine) for refine in (True, False))
    errors = [exhume.score(each, training.inputs).error for each in (both, plain)]
    assert errors[0] < 0.6 * errors[1]
    assert errors[0] < 0.1
    assert both.samples.shape[0] == 6


def subspace_problem(dim=40, rank=4, count=10, width=140, seed=0, **victim):
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn((dim, rank), generator=generator))[0].T
    inputs = torch.randn((count, rank), generator=generator) @ basis
    inputs *= math.sqrt(dim) / inputs.norm(dim=1, keepdim=True)
    labels = torch.randint(0, 2, (count,), generator=generator) * 2.0 - 1
    return inputs, basis, RandomFeatures(num_features=width, seed=seed, **victim).fit(inputs, labels)


def test_given_subspace_makes_random_features_exact_far_below_the_wall():
    inputs, basis, victim = subspace_problem()  # p = 0.35 dn = 3.5 rn, more samples than dimensions
    public = victim.target(knowledge=Knowledge(num_samples=10, subspace=3 * basis, label_alphabet="signs"))
    found = exhume.reconstruct(public, method="subspace")
    judged = exhume.score(found, inputs)
    assert found.certificate.verdict == "exact"
    assert found.certificate.unknowns == 10 * 4
    assert judged.error < 1e-3
    assert judged.compared == "vectors"


def test_a_subspace_that_does_not_hold_the_data_is_found_out():
    _, _, victim = subspace_problem()
    other = torch.linalg.qr(torch.randn((40, 4), generator=torch.Generator().manual_seed(9)))[0].T
    public = victim.target(knowledge=Knowledge(num_samples=10, subspace=other))
    # The right subspace takes 261 passes.
    found = exhume.reconstruct(public, method="subspace", max_starts=1, max_passes=600)
    assert found.certificate.verdict == "failed"


def test_polish_in_all_dimensions_takes_out_what_the_subspace_missed():
    inputs, basis, victim = subspace_problem(dim=40, rank=10, count=5, width=1000)
    generator = torch.Generator().manual_seed(5)
    tilted = basis + 0.003 * torch.randn(basis.shape, generator=generator) / math.sqrt(40)
    public = victim.target(knowledge=Knowledge(num_samples=5, subspace=tilted))
    errors = {
        polish: exhume.score(exhume.reconstruct(public, method="subspace", polish=polish), inputs).error
        for polish in (False, True)
    }
    assert errors[True] < 1e-4 < errors[False]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source": "given"}, "no subspace is given"),
        ({"source": "first-layer"}, "no trained first layer"),
        ({}, "put one into the target's knowledge"),
        ({"max_starts": 0}, "max_starts must be at least 1"),
        ({"retrace_passes": -1}, "retrace_passes must not be negative"),
        ({"source": "moments"}, "source"),
        ({"source": "oracle"}, "source"),
    ],
)
def test_bad_options_are_named(options, words):
    _, _, victim = subspace_problem()
    with pytest.raises(InputError, match=words):
        exhume.reconstruct(victim.target(knowledge=Knowledge(num_samples=3)), method="subspace", **options)


def test_known_samples_and_a_known_subspace_go_together():
    inputs, basis, victim = subspace_problem(width=100)
    public = victim.target(knowledge=Knowledge(num_samples=10, samples=inputs[4:], subspace=basis))
    found = exhume.reconstruct(public, method="subspace")
    assert (found.samples.shape[0], found.certificate.equations, found.certificate.unknowns) == (4, 100 - 6, 4 * 4)
    assert exhume.score(found, inputs).error < 1e-3
