"""Options that every command has: -h, --quiet; completion of commands and options."""

import os
import subprocess
import sys

import pytest

from exhume import cli
from exhume.cli import render

RUN = "import sys; sys.argv[0] = 'exhume'; from exhume.__main__ import main; main()"


@pytest.mark.parametrize("words", [(), ("law",), ("train", "rf"), ("sweep", "run"), ("audit",)], ids=" ".join)
def test_h_shows_the_help(exhume_command, words):
    code, out, _ = exhume_command(*words, "-h")
    assert code == 0
    assert "Usage:" in out
    assert "-h, --help" in out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_can_be_quiet(name):
    command = cli.load_command(name)
    for each in getattr(command, "commands", {"": command}).values():
        assert any("--quiet" in option.opts for option in each.params)


def test_a_quiet_command_prints_its_result_and_nothing_else(small_run, exhume_command, monkeypatch):
    monkeypatch.setattr(render, "_PLAIN_EVERY", 0.0)
    words = ("attack", small_run, "--method", "descent", "--option", "max-steps=3")
    code, out, err = exhume_command(*words)
    assert (code, "step limit" in out) == (1, True)
    assert "descent: step" in err
    code, out, err = exhume_command(*words, "--quiet")
    assert (code, "step limit" in out, err) == (1, True, "")
    assert "descent: step" in exhume_command(*words)[2]  # it holds for one command


@pytest.mark.parametrize(
    ("words", "expected"), [("exhume at", ["attack"]), ("exhume audit --sar", ["--sarif"])], ids=["command", "option"]
)
def test_the_shell_completes_commands_and_options(words, expected):
    place = str(len(words.split()) - 1)
    asked = {"_EXHUME_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == expected
