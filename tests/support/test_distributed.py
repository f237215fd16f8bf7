"""Processes that share the coordinates give the result of one process, make the same decisions, and end cleanly."""

import copy
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

import exhume
from exhume import data
from exhume.attacks._base import attack as attack_module
from exhume.attacks._base import session as session_module
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.sample_count import samples_by_rank, visible_directions
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.errors import InputError
from exhume.features import DenseMatrix, FirstLayerMap, GaussianMatrix, RandomFeatureMap
from exhume.features import matrix as gaussian
from exhume.features import sharded as sharded_module
from exhume.features.growing_basis import GrowingBasis
from exhume.features.in_subspace import ReducedMap, reduced
from exhume.features.matrix import BLOCK_ROWS
from exhume.features.sharded import sharded
from exhume.support import checkpoint
from exhume.support import distributed as sharding
from exhume.support.distributed import LostRank, Processes, Shard

PATIENCE = 600.0  # seconds after which all must have answered, however busy the machine is


@dataclass(frozen=True)
class Threads(Processes):
    """Ranks as threads of this process: the same sums without the delays of real processes."""

    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))
    board: dict = field(default_factory=dict)

    def sum(self, part):
        return sum(self.gather(part))

    def broadcast(self, tensor):
        return self.gather(tensor)[0]

    def broadcast_object(self, value):
        return self.gather(value)[0]

    def gather(self, value):
        values = []
        self._call(lambda: values.extend(self._exchange(value)))
        return values

    def _exchange(self, value):
        self.board[self.rank] = value
        self.meeting.wait(PATIENCE)
        values = [copy.deepcopy(self.board[rank]) for rank in range(self.ranks)]
        self.meeting.wait(PATIENCE)
        return values


def together(work, *arguments):
    """What work(processes, *arguments) returns in each of two ranks."""
    meeting, board = threading.Barrier(2), {}

    def run(rank):
        try:
            return work(Threads(rank, 2, meeting=meeting, board=board), *arguments)
        except BaseException:
            meeting.abort()  # the other one must not wait
            raise

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(run, rank) for rank in range(2)]
        failures = [answer.exception() for answer in answers]
    for failure in sorted(filter(None, failures), key=lambda each: isinstance(each, LostRank)):
        raise failure
    return [answer.result() for answer in answers]


def parts(count, ranks=2):
    return [Shard.striped(Processes(rank, ranks), count, sharding.stripe_for(count, ranks, 8)) for rank in range(ranks)]


def target_of(dim, count, width, memory_budget="4GB", **knowledge):
    sphere = data.load("sphere", dim=dim, samples=count)
    victim = exhume.RandomFeatures(num_features=width, activation="relu", seed=0, memory_budget=memory_budget)
    return victim.fit(sphere.inputs, sphere.labels).target(knowledge=exhume.Knowledge(**knowledge))


# Which coordinates are where


@pytest.mark.parametrize(("count", "ranks"), [(2, 2), (31, 2), (1000, 3)])
def test_every_coordinate_is_held_by_one_process_and_all_hold_about_as_many(count, ranks):
    held = [part.local_indices for part in parts(count, ranks)]
    assert torch.equal(torch.cat(held).sort().values, torch.arange(count))
    assert max(map(len, held)) - min(map(len, held)) <= 8


@pytest.mark.parametrize("rows", [slice(13, 77), slice(0, 3), torch.randperm(100)[:40], torch.tensor([5])])
def test_subsets_are_of_the_coordinates_of_all_processes(rows):
    theta = torch.arange(100.0)
    expected = theta[rows]
    found = torch.full_like(expected, float("nan"))
    for part in parts(100):
        inner = part.subset(rows)
        found[inner.local_indices] = theta[part.local_indices][part.local(rows)]
        assert inner.count(0) == len(expected)
        again = torch.full((len(expected[::2]),), float("nan"))
        every_other = torch.arange(0, len(expected), 2)
        again[inner.subset(every_other).local_indices] = theta[part.local_indices][part.local(rows)][
            inner.local(every_other)
        ]
        assert set(again[~again.isnan()].tolist()) <= set(expected[::2].tolist())
    assert torch.equal(found, expected)


def test_a_window_of_coordinates_is_read_in_place_and_split_evenly():
    windows = [part.local(slice(30, 70)) for part in parts(100)]
    assert all(isinstance(window, slice) for window in windows)
    assert [window.stop - window.start for window in windows] == pytest.approx([20, 20], abs=3)


