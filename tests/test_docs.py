"""The documentation is true: its Python examples run, and so do its commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from exhume import cli

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def file_of(block):
    """The name of the file that a block is, if its first line is a comment that says so."""
    named = re.fullmatch(r"# (\w[\w-]*\.(?:py|yaml))", block.splitlines()[0])
    return named.group(1) if named else None


def examples_of(page):
    return [block for block in blocks(page, "python") if file_of(block) is None]


EXAMPLES = [(page, index) for page in PAGES for index in range(len(examples_of(page)))]


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(("page", "index"), EXAMPLES, ids=lambda value: getattr(value, "name", value))
def test_python_examples_run(page, index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(examples_of(page)[index], str(page), "exec"), names)  # its own asserts are part of the test
    assert "result" in names  # it went through to the end


def commands_of(page):
    """The words of every command of exhume or Python, and the exit code that the page says it has."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    told = [line for line in lines if re.match(r"exhume |python \w+\.py", line)]
    return [(shlex.split(line, comments=True), int("# exits with 1" in line)) for line in told]


def run_command(words, monkeypatch, capsys):
    """The exit code and what was printed; commands of exhume run in this process, which has it loaded."""
    if words[0] == "python":
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0, capsys.readouterr()


def test_the_readme_has_commands_and_the_first_of_them_runs_in_a_process_of_its_own(tmp_path):
    commands = commands_of(README)
    assert len(commands) >= 4
    words = [sys.executable, "-c", "from exhume.cli import main; main()", *commands[0][0][1:]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.name)
def test_commands_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "yaml") + blocks(page, "python"):
        if name := file_of(block):
            (tmp_path / name).write_text(block)
    for words, expected in commands_of(page):
        code, told = run_command(words, monkeypatch, capsys)
        assert code == expected, f"{words}\n{told}"


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_bench_named_in_the_documentation_exists():
    for page in PAGES:
        for name in re.findall(r"python -m benches (\w+)", page.read_text()):
            assert (ROOT / "benches" / f"{name}.py").exists(), f"{page.name} -> {name}"


def test_a_grid_in_the_documentation_has_at_most_ten_lines():
    (grid,) = blocks(ROOT / "docs" / "sweeps.md", "yaml")
    assert len(grid.splitlines()) <= 10
