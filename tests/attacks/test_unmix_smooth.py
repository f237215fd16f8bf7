"""Unmixing where the activation is smooth: spaces, fits and paths against oracles, and whole attacks."""

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.attacks._base.unmix_tuning import SmoothTuning
from exhume.attacks._search.training_path import curved_nodes
from exhume.attacks._search.unmixing.column_fits import Together, fit_alone, fit_together
from exhume.attacks._search.unmixing.sample_spaces import InputFrame, Nodes, ReadNetwork
from exhume.errors import InputError
from exhume.report.model_charts.unmix import unmix_charts
from exhume.support import checkpoint
from exhume.target.dense_displacement import dense_displacement

DIM, COUNT = 64, 6


def pictures(count=COUNT):
    digits = data.load("digits", samples=count, labels="one-hot")
    return digits.inputs, digits.labels.argmax(1)


def trained(activation=nn.GELU, widths=(120,), steps=40, momentum=0.9, bias=True, count=COUNT):
    """A network trained on pictures by a plain loop, and its initial weights."""
    inputs, labels = pictures(count)
    torch.manual_seed(0)
    layers = []
    for inside, outside in zip((DIM, *widths), widths, strict=False):
        layers += [nn.Linear(inside, outside, bias=bias), activation()]
    model = nn.Sequential(*layers, nn.Linear(widths[-1], 10))
    before = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.02, momentum=momentum)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    return model.eval(), before


def read(model, before):
    """The network as the search reads it, the frame of its displacement, and the true inputs in coordinates."""
    known = exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,)).known_model
    network = ReadNetwork(known, dense_displacement(known, (DIM,)), (DIM,))
    frame = InputFrame.of(network.moved)
    inputs = pictures()[0].double()
    return network, frame, torch.cat([inputs, torch.ones(COUNT, 1)], 1) @ frame.right.T


def attack(model, before, **settings):
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,))
    return exhume.reconstruct(target, method="unmix", **settings)


def errors(result, inputs):
    """Relative errors of the pictures, and of the samples."""
    apart = torch.cdist(result.samples.double(), inputs.double()) / inputs.double().norm(dim=1)
    return apart.amin(0), apart.amin(1)


def test_spaces_are_the_derivative_of_the_outputs_by_the_pre_activations():
    model, before = trained(widths=(30, 20))
    network, frame, truth = read(model, before)
    vectors = Nodes(network, frame, network.straight([1.0])).spaces(truth).vectors
    above = nn.Sequential(*list(model)[1:]).double()
    values = model.double()[0](pictures()[0].double()).detach()
    for vector, value in zip(vectors, values, strict=True):
        dense = torch.autograd.functional.jacobian(above, value)
        dense = dense - dense.mean(0)  # errors of cross-entropy sum to zero
        outside = vector - vector @ torch.linalg.pinv(dense) @ dense
        assert float(outside.norm()) < 1e-4 * float(vector.norm())


@pytest.mark.parametrize("widths", [(30,), (30, 20)])
def test_the_derivative_of_the_spaces_agrees_with_differences(widths):
    network, frame, truth = read(*trained(nn.Tanh, widths=widths))
    assert network.by_neuron == (len(widths) == 1)
    nodes = Nodes(network, frame, network.straight([0.0, 1.0]))
    spaces = nodes.spaces(truth)
    weights = torch.randn(spaces.vectors.shape[:2], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = spaces.derivative(weights, nodes.ways)
    for way in range(frame.directions.shape[1]):
        ends = [nodes.spaces(truth + sign * 1e-5 * frame.directions[:, way]) for sign in (1, -1)]
        high, low = (((end.vectors * end.scale / spaces.scale) * weights[:, :, None]).sum(1) for end in ends)
        assert torch.allclose(found[:, way], (high - low) / 2e-5, rtol=1e-3, atol=1e-6)


def test_after_one_step_the_initial_weights_explain_every_column_and_fits_return_to_the_truth():
    network, frame, truth = read(*trained(steps=1, momentum=0.0))
    nodes, tuning = Nodes(network, frame, network.straight([0.0])), SmoothTuning()
    off = torch.randn(truth.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    start = truth + 0.1 * truth.norm(dim=1, keepdim=True) / COUNT**0.5 * (off @ frame.directions) @ frame.directions.T
    alone = fit_alone(nodes, start, torch.zeros((COUNT, 0), dtype=torch.float64), 0.0, tuning)
    assert float(alone.misfits.max()) < 1e-3
    columns = (frame.basis * frame.sizes @ torch.linalg.pinv(start)).T
    for kept in (COUNT, COUNT - 2):  # all, and with two samples missing
        found = fit_together(nodes, Together(start[:kept], columns[:kept], start[:kept, 0]), 10, tuning)
        assert float(found.residuals.max()) < 1e-3
        assert float(((found.inputs - truth[:kept]).norm(dim=1) / truth[:kept].norm(dim=1)).max()) < 1e-2


def test_a_path_simulated_with_the_true_samples_ends_at_the_trained_weights():
    network, _, _ = read(*trained(momentum=0.0))
    nodes, miss = curved_nodes(network, pictures()[0], 4, SmoothTuning())
    assert miss < 0.02
    for name in network.after:
        assert torch.allclose(nodes[0][name], network.before[name], atol=1e-6)
        assert torch.allclose(nodes[-1][name], network.after[name], atol=1e-6)
    _, wrong = curved_nodes(network, pictures()[0].flip(1), 4, SmoothTuning())
    assert wrong > 0.5


@pytest.mark.parametrize(
    ("activation", "widths", "bias"), [(nn.GELU, (120,), True), (nn.Tanh, (120, 40), True), (nn.SiLU, (120,), False)]
)
def test_smooth_networks_give_their_images_back_with_bars_that_hold(activation, widths, bias):
    model, before = trained(activation, widths, bias=bias)
    result = attack(model, before)
    found, own = errors(result, pictures()[0])
    assert len(result.samples) == COUNT
    assert float(found.max()) < 0.1
    assert result.certificate.verdict == "approximate"
    assert bool((own < torch.tensor(result.certificate.predicted_errors)).all())
    assert result.evidence["initial_weights"] == list(before)
    assert [each.title for each in unmix_charts(result)] == ["How many samples moved the first layer"]


def test_a_resumed_search_ends_where_an_uninterrupted_one_does(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    model, before = trained()
    settings = {"checkpoint": tmp_path / "state.safetensors"}
    whole = attack(model, before)

    def cut(event):
        if event.step == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack(model, before, **settings, progress=cut)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 60.0)  # saving takes longer than the steps
    again = attack(model, before, **settings, resume=True)
    assert (again.steps, again.passes) == (whole.steps, whole.passes)
    torch.testing.assert_close(again.samples, whole.samples, atol=1e-4, rtol=0)


def test_a_search_that_is_cut_before_all_samples_are_found_is_not_certified():
    result = attack(*trained(widths=(60,), count=20), max_passes=1)
    assert result.certificate.verdict == "failed"
    assert result.certificate.predicted_errors == ()
    assert len(result.samples) == 20


def test_unknown_initial_weights_of_other_layers_are_declined():
    model, before = trained(widths=(60, 20), steps=2)
    del before["2.weight"]
    with pytest.raises(InputError, match=r"initial weights of all layers are needed.*2\.weight"):
        attack(model, before)
