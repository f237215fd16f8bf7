"""The Python examples and the commands of the documentation run."""

import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from exhume import cli

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "exhume"
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(autouse=True)
def quick_probe(monkeypatch):
    """Speeds of this machine are measured on a small matrix: nobody reads them here."""
    monkeypatch.setattr("exhume.planning.hardware._ENTRIES", 2**20)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def file_of(block):
    """The file name in the first line of a block, if that line is a comment with a file name."""
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
    assert "result" in names  # the example ran to its end


def commands_of(page):
    """Every exhume or Python command of a page as a list of words, and its documented exit code."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    commands = [line for line in lines if re.match(r"exhume |python \w+\.py", line)]
    return [(shlex.split(line, comments=True), int("# exits with 1" in line)) for line in commands]


def run_command(words, monkeypatch, capsys):
    """The exit code and the output; exhume commands run in this process, which has loaded it already."""
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
        code, output = run_command(words, monkeypatch, capsys)
        assert code == expected, f"{words}\n{output}"


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_dotted_name_in_the_documentation_can_be_imported():
    for page in PAGES:
        for name in re.findall(r"`(exhume(?:\.\w+)+)", page.read_text()):
            pkgutil.resolve_name(name)


def test_every_source_file_named_in_the_documentation_exists():
    for page in PAGES:
        for name in re.findall(r"`(?:src/exhume/)?([\w/]+/\w+\.py)`", page.read_text()):
            assert any((folder / name).exists() for folder in (ROOT, PACKAGE)), f"{page.name} -> {name}"


def test_every_bench_named_in_the_documentation_exists():
    for page in PAGES:
        for name in re.findall(r"python -m benches (\w+)", page.read_text()):
            assert (ROOT / "benches" / f"{name}.py").exists(), f"{page.name} -> {name}"


def test_a_grid_in_the_documentation_has_at_most_ten_lines():
    (grid,) = blocks(ROOT / "docs" / "how_to" / "sweeps.md", "yaml")
    assert len(grid.splitlines()) <= 10


def test_every_page_is_in_the_navigation_of_the_site_and_every_entry_is_a_page():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": ([\w/]+\.md)$", navigation, flags=re.MULTILINE)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages), "add the page to the nav of mkdocs.yml"


def test_styles_and_scripts_of_the_site_are_in_the_repository():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    names = [each for line in re.findall(r"(?:extra_css|polyfills): \[(.*)\]", settings) for each in line.split(", ")]
    assert len(names) == 2
    assert all((ROOT / "docs" / name).is_file() for name in names)
