"""Installs the wheel and the sdist of this folder into an empty environment, as a user would, and uses exhume there.

    python .ci/try_install.py            the newest versions that constraints.txt allows
    python .ci/try_install.py --lowest   the lowest versions that pyproject.toml allows, and some tests with them

Development tools are not installed. torch is installed first and alone, so that a build without CUDA is used where pip
finds one. It prints the size of the installation and the time to import exhume.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
GRID = "name: one\ndata: {name: sphere, dim: 8, samples: 2}\nvictim: rf\nratio: 5\nattack: exact\nseeds: 1\n"
TESTS = (
    "tests/test_law.py",
    "tests/contracts/test_attacks.py",
    "tests/sweep/test_sweep_export.py",
    "tests/cli/test_law_cost.py",
)


def run(*words, cwd=None):
    """Runs a command and ends with its output if it fails."""
    started = time.monotonic()
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    print(f"{time.monotonic() - started:6.1f} s  {' '.join(map(str, words))}", flush=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\nexit code {done.returncode}")
    return done.stdout


def lowest(requirements):
    """Every requirement with its lowest version: "torch>=2.13" becomes "torch==2.13"."""
    return [re.sub(r">=([\w.]+).*", r"==\1", each) for each in requirements]


def use(python, folder):
    """What a new user does first."""
    exhume = python.parent / "exhume"
    run(
        python,
        "-c",
        "import exhume; assert exhume.__version__; from exhume import Exact, audit, reconstruct",
        cwd=folder,
    )
    run(exhume, "--help", cwd=folder)
    assert "Recovered 20 of 20" in run(exhume, "demo", cwd=folder)
    run(exhume, "report", "demo", cwd=folder)
    typed = run(
        python, "-c", "import exhume, pathlib; print(pathlib.Path(exhume.__file__).with_name('py.typed').exists())"
    )
    assert typed.strip() == "True"


def check_extra_is_named(python, folder):
    """Without the extra `sweep` the commands that need it say so, in one line."""
    (folder / "grid.yaml").write_text(GRID)
    done = subprocess.run(
        [python.parent / "exhume", "sweep", "run", "grid.yaml"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'exhume[sweep]'" in done.stderr, done.stderr


def measure(python, environment):
    """Prints what an installation takes."""
    sizes = {
        each: sum(file.lstat().st_size for file in each.rglob("*"))
        for each in environment.glob("lib/*/site-packages/*")
    }
    torch = sum(size for each, size in sizes.items() if each.name.startswith("torch"))
    print(f"installed: {sum(sizes.values()) / 1e6:.0f} MB, of which torch and torchmetrics {torch / 1e6:.0f} MB")
    started = time.perf_counter()
    run(python, "-c", "import exhume")
    print(f"import exhume: {time.perf_counter() - started:.2f} s with the start of Python")


def main():
    """Builds both packages, installs and tries them."""
    at_lowest = "--lowest" in sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="try install ") as made:
        folder = Path(made)
        venv.create(folder / "env", with_pip=True)
        python = folder / "env" / "bin" / "python"
        run(python, *PIP, "build")
        source = folder / "source"
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        run(python, "-m", "build", "--outdir", folder / "dist", source)
        shutil.rmtree(folder / "env")
        venv.create(folder / "env", with_pip=True)
        (wheel,), (sdist,) = (list((folder / "dist").glob(f"*.{suffix}")) for suffix in ("whl", "tar.gz"))
        (work := folder / "work").mkdir()
        if at_lowest:
            needed = lowest([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["sweep"]])
            run(python, *PIP, *[each for each in needed if each.startswith("torch==")])
            run(python, *PIP, *needed, f"{wheel}[sweep]", "pytest", "hypothesis")
            use(python, work)
            run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, cwd=ROOT)
            return
        constraints = ("-c", ROOT / "constraints.txt")
        run(python, *PIP, *constraints, "torch")
        run(python, *PIP, *constraints, wheel)
        use(python, work)
        check_extra_is_named(python, work)
        measure(python, folder / "env")
        run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "exhume")
        shutil.rmtree(work / "demo")
        run(python, *PIP, *constraints, sdist)
        use(python, work)


if __name__ == "__main__":
    main()