@pytest.mark.parametrize("width", [300, 33 * BLOCK_ROWS + 5], ids=["narrow", "of many blocks"])
def test_each_process_makes_its_own_rows_of_a_seeded_matrix_and_no_others(width):
    whole = RandomFeatureMap(GaussianMatrix(width, 3, seed=4), "relu")
    every = torch.cat([part.clone() for _, part in whole.matrix.chunks()])
    for rank in range(2):
        local = sharded(whole, Processes(rank, 2))
        rows = torch.cat([part.clone() for _, part in local.matrix.chunks()])
        assert torch.equal(rows, every[local.coordinates.local_indices])
        assert local.num_features == width
        assert local.matrix.kept_bytes == rows.nbytes == pytest.approx(every.nbytes / 2, rel=0.06)


def test_a_part_that_exceeds_the_budget_is_generated_anew_on_every_pass():
    width = 33 * BLOCK_ROWS
    whole = RandomFeatureMap(GaussianMatrix(width, 3, seed=4, memory_budget=1000), "relu")
    local, inputs = sharded(whole, Processes(1, 2)), torch.randn(2, 3)
    assert local.matrix.kept_bytes == 0
    torch.testing.assert_close(local.forward(inputs), whole.forward(inputs)[:, local.coordinates.local_indices])


def test_features_that_are_not_rows_of_a_matrix_and_parts_of_parts_are_refused():
    other = ReducedMap(target_of(4, 2, 40).features, torch.eye(4), 1.0)
    with pytest.raises(InputError, match="ReducedMap cannot .* random features and networks of one hidden layer"):
        exhume.Target(other, torch.ones(40)).sharded(Processes(0, 2))
    part = target_of(4, 2, 40).sharded(Processes(0, 2))
    with pytest.raises(InputError, match="part of another already"):
        part.sharded(Processes(0, 2))
    with pytest.raises(InputError, match="at most 40"):
        target_of(4, 2, 40).sharded(Processes(0, 41))


@pytest.mark.parametrize(
    ("device", "complaint"), [("cuda", "process 99 of this machine has no GPU"), ("tpu", "valid: cpu")]
)
def test_processes_without_a_device_to_compute_on_are_told_so(monkeypatch, device, complaint):
    for name, value in (("RANK", "99"), ("LOCAL_RANK", "99"), ("WORLD_SIZE", "100"), ("MASTER_ADDR", "localhost")):
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=complaint):
        sharding.initialise(device)


def test_one_process_is_given_the_target_itself():
    target = target_of(4, 2, 40)
    assert sharding.initialise() is sharding.ALONE
    assert target.sharded(sharding.ALONE) is target


# The equation


def the_map(kind):
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
    if kind == "random":
        return RandomFeatureMap(GaussianMatrix(90, 6, seed=3), "relu", torch.float64)
    layer = FirstLayerMap(DenseMatrix(draw(90, 6)), "gelu", torch.float64, offset=draw(90))
    return layer if kind == "layer" else reduced(layer, torch.linalg.qr(draw(6, 4))[0].T)


def numbers_of(features, part, nuisance, rows):
    """All results of a span equation on some coordinates, except arrays of size p."""
    generator = torch.Generator().manual_seed(2)
    count, dim = 3, features.input_dim
    theta = torch.randn((2, 90), generator=generator, dtype=torch.float64)
    fixed = torch.randn((1, 90), generator=generator, dtype=torch.float64)
    span = Span(features, theta[:, part], nuisance, fixed=fixed[:, part]).subset(rows)
    candidate = torch.randn((count, dim), generator=generator, dtype=torch.float64)
    if span.num_linear:
        candidate = torch.cat([candidate, span.first_linear()])
    point = span.at(candidate)
    directions = torch.randn(candidate.shape, generator=generator, dtype=torch.float64)
    return {
        "loss": torch.tensor(point.loss),
        "coefficients": point.coefficients,
        "nuisance": point.nuisance_coefficients,
        "gradient": span.gradient(point),
        "normal": span.adjoint(point, span.project(point, span.jacobian(point, directions))),
        "mean": span.mean_normal(point),
        "first": span.first_linear(),
        "size": torch.tensor(span.squared_size(span.without_nuisance())),
        "equations": torch.tensor(span.num_equations),
    }


