"""Small user models, trained on a few samples, as files."""

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from exhume import data

DIM, SAMPLES, WIDTH = 12, 3, 400
FACTORY = f"""
import torch
from torch import nn


def build():
    body = nn.Sequential(nn.Linear({DIM}, {WIDTH}, bias=False), nn.ReLU())
    return nn.Sequential(body, nn.Linear({WIDTH}, 1, bias=False))
"""


def probe(seed=0):
    """A linear probe: a frozen random body and a head fitted in closed form to three points of a sphere."""
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=seed)
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Linear(DIM, WIDTH, bias=False), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(WIDTH, 1, bias=False)).eval().requires_grad_(False)
    model[1].weight.data = (torch.linalg.pinv(body(training.inputs)) @ training.labels)[None]
    return model, training


def write_probe(folder, seed=0):
    """`mymodel.py`, `after.safetensors`, `x.npy` and `y.npy` of a probe."""
    folder.mkdir(parents=True, exist_ok=True)
    model, training = probe(seed)
    (folder / "mymodel.py").write_text(FACTORY)
    save_file(model.state_dict(), folder / "after.safetensors")
    np.save(folder / "x.npy", training.inputs.numpy())
    np.save(folder / "y.npy", training.labels.numpy())
    return model, training
