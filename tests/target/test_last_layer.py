"""Targets from modules: the knowledge about the initial head determines the displacement."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from exhume.errors import FileError, InputError
from exhume.features import FirstLayerMap, ModuleFeatureMap
from exhume.networks import ResNet, TwoLayer
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target

SHAPE = (1, 6, 6)


@pytest.fixture
def module():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GELU(), nn.Flatten())
    return nn.Sequential(body, nn.Linear(64, 3)).eval()


def make(module, **options):
    return Target.last_layer(module, input_shape=SHAPE, **options)


def test_a_known_head_gives_its_displacement(module):
    before = torch.randn(3, 64)
    public = make(module, initial_head=before)
    torch.testing.assert_close(public.displacement, module[1].weight.detach() - before)
    assert public.knowledge.initial_head == "known"
    assert (public.num_outputs, public.num_parameters, public.input_shape) == (3, 192, SHAPE)
    assert make(module, head="1", initial_head=before).fingerprint == public.fingerprint


@pytest.mark.parametrize("word", ["zero", "unknown"])
def test_a_zero_or_unknown_head_is_its_own_displacement(module, word):
    public = make(module, initial_head=word)
    assert torch.equal(public.displacement, module[1].weight.detach())
    assert public.knowledge.initial_head == word
    assert make(module).knowledge.initial_head == "unknown"


def test_a_known_bias_is_one_more_equation_an_output(module):
    public = make(module, initial_head="zero", initial_bias="zero")
    assert public.displacement.shape == (3, 65)
    assert torch.equal(public.displacement[:, -1], module[1].bias.detach())
    rows = torch.randn(2, 36)
    features = public.features.forward(rows)
    assert torch.equal(features[:, -1], torch.ones(2))
    torch.testing.assert_close(public.outputs(features), module(rows.reshape(-1, *SHAPE)))


def test_a_state_dict_gives_weights_and_bias(module):
    before = {name: torch.zeros_like(tensor) for name, tensor in module.state_dict().items()}
    assert torch.equal(
        make(module, initial_head=before).displacement,
        make(module, initial_head="zero", initial_bias="zero").displacement,
    )
    del before["1.weight"]
    with pytest.raises(InputError, match="no '1.weight'; it has: 0.0.bias"):
        make(module, initial_head=before)


def test_the_bias_of_a_homogeneous_body_is_used_only_if_it_can_fix_all_norms():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.ReLU(), nn.Flatten())
    module = nn.Sequential(body, nn.Linear(64, 3)).eval()
    options = {"initial_head": "zero", "initial_bias": "zero"}
    assert make(module, **options).displacement.shape == (3, 64)
    few = make(module, **options, knowledge=Knowledge(num_samples=3))
    assert few.displacement.shape == (3, 65)
    assert few.features.symmetry.identifies_norm


def test_pruned_columns_are_left_out(module):
    before = module[1].weight.detach().clone()
    module[1].weight.data += 0.1
    module[1].weight.data[:, [2, 5]] = 0
    public = make(module, initial_head=before)
    assert public.displacement.shape == (3, 62)
    assert public.surviving is not None
    assert not {2, 5} & set(public.surviving.tolist())
    rows = torch.randn(2, 36)
    torch.testing.assert_close(
        public.outputs(public.features.forward(rows)) + module[1].bias.detach(), module(rows.reshape(-1, *SHAPE))
    )
    assert make(module, initial_head="zero").surviving is None  # there a zero may be what training left


def test_a_head_that_did_not_move_is_refused(module):
    with pytest.raises(InputError, match="did not move"):
        make(module, initial_head=module[1].weight.detach())


def test_wrong_initial_heads_are_named(module):
    with pytest.raises(InputError, match=r"initial head of shape \(3, 63\) does not fit a head of \(3, 64\)"):
        make(module, initial_head=torch.zeros(3, 63))
    with pytest.raises(InputError, match="initial head 'random'; valid: a tensor, 'zero' or 'unknown'"):
        make(module, initial_head="random")


def test_a_module_may_be_trained_on_after_it_became_a_target(module):
    public = make(module, initial_head="zero")
    rows = torch.randn(2, 36)
    before = public.features.forward(rows)
    module[0][0].weight.data.add_(1)
    torch.testing.assert_close(public.features.forward(rows), before)


@pytest.mark.parametrize("network", [TwoLayer(36, 20, 2), ResNet(SHAPE, 2), TwoLayer(36, 20, 2).double()])
def test_own_architectures_come_back_from_disk(network, tmp_path):
    public = Target.last_layer(network.eval(), initial_head="zero", input_shape=SHAPE)
    public.save(tmp_path)
    again = Target.load(tmp_path)
    assert again.fingerprint == public.fingerprint
    assert isinstance(again.features, FirstLayerMap if isinstance(network, TwoLayer) else ModuleFeatureMap)
    rows = torch.randn(3, 36)
    torch.testing.assert_close(again.features.forward(rows), public.features.forward(rows))
    torch.testing.assert_close(
        again.outputs(again.features.forward(rows)), public.outputs(public.features.forward(rows))
    )


def test_other_architectures_cannot_be_saved_and_nothing_is_left_behind(module, tmp_path):
    with pytest.raises(InputError, match="Sequential cannot be saved"):
        make(module, initial_head="zero").save(tmp_path)
    assert not any(tmp_path.iterdir())


def test_weights_that_do_not_fit_their_description_are_a_clear_error(tmp_path):
    Target.last_layer(TwoLayer(36, 20, 2).eval(), initial_head="zero", input_shape=SHAPE).save(tmp_path)
    words = (tmp_path / "victim.json").read_text()
    (tmp_path / "victim.json").write_text(words.replace('"width": 20', '"width": 21'))
    with pytest.raises(FileError, match="does not fit its weights"):
        Target.load(tmp_path)


@pytest.mark.parametrize("shape", [36, (-36,), (), (6.0, 6)])
def test_wrong_input_shapes_are_named(module, shape):
    with pytest.raises(InputError, match="input_shape .*; valid: a tuple of whole numbers above 0"):
        Target.last_layer(module, input_shape=shape)


def test_transposed_or_broken_initial_heads_are_refused_and_arrays_taken(module):
    with pytest.raises(InputError, match=r"initial head of shape \(64, 3\) does not fit"):
        make(module, initial_head=torch.zeros(64, 3))
    with pytest.raises(InputError, match="numbers in initial head are NaN or infinite"):
        make(module, initial_head=torch.full((3, 64), float("nan")))
    assert torch.equal(make(module, initial_head=np.zeros((3, 64))).displacement, module[1].weight.detach())
    with pytest.raises(InputError, match="needs a torch.nn.Module, not a function"):
        make(lambda x: x)


def test_an_untrained_module_stands_for_its_state_dict_and_other_things_are_named(module):
    before = copy.deepcopy(module)
    module[1].weight.data.add_(1)
    assert make(module, initial_head=before).fingerprint == make(module, initial_head=before.state_dict()).fingerprint
    assert set(Target.network(module, initial=before, input_shape=SHAPE).model.initial) == set(before.state_dict())
    for wrong in (object(), lambda: before, "zeros"):
        with pytest.raises(InputError, match="initial head .*; valid: a tensor, 'zero' or 'unknown'"):
            make(module, initial_head=wrong)


@pytest.mark.parametrize("broken", ["0.0.weight", "1.weight"])
@pytest.mark.parametrize("when", ["initial", "trained"])
def test_nan_and_infinity_are_refused_by_the_name_of_the_tensor(module, broken, when):
    states = {each: {name: w.clone() + 1 for name, w in module.state_dict().items()} for each in ("initial", "trained")}
    states[when][broken].view(-1)[3] = float("inf" if when == "initial" else "nan")
    module.load_state_dict(states["trained"])
    with pytest.raises(InputError, match=f"1 of .* numbers in {when} {broken} are NaN or infinite"):
        make(module, initial_head=states["initial"])


def test_rounded_modules_have_a_fingerprint(module):
    public = make(module.bfloat16(), initial_head="zero")
    assert public.fingerprint == make(module, initial_head="zero").fingerprint


@pytest.mark.parametrize("word", ["zero", "unknown"])
def test_a_head_that_is_forgotten_stands_for_its_displacement(module, word):
    public = make(module, initial_head=torch.randn(3, 64))
    forgotten = public.assuming(initial_head=word)
    assert torch.equal(forgotten.displacement, module[1].weight.detach())
    assert forgotten.knowledge.initial_head == word
    with pytest.raises(InputError, match="initial_head cannot be known"):
        forgotten.assuming(initial_head="known")


def test_initial_weights_of_the_body_can_be_hidden_but_not_made_up(module):
    state = {name: torch.randn_like(weight) for name, weight in module.state_dict().items()}
    public = make(module, initial_head=state)
    assert public.knowledge.initial_body == "known"
    assert public.assuming(initial_body="unknown").assuming(initial_body="known").knowledge == public.knowledge
    with pytest.raises(InputError, match="initial_body cannot be known"):
        make(module, initial_head="zero").assuming(initial_body="known")


@pytest.mark.parametrize("name", ["samples", "subspace"])
def test_known_rows_must_fit_the_inputs(module, name):
    with pytest.raises(InputError, match=f"known {name} have 10 numbers a row, the model takes 36"):
        make(module, initial_head="zero").assuming(**{name: torch.eye(2, 10)})