def sharded_numbers(processes, kind, nuisance, rows):
    features = the_map("layer" if kind == "reduced" else kind)
    local = sharded(features, processes)
    if kind == "reduced":
        generator = torch.Generator().manual_seed(1)
        for shape in ((90, 6), (90,)):
            torch.randn(shape, generator=generator, dtype=torch.float64)
        drawn = torch.randn((6, 4), generator=generator, dtype=torch.float64)
        local = reduced(local, torch.linalg.qr(drawn)[0].T)
    return numbers_of(local, local.coordinates.local_indices, nuisance, rows)


@pytest.mark.parametrize("kind", ["random", "layer", "reduced"])
@pytest.mark.parametrize(
    "nuisance",
    [Nuisance(), Nuisance(linear=True, constant=True), Nuisance(linear=True, joint=True)],
    ids=["plain", "projected", "joint"],
)
def test_the_equation_is_the_same_on_two_processes(kind, nuisance):
    for rows in (slice(None), slice(11, 70), torch.randperm(90, generator=torch.Generator().manual_seed(5))[:60]):
        expected = numbers_of(the_map(kind), slice(None), nuisance, rows)
        first, second = together(sharded_numbers, kind, nuisance, rows)
        for name, value in expected.items():
            torch.testing.assert_close(first[name], value, rtol=1e-9, atol=1e-9, msg=name)
            assert torch.equal(first[name], second[name]), name


# A basis that grows


def growing(processes, factors):
    """A basis before and after it is renewed: itself, V B^T as it is kept, and as V makes it."""
    threading.current_thread().factors = factors[processes.rank]
    generator = torch.Generator().manual_seed(3)
    first, added = (torch.randn((count, 20), generator=generator, dtype=torch.float64) for count in (5, 3))
    whole = RandomFeatureMap(GaussianMatrix(90, 20, seed=3), "relu", torch.float64)
    features = sharded(whole, processes)
    basis, seen = GrowingBasis(features, first), []
    for kept in (None, first[:4]):
        if kept is not None:
            basis.renew(kept, added)
        coordinates = torch.eye(basis.rank, dtype=torch.float64)
        table = features.coordinates.gather(basis.features.matvec(coordinates))
        seen.append((basis.lift(coordinates), table, whole.matvec(basis.lift(coordinates))))
    return seen


def as_they_are(left, sizes, right):
    return left, sizes, right


def of_other_signs(left, sizes, right):
    return -left, sizes, -right


def of_lower_rank(left, sizes, right):
    return left, torch.cat([sizes[:-1], sizes[:1] * 0]), right


