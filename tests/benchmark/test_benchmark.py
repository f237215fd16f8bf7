"""The benchmark: victims are what their hashes say, results are ranked and kept, and anybody's attack can enter."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exhume.attacks import build
from exhume.benchmark import VICTIMS, Row, chosen_victims, load_attack, ranked, run_benchmark
from exhume.benchmark.page import describe, report_of
from exhume.errors import DataError, FileError, InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_attack.py"
BROKEN = """
from dataclasses import dataclass
from typing import ClassVar
from exhume.attacks import Attack

@dataclass(frozen=True)
class Broken(Attack):
    name: ClassVar[str] = "broken"

    def run(self, problem, session):
        raise RuntimeError("it broke")

class NotAnAttack:
    name = "other"

class Exact(Attack):
    name: ClassVar[str] = "exact"

    def run(self, problem, session):
        raise NotImplementedError
"""


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    return path


@pytest.mark.parametrize("name", [victim.name for victim in VICTIMS.values() if victim.quick])
def test_a_victim_starts_from_what_its_hash_says(name):
    made = VICTIMS[name].build()  # raises if not
    assert made.target.knowledge.count == made.dataset.num_samples


def test_a_victim_of_a_published_attack_brings_its_settings():
    fitted = VICTIMS["margin-sphere"].fitted(build("kkt"))
    assert (fitted.parameters, fitted.max_steps) == ("first", 2900)
    assert VICTIMS["margin-sphere"].fitted(build("exact")) == build("exact")
    assert VICTIMS["law-sphere"].fitted(build("kkt")) == build("kkt")


def test_a_victim_that_starts_from_something_else_is_refused():
    with pytest.raises(DataError, match=r"law-gelu v1 starts from .* of hash [0-9a-f]{16}; valid: 0000"):
        replace(VICTIMS["law-gelu"], hash="0000").build()


def test_attacks_are_run_ranked_and_not_run_again(tmp_path, broken, monkeypatch):
    victims = chosen_victims(["law-gelu"])
    attacks = [build("descent", {"max_steps": 20}), load_attack(f"{broken}:Broken"), build("exact"), build("unmix")]
    found = run_benchmark(tmp_path / "out", victims, attacks, max_passes=2000)
    rows = {row.attack: row for row in found.rows}
    assert [row.attack for row in found.rows][:2] == ["exact", "descent"]
    assert (rows["exact"].recovered, rows["exact"].certified, rows["exact"].wrongly_certified) == (5, 5, 0)
    assert (rows["exact"].rank, rows["descent"].rank) == (1, 2)
    assert rows["broken"].reason == "ended with RuntimeError: it broke"
    assert rows["unmix"].reason.startswith("refused: ")
    assert rows["broken"].rank == rows["unmix"].rank == 3
    assert "it broke" in next((tmp_path / "out").rglob("traceback.txt")).read_text()
    monkeypatch.setattr("exhume.attacks._base.attack.Attack.__call__", lambda *_, **__: pytest.fail("ran again"))
    again = run_benchmark(tmp_path / "out", victims, attacks, max_passes=2000)
    assert again.to_json() == found.to_json()
    text = describe(found)
    assert "broken did not run on law-gelu v1: ended with RuntimeError" in text
    assert "mean rank: exact 1, descent 2" in text
    report = report_of(found, victims)
    assert report.verdict.headline == "exact has the best mean rank of 4 attacks."
    assert {table.title for table in report.tables} == {"Attacks", "Results", "Victims"}


def test_an_attack_that_changed_is_run_again(tmp_path, broken):
    victims = chosen_victims(["law-gelu"])
    first = run_benchmark(tmp_path / "out", victims, [load_attack(f"{broken}:Broken")], max_passes=100)
    broken.write_text(BROKEN.replace("it broke", "it broke otherwise"))
    second = run_benchmark(tmp_path / "out", victims, [load_attack(f"{broken}:Broken")], max_passes=100)
    assert (first.rows[0].reason, second.rows[0].reason) != (first.rows[0].reason,) * 2


def test_ranks_count_samples_then_the_verdict_then_passes():
    def row(attack, recovered, verdict, passes):
        return Row("v", attack, "", recovered, 10, 0.1, 0, 0, passes, 1.0, verdict)

    rows = [
        row("nothing", 0, "failed", 1),
        row("slow", 10, "exact", 200),
        row("fast", 10, "exact", 100),
        row("vague", 10, "approximate", 1),
        row("few", 9, "exact", 1),
        row("nothing too", 0, "failed", 99),
        Row("v", "refused", "too small"),
    ]
    found = {each.attack: each.rank for each in ranked(rows)}
    assert found == {"fast": 1, "slow": 2, "vague": 3, "few": 4, "nothing": 5, "nothing too": 5, "refused": 6}


def test_the_command_runs_the_attack_of_the_example_and_writes_a_page(exhume_json, tmp_path):
    words = ("benchmark", "--victims", "law-gelu", "--attacks", "exact", "--budget-passes", 500)
    code, value = exhume_json(*words, "--attack", f"{EXAMPLE}:RandomRestarts", "--out", tmp_path / "b")
    assert code == 0
    assert {row["attack"] for row in value["rows"]} == {"exact", "random_restarts"}
    assert list(value["ranks"]) == ["exact", "random_restarts"]
    assert json.loads((tmp_path / "b" / "results.json").read_text())["rows"] == value["rows"]
    page = (tmp_path / "b" / "report.html").read_text()
    assert "random_restarts" in page
    assert VICTIMS["law-gelu"].hash in page


def test_the_command_lists_victims(exhume_json):
    _, value = exhume_json("benchmark", "--list")
    assert {each["name"] for each in value["victims"]} == set(VICTIMS)
    _, quick = exhume_json("benchmark", "--list", "--quick")
    assert {each["name"] for each in quick["victims"]} == {each.name for each in VICTIMS.values() if each.quick}


def test_mistakes_in_naming_an_attack_are_explained(broken, tmp_path):
    for place, error, words in (
        ("broken", InputError, "not of the form FILE.py:CLASS"),
        (f"{tmp_path}/none.py:Mine", FileError, "none.py does not exist"),
        (f"{broken}:NotAnAttack", InputError, "has no subclass of exhume.attacks.Attack with the name NotAnAttack"),
        (f"{broken}:Exact", InputError, "is an attack of exhume; valid: another name"),
    ):
        with pytest.raises(error, match=words):
            load_attack(place)
    broken.write_text("1 / 0")
    with pytest.raises(FileError, match="cannot be run: ZeroDivisionError"):
        load_attack(f"{broken}:Broken")


def test_unknown_victims_and_attacks_are_listed(exhume_command):
    code, _, err = exhume_command("benchmark", "--victims", "nobody")
    assert (code, "unknown victim of the benchmark 'nobody'; valid: law-digits" in err) == (2, True)
    code, _, err = exhume_command("benchmark", "--attacks", "exact,exact")
    assert (code, "two attacks are named 'exact'" in err) == (2, True)
