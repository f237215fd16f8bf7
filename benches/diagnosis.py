"""How often the diagnosis of an audit names the right family of optimisers: a confusion table over trained networks.

Limits were set on the networks of seeds 0 and 1 (`python -c "from benches.diagnosis import main; main((0, 1))"`); the
table is over those of other seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch
from sklearn.datasets import load_digits
from torch import nn

from benches.problems import table
from exhume import Target
from exhume.target.diagnosis import diagnose

SEEDS = (2, 3, 4)
OPTIMISERS: dict[str, tuple[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]]] = {
    "SGD": ("gradient", lambda weights: torch.optim.SGD(weights, 0.1)),
    "momentum": ("gradient", lambda weights: torch.optim.SGD(weights, 0.02, momentum=0.9)),
    "SGD with decay": ("gradient", lambda weights: torch.optim.SGD(weights, 0.05, momentum=0.9, weight_decay=5e-3)),
    "L-BFGS": ("gradient", lambda weights: torch.optim.LBFGS(weights, 1.0, max_iter=15, line_search_fn="strong_wolfe")),
    "Adam": ("adaptive", lambda weights: torch.optim.Adam(weights, 1e-3)),
    "AdamW": ("adaptive", lambda weights: torch.optim.AdamW(weights, 3e-3, weight_decay=0.1)),
    "RMSprop": ("adaptive", lambda weights: torch.optim.RMSprop(weights, 1e-3)),
}
ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "two layers, ReLU": lambda: nn.Sequential(nn.Linear(64, 150), nn.ReLU(), nn.Linear(150, 10)),
    "three layers, GELU": lambda: nn.Sequential(
        nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 10)
    ),
    "conv": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, 10),
    ),
    "conv, BatchNorm, pooled": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    ),
}  # fmt: skip
# Data, samples, batch (None: all at once) and steps: a setting for each seed, so that families are not told by it.
SETTINGS = (
    ("digits", 20, None, 150),
    ("noise", 100, 20, 300),
    ("digits", 200, 25, 400),
    ("noise", 30, None, 60),
    ("digits", 60, 10, 200),
)


def trained(build: Callable[[], nn.Module], optimiser: str, seed: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A classifier trained in the setting of its seed, and its state dict before training."""
    kind, count, batch, steps = SETTINGS[seed % len(SETTINGS)]
    generator = torch.Generator().manual_seed(seed)
    inputs, labels = torch.randn((count, 64), generator=generator), torch.randint(10, (count,), generator=generator)
    if kind == "digits":
        digits = load_digits()
        chosen = torch.randperm(len(digits.data), generator=generator)[:count]
        inputs, labels = torch.tensor(digits.data).float()[chosen] / 16, torch.tensor(digits.target)[chosen]
    torch.manual_seed(seed)
    module = build()
    before = {name: each.clone() for name, each in module.state_dict().items()}
    method = OPTIMISERS[optimiser][1](list(module.parameters()))
    rows: torch.Tensor | slice = slice(None)

    def closure() -> float:
        method.zero_grad()
        loss = nn.functional.cross_entropy(module(inputs[rows]), labels[rows])
        loss.backward()
        return loss.item()

    whole = isinstance(method, torch.optim.LBFGS)
    for _ in range(8 if whole else steps):
        if batch is not None and not whole:
            rows = torch.randint(count, (batch,), generator=generator)
        method.step(closure)
    return module.eval(), before


def diagnosed(module: nn.Module, before: dict[str, torch.Tensor]) -> dict[str, str]:
    """The value of each kind of finding."""
    target = Target.last_layer(module, initial_head=before, input_shape=(64,))
    return {each.kind: each.value for each in diagnose(target)}


def cases(seeds: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    for architecture in ARCHITECTURES:
        for optimiser in OPTIMISERS:
            for seed in seeds:
                yield architecture, optimiser, seed


def main(seeds: Sequence[int] = SEEDS) -> None:
    named: dict[str, Counter[str]] = {name: Counter() for name in OPTIMISERS}
    start, strange = Counter[str](), Counter[str]()
    mistakes = []
    for architecture, optimiser, seed in cases(seeds):
        module, before = trained(ARCHITECTURES[architecture], optimiser, seed)
        found = diagnosed(module, before)
        answer = found.get("optimiser", "none")
        named[optimiser][answer] += 1
        if answer not in (OPTIMISERS[optimiser][0], "unknown"):
            mistakes.append(f"{architecture}, {optimiser}, seed {seed}: {answer}")
        start[found.get("start", "none")] += 1
        torch.manual_seed(1000 + seed)
        other = ARCHITECTURES[architecture]().state_dict()
        strange[diagnosed(module, other).get("start", "none")] += 1
    answers = ("gradient", "adaptive", "unknown")
    rows = [(name, OPTIMISERS[name][0], *(str(named[name][each]) for each in answers)) for name in OPTIMISERS]
    table(("trained by", "family", *answers), rows)
    total = sum(sum(each.values()) for each in named.values())
    print(f"\n{total} networks, {len(mistakes)} wrong, {sum(each['unknown'] for each in named.values())} unknown")
    print("\n".join(mistakes))
    print(f"initial weights, the right ones: {dict(start)}; of another seed: {dict(strange)}")
