"""The command line starts quickly: it lists its commands and makes forecasts without loading torch."""

import subprocess
import sys

import pytest

import exhume
from exhume import cli

HEAVY = {"torch", "scipy", "sklearn", "matplotlib", "pandas", "dask"}
# typer converts values with it; importing it takes longer than the rest of a forecast.
CONVERTER = "pydantic"
RUN = "from exhume.cli import main; sys.argv[0] = 'exhume'; main()"
FORECAST = ("law", "--parameters", "3e6", "--dim", "3072", "--samples", "100")


def loaded_by(code, *words):
    """Which heavy packages a fresh interpreter has loaded after the code, and what the code printed."""
    seen = f"{HEAVY | {CONVERTER}} & sys.modules.keys()"
    ending = f"atexit.register(lambda: print('loaded:', *({seen}), file=sys.stderr))"
    code = f"import atexit, sys; {ending}; {code}"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.partition("loaded:")[2].split(), done.stdout


@pytest.mark.parametrize(
    "words",
    [("--version",), ("--help",), FORECAST, *((name, "--help") for name in cli.COMMANDS), ("train", "vit", "--help")],
    ids=" ".join,
)
def test_no_heavy_package_is_loaded_for(words):
    loaded, printed = loaded_by(RUN, *words)
    assert set(loaded) <= {CONVERTER}
    assert printed


@pytest.mark.parametrize("words", [("--version",), ("--help",), FORECAST], ids=" ".join)
def test_nothing_is_loaded_to_convert_options_for(words):
    assert loaded_by(RUN, *words)[0] == []


def test_a_forecast_in_python_loads_no_heavy_package():
    code = "import exhume; print(exhume.forecast(3_000_000, 3072, 100, activation='tanh').unknowns)"
    assert loaded_by(code) == ([], "307300\n")


def test_a_loaded_package_is_seen():
    assert loaded_by("import exhume; exhume.Activation")[0] == ["torch"]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_list_of_commands_shows_the_first_sentence_of_each_command(name):
    assert cli.load_command(name).help.partition("\n")[0] == cli.COMMANDS[name]


def test_the_version_is_printed(exhume_command):
    assert exhume_command("--version") == (0, f"exhume {exhume.__version__}\n", "")


def test_a_misspelt_command_is_refused_with_a_suggestion(exhume_command):
    code, _, err = exhume_command("atack", "runs/a")
    assert code == 2
    assert "No such command 'atack'. Did you mean 'attack'" in err
