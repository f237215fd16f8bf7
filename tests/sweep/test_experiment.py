"""A cell from its data to its numbers."""

import pytest
import safetensors.torch
import torch

from exhume.errors import InputError
from exhume.sweep import Cell
from exhume.sweep.cell import RandomFeaturesSpec
from exhume.sweep.experiment import released, run, victim_of

SPHERE = {"name": "sphere", "dim": 10, "samples": 4}


def cell(**fields):
    return Cell(**({"data": SPHERE, "ratio": 5, "attack": "exact"} | fields))


def test_an_exact_cell_recovers_everything_and_says_so():
    outcome = run(cell()).outcome
    assert outcome.error < 1e-5
    assert (outcome.recovered, outcome.num_rows, outcome.flipped) == (4, 4, 0)
    assert (outcome.num_parameters, outcome.ratio, outcome.verdict) == (200, 5.0, "exact")
    assert outcome.orthogonal_residual < 1e-5
    assert outcome.claimed_error == outcome.error


def test_a_cell_gives_the_same_numbers_again():
    first, second = (run(cell(attack={"method": "descent", "max_steps": 50})).outcome for _ in range(2))
    timeless = {"training_seconds", "attack_seconds"}
    assert first.model_dump(exclude=timeless) == second.model_dump(exclude=timeless)


def test_both_attacks_of_a_seed_meet_the_same_victim_and_other_seeds_another():
    descent = {"method": "descent", "max_steps": 5}
    targets = [run(each).outcome.target for each in (cell(), cell(attack=descent), cell(seed=1, attack=descent))]
    assert targets[0] == targets[1] != targets[2]


def test_an_attack_that_leaves_signs_open_answers_up_to_sign():
    outcome = run(cell(attack={"method": "descent", "max_steps": 20})).outcome
    assert not outcome.signs_determined
    assert outcome.claimed_error == outcome.error_up_to_sign <= outcome.error


def test_the_number_of_samples_is_told_estimated_or_given():
    told, given = (
        run(cell(attack={"method": "descent", "max_steps": 5, "num_samples": count})).outcome for count in ("true", 3)
    )
    estimated = run(cell(ratio=8, attack={"method": "exact", "num_samples": "estimate"})).outcome
    assert (told.num_rows, estimated.num_rows) == (4, 4)
    assert (given.num_rows, given.missing) == (3, 1)


def test_weights_are_released_in_the_precision_asked_for():
    weights = torch.linspace(-1, 1, 1001)[None]  # a head of one output
    for name, relative in (("bfloat16", 2**-8), ("float16", 2**-11)):
        rounded = released(weights, RandomFeaturesSpec(released=name))
        assert rounded.dtype == weights.dtype
        assert torch.equal(rounded, rounded.to(getattr(torch, name)).float())
        assert 0 < (rounded - weights).abs().max() <= relative
    eight = released(weights, RandomFeaturesSpec(released="int8"))
    assert len(eight.unique()) == 255
    assert (eight - weights).abs().max() <= 0.5001 / 127
    assert released(weights, RandomFeaturesSpec()) is weights


def test_coarser_weights_give_a_larger_error():
    once = {"method": "exact", "max_starts": 1}  # further starts end in the same minimum
    victims = [{"kind": "rf", "released": kind} for kind in ("float16", "int8")]
    errors = [run(cell(ratio=8, victim=victim, attack=once)).outcome.error for victim in victims]
    assert 1e-5 < errors[0] < errors[1] / 5


def test_a_given_subspace_recovers_below_the_wall_of_all_dimensions():
    data = {"name": "sphere", "dim": 40, "samples": 6, "subspace_dim": 4}
    attack = {"method": "subspace", "knows": ["subspace"]}
    outcome = run(Cell(data=data, features=100, attack=attack)).outcome
    assert outcome.ratio < 0.5
    assert outcome.error < 1e-3


def test_the_given_subspace_is_that_of_the_distribution_not_of_the_samples():
    attack = {"method": "subspace", "knows": ["subspace"]}
    with pytest.raises(InputError, match="sphere with subspace_dim"):
        run(cell(attack=attack))
    training = Cell(data={**SPHERE, "subspace_dim": 7}, ratio=1, attack=attack).data.load(0)
    assert training.subspace.shape == (7, 10)
    assert torch.linalg.matrix_rank(training.inputs) == 4
    inside = training.inputs @ training.subspace.T @ training.subspace
    assert torch.allclose(inside, training.inputs, atol=1e-5)


def test_networks_have_as_many_outputs_as_there_are_classes():
    data = {"name": "digits", "samples": 4, "classes": "0,1", "labels": "one-hot"}
    network = Cell(data=data, victim={"kind": "two-layer"}, ratio=2, attack={"method": "descent", "max_steps": 2})
    outcome = run(network).outcome
    assert outcome.num_outputs == 2
    assert abs(outcome.ratio - 2) < 0.01
    assert outcome.drift > 0


def test_a_pruned_victim_counts_the_weights_that_are_left():
    training = cell().data.load(0)
    target = victim_of(cell(victim={"kind": "rf", "prune": 0.5}), training)[0]
    assert target.num_parameters == 100


def test_pictures_are_matched_turned_and_whole_numbers():
    digits = {"name": "digits", "samples": 4}
    finished = run(Cell(data=digits, ratio=3, attack={"method": "descent", "max_steps": 30, "num_samples": 6}))
    pictures = safetensors.torch.load(finished.pictures)
    assert {name: tuple(each.shape) for name, each in pictures.items()} == {
        "truth": (4, 1, 8, 8),
        "recovered": (4, 1, 8, 8),
        "turned": (4, 1, 8, 8),
        "extras": (2, 1, 8, 8),
        "errors": (4,),
    }
    assert pictures["truth"].dtype == torch.uint8
    distances = {
        name: (pictures[name].float() - pictures["truth"].float()).flatten(1).norm(dim=1)
        for name in ("recovered", "turned")
    }
    assert bool((distances["turned"] <= distances["recovered"] + 1).all())
    assert run(cell()).pictures is None
