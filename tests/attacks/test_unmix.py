"""The unmixing attack on ordinary ReLU networks: exact where its premise holds, never certified where it does not."""

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.errors import InputError
from exhume.results.stop import Stop
from exhume.target.dense_displacement import decay_share, dense_displacement

DIM, COUNT = 64, 8


def pictures(count=COUNT):
    digits = data.load("digits", samples=count, labels="one-hot")
    return digits.inputs, digits.labels.argmax(1)


def network(seed=0, widths=(200,), outputs=10, activation=nn.ReLU, bias=True, before=()):
    torch.manual_seed(seed)
    layers = list(before)
    for inside, outside in zip((DIM, *widths), widths, strict=False):
        layers += [nn.Linear(inside, outside, bias=bias), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


def state(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def train(model, inputs, labels, *, steps=100, batch=None, loss=nn.functional.cross_entropy, optimiser=None):
    """A plain loop; the initial weights come back."""
    before, generator = state(model), torch.Generator().manual_seed(1)
    optimiser = optimiser or torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    model.train()
    for _ in range(steps):
        order = torch.randperm(len(inputs), generator=generator)
        for rows in order.split(batch or len(inputs)):
            optimiser.zero_grad()
            loss(model(inputs[rows]), labels[rows]).backward()
            optimiser.step()
    model.eval()
    return before


def attack(model, before, shape=(DIM,), **settings):
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=shape)
    return exhume.reconstruct(target, method="unmix", **settings)


def errors(result, inputs):
    return [match.error for match in exhume.score(result, inputs).matches]


def square(outputs, labels):
    return nn.functional.mse_loss(outputs[:, 0], 2.0 * (labels % 2) - 1)


RECIPES = {
    "full batch": {},
    "mini-batches": {"batch": 3},
    "one step": {"steps": 1},
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("outputs", "loss"), [(10, nn.functional.cross_entropy), (1, square)])
def test_all_images_of_a_network_come_back_exactly(recipe, outputs, loss):
    inputs, labels = pictures()
    model = network(outputs=outputs)
    before = train(model, inputs, labels, loss=loss, **RECIPES[recipe])
    result = attack(model, before)
    assert result.stop is Stop.CONVERGED
    assert len(result.samples) == COUNT  # the rank shows it
    assert result.certificate.verdict == "exact"
    assert max(errors(result, inputs)) < 1e-4
    assert result.norms_determined
    bars = sorted(result.certificate.predicted_errors)
    assert max(errors(result, inputs)) < 3 * bars[-1]


def test_weight_decay_with_an_unknown_share_dropout_and_depth():
    inputs, labels = pictures()
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(DIM, 200), nn.ReLU(), nn.Dropout(0.2), nn.Linear(200, 50), nn.ReLU(), nn.Linear(50, 10)
    )
    optimiser = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-2)
    before = train(model, inputs, labels, batch=4, optimiser=optimiser)
    result = attack(model, before)
    assert result.evidence["share_of_initial_weights"] < 0.99
    assert result.certificate.verdict == "exact"
    assert max(errors(result, inputs)) < 1e-4


def test_the_share_that_decay_leaves_is_an_eigenvalue():
    generator = torch.Generator().manual_seed(0)
    for rows, columns in ((60, 40), (40, 60)):
        before = torch.randn((rows, columns), generator=generator, dtype=torch.float64)
        moved = torch.randn((rows, 5), generator=generator, dtype=torch.float64) @ torch.randn(
            (5, columns), generator=generator, dtype=torch.float64
        )
        assert decay_share(before, 0.73 * before + moved) == pytest.approx(0.73, abs=1e-9)


def test_weights_rounded_to_half_precision_give_close_images_with_honest_bars():
    inputs, labels = pictures()
    model = network()
    before = train(model, inputs, labels)
    model.load_state_dict({name: tensor.half().float() for name, tensor in model.state_dict().items()})
    result = attack(model, before)
    found, bars = errors(result, inputs), result.certificate.predicted_errors
    assert max(found) < 0.02
    assert max(found) < 3 * max(bars)
    assert max(bars) > 1e-5  # rounding shows in them


