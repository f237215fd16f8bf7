"""`exhume law --cost`: plans, stated hardware, and options that exclude each other."""

import pytest

from exhume.planning import GPU, Hardware, plan
from exhume.planning.passes import Attacked, law_of_passes

SIZES = ("--parameters", "3e6", "--dim", 3072, "--samples", 100)
STATED = ("--flops", "20e12", "--bandwidth", "1.5e12", "--memory", "80GB")
READ = Attacked(3072, 100).coordinates_read(3_000_000, 307_200)
BOX = Hardware("this machine (2 cores)", flops=9e10, bandwidth=1e10, memory=32 * 10**9, drawing=8e7, cores=2)


@pytest.fixture
def no_probe(monkeypatch):
    """This machine without measuring it; returns what the probe was asked for."""
    asked = []

    def probe(*arguments):
        asked.append(arguments)
        return BOX

    monkeypatch.setattr(Hardware, "probe", probe)
    return asked


def test_this_machine_is_measured_at_the_sizes_of_the_problem(exhume_command, no_probe):
    code, out, err = exhume_command("law", "--cost", *SIZES)
    assert (code, err) == (0, "")
    assert no_probe == [((100,), 3072, READ)]
    for told in (
        "Reconstructible: 3,000,000 parameters",
        "minutes on this machine (2 cores).",
        f"passes over {READ:,} of the 3,000,000 coordinates",
        f"V is kept in memory ({4 * 3072 * READ / 1e9:.3g} GB in float32",
        f"--memory-budget {-(-4 * 3072 * READ // 10**8)}00MB",
        "90 Gflop/s in products with 100 samples",
        "32 GB of memory per process",
    ):
        assert told in out


def test_json_is_the_plan(exhume_json, no_probe):
    code, value = exhume_json("law", "--cost", *SIZES)
    assert code == 0
    assert set(value) == {"sentence", "law", "cost", "hardware"}
    assert value["cost"]["coordinates"] == READ
    assert value["cost"]["regime"] == "kept"
    assert value["hardware"]["name"] == BOX.name


def test_memory_alone_limits_this_machine(exhume_json, no_probe):
    _, value = exhume_json("law", "--cost", *SIZES, "--memory", "6GB")
    assert value["hardware"]["memory"] == 6 * 10**9
    assert value["hardware"]["flops"] == BOX.flops
    assert value["cost"]["regime"] == "regenerated"


def test_stated_hardware_is_not_measured(exhume_json, exhume_command, no_probe):
    stated = (*STATED, "--processes", 64, "--network", "25e9", "--drawing", "5e8")
    code, value = exhume_json("law", "--cost", *SIZES, *stated)
    assert (code, no_probe) == (0, [])
    hardware = value["hardware"]
    assert [hardware[name] for name in ("flops", "bandwidth", "memory", "processes", "network", "drawing")] == [
        20e12, 1.5e12, 80 * 10**9, 64, 25e9, 5e8,
    ]  # fmt: skip
    _, out, _ = exhume_command("law", "--cost", *SIZES, *stated)
    assert "the stated hardware (64 processes)" in out
    assert "25 GB/s over the network" in out


def test_several_outputs_count_for_the_law(exhume_json):
    sizes = ("--parameters", "1228800", "--dim", 3072, "--samples", 100, "--outputs", 10)
    _, value = exhume_json("law", "--cost", *sizes, *STATED)
    assert value["cost"]["width"] == 122_880
    assert value["law"]["num_outputs"] == 10
    assert value["cost"]["coordinates"] == 122_880  # all are read


def test_passes_of_several_outputs_say_how_little_they_rest_on(exhume_command):
    sizes = ("--parameters", "1228800", "--dim", 3000, "--samples", 100, "--outputs", 10)
    _, out, _ = exhume_command("law", "--cost", *sizes, *STATED)
    assert "measured in 2 attacks only: take them as an order of magnitude" in out
    assert "n = 10 to 100, d = 3,072 and p/dn = 4." in out


def test_the_budget_is_told_where_the_default_would_not_do(exhume_command):
    def told(memory, *sizes):
        return exhume_command("law", "--cost", *sizes, *STATED[:4], "--memory", memory)[1]

    small = ("--parameters", "1e6", "--dim", 3072, "--samples", 20)  # V of 2.26 GB is kept
    assert "V is kept in memory" in told("80GB", *small)
    assert "--memory-budget" not in told("80GB", *small)
    planned = plan(3_000_000, 3072, 100, hardware=Hardware("", flops=20e12, bandwidth=1.5e12, memory="8GB")).cost
    assert 0 < planned.budget < planned.matrix_bytes
    assert f"--memory-budget {planned.budget // 10**8}00MB" in told("8GB", *SIZES)
    subsets = ("--parameters", "15e6", "--dim", 1000, "--samples", 1000)  # no basis: all of V is generated again
    least = plan(15_000_000, 1000, 1000, hardware=GPU).cost.memory_regenerated
    assert "and is generated again in every pass" in told(f"{least + 5 * 10**9}", *subsets)
    assert "--memory-budget" not in told(f"{least + 5 * 10**9}", *subsets)  # so does the default
    assert "--memory-budget 1300MB" in told(f"{least + 1_350_000_000}", *subsets)


