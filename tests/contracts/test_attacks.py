"""The contract of every attack: it checks its input and keeps its budget; results are reproducible and can be saved."""

import inspect
from dataclasses import replace

import pytest
import torch
from torch import nn

from exhume import Recipe, attacks, data
from exhume.equation.path import Nodes, PathEquation
from exhume.equation.trained_network import TrainedNetwork
from exhume.errors import InputError
from exhume.networks import TwoLayer
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.training.simulation import Simulation, Unknowns
from exhume.victims import RandomFeatures, train
from exhume.victims.trained_network import target as network_target

# One row an attack: settings that keep it short here.
ATTACKS = {
    "descent": {"max_steps": 40},
    "exact": {"max_starts": 1},
    "greedy": {"max_rounds": 4, "starts": 60},
    "kkt": {"max_steps": 40, "sample_rate": 1e-3, "parameters": "head"},
    "layers": {"max_starts": 1, "max_passes": 2000},
    "ntk": {"max_steps": 40, "parameters": "head"},
    "replay": {"max_starts": 1},
    "subspace": {"max_starts": 1},
    "unmix": {},
}
# Those that read one kind of target only.
READS = {"unmix": "relu_network", "layers": "tanh_network", "replay": "replayed_network"}
# Those that solve these small problems in their first step, whatever the budget.
AT_ONCE = {"unmix"}
# Passes that a step under way and the judge may take beyond the budget.
BEYOND = {"layers": 600, "replay": 3000}
# Those that return more candidates than the 3 samples.
CANDIDATES = {"kkt": 6, "ntk": 6}


def test_every_attack_has_a_row():
    assert set(ATTACKS) == set(attacks.ATTACKS)


def random_features(training):
    victim = RandomFeatures(num_features=200).fit(training.inputs, training.labels)
    return victim.target(knowledge=Knowledge.about(training.labels))


def pruned_random_features(training):
    victim = RandomFeatures(num_features=400).fit(training.inputs, training.labels)
    pruned = victim.prune(training.inputs, training.labels, keep=0.5)
    return pruned.target(knowledge=Knowledge.about(training.labels))


def two_layer(training):
    labels = torch.stack([training.labels, training.labels.flip(0)], 1)
    trained = train(TwoLayer(8, 100, 2, "gelu"), training.inputs, labels, stable=True)
    return network_target(trained, knowledge=Knowledge.about(labels))


def deep_module(training):
    """A module of the user's own with a frozen body and a biased head: a linear probe."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(8, 60), nn.GELU(), nn.Linear(60, 199), nn.GELU()).requires_grad_(False)
    features = torch.cat([body(training.inputs), torch.ones(3, 1)], 1)
    head = nn.Linear(199, 1)
    weights = torch.linalg.lstsq(features, training.labels[:, None]).solution.T
    head.weight.data, head.bias.data = weights[:, :-1].clone(), weights[:, -1].clone()
    return Target.last_layer(
        nn.Sequential(body, head).eval(),
        initial_head="zero",
        initial_bias="zero",
        input_shape=(8,),
        knowledge=Knowledge(num_samples=3),
    )


def tanh_network(training):
    """With 222 weights, all trained."""
    return relu_network(training, nn.Sequential(nn.Linear(8, 20), nn.Tanh(), nn.Linear(20, 2)))


def relu_network(training, network=None):
    """Two layers with biases, trained by momentum on the square loss."""
    torch.manual_seed(0)
    network = network or nn.Sequential(nn.Linear(8, 100), nn.ReLU(), nn.Linear(100, 2))
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    labels = torch.stack([training.labels, training.labels.flip(0)], 1)
    optimiser = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.mse_loss(network(training.inputs), labels).backward()
        optimiser.step()
    known = Knowledge(num_samples=3)
    return Target.last_layer(network.eval(), initial_head=before, input_shape=(8,), knowledge=known)


def replayed_network(training):
    """Two layers, trained by six steps whose recipe is known."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 40), nn.GELU(), nn.Linear(40, 2))
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    optimiser = torch.optim.SGD(network.parameters(), 0.2)
    for _ in range(6):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(training.inputs), torch.tensor([0, 1, 0])).backward()
        optimiser.step()
    known = Knowledge(num_samples=3, recipe=Recipe(learning_rate=0.2, steps=6))
    return Target.last_layer(network.eval(), initial_head=before, input_shape=(8,), knowledge=known)


