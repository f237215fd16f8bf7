"""`exhume law --cost`: plans, the table, stated hardware, and options that exclude each other."""

import pytest

from exhume.planning import Hardware
from exhume.planning.passes import coordinates_read, law_of_passes

SIZES = ("--parameters", "3e6", "--dim", 3072, "--samples", 100)
STATED = ("--flops", "20e12", "--bandwidth", "1.5e12", "--memory", "80GB")
READ = coordinates_read(3_000_000, 3072, 100, 307_200, 1)
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
        "hours on this machine (2 cores).",
        f"passes over {READ:,} of the 3,000,000 coordinates",
        f"V is kept: {4 * 3072 * READ / 1e9:.3g} GB",
        f"--memory-budget {-(-4 * 3072 * READ // 10**9)}GB",
        "90 Gflop/s in products of 100 rows",
        "32 GB of memory a process",
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
    fewest, most = law_of_passes(1).samples
    assert f"extrapolated: measured were n = {fewest} to {most}" in out
    assert "a pass:" not in out


def test_the_table(exhume_command, exhume_json, no_probe):
    code, out, err = exhume_command("law", "--cost", "--table")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 170
    assert "150,528  1,000,000" in out
    assert "2,048 x 1,000 = 2,048,000" in out
    assert "out of reach" in out
    assert "fitted to" in out
    _, value = exhume_json("law", "--cost", "--table")
    assert len(value["rows"]) == 12
    assert [len(row["plans"]) for row in value["rows"]] == [3] * 12
    assert value["rows"][-1]["last_layer"]["network"] == "ResNet-50"


def test_the_table_takes_stated_hardware(exhume_json, no_probe):
    _, value = exhume_json("law", "--cost", "--table", *STATED)
    assert no_probe == []
    assert value["rows"][0]["plans"][0]["hardware"]["flops"] == 20e12


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cost", "--verify"), "--cost and --verify were both given"),
        (("--cost", *SIZES, "--seed", 1), "--seed is 1 without --verify"),
        (("--cost", "--dim", 3, "--samples", 4), "missing option --parameters"),
        (("--cost", "--table", "--dim", 3), "--table was given --dim"),
        (("--table",), "--table without --cost"),
        ((*SIZES, "--flops", "1e12", "--memory", "1GB"), "--flops, --memory without --cost"),
        (("--cost", *SIZES, "--known-samples", 3, "--norms-known"), "--cost was given --known-samples, --norms-known"),
        (("--cost", *SIZES, "--flops", "1e12"), "--flops without --bandwidth, --memory"),
        (("--cost", *SIZES, "--processes", 8), "--processes without --flops, --bandwidth, --memory, --network"),
        (("--cost", *SIZES, *STATED, "--processes", 8), "without --network"),
        (("--cost", *SIZES, *STATED, "--processes", 0), "processes is 0"),
        (("--cost", *SIZES, *STATED, "--processes", "many"), "'many' is not a whole number"),
        (("--cost", *SIZES, *STATED, "--network", "fast"), "--network is 'fast'; valid: a finite number above 0"),
        (("--cost", *SIZES, *STATED[2:], "--flops", "-1"), "--flops is '-1'"),
        (("--cost", *SIZES, *STATED[:4], "--memory", "some"), "'some' is not a size"),
        (("--cost", *SIZES, *STATED[:4], "--memory", "0"), "memory is 0"),
        (("--cost", *SIZES, *STATED, "--drawing", "nan"), "--drawing is 'nan'"),
    ],
)
def test_what_does_not_belong_together_is_refused(exhume_command, words, told):
    code, out, err = exhume_command("law", *words)
    assert (code, out) == (2, "")
    assert told in err
