"""First-order updates against torch's own."""

import pytest
import torch

from exhume.solvers.first_order import Adam, Momentum


@pytest.mark.parametrize("kind", ["momentum", "adam"])
def test_updates_are_torch_s_own(kind):
    generator = torch.Generator().manual_seed(0)
    start = {name: torch.randn((4, 3), generator=generator, dtype=torch.float64) for name in ("samples", "weights")}
    rates = {"samples": 0.05, "weights": 0.002}
    update = Momentum(rates, 0.9) if kind == "momentum" else Adam(rates)
    theirs = {name: value.clone().requires_grad_() for name, value in start.items()}
    groups = [{"params": [theirs[name]], "lr": rate} for name, rate in rates.items()]
    optimiser = torch.optim.SGD(groups, momentum=0.9) if kind == "momentum" else torch.optim.Adam(groups)
    values = {name: value.clone() for name, value in start.items()}
    buffers = update.start(values)
    for step in range(20):
        optimiser.zero_grad()
        sum(value.sin().square().sum() for value in theirs.values()).backward()
        optimiser.step()
        update.apply(values, {name: (2 * value).sin() for name, value in values.items()}, buffers, step)
    for name, value in values.items():
        torch.testing.assert_close(value, theirs[name].detach(), rtol=1e-12, atol=1e-14)
