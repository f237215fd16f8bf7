"""A network that is trained by a recipe ends where torch.optim takes it."""

import pytest
import torch
from torch import nn

from exhume import Recipe, data
from exhume.errors import InputError
from exhume.networks import Conv
from exhume.training.by_recipe import train_by_recipe

DIGITS = data.load("digits", samples=6, labels="one-hot")


@pytest.mark.parametrize(
    ("recipe", "optimiser"),
    [
        (Recipe(optimiser="adam", learning_rate=1e-3, steps=9, batch_size=4, order_seed=3), torch.optim.Adam),
        (Recipe(learning_rate=0.05, steps=9, weight_decay=0.1), torch.optim.SGD),
    ],
)
def test_weights_are_those_of_torch(recipe, optimiser):
    network, expected = (Conv((1, 8, 8), 4, 10, seed=5).double() for _ in range(2))
    inputs, classes = DIGITS.inputs.double(), DIGITS.labels.argmax(1)
    steps = optimiser(expected.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    for batch in recipe.batches(len(inputs)):
        steps.zero_grad()
        nn.functional.cross_entropy(expected(inputs[batch]), classes[batch]).backward()
        steps.step()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    trained = train_by_recipe(network, inputs, DIGITS.labels, recipe)
    for name, weight in trained.network.state_dict().items():
        torch.testing.assert_close(weight, expected.state_dict()[name], atol=1e-9, rtol=1e-7)
        torch.testing.assert_close(trained.initial[name], before[name])
    assert trained.loss == pytest.approx(nn.functional.cross_entropy(expected(inputs), classes).item())
    assert (trained.steps, trained.loss_name, trained.decay) == (9, "cross-entropy", 1.0)
    assert trained.drift > 0
    assert not trained.network.training


@pytest.mark.parametrize(
    ("recipe", "missing"),
    [
        (Recipe(learning_rate=None), "learning_rate"),
        (Recipe(batch_size=2), "order_seed"),
    ],
)
def test_a_recipe_that_leaves_something_unknown_trains_nothing(recipe, missing):
    with pytest.raises(InputError, match=f"the recipe leaves {missing} unknown"):
        train_by_recipe(Conv((1, 8, 8), 4, 10), DIGITS.inputs, DIGITS.labels, recipe)