# One row a kind of target, each of 200 equations for 3 samples of dimension 8.
TARGETS = {make.__name__: make for make in (random_features, pruned_random_features, two_layer, deep_module)}
PAIRS = [(method, kind) for kind in TARGETS for method in sorted(ATTACKS) if method not in READS]
PAIRS += READS.items()


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request):
    return request.param


@pytest.fixture(scope="module")
def method(pair):
    return pair[0]


@pytest.fixture(scope="module")
def target(pair):
    special = {make.__name__: make for make in (relu_network, tanh_network, replayed_network)}
    make = TARGETS.get(pair[1]) or special[pair[1]]
    return make(data.load("sphere", dim=8, samples=3, seed=0))


def run(target, method, **settings):
    if method == "subspace" and target.knowledge.initial_body == "unknown":
        target = target.assuming(subspace=torch.eye(8))  # no layer has moved that could show one
    return attacks.reconstruct(target, method=method, **(ATTACKS[method] | settings))


@pytest.fixture(scope="module")
def result(target, method):
    return run(target, method, seed=5)


def test_result_is_whole_and_comes_back_from_disk(target, method, result, tmp_path):
    rows = CANDIDATES.get(method, 3)
    assert result.samples.shape == (rows, 8)
    assert result.coefficients.shape == (rows, target.num_outputs)
    assert torch.isfinite(result.samples).all()
    assert result.passes > 0
    assert result.certificate.verdict in result.summary()
    assert result.ending in result.summary()
    result.save(tmp_path)
    again = Reconstruction.load(tmp_path)
    assert torch.equal(again.samples, result.samples)
    assert again.to_json() == result.to_json()


def test_same_seed_same_answer(target, method):
    # A part of the search is enough here: tests/cli/test_kill.py compares whole ones.
    first, again = (run(target, method, seed=5, max_passes=30) for _ in range(2))
    assert torch.equal(again.samples, first.samples)
    assert (again.passes, again.history["loss"]) == (first.passes, first.history["loss"])


def test_residual_is_that_of_the_samples_returned(target, method, result):
    if method == "unmix":  # it explains the first layer
        first = target.known_model.displacement("0.weight")
        outside = first - first @ torch.linalg.pinv(result.samples) @ result.samples
        assert float(outside.norm() / first.norm()) < 1e-4
        assert result.certificate.residual < 1e-4
        return
    if method == "layers":  # it explains all layers; its budget ended on the straight line between both ends
        network = TrainedNetwork(target.known_model, (8,), torch.float32)
        nodes = Nodes(tuple(network.straight([0.0, 1.0])), target.known_model.trained)
        expected = PathEquation(network, nodes).at(result.samples).loss ** 0.5
        assert result.certificate.residual == pytest.approx(expected, rel=1e-2)
        return
    if method == "replay":  # it explains all weights, by the training
        recipe, model = target.knowledge.recipe, target.known_model
        labels = nn.functional.one_hot(result.labels.long(), 2).float()
        end = Simulation(model.module, model.initial, recipe, (8,), labels).run(Unknowns.of(result.samples)).weights
        trained, before = (
            torch.cat([each[name].flatten() for name in model.initial]) for each in (model.weights(), model.initial)
        )
        assert float((trained - end).norm() / (trained - before).norm()) == pytest.approx(
            result.certificate.residual, rel=1e-2
        )
        return
    features = target.features.with_dtype(result.samples.dtype).forward(result.samples)
    if method == "kkt" and target.trained_head is not None:  # it explains the weights themselves
        target = replace(target, displacement=target.trained_head)
    remainder = target.displacement - result.coefficients.T @ features
    expected = float(remainder.norm() / target.displacement.norm())
    drift = result.certificate.drift_floor
    if drift is None or drift < 1e-6:  # none was looked for, or there was none
        assert result.certificate.residual == pytest.approx(expected, rel=1e-2)
    else:  # the residual is that of the corrected equation
        assert result.certificate.residual < expected / 2


