"""The seed of a model is found from its trained weights, and nothing is found where there is nothing."""

import json
import math
import random

import numpy as np
import pytest
import torch
from torch import nn

import exhume
from exhume import FileError, InputError
from exhume.target import seed_search
from exhume.target.random_draws import Replay
from exhume.target.start_test import StartTest

INPUTS = torch.randn((30, 16), generator=torch.Generator().manual_seed(1))
LABELS = torch.randint(4, (30,), generator=torch.Generator().manual_seed(2))
SEED, SEEDS = 137, range(300)


def mlp():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))


def truncated():
    """Initialised as vision transformers are."""
    model = mlp()
    for layer in (model[0], model[2]):
        nn.init.trunc_normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
    return model


def orthogonal():
    """Weights that no single draw determines."""
    model = mlp()
    nn.init.orthogonal_(model[0].weight)
    return model


def by_numpy():
    model = mlp()
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.as_tensor(np.random.uniform(-0.2, 0.2, tuple(each.shape))))  # noqa: NPY002
    return model


def by_python():
    model = mlp()
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.tensor([random.gauss(0, 0.1) for _ in range(each.numel())]).reshape(each.shape))
    return model


def built(build, seed=SEED):
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    return build()


def trained(model, optimiser=torch.optim.SGD, steps=300, **options):
    optimiser = optimiser(model.parameters(), **{"lr": 0.1, **options})
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(INPUTS), LABELS)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


@pytest.mark.parametrize(
    ("optimiser", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.SGD, {"weight_decay": 0.01, "steps": 1000}),
        (torch.optim.Adam, {"lr": 0.01}),
        (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1, "steps": 1000}),
    ],
)
def test_the_seed_is_found_whatever_the_optimiser(optimiser, options):
    model = trained(built(mlp), optimiser, **options)
    found = exhume.find_seed(mlp, model, SEEDS)
    assert (found.origin, found.tried, found.candidates) == (SEED, SEED + 1, len(SEEDS))
    for name, tensor in built(mlp).state_dict().items():
        assert torch.equal(found.initial[name], tensor)
    assert found.log10_odds > 20
    assert set(found.correlations) == {"0.weight", "0.bias", "2.weight"}  # four biases of the head say nothing
    now, before = model.state_dict()["2.weight"].flatten(), found.initial["2.weight"].flatten()
    oracle = float(torch.corrcoef(torch.stack([now, before]))[0, 1])
    assert found.correlations["2.weight"] == pytest.approx(oracle, abs=0.05)
    assert f"seed {SEED}" in found.sentence


@pytest.mark.parametrize(
    ("build", "drawn_alone"),
    [(mlp, True), (truncated, True), (orthogonal, True), (by_numpy, False), (by_python, False)],
)
def test_every_kind_of_initialisation_is_found(build, drawn_alone):
    model = trained(built(build))
    assert exhume.find_seed(build, model, SEEDS).origin == SEED
    search = seed_search.Search.of(build, 0, model.state_dict())
    assert (search._replay is not None) == drawn_alone


def test_outside_the_range_and_for_unrelated_weights_nothing_is_found():
    assert exhume.find_seed(mlp, trained(built(mlp, 4000)), SEEDS) is None
    noise = {name: torch.randn_like(each) for name, each in mlp().state_dict().items()}
    assert exhume.find_seed(mlp, noise, range(20_000)) is None


def test_an_untrained_model_is_its_own_start():
    assert exhume.find_seed(mlp, built(mlp), SEEDS).origin == SEED


def test_chance_is_bounded_for_wrong_seeds():
    """The share of wrong seeds below a probability is at most that probability, and not far below it."""
    model = trained(built(mlp, 10**6), torch.optim.AdamW, lr=0.01)
    search = seed_search.Search.of(mlp, 0, model.state_dict())
    chances = search._quick.log_chance(search._replay.rows(range(4000))).exp()
    for level in (0.3, 0.1, 0.01):
        assert float((chances < level).double().mean()) <= level
    # Of one layer in which the numbers are independent, z is normal.
    z = search._quick.z(search._replay.rows(range(4000)))[:, 0] * search._quick.spread[0]
    assert float(z.mean()) == pytest.approx(0, abs=0.1)
    assert float(z.std()) == pytest.approx(1, abs=0.1)


def test_what_all_seeds_share_is_no_evidence():
    """An identity plus noise correlates with every other; only the noise counts."""
    generator = torch.Generator().manual_seed(0)

    def draw(rows):
        return torch.eye(40).flatten() + 0.01 * torch.randn((rows, 1600), generator=generator)

    start, references, others = draw(1), draw(16), draw(500)
    test = StartTest.of([start[0]], [references])
    assert float(test.log_chance([start])) < -300
    assert float(test.correlations([others]).abs().max()) < 0.2
    assert float(test.log_chance([others]).min()) > math.log(1e-6)