@pytest.mark.parametrize("others", [of_other_signs, of_lower_rank])
def test_all_processes_use_the_basis_of_the_first_whatever_their_own_factors_are(monkeypatch, others):
    svd = torch.linalg.svd

    def factors_of_this_thread(rows, full_matrices):
        return threading.current_thread().factors(*svd(rows, full_matrices=full_matrices))

    monkeypatch.setattr(torch.linalg, "svd", factors_of_this_thread)
    alike = together(growing, (as_they_are, as_they_are))
    different = together(growing, (as_they_are, others))
    for steps in zip(*alike, *different, strict=True):
        basis, _, _ = steps[0]
        for lifted, table, expected in steps:
            torch.testing.assert_close(lifted, basis, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(table, expected, rtol=1e-9, atol=1e-9)
    assert [len(lifted) for lifted, _, _ in different[1]] == [5, 7]


# Attacks


def directions_seen(processes):
    target = target_of(10, 3, 500).sharded(processes)
    span = Span(target.features.with_activation("abs"), target.displacement, Nuisance(linear=True))
    seen = visible_directions(span, span.without_nuisance(), torch.Generator().manual_seed(0), DEFAULT_TUNING)
    return seen, samples_by_rank(network_target().sharded(processes), DEFAULT_TUNING.count)


def test_two_processes_see_as_many_samples_as_one():
    assert together(directions_seen) == 2 * [directions_seen(sharding.ALONE)] == 2 * [(3, 2)]


def network_target():
    """A network of one hidden layer and three outputs, trained on two samples."""
    generator = torch.Generator().manual_seed(0)
    weights, offset, inputs = (torch.randn(shape, generator=generator) for shape in ((200, 48), (200,), (2, 48)))
    layer = FirstLayerMap(DenseMatrix(weights / 48**0.5), "relu", offset=offset)
    head = torch.randn((3, 2), generator=generator) @ layer.forward(inputs)
    return exhume.Target(layer, head, trained_head=head)


def informed_target():
    samples = data.load("sphere", dim=48, samples=4).inputs
    return target_of(48, 4, 400, num_samples=4, samples=samples[:3])


ATTACKS = {
    "exact": (exhume.Exact(), lambda: target_of(40, 4, 800), {"num_samples": 4}),
    "exact, wide inputs": (exhume.Exact(), lambda: target_of(140, 2, 1500), {"num_samples": 2}),
    "exact, a network of more outputs than samples": (exhume.Exact(), network_target, {}),
    "exact, all samples but one known": (exhume.Exact(), informed_target, {}),
    "descent": (exhume.Descent(max_steps=8), lambda: target_of(8, 3, 300), {"num_samples": 3}),
}


def same_samples(samples, alone):
    """Whether they are those of a result, in any order, within a few of its own error bars.

    Rounding differs between one process and two, and the search amplifies it: only where it ends must be the same.
    """
    gaps, nearest = torch.cdist(alone.samples.double(), samples.double()).min(1)
    bars = torch.tensor(alone.certificate.predicted_errors or [1e-3] * len(gaps)).double()
    close = gaps <= (10 * bars + 1e-9) * alone.samples.double().norm(dim=1)
    return len(samples) == len(alone.samples) and nearest.unique().numel() == len(samples) and bool(close.all())


def attack_together(processes, name, settings):
    attack, target, usual = ATTACKS[name]
    result = attack(target().sharded(processes), **usual | settings)
    return result.samples, result.to_json(), list(result.notes)


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_of_two_processes_give_the_answer_of_one(name):
    attack, target, settings = ATTACKS[name]
    alone = attack(target(), **settings)
    (samples, told, notes), (others, told_too, _) = together(attack_together, name, {})
    assert torch.equal(samples, others)
    assert told["certificate"]["verdict"] == alone.certificate.verdict == told_too["certificate"]["verdict"]
    assert told["stop"] == alone.stop.value
    assert told["certificate"]["equations"] == alone.certificate.equations
    assert same_samples(samples, alone)
    width = alone.certificate.equations // alone.coefficients.shape[1]
    assert sum(told["evidence"]["coordinates_of_ranks"]) >= width
    assert told["evidence"]["ranks"] == 2
    assert any("Processes: 2 shared" in note for note in notes)


def in_a_basis(processes, memory_budget):
    target = target_of(260, 4, 3 * 260 * 4, memory_budget).sharded(processes)
    return exhume.Exact()(target, num_samples=4)


# Parts of V are not of one size: between them, the first process is over its budget and the second is not.
@pytest.mark.parametrize(("memory_budget", "keeping"), [("4GB", 2), ("1620000", 1), ("500KB", 0)])
def test_the_search_in_a_basis_on_two_processes_gives_the_answer_of_one(monkeypatch, memory_budget, keeping):
    renewed, renew = [], GrowingBasis.renew

    def counted_renew(basis, *rows):
        renewed.append(basis.full_map.coordinates.processes.ranks)
        renew(basis, *rows)

    monkeypatch.setattr(GrowingBasis, "renew", counted_renew)
    for module in (gaussian, sharded_module):  # of whole blocks only is a part of V subject to the budget
        monkeypatch.setattr(module, "BLOCK_ROWS", 64)
    alone = in_a_basis(sharding.ALONE, memory_budget)
    first, second = together(in_a_basis, memory_budget)
    assert renewed.count(1) > 2
    assert renewed.count(2) > 4
    assert torch.equal(first.samples, second.samples)
    assert first.certificate.verdict == second.certificate.verdict == alone.certificate.verdict == "exact"
    assert same_samples(first.samples, alone)
    assert sum(size > 0 for size in first.evidence["bytes_of_ranks"]) == keeping


def with_a_short_time(processes):
    threading.current_thread().rank = processes.rank
    attack = exhume.Descent(max_steps=10**6, tolerance=0)
    result = attack(target_of(8, 3, 300).sharded(processes), num_samples=3, max_seconds=0.3)
    return result.stop.value, result.steps


def test_the_clock_of_the_first_process_ends_both_at_the_same_step(monkeypatch):
    def clock():
        return 0.0 if threading.current_thread().rank else time.monotonic()

    for module in (attack_module, session_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock, perf_counter=time.perf_counter))
    first, second = together(with_a_short_time)
    assert first == second
    assert first[0] == "time_limit"


