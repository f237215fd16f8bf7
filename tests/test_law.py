"""The law's counts against values worked out by hand, and its inverses against each other."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhume.errors import InputError
from exhume.law import PRACTICAL_RATIO, Forecast, forecast, largest_samples, smallest_parameters

SETTINGS = st.fixed_dictionaries(
    {
        "input_dim": st.integers(1, 200),
        "num_outputs": st.integers(1, 12),
        "activation": st.sampled_from(["relu", "abs", "tanh", "relu+tanh"]),
    }
)


def test_relu_with_one_output_has_d_n_unknowns() -> None:
    found = forecast(num_parameters=3_000_000, input_dim=3072, num_samples=100)
    assert found.equations == 3_000_000
    assert found.unknowns == 307_200
    assert found.ratio == pytest.approx(9.765625)
    assert found.verdict == "reconstructible"
    assert found.smallest_parameters == 307_201
    assert found.comfortable_parameters == 921_600
    assert found.largest_samples == 976  # 976 * 3072 = 2,998,272 < 3,000,000 < 977 * 3072


@pytest.mark.parametrize(
    ("num_parameters", "verdict"),
    [
        (19, "not even labels"),
        (20, "labels only"),
        (600, "labels only"),
        (601, "grey zone"),
        (1799, "grey zone"),
        (1800, "reconstructible"),
    ],
)
def test_verdict_changes_at_n_at_d_n_and_at_the_practical_ratio(num_parameters: int, verdict: str) -> None:
    found = forecast(num_parameters, input_dim=30, num_samples=20)
    assert found.verdict == verdict
    assert found.sentence.lower().startswith(verdict)
    assert f"{num_parameters:,}" in found.sentence


def test_norms_are_unknowns_unless_the_activation_is_homogeneous() -> None:
    assert forecast(5000, 30, 20, activation="abs").unknowns == 20 * 29 + 20
    assert forecast(5000, 30, 20, activation="tanh").unknowns == 20 * 30 + 20


def test_several_outputs_add_coefficients_and_ask_for_more_labels() -> None:
    found = forecast(num_parameters=10 * 100, input_dim=30, num_samples=20, num_outputs=10)
    assert found.unknowns == 20 * 29 + 20 * 10  # 780
    assert found.smallest_parameters == 790
    assert found.verdict == "grey zone"
    assert forecast(190, 30, 20, num_outputs=10).verdict == "not even labels"
    assert forecast(200, 30, 20, num_outputs=10).verdict == "labels only"


def test_known_samples_leave_only_their_coefficients_open() -> None:
    most = forecast(5000, 30, 20, known_samples=15)
    assert (most.unknowns, most.equations) == (5 * 30, 5000 - 15)
    assert forecast(5000, 30, 20, known_samples=20).unknowns == 0
    last = forecast(60, 30, 20, known_samples=19)  # the informed adversary: d unknowns, p = 2d
    assert (last.unknowns, last.equations, last.verdict) == (30, 41, "grey zone")


def test_known_norms_are_no_unknowns() -> None:
    assert forecast(5000, 30, 20, activation="tanh").unknowns == 20 * 31
    assert forecast(5000, 30, 20, activation="tanh", norms_known=True).unknowns == 20 * 30
    assert forecast(5000, 30, 20, norms_known=True).unknowns == 20 * 30  # relu hides them anyway


def test_a_known_subspace_takes_the_place_of_the_input_dimension() -> None:
    inside, outside = forecast(500, 100, 10, subspace_dim=10), forecast(500, 10, 10)
    assert (inside.unknowns, inside.ratio, inside.verdict) == (outside.unknowns, outside.ratio, outside.verdict)
    assert inside.ratio == 5
    assert forecast(500, 100, 10).verdict == "labels only"


def test_json_holds_plain_values_and_the_sentence() -> None:
    found = forecast(np.int64(500), 100, np.int32(10), subspace_dim=np.int64(10))  # type: ignore[arg-type]
    value: dict[str, Any] = json.loads(json.dumps(found.to_json()))
    assert value["sentence"] == found.sentence
    value.pop("sentence")
    assert Forecast(**value) == found


@given(SETTINGS, st.integers(1, 100), st.data())
def test_smallest_parameters_exceed_the_unknowns_and_one_feature_fewer_does_not(
    settings: dict[str, Any], num_samples: int, data: st.DataObject
) -> None:
    known = data.draw(st.integers(0, num_samples))
    fewest = smallest_parameters(num_samples=num_samples, known_samples=known, **settings)
    at = forecast(fewest, num_samples=num_samples, known_samples=known, **settings)
    assert at.smallest_parameters == fewest
    assert at.equations > at.unknowns
    assert at.equations - settings["num_outputs"] <= at.unknowns
    assert at.verdict in {"grey zone", "reconstructible"}


@given(SETTINGS, st.integers(1, 5000), st.integers(0, 10))
def test_largest_samples_is_the_last_count_with_more_equations_than_unknowns(
    settings: dict[str, Any], width: int, known: int
) -> None:
    p = width * settings["num_outputs"]

    def determined(num_samples: int) -> bool:
        return smallest_parameters(num_samples=num_samples, known_samples=known, **settings) <= p

    most = largest_samples(p, known_samples=known, **settings)
    if most:
        assert determined(most)
        assert not determined(most + 1)
        assert forecast(p, num_samples=most, known_samples=known, **settings).largest_samples == most
    else:
        assert not determined(max(known, 1))


@given(SETTINGS, st.integers(1, 100), st.integers(1, 2000))
def test_more_parameters_never_worsen_and_more_samples_never_improve(
    settings: dict[str, Any], num_samples: int, width: int
) -> None:
    order = ["not even labels", "labels only", "grey zone", "reconstructible"]
    k = settings["num_outputs"]
    here = forecast(width * k, num_samples=num_samples, **settings)
    wider = forecast((width + 1) * k, num_samples=num_samples, **settings)
    fuller = forecast(width * k, num_samples=num_samples + 1, **settings)
    assert order.index(fuller.verdict) <= order.index(here.verdict) <= order.index(wider.verdict)
    assert fuller.unknowns > here.unknowns
    assert fuller.smallest_parameters >= here.smallest_parameters
    assert wider.largest_samples >= here.largest_samples


@given(SETTINGS, st.integers(1, 100))
def test_comfortable_parameters_are_where_the_grey_zone_ends(settings: dict[str, Any], num_samples: int) -> None:
    k = settings["num_outputs"]
    comfortable = forecast(k, num_samples=num_samples, **settings).comfortable_parameters
    at = forecast(comfortable, num_samples=num_samples, **settings)
    assert at.verdict == "reconstructible"
    assert at.equations >= PRACTICAL_RATIO * at.unknowns
    assert forecast(comfortable - k, num_samples=num_samples, **settings).verdict != "reconstructible"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_parameters": 0}, "num_parameters is 0; valid"),
        ({"num_parameters": 12.5}, "num_parameters is 12.5"),
        ({"num_parameters": 1001, "num_outputs": 10}, "multiple of num_outputs"),
        ({"input_dim": -3}, "input_dim is -3"),
        ({"num_samples": True}, "num_samples is True"),
        ({"num_outputs": "2"}, "num_outputs is '2'"),
        ({"known_samples": -1}, "known_samples is -1"),
        ({"known_samples": 21}, "at most num_samples, which is 20"),
        ({"subspace_dim": 31}, "at most input_dim, which is 30"),
        ({"subspace_dim": 0}, "subspace_dim is 0"),
        ({"activation": "relux"}, "unknown activation"),
    ],
)
def test_errors_name_the_value_and_what_is_valid(changes: dict[str, Any], message: str) -> None:
    sizes: dict[str, Any] = {"num_parameters": 1000, "input_dim": 30, "num_samples": 20, **changes}
    with pytest.raises(InputError, match=message):
        forecast(**sizes)


def test_the_inverses_check_their_sizes_too() -> None:
    with pytest.raises(InputError, match="known_samples is 5"):
        smallest_parameters(30, 4, known_samples=5)
    with pytest.raises(InputError, match="multiple of num_outputs"):
        largest_samples(101, 30, num_outputs=2)
    assert largest_samples(30, 30) == 0
    assert largest_samples(31, 30) == 1
