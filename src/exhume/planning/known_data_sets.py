"""What attacks on well-known data sets would cost, up to a million ImageNet images, and what the law says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from exhume.law import Forecast, forecast
from exhume.planning.cost import Cost, Plan, plan
from exhume.planning.hardware import GPU, Hardware
from exhume.support.text import long_duration, size

# Seconds within which the smallest hardware is preferred (a week), and beyond which an attack is out of reach (a year).
_PREFERRED, _LONGEST = 7 * 86400.0, 365.25 * 86400


@dataclass(frozen=True)
class LastLayer:
    """The last layer of a network that people train, without its biases."""

    network: str
    num_features: int
    num_outputs: int


# Data set: d, several n, and the last layer of a network that people train on it.
CASES: dict[str, tuple[int, tuple[int, ...], LastLayer | None]] = {
    "sphere": (100, (100,), None),
    "MNIST": (784, (100,), LastLayer("LeNet-5", 84, 10)),
    "CIFAR-10": (3072, (10, 100, 1_000, 50_000), LastLayer("ResNet-18", 512, 10)),
    "Tiny-ImageNet": (12_288, (20, 1_000, 100_000), LastLayer("ResNet-18", 512, 200)),
    "ImageNet": (150_528, (10, 1_000, 1_000_000), LastLayer("ResNet-50", 2048, 1000)),
}


@dataclass(frozen=True)
class Outlook:
    """One row: the fewest parameters at which the attack is dependable, on several kinds of hardware.

    Attributes:
        data: the data set.
        plans: one for every hardware, the smallest first; all with the parameters needed and one output.
        last_layer: of a network that people train on such data, or None.
        of_last_layer: what the law says of that layer.
    """

    data: str
    plans: tuple[Plan, ...]
    last_layer: LastLayer | None
    of_last_layer: Forecast | None

    @property
    def law(self) -> Forecast:
        """The forecast for the parameters needed."""
        return self.plans[0].law

    @property
    def cost(self) -> Cost:
        """The cost on the first hardware; passes, flops and V are the same on all."""
        cost = self.plans[0].cost
        assert cost is not None  # the law allows the attack with the parameters needed
        return cost

    @property
    def verdict(self) -> str:
        """The first hardware that takes at most a week, else the quickest of at most a year, else out of reach."""
        took = [(each.hardware.name, each.cost.seconds) for each in self.plans if each.cost and each.cost.seconds]
        if not took:
            last = self.plans[-1]
            assert last.cost is not None
            available, needed = size(last.hardware.memory), size(last.cost.memory)
            products = long_duration(last.cost.flops / (last.hardware.flops * last.hardware.processes))
            return f"out of reach: {needed} per process of {available}, and {products} of products"
        preferred = [each for each in took if each[1] <= _PREFERRED]
        name, seconds = preferred[0] if preferred else min(took, key=lambda each: each[1])
        time = f"{long_duration(seconds)} on {name}"
        return time if seconds <= _LONGEST else f"out of reach: {time}"

    def to_json(self) -> dict[str, Any]:
        """The row, as plain JSON values."""
        known = None
        if self.last_layer is not None and self.of_last_layer is not None:
            known = {"network": self.last_layer.network, "law": self.of_last_layer.to_json()}
        return {
            "data": self.data,
            "parameters_needed": self.law.num_parameters,
            "plans": [each.to_json() for each in self.plans],
            "verdict": self.verdict,
            "last_layer": known,
        }


def outlook(hardware: Hardware, others: Sequence[Hardware] = (GPU,)) -> list[Outlook]:
    """Plans an attack on each data set with as many parameters as are dependable (3dn), on this and other hardware."""
    rows = []
    for data, (dim, counts, layer) in CASES.items():
        for samples in counts:
            needed = forecast(1, dim, samples).comfortable_parameters
            plans = tuple(plan(needed, dim, samples, hardware=each) for each in (hardware, *others))
            rows.append(Outlook(data, plans, layer, _forecast_of(layer, dim, samples)))
    return rows


def _forecast_of(layer: LastLayer | None, dim: int, samples: int) -> Forecast | None:
    if layer is None:
        return None
    return forecast(layer.num_features * layer.num_outputs, dim, samples, layer.num_outputs)