def with_other_seeds(processes):
    target = target_of(8, 3, 300).sharded(processes)
    with pytest.raises(InputError) as raised:
        exhume.Exact()(target, num_samples=3, seed=processes.rank)
    return str(raised.value)


def test_processes_that_were_told_different_things_all_refuse():
    assert all("rank 1 of 2 was given another target, method or option" in told for told in together(with_other_seeds))


def by_an_attack_for_one(processes):
    with pytest.raises(InputError) as raised:
        exhume.Subspace()(target_of(8, 3, 300).sharded(processes), num_samples=3)
    return str(raised.value)


def test_an_attack_that_cannot_be_shared_out_names_those_that_can():
    assert all(
        "several processes can run descent and exact, on random features" in told
        for told in together(by_an_attack_for_one)
    )


# Checkpoints and lost processes


class Interrupted(Exception):
    """Raised in mid-run."""


def interrupt_at(step):
    def progress(event):
        if event.step == step:
            raise Interrupted

    return progress


def resumed_together(processes, path):
    # Only the first process sees the file.
    file = path if processes.leads else None
    attack, target, settings = ATTACKS["exact"]
    seen = []
    result = attack(
        target().sharded(processes), **settings, checkpoint=file, resume=True, progress=lambda event: seen.append(event)
    )
    return result.samples, result.certificate, seen[0].step


def test_a_run_of_one_process_is_resumed_by_two(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    attack, target, settings = ATTACKS["exact"]
    alone = attack(target(), **settings)
    file = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Interrupted):
        attack(target(), **settings, checkpoint=file, progress=interrupt_at(6))
    (samples, certificate, first_step), (others, _, _) = together(resumed_together, file)
    assert first_step == 6  # it did not start anew; the state was saved before its report was interrupted
    assert torch.equal(samples, others)
    assert certificate.verdict == alone.certificate.verdict == "exact"
    assert same_samples(samples, alone)


# Processes that are processes, over gloo


def what_gloo_tells(processes):
    halves = torch.full((2, 3), processes.rank + 1.0, dtype=torch.float64).T
    return (
        processes.rank,
        processes.sum(halves).tolist(),
        processes.sum(halves[:0]).tolist(),
        processes.broadcast(torch.tensor(processes.rank)).item(),
        processes.broadcast_object(b"first" if processes.leads else b"other"),
        processes.broadcast_object(None if processes.leads else b"other"),
        processes.gather(10 + processes.rank),
        halves.tolist(),
    )


def waits_in_vain(processes):
    if not processes.leads:
        time.sleep(1.5)
        return None
    with pytest.raises(LostRank) as raised:
        processes.sum(torch.ones(3))
    return str(raised.value)


def in_group(rank, meeting):
    """What one of two processes does."""
    rendezvous = {"init_method": f"file://{meeting}", "rank": rank, "world_size": 2}
    answers = []
    for work, timeout in ((what_gloo_tells, PATIENCE), (waits_in_vain, 1.0)):
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout), **rendezvous)
        answers.append(work(sharding.initialise()))
        dist.destroy_process_group()
        rendezvous["init_method"] += "-again"
    return answers


def test_processes_talk_over_gloo_and_take_one_that_does_not_answer_for_lost(tmp_path):
    children = multiprocessing.get_context("forkserver")  # of one that has loaded exhume and done nothing else
    children.set_forkserver_preload(["exhume", "torch.distributed"])
    with ProcessPoolExecutor(2, mp_context=children) as pool:
        answers = [pool.submit(in_group, rank, tmp_path / "meeting") for rank in range(2)]
        (first, told), (second, _) = (answer.result(PATIENCE) for answer in answers)
    total, own = [[3.0, 3.0]] * 3, [[1.0, 1.0]] * 3
    assert first == (0, total, [], 0, b"first", None, [10, 11], own)
    assert second == (1, total, [], 0, b"first", None, [10, 11], [[2.0, 2.0]] * 3)
    assert told.startswith("rank 1 of 2 was lost: ")
    assert "with --resume, on any number of processes" in told
