"""The law's counts against values worked out by hand, and its inverses against each other."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhume import activations
from exhume.errors import InputError
from exhume.law import ACTIVE_SHARE, HOMOGENEITY, PRACTICAL_RATIO, Forecast, forecast

SETTINGS = st.fixed_dictionaries(
    {
        "input_dim": st.integers(1, 200),
        "num_outputs": st.integers(1, 12),
        "activation": st.sampled_from(["relu", "abs", "tanh", "relu+tanh"]),
    }
)


def smallest_parameters(num_samples: int, known_samples: int, settings: dict[str, Any]) -> int:
    """The forecast's fewest parameters, which do not depend on how many it is asked about."""
    at = forecast(settings["num_outputs"], num_samples=num_samples, known_samples=known_samples, **settings)
    return at.smallest_parameters


def test_the_table_of_homogeneities_is_that_of_the_built_in_activations() -> None:
    assert {name: each.homogeneity for name, each in activations._BUILT_IN.items()} == HOMOGENEITY


def test_the_table_of_active_shares_is_that_of_the_slopes_of_built_in_activations() -> None:
    assert {name: each.active_share for name, each in activations._BUILT_IN.items()} == (
        dict.fromkeys(HOMOGENEITY, 1.0) | ACTIVE_SHARE
    )


def test_an_activation_of_the_users_own_counts_by_what_it_declares() -> None:
    cube = activations.Activation("cube", lambda z: z**3, lambda z: 3 * z**2, parity="odd", homogeneity=3)
    assert (forecast(700, 30, 20, activation=cube).unknowns, forecast(700, 30, 20, activation="erf").unknowns) == (
        600,
        620,
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
    last = forecast(60, 30, 20, known_samples=19)  # the informed adversary at p = 2d: half of the features are active
    assert (last.unknowns, last.equations, last.equations_per_sample) == (30, 41, 30)
    assert (last.verdict, last.binding, last.smallest_parameters) == ("labels only", "per sample", 61)
    smooth = forecast(60, 30, 20, activation="tanh", norms_known=True, known_samples=19)
    assert (smooth.verdict, smooth.binding, smooth.smallest_parameters) == ("grey zone", "together", 50)


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
    fewest, k = smallest_parameters(num_samples, known, settings), settings["num_outputs"]
    at = forecast(fewest, num_samples=num_samples, known_samples=known, **settings)
    assert at.smallest_parameters == fewest
    assert at.equations > at.unknowns
    assert at.verdict in {"grey zone", "reconstructible"}
    less = forecast(max(fewest - k, k), num_samples=num_samples, known_samples=known, **settings)
    if at.binding == "together":
        assert at.equations - k <= at.unknowns
    else:
        assert at.equations_per_sample > at.unknowns_per_sample  # type: ignore[operator]
        assert less.equations_per_sample <= less.unknowns_per_sample  # type: ignore[operator]
    assert less.verdict in {"not even labels", "labels only"}


@given(SETTINGS, st.integers(1, 5000), st.integers(0, 10))
def test_largest_samples_is_the_last_count_with_more_equations_than_unknowns(
    settings: dict[str, Any], width: int, known: int
) -> None:
    p = width * settings["num_outputs"]

    def determined(num_samples: int) -> bool:
        return smallest_parameters(num_samples, known, settings) <= p

    most = forecast(p, num_samples=max(known, 1), known_samples=known, **settings).largest_samples
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


def test_one_sample_is_determined_by_more_active_features_than_it_has_numbers() -> None:
    assert [forecast(p, 30, 1, activation="abs").largest_samples for p in (30, 31)] == [0, 1]
    assert [forecast(p, 30, 1).largest_samples for p in (60, 61)] == [0, 1]  # relu: half of them are active


def test_relu_with_as_many_outputs_as_samples_needs_more_than_2d_features_whatever_the_count_of_all() -> None:
    found = forecast(9600, 768, 10, num_outputs=10)
    assert found.equations > found.unknowns
    assert (found.verdict, found.binding, found.unknowns_per_sample) == ("labels only", "per sample", 768)
    assert 2 * 768 * 10 < found.smallest_parameters < 1.1 * 2 * 768 * 10
    assert "each sample is active on about 480 of the 960 features" in found.sentence
    assert f"it takes at least {found.smallest_parameters:,} parameters" in found.sentence
    assert found.margin == found.equations_per_sample / 768  # type: ignore[operator]
    smooth = forecast(9600, 768, 10, num_outputs=10, activation="gelu")
    assert (smooth.verdict, smooth.binding, smooth.smallest_parameters) == ("grey zone", "together", 7790)


@pytest.mark.parametrize(
    ("outputs", "samples", "measured"),
    # Smallest h at which the Jacobian has full rank (d = 20, medians of draws).
    [(1, 1, 38), (1, 3, 68), (2, 4, 48), (2, 8, 84), (5, 3, 46), (5, 5, 50), (5, 10, 52), (12, 12, 53), (5, 20, 96)],
)
def test_the_fewest_features_of_relu_are_near_ranks_of_jacobians(outputs: int, samples: int, measured: int) -> None:
    features = forecast(outputs, 20, samples, num_outputs=outputs).smallest_parameters // outputs
    assert abs(features - measured) <= 4


def test_outputs_beyond_the_number_of_samples_add_no_equations_for_the_samples() -> None:
    alone = forecast(2 * 10_000, 50, 2, num_outputs=2, activation="gelu")
    many = forecast(9 * 10_000, 50, 2, num_outputs=9, activation="gelu")
    assert alone.smallest_parameters / 2 == many.smallest_parameters / 9 == 50 + 2 + 1
    assert many.binding == "per sample"
    assert "2 samples show in 2 combinations of the 9 outputs only" in many.sentence


def test_the_active_share_can_be_given_and_is_that_of_an_activation_of_the_users_own() -> None:
    halved = activations.Activation("halved", lambda z: z.relu() ** 2, lambda z: 2 * z.relu(), "none", homogeneity=2)
    assert forecast(9600, 768, 10, num_outputs=10, activation=halved).verdict == "labels only"
    assert forecast(9600, 768, 10, num_outputs=10, active_share=1.0).verdict == "grey zone"
    with pytest.raises(InputError, match="active_share is 0"):
        forecast(9600, 768, 10, active_share=0)
