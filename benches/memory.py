"""Peak memory at p=400,000, d=3072: V would take 4.9 GB and is regenerated in chunks under a budget of 1 GB."""

import resource

import torch

from exhume import data
from exhume.attacks import reconstruct
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.victims import RandomFeatures

FEATURES, DIM, SAMPLES = 400_000, 3072, 10


def main() -> None:
    training = data.load("sphere", dim=DIM, samples=SAMPLES)
    victim = RandomFeatures(num_features=FEATURES, memory_budget="1GB").fit(training.inputs, training.labels)
    result = reconstruct(victim.target(), num_samples=SAMPLES, method="descent", max_steps=2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"budget 1 GB: trained, {result.steps} descent steps, peak memory {peak:.2f} GB")
    regenerated = victim.feature_map_.forward(training.inputs)
    kept = RandomFeatureMap(GaussianMatrix(FEATURES, DIM, seed=0, memory_budget="6GB"), "relu").forward(training.inputs)
    print(f"features equal to those with V kept (6 GB budget): {torch.equal(regenerated, kept)}")
