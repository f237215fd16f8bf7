"""Grids: their product, and what they refuse before anything runs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from exhume.errors import FileError, InputError
from exhume.sweep import Cell, Grid

SMALL = {"data": "sphere", "ratio": 2, "attack": "exact"}


def problem_of(**fields):
    with pytest.raises(InputError) as caught:
        Grid(**SMALL | fields)
    return str(caught.value)


def read(tmp_path, text):
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    return Grid.read(path)


def test_cells_are_the_product_with_seeds_outermost():
    grid = Grid(
        data=["digits", {"name": "sphere", "dim": 7}],
        victim=["rf", {"activation": "tanh"}, {"kind": "two-layer", "loss": "logistic"}],
        ratio=[1, 2.5],
        attack=["exact", {"method": "descent", "max_steps": 9}],
        seeds=2,
    )
    cells = grid.cells()
    assert len(cells) == grid.size == 2 * 3 * 2 * 2 * 2
    assert [cell.seed for cell in cells] == [0] * 24 + [1] * 24
    assert len({cell.key for cell in cells}) == 48
    assert cells[1].attack.options == {"max_steps": 9}
    assert [cell.victim.kind for cell in cells[:12:4]] == ["rf", "rf", "two-layer"]
    assert cells[47].to_json() == {
        "data": {"name": "sphere", "dim": 7},
        "victim": grid.victim[2].model_dump(mode="json", exclude_none=True),
        "ratio": 2.5,
        "attack": {"method": "descent", "max_steps": 9, "num_samples": "true", "knows": []},
        "seed": 1,
    }
    assert [cell.key for cell in grid.cells()] == [cell.key for cell in cells]


def test_repeats_are_left_out():
    assert len(Grid(**SMALL | {"ratio": [2, 2.0, 3], "seeds": [4, 4]}).cells()) == 2


def test_a_cell_read_back_has_the_same_key():
    for cell in Grid(**SMALL | {"seeds": 3}).cells():
        assert Cell.model_validate(cell.to_json()).key == cell.key


def test_the_key_of_a_cell_stays_what_it_was():
    """Stores identify cells by their keys: a changed key would mean computing the cell again."""
    victim = {"kind": "rf", "ridge": 1, "prune": 0.5}
    attack = {"method": "exact", "max_passes": 100, "knows": ["subspace"]}
    (cell,) = Grid(data={"name": "sphere", "dim": 7}, victim=victim, ratio=2, attack=attack).cells()
    assert cell.key == "0771b0c9f0d4227ae1ce"


@pytest.mark.parametrize("field", ["seed", "features"])
def test_truth_values_are_no_numbers_of_a_cell(field):
    with pytest.raises(ValidationError, match="Input should be a number"):
        Cell.model_validate({"data": {"name": "sphere"}, "attack": "exact", "features": 9, field: True})


def test_words_of_yaml_mean_what_they_say(tmp_path):
    start = "data: sphere\nratio: 2\nattack: "
    keys = {
        read(tmp_path, start + attack).cells()[0].key
        for attack in (
            '{method: exact, num_samples: "true", knows: [subspace]}',
            "{method: exact, num_samples: true, knows: [subspace]}",
            "{method: exact, knows: subspace}",
        )
    }
    assert len(keys) == 1
    assert read(tmp_path, start + "{method: exact, num_samples: 1}").attack[0].num_samples == 1


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=4),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
    st.lists(st.sampled_from(["exact", "descent", "kkt"]), min_size=1, max_size=3),
)
@settings(max_examples=30, deadline=None)
def test_every_combination_is_there_once(features, seeds, attacks):
    cells = Grid(data="sphere", features=features, attack=attacks, seeds=seeds).cells()
    found = {(cell.features, cell.seed, cell.attack.method) for cell in cells}
    assert len(cells) == len(found) == len(set(features)) * len(set(seeds)) * len(set(attacks))


def test_yaml_reads_numbers_as_people_write_them(tmp_path):
    text = """
        data: {name: sphere, dim: 12}
        ratio: [1e0, 2]
        attack: {method: descent, tolerance: 1e-6}
        seeds: [3, 5]
    """
    grid = read(tmp_path, text)
    assert grid.name == "sweep"
    assert grid.ratio == (1.0, 2.0)
    assert grid.attack[0].options == {"tolerance": 1e-6}
    assert {cell.seed for cell in grid.cells()} == {3, 5}


# A row for each way to be wrong: the fields, and words of the complaint: the place, the value and what is valid.
WRONG = [
    ({"ratio": -2}, ("ratio is -2", "greater than 0")),
    ({"ratio": [1, 0]}, ("ratio[1] is 0", "greater than 0")),
    ({"ratio": [1, True]}, ("ratio[1] is True", "a number")),
    ({"ratio": "2"}, ("ratio is '2'", "a number")),
    ({"ratio": float("inf")}, ("ratio is inf", "finite")),
    ({"ratio": []}, ("ratio is []", "at least one")),
    ({"ratio": None}, ("either features (p) or ratio",)),
    ({"features": 10}, ("either features (p) or ratio", "not both")),
    ({"ratio": None, "features": [3, 2.5]}, ("features[1] is 2.5", "whole number")),
    ({"data": "spheer"}, ("data", "'spheer'", "sphere", "digits", "cifar10")),
    ({"data": ["sphere", {"name": "sphere", "dims": 3}]}, ("data[1].dims", "dim, labels, samples")),
    ({"data": {"dim": 3}}, ("data.name is missing",)),
    ({"data": 3}, ("data is 3", "a name, or fields")),
    ({"victim": {"kind": "cnn"}}, ("victim.kind is 'cnn'", "'rf', 'two-layer', 'mlp', 'resnet', 'vit'")),
    ({"victim": ["rf", {"rigde": 1}]}, ("victim[1].rigde is unknown", "activation, loss, ridge")),
    ({"victim": {"ridge": -1}}, ("victim.ridge is -1", "greater than or equal to 0")),
    ({"victim": {"activation": "selu"}}, ("victim.activation", "'selu'", "relu", "tanh")),
    ({"victim": {"released": "int4"}}, ("victim.released is 'int4'", "'bfloat16'", "'int8'")),
    ({"victim": {"kind": "mlp", "loss": "hinge"}}, ("victim.loss is 'hinge'", "'cross-entropy'")),
    (
        {"victim": {"kind": "mlp", "settings": {"depths": 3}}},
        ("victim.settings.depths", "'depths'", "first_scale, hidden"),
    ),
    ({"attack": ["exact", "oracle"]}, ("attack[1]", "'oracle'", "descent, exact, greedy, kkt")),
    ({"attack": ["exact", {"method": "descent", "max_step": 5}]}, ("attack[1].max_step", "max_steps, momentum")),
    ({"attack": {"method": "descent", "max_steps": "few"}}, ("attack", "max_steps", "'few'", "whole number")),
    ({"attack": {"method": "exact", "num_samples": 0}}, ("attack.num_samples is 0", "'true'", "'estimate'")),
    ({"attack": {"method": "exact", "num_samples": False}}, ("attack.num_samples is False", "a number or 'true' or")),
    ({"attack": {"method": "exact", "max_passes": True}}, ("attack.max_passes is True", "a number")),
    ({"attack": {"method": "exact", "max_starts": True}}, ("attack: max_starts is True", "a number")),
    ({"victim": {"prune": True}}, ("victim.prune is True", "a number")),
    ({"victim": {"ridge": False}}, ("victim.ridge is False", "a number")),
    ({"victim": {"max_steps": True}}, ("victim.max_steps is True", "a number")),
    ({"victim": {"kind": "mlp", "step_size": True}}, ("victim.step_size is True", "a number")),
    ({"victim": {"kind": "mlp", "weight_decay": True}}, ("victim.weight_decay is True", "a number")),
    ({"attack": {"method": "exact", "knows": "all"}}, ("attack.knows is 'all'", "'subspace'")),
    ({"attack": {"method": "exact", "knows": ["all"]}}, ("attack.knows[0] is 'all'", "'subspace'")),
    ({"seeds": 0}, ("seeds is 0", "at least 1")),
    ({"seeds": [0, -1]}, ("seeds[1] is -1", "greater than or equal to 0")),
    ({"seeds": True}, ("seeds is True", "whole number")),
    ({"name": "../escape"}, ("name is '../escape'", "letters, digits")),
    ({"atack": "exact"}, ("atack is unknown", "data, victim, features, ratio, attack, seeds")),
    ({"ratio": list(range(1, 1001)), "seeds": 1000}, ("1,000,000 cells", "at most 100,000")),
]


@pytest.mark.parametrize(("fields", "words"), WRONG, ids=[str(fields)[:60] for fields, _ in WRONG])
def test_what_is_wrong_is_named_with_what_is_valid(fields, words):
    problem = problem_of(**fields)
    for word in words:
        assert word in problem
    assert "pydantic" not in problem
    assert len(problem.splitlines()) == 1


def test_everything_that_is_wrong_is_said_at_once():
    problem = problem_of(ratio=[-1, 2, -3], attack="oracle", seeds=0, colour="red")
    assert [line.split()[0] for line in problem.splitlines()] == ["ratio[0]", "ratio[2]", "attack:", "seeds", "colour"]


@given(
    st.dictionaries(
        st.sampled_from(["name", "data", "victim", "features", "ratio", "attack", "seeds", "more"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["rf"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
@settings(max_examples=100, deadline=None)
def test_nonsense_is_an_input_error_and_nothing_else(fields):
    with pytest.raises(InputError):
        Grid(**{"attack": "no attack"} | fields)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "it holds nothing"),
        ("- 1\n- 2", "it holds a list"),
        ("a: [1", "not readable YAML"),
        ("data: sphere\ndata: digits", "data is given twice"),
        ("data: {name: sphere, name: digits}", "name is given twice"),
        ("ratio: 2020-01-01", "ratio is datetime.date"),
        ("ratio: &a [*a]", "nested too deeply"),
        ("1: 2", "has a field 1"),
        ("data: !!python/object/apply:os.getcwd []", "not readable YAML"),
        ("\x00", "not readable YAML"),
        ("data: " + "[" * 1000, "nested too deeply"),
        ("data: " + "x" * 2_000_000, "has 2000006 bytes; at most 1048576 are read"),
        ("data: sphere\nattack: exact\nratio: none", "ratio is 'none'"),
    ],
)
def test_a_file_that_is_no_grid_is_refused(tmp_path, text, word):
    with pytest.raises((InputError, FileError), match="grid.yaml") as caught:
        read(tmp_path, text)
    assert word in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match="none.yaml does not exist"):
        Grid.read(tmp_path / "none.yaml")
