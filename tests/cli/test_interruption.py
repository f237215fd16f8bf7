"""Ctrl-C at any moment: one line that says what was saved and how to go on, exit code 130, no traceback."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exhume.cli import attack as attack_command
from exhume.cli import interruption
from exhume.support import checkpoint as checkpoints

sys.path.append(str(Path(__file__).parents[1] / "auditing"))
from auditing_models import write_probe


@pytest.fixture
def interrupt_after(monkeypatch):
    """Raises KeyboardInterrupt at the given step of an attack; until then a checkpoint is saved at every step."""
    from exhume.attacks._base.session import Session

    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)

    def at(step):
        spent = Session.budget_spent

        def budget_spent(self):
            if self.steps >= step:
                monkeypatch.setattr(Session, "budget_spent", spent)
                monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 60.0)  # saving takes longer than the steps
                raise KeyboardInterrupt
            return spent(self)

        monkeypatch.setattr(Session, "budget_spent", budget_spent)

    return at


def test_an_attack_names_its_checkpoint_and_the_command_that_goes_on(small_run, exhume_command, interrupt_after):
    interrupt_after(2)
    code, out, err = exhume_command("attack", small_run, "--method", "exact")
    assert (code, out) == (interruption.EXIT_CODE, "")
    (line,) = err.splitlines()
    assert line.startswith("interrupted: the state of ")
    assert f"is in {small_run / 'exact' / 'checkpoint.safetensors'}; to go on from it: exhume attack" in line
    words = shlex.split(line.partition("from it: ")[2])[1:]
    assert words[-1] == "--resume"
    code, out, err = exhume_command(*words)
    assert code == 0, err
    assert "verdict exact" in out


def test_a_checkpoint_of_an_earlier_run_is_not_claimed(small_run, exhume_command, monkeypatch):
    old = small_run / "exact" / "checkpoint.safetensors"
    old.parent.mkdir()
    old.write_bytes(b"")
    os.utime(old, (1e9, 1e9))

    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(attack_command, "run_attack", interrupted)
    code, _, err = exhume_command("attack", small_run)
    assert (code, err) == (interruption.EXIT_CODE, f"interrupted: {interruption.NOTHING}\n")


def test_an_interrupted_audit_goes_on_when_it_is_run_again(tmp_path, monkeypatch, exhume_command, interrupt_after):
    write_probe(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["audit", "--model", "mymodel.py:build", "--weights", "after.safetensors", "--initial", "zero"]
    words += ["--input-shape", "12", "--num-samples", "3"]
    interrupt_after(2)
    code, out, err = exhume_command(*words)
    assert (code, out) == (interruption.EXIT_CODE, "")
    assert err.splitlines()[-1].startswith("interrupted: the state of ")
    assert err.rstrip().endswith(f"to go on from it: exhume {shlex.join(words)}")
    assert not Path("audit").exists()
    code, _, err = exhume_command(*words)
    assert code in (0, 3), err
    assert Path("audit/report.html").exists()


def test_a_command_that_is_interrupted_while_it_loads_says_that_nothing_was_saved(exhume_command, monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("exhume.cli.load_command", interrupted)
    code, out, err = exhume_command("attack", "runs/a")
    assert (code, out, err) == (interruption.EXIT_CODE, "", f"interrupted: {interruption.NOTHING}\n")


@pytest.mark.parametrize("moment", ["exhume.cli", "torch"])
def test_a_real_signal_during_an_import_leaves_no_traceback(moment, tmp_path):
    """The process interrupts itself when it begins to import a module."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {moment!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from exhume.__main__ import main\n"
        "sys.argv = ['exhume', 'attack', 'none']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == interruption.EXIT_CODE
    assert done.stderr.startswith("interrupted: nothing was saved")
    assert len(done.stderr.splitlines()) == 1


def test_a_second_ctrl_c_does_not_cut_the_sentence(capsys, monkeypatch):
    import typer

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(typer.Exit):
        interruption.end("half a sentence")
    assert signal.getsignal(signal.SIGINT) == before
    assert capsys.readouterr().err == "interrupted: half a sentence\n"


def test_the_state_is_named_with_its_age(tmp_path, capsys, monkeypatch):
    import typer

    monkeypatch.setattr(sys, "argv", ["exhume", "train", "vit", "--resume"])
    saved = tmp_path / "training.safetensors"
    saved.write_bytes(b"")
    os.utime(saved, (time.time() - 300, time.time() - 300))
    with pytest.raises(typer.Exit), interruption.interruptible(lambda: [saved], "--resume"):
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert said == f"interrupted: the state of 5 min ago is in {saved}; to go on from it: exhume train vit --resume\n"