def test_budget_of_passes_ends_the_attack(target, method):
    result = run(target, method, max_passes=8)
    assert result.passes <= 8 + BEYOND.get(method, 50)  # the step under way, and the judge's
    if method not in AT_ONCE:
        assert result.stop is Stop.PASS_LIMIT
        assert result.certificate.verdict == "failed"


def test_time_that_is_up_ends_the_attack(target, method):
    result = run(target, method, max_seconds=1e-9)
    assert result.stop is Stop.TIME_LIMIT
    assert result.certificate.verdict == "failed"
    with pytest.raises(InputError, match="budget of seconds must be positive, got 0"):
        run(target, method, max_seconds=0)


def test_fewer_equations_than_unknowns_is_refused_and_can_be_insisted_on(target, method):
    counted = "60 samples fill" if method == "unmix" else r"\d+ equations cannot determine \d+ unknowns"
    with pytest.raises(InputError, match=f"{counted}.*allow_underdetermined"):
        run(target, method, num_samples=60)
    if method == "unmix":  # it reads the number of samples off the weights, and says that it is another
        result = run(target, method, num_samples=60, allow_underdetermined=True)
        assert len(result.samples) == 3
        assert "60 were to be looked for, but the first layer was moved by 3" in result.summary()
        return
    budget = {} if method == "exact" else {"max_passes": 200}
    result = run(target, method, num_samples=60, allow_underdetermined=True, **budget)
    if method == "greedy" and len(result.samples) == 3:  # it stops at the fewest that explain the weights
        assert result.certificate.verdict == "exact"
        assert "3 of the 60 looked for explain the weights" in result.summary()
        return
    certificate = result.certificate
    assert certificate.verdict == "failed"
    assert certificate.reason.startswith("Fewer equations than unknowns")
    if method == "exact":
        assert certificate.residual < 1e-12  # so many samples explain the weights all the same


def test_number_of_samples_must_be_positive(target, method):
    with pytest.raises(InputError, match="num_samples must be at least 1, got 0"):
        run(target, method, num_samples=0)


def test_unknown_option_lists_the_valid_ones(target, method):
    with pytest.raises(InputError, match=f"{method} has no option colour; valid: "):
        run(target, method, colour="red")


def test_attack_sees_no_truth(method):
    """The call takes the target and settings; no argument can carry the truth."""
    parameters = set(inspect.signature(attacks.ATTACKS[method].__call__).parameters)
    assert parameters == {
        "self",
        "target",
        "num_samples",
        "seed",
        "max_passes",
        "max_seconds",
        "allow_underdetermined",
        "checkpoint",
        "resume",
        "progress",
    }


def test_unknown_method_lists_the_valid_ones(target):
    with pytest.raises(InputError, match="unknown method 'oracle'; valid: .*descent"):
        attacks.reconstruct(target, method="oracle")


def test_options_of_the_wrong_type_are_named(target):
    with pytest.raises(InputError, match="options of descent: max_steps is 'many'; it must be a whole number"):
        attacks.reconstruct(target, method="descent", max_steps="many")
    with pytest.raises(InputError, match="momentum"):
        attacks.reconstruct(target, method="descent", momentum=1.5)


def test_descent_must_be_told_the_number_of_samples(target):
    ignorant = target.assuming(num_samples=None)
    with pytest.raises(InputError, match="descent needs the number of samples"):
        attacks.reconstruct(ignorant, method="descent")
