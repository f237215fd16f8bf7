"""The paper's attack does what appendix D says."""

import math

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks.descent import paper_step_size
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.support.randomness import generator_for
from exhume.target.target import Knowledge, Target


def problem(dim, samples, ratio, **victim):
    training = data.load("sphere", dim=dim, samples=samples, seed=0)
    width = ratio * dim * samples
    fitted = exhume.RandomFeatures(num_features=width, **victim).fit(training.inputs, training.labels)
    return training, fitted.target(knowledge=Knowledge.about(training.labels))


def oracle(target, samples, steps, *, step_size, momentum, inactive_slope):
    """Appendix D by autograd and a dense projector, with torch's own momentum."""
    theta = target.displacement[0]
    matrix = torch.cat([part.clone() for _, part in target.feature_map.matrix.chunks(torch.float64)])

    class LeakyBackward(torch.autograd.Function):
        @staticmethod
        def forward(context, z):
            context.save_for_backward(z)
            return z.relu()

        @staticmethod
        def backward(context, gradient):
            (z,) = context.saved_tensors
            return gradient * torch.where(z > 0, 1.0, inactive_slope)

    rows = samples.clone().requires_grad_(True)
    optimiser = torch.optim.SGD([rows], lr=step_size, momentum=momentum)
    for _ in range(steps):
        features = LeakyBackward.apply(rows @ matrix.T)
        alpha = torch.linalg.solve(features @ features.T, features @ theta).detach()
        loss = (theta - alpha @ features).square().sum() / theta.square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            rows *= math.sqrt(rows.shape[1]) / rows.norm(dim=1, keepdim=True)
    return rows.detach()


@pytest.mark.parametrize("inactive_slope", [0.02, 0.0])
def test_trajectory_is_that_of_appendix_d(inactive_slope):
    _, target = problem(6, 3, 10, dtype="float64")
    result = exhume.reconstruct(target, method="descent", seed=3, max_steps=25, inactive_slope=inactive_slope)
    start = torch.randn((3, 6), generator=generator_for(3, "descent attack")).double()
    expected = oracle(target, start, 25, step_size=20.0, momentum=0.9, inactive_slope=inactive_slope)
    torch.testing.assert_close(result.samples, expected, atol=1e-8, rtol=1e-8)


def test_defaults_are_the_papers():
    attack = exhume.Descent()
    assert (attack.momentum, attack.tolerance, attack.inactive_slope) == (0.9, 1e-7, 0.02)


@pytest.mark.parametrize(("shape", "step"), [((30,), 20), ((3072,), 20), ((3, 32, 32), 2000), ((3, 64, 64), 8000)])
def test_step_sizes_are_the_papers(shape, step):
    dim = math.prod(shape)
    target = Target(RandomFeatureMap(GaussianMatrix(3, dim, seed=0), "relu"), torch.ones(3), input_shape=shape)
    assert paper_step_size(target) == pytest.approx(step)


def test_rows_are_recovered_far_above_the_threshold():
    training, target = problem(20, 2, 60)
    result = exhume.reconstruct(target, method="descent", max_steps=2000)
    judged = exhume.score(result, training.inputs)
    assert result.stop is exhume.Stop.CONVERGED
    assert result.history["loss"][-1] > 1e-7 >= result.certificate.residual**2 * 0.999
    assert judged.error_up_to_sign < 0.02
    assert judged.recovered_up_to_sign == 2
    torch.testing.assert_close(result.samples.norm(dim=1), torch.full((2,), 20**0.5))


def test_each_step_costs_two_passes():
    _, target = problem(6, 3, 10)
    result = exhume.reconstruct(target, method="descent", max_steps=7)
    # 7 steps of one forward and one backward pass, the forward pass that ends it, and the judge's.
    assert result.passes == 7 * 2 + 2


def test_interrupted_run_resumes_to_the_same_answer(tmp_path, monkeypatch):
    _, target = problem(6, 3, 10)
    monkeypatch.setattr("exhume.support.checkpoint.EVERY_SECONDS", 0.0)
    whole = exhume.reconstruct(target, method="descent", max_steps=60)

    class Interrupted(Exception):
        pass

    def interrupt(event):
        if event.step >= 30:
            raise Interrupted

    checkpoint = tmp_path / "checkpoint.safetensors"
    settings = {"method": "descent", "max_steps": 60, "checkpoint": checkpoint}
    with pytest.raises(Interrupted):
        exhume.reconstruct(target, progress=interrupt, **settings)
    assert checkpoint.exists()
    seen = []
    resumed = exhume.reconstruct(target, resume=True, progress=lambda event: seen.append(event.step), **settings)
    assert seen[0] >= 25
    assert torch.equal(resumed.samples, whole.samples)
    assert resumed.passes == whole.passes
    assert resumed.history == whole.history


def test_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    _, target = problem(6, 3, 10)
    monkeypatch.setattr("exhume.support.checkpoint.EVERY_SECONDS", 0.0)
    checkpoint = tmp_path / "checkpoint.safetensors"
    exhume.reconstruct(target, method="descent", max_steps=10, checkpoint=checkpoint)
    with pytest.raises(exhume.FileError, match="another run"):
        exhume.reconstruct(target, method="descent", max_steps=10, seed=1, checkpoint=checkpoint, resume=True)


def test_resumed_run_without_a_checkpoint_starts_anew(tmp_path):
    _, target = problem(6, 3, 10)
    result = exhume.reconstruct(target, method="descent", max_steps=5, checkpoint=tmp_path / "none", resume=True)
    assert result.steps == 5
