"""The count over all published layers that moved."""

import torch
from torch import nn

import exhume
from exhume.target.published import count_published, moved_numbers

DIM, WIDTH = 12, 30


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(DIM, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)).eval()


def start_of(model):
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def test_layers_that_did_not_move_or_are_frozen_are_not_counted():
    model = network()
    before = start_of(model)
    model[2].weight.data += 1
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,))
    assert moved_numbers(target.model) == {"2.weight": WIDTH}
    model[0].requires_grad_(False)
    target = exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,))
    assert set(moved_numbers(target.model)) == {"2.weight", "2.bias"}


def test_where_only_the_head_moved_the_law_counts():
    model = network()
    model[0].requires_grad_(False)
    target = exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,))
    for samples in (1, 2, 5):
        forecast, count = target.forecast(samples), count_published(target, samples)
        assert (count.equations, count.unknowns) == (forecast.equations, forecast.unknowns)
        assert count.determined == (forecast.verdict in ("grey zone", "reconstructible"))


def test_layers_whose_start_is_unknown_are_counted_as_moved():
    target = exhume.Target.last_layer(network(), initial_head="zero", input_shape=(DIM,))
    count = count_published(target, 5)
    assert count.equations == DIM * WIDTH + WIDTH + WIDTH + 1
    assert count.unknowns == 5 * DIM
    assert count.determined
    assert not count_published(target, 100).determined
    assert "too few to determine the samples" in count_published(target, 100).sentence


def test_statistics_of_batch_norm_are_published_numbers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)).eval()
    target = exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,))
    assert moved_numbers(target.model)["1.running_mean"] == WIDTH


def test_random_features_publish_their_head_alone():
    samples = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    target = exhume.RandomFeatures(num_features=20).fit(samples, samples[:, 0]).target()
    assert count_published(target, 4).layers == ("head",)
    assert not count_published(target, 4).determined


def test_too_few_equations_for_a_stated_number_of_samples_are_not_shown():
    samples = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    target = exhume.RandomFeatures(num_features=20).fit(samples, samples[:, 0]).target()
    assert count_published(target, 4).shows_too_few
    stated = count_published(target, 4, confirmed=False)
    assert not stated.determined
    assert not stated.shows_too_few
    assert "the number of samples, 4 (give the training data)" in stated.sentence


def test_fewer_equations_than_one_sample_asks_are_shown_whatever_was_stated():
    samples = torch.randn(4, 30, generator=torch.Generator().manual_seed(0))
    target = exhume.RandomFeatures(num_features=20).fit(samples, samples[:, 0]).target()
    assert count_published(target, 4, confirmed=False).shows_too_few


def test_a_layer_that_is_only_marked_as_frozen_shows_nothing():
    model = network()
    before = start_of(model)
    model[0].requires_grad_(False)
    marked = exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,))
    count = count_published(marked, 5)
    assert count.unconfirmed == ("layers marked as frozen whose initial weights were not given (0.weight, 0.bias)",)
    model[2].weight.data += 1
    given = exhume.Target.last_layer(model, initial_head=before, input_shape=(DIM,))
    assert count_published(given, 5).shows_too_few
