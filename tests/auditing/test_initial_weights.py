"""Initial weights of an audit that are found by comparison: by seed, or among checkpoints."""

import copy

import pytest
import torch
from auditing_models import DIM, FACTORY, SAMPLES
from safetensors.torch import save_file
from torch import nn

import exhume
from exhume import InputError, data
from exhume.auditing.initial import initial_weights
from exhume.auditing.model_files import Factory, fit_weights
from exhume.auditing.open import open_model
from exhume.auditing.settings import Settings, seeds_of
from exhume.auditing.weight_files import read_weights
from exhume.target.start_test import log_chance_of_pairing

SEED = 23


def net(width=48, classes=10):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))


def train(model, start, steps=150):
    """Trains on 100 digits from a place on."""
    digits = data.load("digits", samples=400, labels="one-hot")
    inputs, labels = digits.inputs[start : start + 100], digits.labels[start : start + 100].argmax(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A folder of five independent trainings on the same digits, one of which has another number of classes."""
    folder = tmp_path_factory.mktemp("public")
    for seed in range(4):
        torch.manual_seed(seed)
        state = train(net(), 0).state_dict()
        if seed % 2:
            torch.save({"model": state, "epoch": 3}, folder / f"net{seed}.pt")
        else:
            save_file(state, folder / f"net{seed}.safetensors")
    save_file(net(classes=12).state_dict(), folder / "other_head.safetensors")
    (folder / "readme.txt").write_text("no checkpoint")
    return folder


@pytest.mark.parametrize(("number", "name"), [(1, "net1.pt"), (2, "net2.safetensors")])
def test_the_checkpoint_of_a_fine_tuning_is_found(public, number, name):
    torch.manual_seed(number)
    model = train(train(net(), 0), 200)
    found = exhume.find_checkpoint(public, model)
    assert found.origin == name
    assert found.candidates == 5
    assert found.log10_odds > 10
    torch.manual_seed(number)
    assert torch.equal(found.initial["0.weight"], train(net(), 0).state_dict()["0.weight"])
    assert f"file {name}" in found.sentence


def test_a_model_of_its_own_start_was_fine_tuned_from_none(public):
    for seed in range(10, 14):
        torch.manual_seed(seed)
        assert exhume.find_checkpoint(public, train(net(), 0)) is None


def test_a_new_head_does_not_hide_where_the_body_comes_from(public):
    torch.manual_seed(1)
    model = train(net(), 0)
    model[4] = nn.Linear(48, 3)
    with torch.no_grad():
        model[0].weight += 0.01 * torch.randn_like(model[0].weight)
    found = exhume.find_checkpoint(public, model)
    assert found.origin == "net1.pt"
    assert set(found.correlations) == {"0.weight", "2.weight"}


def test_the_model_itself_is_no_checkpoint_that_it_comes_from(public):
    torch.manual_seed(2)
    assert exhume.find_checkpoint(public, train(net(), 0)) is None


def test_folders_without_anything_to_compare_are_refused(public, tmp_path):
    with pytest.raises(InputError, match="holds no checkpoints"):
        exhume.find_checkpoint(tmp_path, net())
    with pytest.raises(InputError, match="none of the 5 checkpoints"):
        exhume.find_checkpoint(public, nn.Linear(3, 2))
    (tmp_path / "broken.pt").write_bytes(b"\x80\x02")
    save_file(net().state_dict(), tmp_path / "good.safetensors")
    with pytest.warns(UserWarning, match="broken.pt"):
        assert exhume.find_checkpoint(tmp_path, train(net(), 0)) is None


def test_chance_of_a_pairing_is_that_over_permutations():
    """Rows that share a strong mean and are ordered independently reach a level as often as it says."""
    generator = torch.Generator().manual_seed(0)
    common = 3 * torch.randn(20, generator=generator)
    below = 0
    for _ in range(400):
        one, other = (common + torch.randn((30, 20), generator=generator) for _ in range(2))
        below += log_chance_of_pairing(one, other) < -3.0
    assert below <= 400 * 0.05
    assert log_chance_of_pairing(one, one + torch.randn_like(one)) < -20


@pytest.fixture
def files(tmp_path):
    """A factory and weights trained from a seed on points of a sphere."""
    training = data.load("sphere", dim=DIM, samples=SAMPLES)
    (tmp_path / "mymodel.py").write_text(FACTORY)
    torch.manual_seed(SEED)
    model = Factory(f"{tmp_path / 'mymodel.py'}:build")()
    torch.manual_seed(SEED)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        optimiser.zero_grad()
        (model(training.inputs)[:, 0] - training.labels).square().mean().backward()
        optimiser.step()
    save_file(model.state_dict(), tmp_path / "after.safetensors")
    return tmp_path, before


def test_an_audit_finds_the_seed_and_says_so(files):
    folder, before = files
    settings = {"weights": folder / "after.safetensors", "input_shape": (DIM,), "num_samples": SAMPLES}
    reference = f"{folder / 'mymodel.py'}:build"
    result = exhume.audit(reference, initial="seed:0-99", budget_passes=1, **settings)
    assert any(f"seed {SEED}" in note and "odds against chance" in note for note in result.notes)
    assert result.settings.initial == "seed:0-99"
    trained = fit_weights(Factory(reference)(), read_weights(settings["weights"]).tensors)
    found, _ = initial_weights("seed:0-99", trained, Settings(model=reference, **settings))
    assert all(torch.equal(found[name], before[name]) for name in before)
    with pytest.raises(InputError, match="no seed from 24 to 99"):
        exhume.audit(reference, initial="seed:24-99", **settings)


def test_the_untrained_module_itself_gives_the_initial_weights():
    torch.manual_seed(SEED)
    module = net()
    start = copy.deepcopy(module)
    target, _, _ = open_model(train(module, 0, steps=5).eval(), None, start, Settings(input_shape=(64,)))
    assert target.knowledge.initial_head == target.knowledge.initial_body == "known"
    assert all(torch.equal(weight, target.model.initial[name]) for name, weight in start.state_dict().items())


def test_seeds_need_a_factory():
    with pytest.raises(InputError, match="needs a factory"):
        exhume.audit(net().eval(), initial="seed:0-9", input_shape=(64,))


def test_seeds_are_read_from_settings():
    assert Settings(initial="seed:5-9").initial == "seed:5-9"
    assert seeds_of("seed:5-9") == range(5, 10)
    assert seeds_of("seed:5") == range(5, 6)
    for wrong in ("seed:", "seed:9-5", "seed:a-b", "seed:-1-5"):
        with pytest.raises(InputError, match="seed:FIRST-LAST"):
            Settings(initial=wrong)
