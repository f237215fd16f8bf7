"""A recipe checks itself, says which samples every step uses, and reads from YAML."""

import pytest
import torch

from exhume import Recipe
from exhume.errors import FileError, InputError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"optimiser": "adagrad"}, "optimiser is 'adagrad'; it must be 'sgd'"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; it must be greater than 0"),
        ({"steps": 0}, "steps is 0"),
        ({"optimiser": "momentum"}, "momentum is 0.0; valid for this optimiser"),
        ({"optimiser": "adam", "momentum": 0.9}, "adam has betas, not momentum"),
        ({"order_seed": 1}, "order_seed needs a batch_size"),
        ({"loss": "square", "label_smoothing": 0.1}, "label_smoothing is for cross-entropy"),
        ({"steps": None}, "steps: unknown, and not fitted: run replay with each number that is possible"),
        ({"schedule": [[5, 0.1]]}, "schedule must begin at step 0"),
        ({"rate": 0.1}, "rate is unknown; valid: optimiser, learning_rate"),
    ],
)
def test_a_wrong_recipe_is_refused_with_what_is_valid(values, message):
    with pytest.raises(InputError, match="invalid Recipe") as caught:
        Recipe(**values)
    assert message in str(caught.value)


def test_batches_are_permutations_of_one_generator_cut_in_pieces():
    recipe = Recipe(steps=7, batch_size=4, order_seed=3)
    generator, expected = torch.Generator().manual_seed(3), []
    for _ in range(3):
        order = torch.randperm(10, generator=generator)
        expected += [order[:4], order[4:8], order[8:]]
    found = recipe.batches(10)
    assert len(found) == 7
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=False))


@pytest.mark.parametrize("recipe", [Recipe(steps=3), Recipe(steps=3, batch_size=2)])
def test_without_a_known_order_every_step_uses_all_samples(recipe):
    assert [batch.tolist() for batch in recipe.batches(4)] == [[0, 1, 2, 3]] * 3
    assert recipe.order_known == (recipe.batch_size is None)


def test_schedules():
    assert Recipe(steps=4).factors() == [1.0] * 4
    assert Recipe(steps=4, schedule="linear").factors() == [1.0, 0.75, 0.5, 0.25]
    assert Recipe(steps=2, schedule="cosine").factors() == pytest.approx([1.0, 0.5])
    assert Recipe(steps=4, schedule=[[0, 1.0], [2, 0.1]]).factors() == [1.0, 1.0, 0.1, 0.1]


def test_a_recipe_is_read_from_yaml(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("optimiser: adamw\nlearning_rate: 1e-3\nweight_decay: null\nschedule: [[0, 1], [9, 0.5]]\n")
    recipe = Recipe.read(path)
    assert recipe == Recipe(optimiser="adamw", learning_rate=1e-3, weight_decay=None, schedule=((0, 1.0), (9, 0.5)))
    assert recipe.unknown == ("weight_decay",)
    assert recipe.sentence() == (
        "learning rate 0.001, steps 20, optimiser adamw, weight decay unknown, schedule ((0, 1.0), (9, 0.5))"
    )
    path.write_text("optimiser: adamw\nlr: 1e-3\n")
    with pytest.raises(InputError, match=r"recipe.yaml: invalid Recipe: lr is unknown"):
        Recipe.read(path)
    with pytest.raises(FileError):
        Recipe.read(tmp_path / "none.yaml")
