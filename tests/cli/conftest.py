"""Running the command line inside the test process."""

import json

import pytest

from exhume import cli


@pytest.fixture
def exhume_command(monkeypatch, capsys):
    """Runs `exhume <words>`; returns (exit code, standard output, standard error)."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["exhume", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


@pytest.fixture
def exhume_json(exhume_command):
    """Runs `exhume <words> --json`; returns (exit code, the one object on standard output)."""

    def run(*words):
        code, out, err = exhume_command(*words, "--json")
        assert out, err
        return code, json.loads(out)

    return run


@pytest.fixture
def small_run(exhume_command, tmp_path):
    """A run folder with a tiny victim."""
    folder = tmp_path / "run"
    code, _, err = exhume_command(
        "train", "rf", "--data", "sphere", "--dim", 20, "--samples", 2, "--ratio", 60, "--out", folder
    )
    assert code == 0, err
    return folder
