"""A matrix over its budget is regenerated: the features stay the same and the memory stays small."""

import subprocess
import sys

CODE = """
import resource, torch
from exhume.features import GaussianMatrix, RandomFeatureMap
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
inputs = torch.randn((2, 3072), generator=torch.Generator().manual_seed(0))
RandomFeatureMap(GaussianMatrix(100_000, 3072, seed=0, memory_budget="50MB"), "relu").linearise(inputs).vjp(
    torch.ones(2, 100_000)
)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_peak_memory_is_far_below_the_matrix():
    """V would take 1.2 GB."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 400e6
