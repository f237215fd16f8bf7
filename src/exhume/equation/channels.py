"""The channel equation: the displacement of the convolution below a pooled head, one output channel at a time.

    Delta W_o = sum_q sum_j g_joq f_o(theta_q, x_j),   f_o = d phi_o / d W_o = sum_p phi'_op u_p

phi_o is the feature that the head reads of channel o, such as the mean of relu over positions p, and u_p the patch that
the convolution reads there. g_joq is the derivative of the loss of sample j in feature o, summed over training steps
near node theta_q. It is free, so that neither the head nor the recipe has to be known, and projected out channel by
channel. So is a multiple of the initial weights, of which weight decay takes an unknown share.

Shapes: o channels with K weights each (the bias is the last), Q nodes, m candidates, P positions, and c columns for
every channel: Q m of candidates, those of known samples, and the initial weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from exhume.equation.normal_system import ProductNormalSystem
from exhume.equation.norms import Norms
from exhume.equation.pooled_head import PooledHead
from exhume.equation.protocol import Point
from exhume.equation.trained_network import Weights

# Added to the diagonals of the Gram matrices, over their means: neighbouring nodes have nearly equal gradients. Those
# of channels that are active for no candidate are zero: they get a share of the mean over channels.
_RIDGE, _INACTIVE = {torch.float32: 1e-6, torch.float64: 1e-13}, 1e-3
# Times that the ridge of a channel is raised, by a factor of 100 each: then it exceeds any diagonal.
_RAISED = 9


@dataclass(frozen=True)
class ChannelPoint(Point):
    """The equation at a candidate; its residual is (o, K).

    Attributes:
        coefficients: (m, Q o).
        multipliers: the same, and those of known samples and of the initial weights behind them, by channel: (o, c).
        columns: what they multiply, (o, c, K).
        factor: Cholesky factors of the Gram matrices (o, c, c), in double precision.
        make_graph: called when derivatives in the samples are first needed.
    """

    multipliers: torch.Tensor
    columns: torch.Tensor
    factor: torch.Tensor
    make_graph: Callable[[ChannelPoint], _Graph]

    @cached_property
    def graph(self) -> _Graph:
        """The explained part as a graph in the samples."""
        return self.make_graph(self)


@dataclass(frozen=True)
class _Graph:
    """g(x) = sum_jq g_joq f_o(theta_q, x_j) and h(w) = grad_x <g, w>, which is linear in w: J D is grad_w <h, D>."""

    samples: torch.Tensor
    explained: torch.Tensor  # g (o, K)
    probe: torch.Tensor  # w (o, K)
    slopes: torch.Tensor  # h (m, d)


class ChannelEquation:
    """Delta W_o = sum_q sum_j g_joq f_o(theta_q, x_j) over samples x_j, coefficients projected out.

    Args:
        head: the convolution and its network.
        nodes: weights at points of the path of training.
        sharpness: of ReLUs, which are smooth: over the scale of the convolution's outputs.
        known: (m, d) training samples that are known; their coefficients are free too.
        count: called with the number of rows whenever they pass through the network.

    Attributes:
        num_equations: numbers in Delta W, less those that known samples use up.
        squared_norm: of Delta W.
    """

    def __init__(
        self,
        head: PooledHead,
        nodes: tuple[Weights, ...],
        sharpness: float,
        known: torch.Tensor | None = None,
        count: Callable[[float], None] = lambda rows: None,
    ) -> None:
        self.head, self.nodes, self.sharpness, self._count = head, nodes, sharpness, count
        before = head.flat(head.network.before)
        self.displacement = head.flat(head.network.after) - before
        self.num_equations = self.displacement.numel()
        self.squared_norm = float(self.displacement.square().sum(dtype=torch.float64))
        self._fixed = before[:, None]  # weight decay takes an unknown share of them
        if known is not None:
            self._fixed = torch.cat([self._columns(known.to(before)), self._fixed], 1)
            self.num_equations -= len(known) * len(nodes) * len(before)

    def at(self, rows: torch.Tensor) -> ChannelPoint:
        """The equation with coefficients fitted by least squares."""
        rows = rows.detach().to(self.displacement)
        columns = torch.cat([self._columns(rows), self._fixed], 1)
        factor = _factors((columns @ columns.mT).double(), _RIDGE[columns.dtype])
        fitted = _solve(factor, columns, self.displacement)
        residual = self.displacement - _combined(fitted, columns)
        more = _solve(factor, columns, residual)  # refines what rounding and the ridge left
        fitted, residual = fitted + more, residual - _combined(more, columns)
        loss = self.squared_size(residual) / self.squared_norm
        coefficients = self._by_sample(fitted, len(rows)).permute(2, 1, 0).flatten(1)
        return ChannelPoint(rows, len(rows), coefficients, residual, loss, fitted, columns, factor, self._make_graph)

    def independent_outputs(self, point: ChannelPoint) -> tuple[int, int]:
        """All coefficients of a sample: its equations are not told apart by outputs."""
        return point.coefficients.shape[1], point.coefficients.shape[1]

    def without_part(self, part: int, parts: int) -> None:
        """The equation is not divided: samples are certified by the path equation."""
        return

    def jacobian(self, point: ChannelPoint, directions: torch.Tensor) -> torch.Tensor:
        """Change of the explained part along directions (m, d), coefficients fixed: (o, K)."""
        self._count(2 * len(point.rows) * len(self.nodes))
        graph = point.graph
        return torch.autograd.grad(graph.slopes, graph.probe, directions.to(graph.slopes), retain_graph=True)[0]

    def dependence(self, point: ChannelPoint, directions: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        """`jacobian`; equations are not told apart by sample."""
        return self.jacobian(point, directions), None

    def adjoint(self, point: ChannelPoint, change: torch.Tensor) -> torch.Tensor:
        """The adjoint of `jacobian`: (o, K) -> (m, d)."""
        self._count(2 * len(point.rows) * len(self.nodes))
        return torch.autograd.grad(point.graph.explained, point.graph.samples, change, retain_graph=True)[0]

    def project(self, point: ChannelPoint, change: torch.Tensor) -> torch.Tensor:
        """What no coefficients explain of a change (o, K)."""
        rest = change - _combined(_solve(point.factor, point.columns, change), point.columns)
        if change.dtype == torch.float64:
            rest = rest - _combined(_solve(point.factor, point.columns, rest), point.columns)
        return rest

    def squared_size(self, change: torch.Tensor) -> float:
        """||change||^2."""
        return float(change.square().sum(dtype=torch.float64))

    def normal_system(self, point: ChannelPoint, damping: float, norms: Norms) -> ProductNormalSystem[ChannelPoint]:
        """The linear system of a Gauss-Newton step, by products alone."""
        return ProductNormalSystem(self, point, damping, norms, point.coefficients.square().sum(1, keepdim=True))

    def contributions(self, point: ChannelPoint) -> torch.Tensor:
        """For every sample the increase of the loss when it is removed, summed over the channels, (m,)."""
        count, nodes = point.num_samples, len(self.nodes)
        inverse = torch.cholesky_inverse(point.factor)[:, : count * nodes, : count * nodes]
        blocks = inverse.reshape(-1, nodes, count, nodes, count).diagonal(dim1=2, dim2=4).permute(0, 3, 1, 2)
        fitted = self._by_sample(point.multipliers, count).permute(0, 2, 1).double()  # (o, m, Q)
        gains = (torch.linalg.solve(blocks, fitted[..., None])[..., 0] * fitted).sum((0, 2))
        return gains / self.squared_norm

    def cancellation(self, point: ChannelPoint) -> float:
        """How much larger the samples' terms are than Delta W."""
        used = self._by_sample(point.multipliers, point.num_samples)
        columns = point.columns[:, : used[0].numel()].unflatten(1, used.shape[1:])  # (o, Q, m, K)
        terms = torch.einsum("oqm,oqmk->omk", used, columns)
        return max(1.0, math.sqrt(self.squared_size(terms) / self.squared_norm))

    def _by_sample(self, multipliers: torch.Tensor, count: int) -> torch.Tensor:
        """Coefficients of the samples, (o, Q, m)."""
        return multipliers[:, : len(self.nodes) * count].reshape(len(multipliers), len(self.nodes), count)

    def _columns(self, rows: torch.Tensor) -> torch.Tensor:
        """f_o(theta_q, x_j): (o, Q m, K)."""
        self._count(2 * len(rows) * len(self.nodes))
        found = []
        for node in self.nodes:
            patches, slopes = self.head.patches_and_slopes(node, rows, self.sharpness)
            found.append((slopes @ patches.mT).detach().transpose(0, 1))
        return torch.cat(found, 1)

    def _make_graph(self, point: ChannelPoint) -> _Graph:
        self._count(4 * len(point.rows) * len(self.nodes))
        of_samples = self._by_sample(point.multipliers, len(point.rows))
        with torch.enable_grad():
            samples = point.rows.detach().clone().requires_grad_()
            total = torch.zeros_like(self.displacement)
            for at, node in enumerate(self.nodes):
                patches, slopes = self.head.patches_and_slopes(node, samples, self.sharpness)
                errors = (slopes * of_samples[:, at].T[..., None]).transpose(0, 1).flatten(1)  # (o, m P)
                total = total + errors @ patches.transpose(1, 2).flatten(0, 1)
            probe = torch.zeros_like(total).requires_grad_()
            (slopes_in_samples,) = torch.autograd.grad(total, samples, probe, create_graph=True)
        return _Graph(samples, total, probe, slopes_in_samples)


def _factors(gram: torch.Tensor, ridge: float) -> torch.Tensor:
    """Cholesky factors (o, c, c); the ridge of a channel whose columns nearly coincide grows until there is one."""
    mean = gram.diagonal(dim1=1, dim2=2).mean(1)
    ridges = ridge * (mean + _INACTIVE * mean.mean())
    for _ in range(_RAISED):
        factor, info = torch.linalg.cholesky_ex(gram + torch.diag_embed(ridges[:, None].expand(gram.shape[:2])))
        if not bool(info.any()):
            break
        ridges = torch.where(info > 0, 100 * ridges, ridges)
    return factor


def _solve(factor: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """Coefficients (o, c) of the columns that fit a change (o, K)."""
    moments = (columns @ change[..., None]).double()
    return torch.cholesky_solve(moments, factor)[..., 0].to(change)


def _combined(multipliers: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """The columns added up by multipliers (o, c): (o, K)."""
    return (multipliers[:, None] @ columns)[:, 0]
