"""The path equation: the displacement of chosen layers as a sum of per-sample gradients along the path of training.

    Delta_S = sum_q sum_j J_S(theta_q, x_j)^T c_jq

S is a set of parameters, J_S(theta, x) (k, |S|) the Jacobian of the k outputs in them, theta_q are nodes on the path
from the initial to the trained weights. Every first-order method with one step size for all weights (SGD, batches,
momentum, schedules) moves the weights so, up to what the nodes leave of the integral over the path. One node at the
trained weights gives the tangent-kernel equation (Loo et al. 2024); the head alone at the trained weights the law's.
Coefficients are free and projected out; those of cross-entropy sum to zero over the outputs. So is a multiple of the
initial weights, of which weight decay takes an unknown share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from exhume.equation.normal_system import ProductNormalSystem
from exhume.equation.norms import Norms
from exhume.equation.nuisance import cholesky
from exhume.equation.protocol import Point
from exhume.equation.trained_network import TrainedNetwork, Weights
from exhume.errors import InputError
from exhume.support.text import parse_bytes

# Added to the diagonal of the Gram matrix, over its mean: neighbouring nodes have nearly equal gradients.
_RIDGE = {torch.float32: 1e-6, torch.float64: 1e-14}

MEMORY_BUDGET = 4_000_000_000  # bytes, for the gradients of all samples at all nodes


@dataclass(frozen=True)
class Nodes:
    """Where gradients are taken and which of them are read.

    Attributes:
        weights: all weights of the network at every node.
        names: S.
        known: (m, d) training samples that are known; their coefficients are free too.
    """

    weights: tuple[Weights, ...]
    names: tuple[str, ...]
    known: torch.Tensor | None = None


@dataclass(frozen=True)
class PathPoint(Point):
    """The equation at a candidate; its residual is flat (e,).

    Attributes:
        coefficients: (n, Q k').
        columns: gradients (n Q k' + q, e), those of the samples first.
        factor: the Cholesky factor of their Gram matrix, in double precision.
        graph: what derivatives in the samples are computed from, made when it is first used.
    """

    columns: torch.Tensor
    factor: torch.Tensor
    make_graph: Callable[[PathPoint], _Graph]

    @cached_property
    def graph(self) -> _Graph:
        """The combination of gradients with the point's coefficients, as a graph in the samples."""
        return self.make_graph(self)


@dataclass(frozen=True)
class _Graph:
    """g(x) = sum_jq J(theta_q, x_j)^T c_jq and h(w) = grad_x <g, w>, which is linear in w: J D is grad_w <h, D>."""

    samples: torch.Tensor
    parts: tuple[torch.Tensor | None, ...]  # g, one part a parameter; None where it does not depend on the samples
    probes: tuple[torch.Tensor, ...]  # w
    slopes: torch.Tensor  # h


class PathEquation:
    """Delta_S = sum_q sum_j J_S(theta_q, x_j)^T c_jq over samples x_j, coefficients projected out.

    Args:
        network: whose weights moved.
        nodes: of the path, and the parameters that are read.
        count: called with the number of rows whenever they pass through the network.
        memory_budget: the gradients of all samples at all nodes must fit into it.
        left_out: (e,) bool: equations that are left out.

    Attributes:
        num_equations: numbers in S, less those that known samples use up.
        squared_norm: of Delta_S.
    """

    def __init__(
        self,
        network: TrainedNetwork,
        nodes: Nodes,
        *,
        count: Callable[[float], None] = lambda rows: None,
        memory_budget: int | str = MEMORY_BUDGET,
        left_out: torch.Tensor | None = None,
    ) -> None:
        self.network, self.nodes, self._count, self._budget = network, nodes, count, parse_bytes(memory_budget)
        moved = [network.after[name] - network.before[name] for name in nodes.names]
        self._shapes = [part.shape for part in moved]
        self._kept = None if left_out is None else ~left_out
        self.displacement = self._flat(moved)
        self.dtype = self.displacement.dtype
        self._readout = network.readout.to(self.displacement)
        self.squared_norm = float(self.displacement.square().sum(dtype=torch.float64))
        if not self.squared_norm > 0:
            raise InputError(f"the parameters {', '.join(nodes.names)} did not move: they carry no training data")
        self.per_sample = len(nodes.weights) * len(self._readout)  # coefficients of a sample
        # Weight decay takes an unknown share of the initial weights.
        fixed = self._flat([network.before[name] for name in nodes.names])[None]
        known = nodes.known
        if known is not None:
            fixed = torch.cat([self._columns(known.to(self.displacement)), fixed])
        self._fixed = fixed
        self.num_equations = len(self.displacement) - (0 if known is None else len(known) * self.per_sample)

    def at(self, rows: torch.Tensor) -> PathPoint:
        """The equation with coefficients fitted by least squares."""
        rows = rows.detach().to(self.displacement)
        columns = torch.cat([self._columns(rows), self._fixed])
        factor = cholesky((columns @ columns.T).double(), _RIDGE[self.dtype])
        weights = self._solve(factor, columns, self.displacement)
        residual = self.displacement - weights @ columns
        more = self._solve(factor, columns, residual)  # refines what rounding and the ridge left
        weights, residual = weights + more, residual - more @ columns
        coefficients = weights[: len(rows) * self.per_sample].reshape(len(rows), -1)
        loss = self.squared_size(residual) / self.squared_norm
        return PathPoint(rows, len(rows), coefficients, residual, loss, columns, factor, self._make_graph)

    def independent_outputs(self, point: PathPoint) -> tuple[int, int]:
        """All coefficients of a sample: its equations are not told apart by outputs."""
        return point.coefficients.shape[1], point.coefficients.shape[1]

    def without_part(self, part: int, parts: int) -> PathEquation | None:
        """The equation without every so-manieth output unit of every layer."""
        if self._kept is not None:
            return None
        units = [torch.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)).expand(shape) for shape in self._shapes]
        left_out = torch.cat([unit.flatten() for unit in units]).to(self.displacement.device) % parts == part
        return PathEquation(self.network, self.nodes, count=self._count, memory_budget=self._budget, left_out=left_out)

    def total_coefficients(self, point: PathPoint) -> torch.Tensor:
        """For every sample its coefficients summed over the nodes, in the outputs: (n, k)."""
        return point.coefficients.reshape(point.num_samples, -1, len(self._readout)).sum(1) @ self._readout

    def jacobian(self, point: PathPoint, directions: torch.Tensor) -> torch.Tensor:
        """Change of the explained part along directions (n, d), coefficients fixed: (e,)."""
        self._count(2 * len(point.rows) * len(self.nodes.weights))
        graph = point.graph
        found = torch.autograd.grad(
            graph.slopes, graph.probes, directions.to(self.displacement), retain_graph=True, allow_unused=True
        )
        pairs = zip(found, graph.probes, strict=True)
        return self._flat([torch.zeros_like(probe) if part is None else part for part, probe in pairs])

    def dependence(self, point: PathPoint, directions: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        """`jacobian`; equations are not told apart by sample."""
        return self.jacobian(point, directions), None

    def adjoint(self, point: PathPoint, change: torch.Tensor) -> torch.Tensor:
        """The adjoint of `jacobian`: (e,) -> (n, d)."""
        self._count(2 * len(point.rows) * len(self.nodes.weights))
        if self._kept is not None:
            change = change.new_zeros(len(self._kept)).masked_scatter(self._kept, change)
        sizes = [math.prod(shape) for shape in self._shapes]
        parts = [part.reshape(s) for part, s in zip(change.split(sizes), self._shapes, strict=True)]
        used = [(g, part) for g, part in zip(point.graph.parts, parts, strict=True) if g is not None]
        moved, cotangents = zip(*used, strict=True)
        return torch.autograd.grad(moved, point.graph.samples, cotangents, retain_graph=True)[0].detach()

    def project(self, point: PathPoint, change: torch.Tensor) -> torch.Tensor:
        """What no coefficients explain of a change (e,)."""
        rest = change - self._solve(point.factor, point.columns, change) @ point.columns
        if self.dtype == torch.float64:
            rest = rest - self._solve(point.factor, point.columns, rest) @ point.columns
        return rest

    def squared_size(self, change: torch.Tensor) -> float:
        """||change||^2."""
        return float(change.square().sum(dtype=torch.float64))

    def normal_system(self, point: PathPoint, damping: float, norms: Norms) -> ProductNormalSystem[PathPoint]:
        """The linear system of a Gauss-Newton step, by products alone."""
        strength = point.coefficients.square().sum(1, keepdim=True)
        return ProductNormalSystem(self, point, damping, norms, strength)

    def contributions(self, point: PathPoint) -> torch.Tensor:
        """For every sample the increase of the loss when it is removed: c_i^T ([G^-1]_ii)^-1 c_i, (n,)."""
        count, each = point.coefficients.shape
        inverse = torch.cholesky_inverse(point.factor)[: count * each, : count * each]
        blocks = inverse.reshape(count, each, count, each).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        coefficients = point.coefficients.double()
        return (torch.linalg.solve(blocks, coefficients) * coefficients).sum(1) / self.squared_norm

    def cancellation(self, point: PathPoint) -> float:
        """How much larger the samples' terms are than Delta_S."""
        count, each = point.coefficients.shape
        terms = torch.einsum("ij,ije->ie", point.coefficients, point.columns[: count * each].reshape(count, each, -1))
        return max(1.0, math.sqrt(self.squared_size(terms) / self.squared_norm))

    def _solve(self, factor: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        return torch.cholesky_solve((columns @ change).double()[:, None], factor)[:, 0].to(change)

    def _flat(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        flat = torch.cat([part.detach().flatten() for part in parts])
        return flat if self._kept is None else flat[self._kept]

    def _columns(self, rows: torch.Tensor) -> torch.Tensor:
        """J(theta_q, x_j)^T e for every sample, node and direction of the errors: (n Q k', e)."""
        size = self.displacement.element_size() * sum(math.prod(shape) for shape in self._shapes)
        needed = len(rows) * self.per_sample * size
        if needed > self._budget:
            raise InputError(
                f"the gradients of {len(rows)} samples in {size // self.displacement.element_size()} weights, "
                f"{self.per_sample} each, take {needed / 1e9:.1f} GB; the memory budget is {self._budget / 1e9:.1f} GB"
            )
        outputs, others = len(self._readout), self.network.after
        self._count((1 + outputs) * len(rows) * len(self.nodes.weights))
        found = []
        for weights in self.nodes.weights:
            read = {name: weights[name] for name in self.nodes.names}

            def errors(read: Weights, row: torch.Tensor, weights: Weights = weights) -> torch.Tensor:
                return self._readout @ self.network.outputs({**others, **weights, **read}, row[None])[0]

            jacobians = torch.func.vmap(torch.func.jacrev(errors), (None, 0))(read, rows)
            flat = torch.cat([jacobians[name].detach().flatten(2) for name in self.nodes.names], 2)
            found.append(flat if self._kept is None else flat[:, :, self._kept])
        return torch.stack(found, 1).reshape(len(rows) * self.per_sample, -1)

    def _make_graph(self, point: PathPoint) -> _Graph:
        self._count(4 * len(point.rows) * len(self.nodes.weights))
        weights_of = point.coefficients.reshape(len(point.rows), len(self.nodes.weights), -1) @ self._readout
        found = []
        with torch.enable_grad():
            samples = point.rows.detach().clone().requires_grad_()
            for at, weights in enumerate(self.nodes.weights):
                read = {name: weights[name].clone().requires_grad_() for name in self.nodes.names}
                outputs = self.network.outputs({**self.network.after, **weights, **read}, samples)
                weighted = (weights_of[:, at] * outputs).sum()
                found.append(torch.autograd.grad(weighted, list(read.values()), create_graph=True, allow_unused=True))
            by_parameter = zip(*found, strict=True)
            depend = [[part for part in parts if part is not None and part.requires_grad] for parts in by_parameter]
            total = [sum(parts[1:], parts[0]) if parts else None for parts in depend]
            probes = tuple(torch.zeros(shape).to(samples).requires_grad_() for shape in self._shapes)
            moved = [(part, probe) for part, probe in zip(total, probes, strict=True) if part is not None]
            parts, cotangents = zip(*moved, strict=True)
            (slopes,) = torch.autograd.grad(parts, samples, cotangents, create_graph=True)
        return _Graph(samples, tuple(total), probes, slopes)