class Standardise(nn.Module):
    """Normalisation by constants, and an input that is a picture."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, DIM))

    def forward(self, pictures):
        return (pictures.flatten(1) - self.mean) / 0.25


def test_a_normalisation_before_the_layer_is_undone():
    inputs, labels = pictures()
    model = network(before=(Standardise(),))
    before = train(model, inputs.reshape(-1, 1, 8, 8), labels, optimiser=torch.optim.SGD(model.parameters(), 0.005))
    result = attack(model, before, shape=(1, 8, 8))
    assert result.certificate.verdict == "exact"
    assert max(errors(result, inputs)) < 1e-3


def test_without_a_bias_directions_and_signs_come_back():
    inputs, labels = pictures()
    model = network(bias=False)
    before = train(model, inputs, labels)
    result = attack(model, before)
    assert not result.norms_determined
    cosines = nn.functional.normalize(result.samples) @ nn.functional.normalize(inputs).T
    assert float(cosines.amax(0).min()) > 1 - 1e-6


def broken(kind):
    """A network whose displacement is not C [X 1] of the given start."""
    inputs, labels = pictures()
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3) if kind == "Adam" else None
    before = train(model, inputs, labels, optimiser=optimiser)
    if kind == "another seed":
        before = state(network(seed=9))
    if kind == "permuted":
        order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
        weights = state(model)
        weights["0.weight"], weights["0.bias"] = weights["0.weight"][order], weights["0.bias"][order]
        weights["2.weight"] = weights["2.weight"][:, order]
        model.load_state_dict(weights)
    return model, before


@pytest.mark.parametrize("kind", ["another seed", "permuted"])
def test_a_displacement_that_is_no_mixture_is_declined(kind):
    with pytest.raises(InputError, match="no clear rank"):
        attack(*broken(kind))


def test_the_displacement_of_adam_is_not_certified():
    result = attack(*broken("Adam"), max_passes=100)
    assert result.certificate.verdict == "failed"


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU])
def test_more_rank_than_samples_that_adam_made_is_named_and_ends_the_attack_at_once(activation):
    inputs, labels = pictures()
    model = network(activation=activation)
    before = train(model, inputs, labels, optimiser=torch.optim.Adam(model.parameters(), 1e-3))
    with pytest.raises(InputError, match=f"has rank .* for {COUNT} samples: not trained by SGD from these weights"):
        attack(model, before, num_samples=COUNT)


def test_few_neurons_are_not_named_where_adam_made_the_rank():
    inputs, labels = pictures(4)
    model = network(widths=(40,))
    before = train(model, inputs, labels, optimiser=torch.optim.Adam(model.parameters(), 1e-3))
    with pytest.raises(InputError, match="not trained by SGD"):
        attack(model, before)


def test_a_number_of_samples_that_is_too_small_does_not_stop_the_attack_on_sgd():
    inputs, labels = pictures()
    model = network()
    before = train(model, inputs, labels)
    result = attack(model, before, num_samples=2)
    assert (result.certificate.verdict, len(result.samples)) == ("exact", COUNT)
    assert any("2 were to be looked for, but the first layer was moved by 8" in note for note in result.notes)


def test_more_samples_than_inputs_or_neurons_are_refused_by_that_reason():
    inputs, labels = pictures(80)
    model = network()
    before = train(model, inputs, labels, steps=2)
    size = "64 inputs, a bias and 200 neurons: it shows at most 64"
    with pytest.raises(InputError, match=f"80 samples fill the first layer '0' of {size}"):
        attack(model, before, num_samples=80)


def test_with_a_bias_as_many_samples_as_inputs_are_found_also_where_their_number_is_told():
    inputs, labels = torch.rand((16, 16), generator=torch.Generator().manual_seed(0)), torch.arange(16) % 3
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 300), nn.ReLU(), nn.Linear(300, 3))
    before = train(model, inputs, labels)
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=(16,))
    result = exhume.reconstruct(target, num_samples=16, method="unmix")
    assert exhume.score(result, inputs).recovered == 16
    assert result.certificate.verdict != "failed"
    with pytest.raises(InputError, match="17 samples fill"):
        exhume.reconstruct(target, num_samples=17, method="unmix")
    without = {name: weight for name, weight in before.items() if name != "0.bias"}
    target = exhume.Target.last_layer(model, initial_head=without, input_shape=(16,))
    with pytest.raises(InputError, match="16 samples fill the first layer '0' of 16 inputs and 300 neurons"):
        exhume.reconstruct(target, num_samples=16, method="unmix")


def test_zeros_are_counted_so_that_many_inputs_need_no_more_neurons_than_their_square():
    model = nn.Sequential(nn.Linear(24, 300), nn.ReLU(), nn.Linear(300, 1))
    before = {name: weight + 0.1 for name, weight in state(model).items()}
    target = exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(24,))
    assert exhume.Unmix().equation_count(target, 24) == (300 * 25, 24 * (150 + 24))


@pytest.mark.parametrize("count", [None, 8])
@pytest.mark.parametrize("marked", [True, False])
def test_a_convolution_is_named_and_a_frozen_body_leads_to_the_block_on_it(count, marked):
    inputs, labels = pictures()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 50), nn.ReLU(), nn.Linear(50, 10))
    before = train(model, inputs.reshape(-1, 1, 8, 8), labels, steps=5)
    with pytest.raises(InputError, match="the first layer '0' is a convolution; a dense one is needed"):
        attack(model, before, shape=(1, 8, 8), num_samples=count)
    model[0].load_state_dict({name.removeprefix("0."): before[name] for name in ("0.weight", "0.bias")})
    if marked:
        model[0].requires_grad_(False)
        del before["0.weight"]
    alone = r"\. If .* frozen body, of convolutions or not, .* Target.last_layer\(block.*not its inputs"
    with pytest.raises(InputError, match=f"did not move in training{alone}"):
        attack(model, before, shape=(1, 8, 8), num_samples=count)


@pytest.mark.parametrize("activation", [nn.LeakyReLU, nn.PReLU])
def test_piecewise_linear_activations_without_zeros_are_declined(activation):
    inputs, labels = pictures()
    model = network(activation=activation)
    before = train(model, inputs, labels)
    with pytest.raises(InputError, match="no ReLU follows the first layer"):
        attack(model, before)


def test_a_relu_that_saturates_is_unmixed_like_any_other():
    inputs, labels = pictures()
    model = network(activation=nn.ReLU6)
    result = attack(model, train(model, inputs, labels))
    assert result.certificate.verdict == "exact"
    assert max(errors(result, inputs)) < 1e-3


def test_too_few_neurons_are_declined():
    inputs, labels = pictures()
    model = network(widths=(20,))
    before = train(model, inputs, labels)
    with pytest.raises(InputError, match="neurons are too few to separate 8 samples"):
        attack(model, before)


def test_columns_that_are_not_all_found_are_not_certified():
    inputs, labels = pictures(16)
    model = network(widths=(60,))
    before = train(model, inputs, labels, steps=300, batch=2)
    result = attack(model, before, max_passes=20)
    assert result.certificate.verdict == "failed"
    assert result.certificate.predicted_errors == ()
    assert len(result.samples) == 16


def test_the_rank_is_read_off_although_pixels_are_constant_and_neurons_dead():
    inputs, labels = pictures()
    inputs = inputs * (torch.arange(DIM) > 20)  # pixels that are always zero
    model = network()
    with torch.no_grad():
        model[0].bias[:50] = -1000.0  # neurons that never fire
    before = train(model, inputs, labels)
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,))
    assert dense_displacement(target.known_model, (DIM,)).spectrum.rank == COUNT


def test_a_bias_that_was_not_decayed_leaves_the_norms_open():
    inputs, labels = pictures()
    model = network()
    weights, biases = ([each for each in model.parameters() if (each.ndim > 1) is dense] for dense in (True, False))
    groups = [{"params": weights, "weight_decay": 1e-2}, {"params": biases, "weight_decay": 0.0}]
    before = train(model, inputs, labels, optimiser=torch.optim.SGD(groups, 0.02, momentum=0.9))
    result = attack(model, before)
    assert len(result.samples) == COUNT
    assert result.certificate.verdict == "exact"
    assert not result.norms_determined
    unit, truth = (nn.functional.normalize(each.double(), dim=1) for each in (result.samples, inputs))
    assert torch.cdist(truth, unit).amin(1).max() < 1e-4


def test_reconstruct_tries_unmixing_first_by_itself():
    inputs, labels = pictures()
    model = network()
    before = train(model, inputs, labels)
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,))
    result = exhume.reconstruct(target)
    assert (result.method, result.certificate.verdict) == ("unmix", "exact")
    with pytest.raises(InputError, match="name one of unmix, subspace, exact"):
        exhume.reconstruct(target, max_starts=1)


def test_reconstruct_passes_options_on_where_one_attack_fits():
    sphere = data.load("sphere", dim=8, samples=4)
    target = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels).target()
    result = exhume.reconstruct(target, num_samples=4, max_starts=3)
    assert (result.method, result.certificate.verdict) == ("exact", "exact")
