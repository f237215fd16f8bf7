"""Two tiny models to defend: random features, and a conv net with a trained head and bias."""

import pytest
import torch
from torch import nn

from exhume import data
from exhume.defences import Release
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.victims import RandomFeatures

DIM, SAMPLES, WIDTH = 10, 3, 300


def random_features_release(labels="real") -> Release:
    """Sphere data, p = 10 dn; labels are real numbers or signs."""
    training, held_out = (data.load("sphere", dim=DIM, samples=count, seed=seed) for count, seed in ((3, 0), (20, 1)))
    values = [each.labels if labels == "real" else each.labels.sign() for each in (training, held_out)]
    victim = RandomFeatures(num_features=WIDTH, seed=0).fit(training.inputs, values[0])
    knowledge = Knowledge(num_samples=SAMPLES)
    owned = data.Dataset.of(training.inputs, values[0], held_out.inputs, values[1])
    return Release(victim.target(knowledge=knowledge), owned, seed=5)


def network_release(initial="known") -> Release:
    """Pictures (1, 4, 4), 20 channels, 3 classes given by their numbers; only the head is trained."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((20, 1, 4, 4), generator=generator)
    labels = torch.arange(20) % 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 20, 2), nn.GELU(), nn.Flatten(), nn.Linear(180, 3))
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    net[:-1].requires_grad_(False)
    optimiser = torch.optim.SGD(net[-1].parameters(), lr=0.1, momentum=0.9)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs[:3]), labels[:3]).backward()
        optimiser.step()
    target = Target.last_layer(
        net.eval(),
        "3",
        initial_head=before if initial == "known" else "unknown",
        input_shape=(1, 4, 4),
        knowledge=Knowledge(num_samples=SAMPLES),
    )
    return Release(target, data.Dataset.of(inputs[:3], labels[:3], inputs[3:], labels[3:]), seed=5)


@pytest.fixture(scope="session")
def features_release():
    return random_features_release()


@pytest.fixture(scope="session")
def signs_release():
    return random_features_release("signs")


@pytest.fixture(scope="session")
def net_release():
    return network_release()


@pytest.fixture(scope="session")
def forgotten_release():
    return network_release("unknown")


@pytest.fixture(params=["features_release", "net_release"])
def release(request):
    return request.getfixturevalue(request.param)
