"""A matrix over its budget is regenerated: the features stay the same and the memory stays small."""

import subprocess
import sys
from pathlib import Path

import pytest

# The kernel's own count of this program alone: ru_maxrss begins at the peak of the process that started it.
CODE = """
import torch
from exhume.features import GaussianMatrix, RandomFeatureMap

def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1])

before = peak()
inputs = torch.randn((2, 3072), generator=torch.Generator().manual_seed(0))
RandomFeatureMap(GaussianMatrix(100_000, 3072, seed=0, memory_budget="50MB"), "relu").linearise(inputs).vjp(
    torch.ones(2, 100_000)
)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_peak_memory_is_far_below_the_matrix():
    """V would take 1.2 GB."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert 1e6 < int(done.stdout) * 1024 < 400e6
