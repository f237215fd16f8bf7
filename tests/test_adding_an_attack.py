"""The page on adding an attack is right: a copy of the source that follows it passes the contract of attacks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how_to" / "add_an_attack.md"


def blocks(language):
    """The code blocks of a language, without the indentation of a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The source and the contract, changed as the page says."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src" / "exhume", folder / "src" / "exhume", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "contracts").mkdir(parents=True)
    attack, *_ = blocks("python")
    parts, registered, row = blocks("py")
    own = folder / "src" / "exhume" / "attacks" / re.match(r"# (\w+\.py)\n", attack)[1]
    own.write_text(re.sub(r"^from exhume\.attacks import .*\n", lambda _: parts, attack, flags=re.MULTILINE))
    package = own.with_name("__init__.py")
    text = package.read_text().replace(
        "from exhume.attacks.subspace import", f"{registered}from exhume.attacks.subspace import"
    )
    name = re.search(r"import (\w+)", registered)[1]
    package.write_text(
        text.replace("for attack in (", f"for attack in ({name}, ", 1).replace(
            '"Attack",', f'"Attack",\n    "{name}",', 1
        )
    )
    contract = (ROOT / "tests" / "contracts" / "test_attacks.py").read_text()
    (folder / "tests" / "contracts" / "test_attacks.py").write_text(
        contract.replace("ATTACKS = {\n", f"ATTACKS = {{\n    {row}", 1)
    )
    return folder


def test_the_new_attack_passes_the_contract(copy):
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contracts/test_attacks.py"]
    done = subprocess.run(
        [*words, "-k", "signed_descent-random_features or every_attack_has_a_row"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= 10
