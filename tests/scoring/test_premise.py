"""The equation at the truth: what true samples leave unexplained of a layer, beside samples not trained on."""

import pytest
import torch
from torch import nn

import exhume
from exhume.scoring.premise import LayerPremise, Premise, premise_at

DIM, SAMPLES, WIDTH = 20, 4, 60


def drawn(count, seed):
    return torch.randn(count, DIM, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def trained():
    """A dense network trained by plain gradient descent, its initial weights and its samples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    samples, moves = drawn(SAMPLES, 1), torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(30):
        moves.zero_grad()
        nn.functional.cross_entropy(model(samples), torch.tensor([0, 1, 0, 1])).backward()
        moves.step()
    return model.eval(), before, samples


def target_of(model, before):
    return exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,))


def test_the_truth_leaves_what_least_squares_leaves(trained):
    model, before, samples = trained
    found = premise_at(target_of(model, before), samples, drawn(50, 2))
    head, first = found.layers
    moved = torch.cat([model[0].weight - before["0.weight"], (model[0].bias - before["0.bias"])[:, None]], 1).detach()
    rows = torch.cat([samples, torch.ones(SAMPLES, 1)], 1)
    rest = moved.T - rows.T @ torch.linalg.lstsq(rows.T.double(), moved.T.double()).solution.float()
    assert first.truth == pytest.approx(float(rest.norm() / moved.norm()), abs=1e-5)
    assert first.truth < 1e-5 < 0.3 < first.others
    assert head.truth < 0.5 * head.others
    assert found.holds
    assert found.best is first
    assert "The equation holds for the training data" in found.sentence


def test_other_samples_do_not_hold(trained):
    model, before, _ = trained
    found = premise_at(target_of(model, before), drawn(SAMPLES, 3), drawn(50, 2))
    assert found.holds is False
    assert "does not hold for the training data that were given" in found.sentence


def test_other_initial_weights_do_not_hold(trained):
    model, before, samples = trained
    other = {name: torch.randn_like(weight) * weight.std() for name, weight in before.items()}
    found = premise_at(target_of(model, other), samples, drawn(50, 2))
    assert found.holds is False
    assert "the initial weights may be those of another model" in found.sentence


def test_causes_that_the_weights_rule_out_are_not_named(trained):
    model, before, _ = trained
    sentence = premise_at(target_of(model, before), drawn(SAMPLES, 3), drawn(50, 2)).sentence
    assert "the features may have moved far in training" in sentence
    assert "initial weights" not in sentence  # trained and initial weights belong together
    assert "Adam" not in sentence  # the weights moved by one step size


def test_without_non_members_mixtures_of_the_truth_stand_in(trained):
    model, before, samples = trained
    found = premise_at(target_of(model, before), samples)
    assert not found.non_members
    assert found.holds
    assert "random mixtures" in found.sentence


def test_a_part_of_the_truth_decides_nothing(trained):
    model, before, _ = trained
    found = premise_at(target_of(model, before), drawn(2, 3), drawn(50, 2), complete=False)
    assert found.holds is None
    assert "fewer than were looked for" in found.sentence


def test_layers_that_any_samples_explain_tell_nothing():
    trivial = Premise((LayerPremise("the head", 0.0, 0.0, 10),), non_members=True)
    assert trivial.holds is None
    assert "any samples explain" in trivial.sentence


def test_a_sentence_of_an_audit_without_causes_is_whole():
    partly = Premise((LayerPremise("the head", 0.5, 0.8, 400),), non_members=True)
    assert partly.sentence.endswith("but not by this equation.")


def test_the_premise_never_reaches_the_attack(trained):
    """The test runs on a target that an attack has finished with; it changes neither weights nor pass counters."""
    model, before, samples = trained
    target = target_of(model, before)
    fingerprint, state = target.fingerprint, {name: each.clone() for name, each in model.state_dict().items()}
    premise_at(target, samples, drawn(50, 2))
    assert target.fingerprint == fingerprint
    assert all(torch.equal(each, state[name]) for name, each in model.state_dict().items())


def test_weight_decay_leaves_a_share_of_the_start_that_is_not_counted_as_unexplained():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    samples, moves = drawn(SAMPLES, 1), torch.optim.SGD(model.parameters(), 0.05, weight_decay=0.05)
    for _ in range(60):
        moves.zero_grad()
        nn.functional.cross_entropy(model(samples), torch.tensor([0, 1, 0, 1])).backward()
        moves.step()
    first = premise_at(target_of(model.eval(), before), samples, drawn(50, 2)).layers[1]
    assert first.truth < 0.05
