"""The outlook: data sets up to a million ImageNet pictures, what attacking each would take, and what the law says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from exhume.law import Forecast, forecast
from exhume.planning.cost import Cost, Plan, plan
from exhume.planning.hardware import GPU, THOUSAND_GPUS, Hardware
from exhume.planning.words import duration, size

# Seconds for which smaller hardware is preferred, and beyond which nobody waits: a week and a year.
_PATIENCE, _LONGEST = 7 * 86400.0, 365.25 * 86400


@dataclass(frozen=True)
class LastLayer:
    """The last layer of a network that people train: its weights are features times outputs."""

    network: str
    num_features: int
    num_outputs: int

    @property
    def num_parameters(self) -> int:
        """Without biases."""
        return self.num_features * self.num_outputs


LENET = LastLayer("LeNet-5", 84, 10)
RESNET18_CIFAR = LastLayer("ResNet-18", 512, 10)
RESNET18_TINY = LastLayer("ResNet-18", 512, 200)
RESNET50 = LastLayer("ResNet-50", 2048, 1000)

# (data, d, n, a network known for such data)
CASES: tuple[tuple[str, int, int, LastLayer | None], ...] = (
    ("sphere", 100, 100, None),
    ("MNIST", 784, 100, LENET),
    ("CIFAR-10", 3072, 10, RESNET18_CIFAR),
    ("CIFAR-10", 3072, 100, RESNET18_CIFAR),
    ("CIFAR-10", 3072, 1_000, RESNET18_CIFAR),
    ("CIFAR-10", 3072, 50_000, RESNET18_CIFAR),
    ("Tiny-ImageNet", 12_288, 20, RESNET18_TINY),
    ("Tiny-ImageNet", 12_288, 1_000, RESNET18_TINY),
    ("Tiny-ImageNet", 12_288, 100_000, RESNET18_TINY),
    ("ImageNet", 150_528, 10, RESNET50),
    ("ImageNet", 150_528, 1_000, RESNET50),
    ("ImageNet", 150_528, 1_000_000, RESNET50),
)


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
        """On the first hardware; passes, flops and V are the same on all."""
        cost = self.plans[0].cost
        assert cost is not None  # as many parameters as needed are never too few
        return cost

    @property
    def verdict(self) -> str:
        """The first hardware that does it within a week, else the quickest within a year, else out of reach."""
        took = [(each.hardware.name, each.cost.seconds) for each in self.plans if each.cost and each.cost.seconds]
        if not took:
            last = self.plans[-1]
            assert last.cost is not None
            there, needed = size(last.hardware.memory), size(last.cost.memory)
            products = duration(last.cost.flops / (last.hardware.flops * last.hardware.processes))
            return f"out of reach: {needed} a process where {there} are, and {products} of products"
        in_time = [each for each in took if each[1] <= _PATIENCE]
        name, seconds = in_time[0] if in_time else min(took, key=lambda each: each[1])
        told = f"{duration(seconds)} on {name}"
        return told if seconds <= _LONGEST else f"out of reach: {told}"

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


def outlook(hardware: Hardware, others: Sequence[Hardware] = (GPU, THOUSAND_GPUS)) -> list[Outlook]:
    """Plans every case with as many parameters as are dependable (3dn), on this hardware and on others."""
    rows = []
    for data, dim, samples, layer in CASES:
        needed = forecast(1, dim, samples).comfortable_parameters
        plans = tuple(plan(needed, dim, samples, hardware=each) for each in (hardware, *others))
        said = None
        if layer is not None:
            said = forecast(layer.num_parameters, dim, samples, layer.num_outputs)
        rows.append(Outlook(data, plans, layer, said))
    return rows