def test_few_equations_are_a_warning(exhume_command):
    for parameters, warned in (("4e5", True), ("5e5", False)):
        _, out, _ = exhume_command("law", "--cost", "--parameters", parameters, *SIZES[2:], *STATED)
        assert out.startswith("Grey zone")
        assert ("Below 1.5 equations per unknown the attack often fails" in out) == warned


def test_an_assumed_speed_of_drawing_is_marked(exhume_command):
    assert "per second (assumed; state it by --drawing)" in exhume_command("law", "--cost", *SIZES, *STATED)[1]
    assert "assumed" not in exhume_command("law", "--cost", *SIZES, *STATED, "--drawing", "2e9")[1]


def test_the_page_says_what_v_and_a_pass_are(exhume_command):
    _, out, _ = exhume_command("law", "--cost", *SIZES[:4], "--samples", 1, *STATED)
    assert out.splitlines()[-2].startswith("V: the random first layer")
    assert out.splitlines()[-1] == "A pass: V applied once to all n samples."
    assert "1 samples" not in out


def test_the_largest_sizes_are_planned(exhume_command):
    sizes = ("--parameters", "1e18", "--dim", "1e8", "--samples", "1e8")
    assert exhume_command("law", "--cost", *sizes, *STATED)[0] == 0


def test_too_few_parameters_have_no_cost(exhume_command, exhume_json):
    words = ("law", "--cost", "--parameters", 5120, "--dim", 3072, "--samples", 100, "--outputs", 10, *STATED)
    code, out, _ = exhume_command(*words)
    assert code == 0
    assert out.splitlines()[0].startswith("Labels only: 5,120 parameters")
    assert out.splitlines()[1].startswith("Out of reach on any hardware")
    assert exhume_json(*words)[1]["cost"] is None


def test_what_does_not_fit_says_so(exhume_command):
    sizes = ("--parameters", "30e6", "--dim", 3072, "--samples", 1000)
    _, out, _ = exhume_command("law", "--cost", *sizes, *STATED)
    assert "Does not fit the stated hardware: a process needs" in out
    (fewest, most), _, _ = law_of_passes(1).ranges
    assert f"extrapolated: measured were n = {fewest} to {most}" in out
    assert "per pass:" not in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cost", "--verify"), "--verify does not take --cost; valid: --seed"),
        (
            ("--cost", *SIZES, "--seed", 1),
            "--cost does not take --seed (--seed belongs to --verify); valid: --parameters, --dim",
        ),
        (("--cost", "--dim", 3, "--samples", 4), "missing --parameters; valid: --parameters, --dim, --samples, each"),
        (
            (*SIZES, "--flops", "1e12", "--memory", "1GB"),
            "a forecast does not take --flops, --memory (--flops belongs to --cost); valid: --parameters",
        ),
        (("--cost",), "missing --parameters, --dim, --samples; valid"),
        (
            ("--cost", *SIZES, "--known-samples", 3, "--norms-known"),
            "--cost does not take --known-samples, --norms-known (--known-samples belongs to a forecast)",
        ),
        (("--verify", "--outputs", 3, "--activation", "abs"), "--verify does not take --outputs, --activation"),
        (("--verify", "--norms-known"), "--verify does not take --norms-known"),
        (("--cost", "--parameters", "1e300", *SIZES[2:]), "--parameters is 1e300; valid: at most 1e18"),
        (("--cost", *SIZES[:3], "1e140", *SIZES[4:]), "--dim is 1e140; valid: at most 1e18"),
        (("--cost", *SIZES[:3], "3072.5", *SIZES[4:]), "--dim '3072.5' is not a whole number"),
        (("--cost", "--parameters", "0", *SIZES[2:]), "--parameters is 0; valid: a whole number of at least 1"),
        (("--cost", *SIZES, "--flops", "1e12"), "--flops without --bandwidth, --memory"),
        (("--cost", *SIZES, "--processes", 8), "--processes without --flops, --bandwidth, --memory, --network"),
        (("--cost", *SIZES, *STATED, "--processes", 8), "without --network"),
        (("--cost", *SIZES, *STATED, "--processes", 0), "--processes is 0; valid"),
        (("--cost", *SIZES, *STATED, "--processes", "1.5"), "--processes '1.5' is not a whole number"),
        (("--cost", *SIZES, *STATED, "--processes", "many"), "'many' is not a whole number"),
        (("--cost", *SIZES, *STATED, "--network", "fast"), "--network is 'fast'; valid: a finite number above 0"),
        (("--cost", *SIZES, *STATED[2:], "--flops", "-1"), "--flops is '-1'"),
        (("--cost", *SIZES, *STATED[:4], "--memory", "some"), "--memory 'some' is not a size"),
        (("--cost", *SIZES, *STATED[:4], "--memory", "80"), "--memory is 80 bytes; did you mean 80GB?"),
        (("--cost", *SIZES, "--memory", "9" * 400), "is not a size"),
        (("--cost", *SIZES, *STATED[:4], "--memory", "0"), "--memory is 0 bytes; valid: at least 1MB"),
        (
            ("--cost", *SIZES, *STATED, "--drawing", "nan"),
            "--drawing is 'nan'; valid: a finite number above 0, for instance 1e9",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(exhume_command, no_probe, words, told):
    code, out, err = exhume_command("law", *words)
    assert (code, out, no_probe) == (2, "", [])
    assert told in err