def test_numbers_that_are_repeated_do_not_count_twice():
    """Each number stands eight times in a layer, so N is eight times too large; the spread corrects for it."""
    generator = torch.Generator().manual_seed(0)

    def draw(rows):
        return torch.randn((rows, 100), generator=generator).repeat_interleave(8, 1)

    test = StartTest.of([draw(1)[0]], [draw(16)])
    assert float(test.spread[0]) > 1.8
    assert float((test.log_chance([draw(2000)]).exp() < 0.01).double().mean()) < 0.02


@pytest.mark.parametrize("draws", [999, lambda: torch.randperm(1000), lambda: np.random.rand(7)])  # noqa: NPY002
def test_draws_before_the_model_is_built(draws):
    def shuffled():
        torch.rand(draws) if isinstance(draws, int) else draws()
        return mlp()

    model = trained(built(shuffled))
    assert exhume.find_seed(mlp, model, SEEDS, draws=draws).origin == SEED
    by_torch = (
        draws == 999 or built(shuffled).state_dict()["0.weight"][0, 0] != built(mlp).state_dict()["0.weight"][0, 0]
    )
    assert (exhume.find_seed(mlp, model, SEEDS) is None) == by_torch


def test_a_number_of_draws_is_that_of_a_permutation():
    torch.manual_seed(SEED)
    torch.randperm(1000)
    model = trained(mlp())
    assert exhume.find_seed(mlp, model, SEEDS, draws=999).origin == SEED


def test_random_states_are_left_as_they_were():
    model = built(mlp)
    built(lambda: None, 5)
    expected = torch.rand(3), np.random.rand(3), random.random()  # noqa: NPY002
    built(lambda: None, 5)
    exhume.find_seed(mlp, model, SEEDS)
    with pytest.raises(InputError):
        exhume.find_seed(lambda: 1 / 0, model, SEEDS)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])  # noqa: NPY002
    assert random.random() == expected[2]


def test_what_the_factory_prints_is_dropped(capsys):
    def chatty():
        print("building")
        return mlp()

    assert exhume.find_seed(chatty, built(mlp), SEEDS).origin == SEED
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.Linear(16, 64), "'0.weight' is .64, 16. in the weights and missing in the model"),
        (lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), "64, 16.*32, 16"),
        (lambda: built(mlp, 3), "no layer of the model that build returns depends on the seed"),
        (lambda: [torch.seed(), mlp()][1], "different weights under the same seed"),
        (lambda: {}["width"], "build fails under seed 0: KeyError: 'width'"),
        (lambda: "model", "build returned a str"),
    ],
)
def test_factories_that_cannot_be_used_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        exhume.find_seed(build, built(mlp), SEEDS)


@pytest.mark.parametrize("seeds", [(), (-1,), (2**32,)])
def test_seeds_that_numpy_does_not_take_are_refused(seeds):
    with pytest.raises(InputError, match="seeds must be"):
        exhume.find_seed(mlp, built(mlp), seeds)


def test_what_is_no_list_of_seeds_and_weights_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match=r"seeds is 100; valid: the seeds to try, such as range\(100\)"):
        exhume.find_seed(mlp, built(mlp), 100)
    model = built(mlp)
    model[0].weight.data[0, 0] = float("nan")
    with pytest.raises(InputError, match=r"numbers in trained 0.weight are NaN or infinite"):
        exhume.find_seed(mlp, model, SEEDS)


def test_a_seed_under_which_the_factory_fails_is_left_out():
    def brittle():
        if torch.initial_seed() == SEED - 1:
            raise ValueError("unlucky")
        return by_numpy()

    with pytest.warns(UserWarning, match="unlucky"):
        assert exhume.find_seed(brittle, built(by_numpy), SEEDS).origin == SEED


def test_an_interrupted_search_continues(tmp_path, monkeypatch):
    monkeypatch.setattr("exhume.target.initial_weights.EVERY_SECONDS", 0)
    monkeypatch.setattr(seed_search, "_DRAWN_AT_ONCE", 50)
    model, record = trained(built(mlp)), tmp_path / "seeds.json"

    def interrupt(tried, total):
        if tried == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exhume.find_seed(mlp, model, SEEDS, progress=interrupt, checkpoint=record)
    assert json.loads(record.read_text())["tried"] == 100
    drawn = []
    rows = Replay.rows
    monkeypatch.setattr(Replay, "rows", lambda self, seeds: drawn.extend(seeds) or rows(self, seeds))
    assert exhume.find_seed(mlp, model, SEEDS, checkpoint=record).origin == SEED
    assert min(each for each in drawn if each < 300) == 100
    with pytest.raises(FileError, match="another search"):
        exhume.find_seed(mlp, model, range(200), checkpoint=record)


def test_several_processes_find_the_same():
    model = trained(built(mlp))
    assert exhume.find_seed(mlp, model, range(3000), workers=2).origin == SEED
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        exhume.find_seed(lambda: mlp(), model, SEEDS, workers=2)
