"""What a sample can have sent back to the first layer: the derivatives of a network's outputs by its pre-activations.

The column c_j of D = C [X 1] that belongs to sample j is the sum over training of J(theta(t), x_j)^T g_j(t), with J the
derivative (k, h) of the outputs by the pre-activations of the first layer. With nodes theta_q on the path of training
it lies nearly in the span of the k Q rows of J(theta_q, x_j): a condition on one input alone, whatever the activation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from exhume.equation.trained_network import TrainedNetwork, Weights
from exhume.features.smooth_relu import relative_softplus
from exhume.target.dense_displacement import DenseDisplacement
from exhume.target.network_weights import NetworkWeights

Tensor = torch.Tensor


@dataclass(frozen=True)
class InputFrame:
    """D in coordinates: columns are `basis` v, inputs [x 1] are y `right`, with y in origin + span(directions).

    Where columns of some samples are known, D is what the projection off these columns leaves of it, which has the
    inputs of the other samples as its rows. Columns of these are then known up to the known ones.

    Attributes:
        basis, sizes, right: the singular value decomposition of D: (h, n), (n,), (n, m).
        origin, directions: (n,) and (n, p): the bias makes the last entry of [x 1] one. Without it, all of R^n.
        known: columns that are known, (h, q).
    """

    basis: Tensor
    sizes: Tensor
    right: Tensor
    origin: Tensor
    directions: Tensor
    known: Tensor

    @staticmethod
    def of(moved: DenseDisplacement, known: Tensor | None = None) -> InputFrame:
        """The frame of a first layer's displacement, of whose columns some (h, q) may be known."""
        spectrum = moved.spectrum
        basis, sizes, right = spectrum.left, spectrum.sizes, spectrum.right
        known = basis[:, :0] if known is None else known
        if known.shape[1]:
            taken, whole = torch.linalg.qr(known)[0], basis * sizes
            basis, sizes, turn = torch.linalg.svd(whole - taken @ (taken.T @ whole), full_matrices=False)
            count = len(sizes) - known.shape[1]
            basis, sizes, right = basis[:, :count], sizes[:count], turn[:count] @ right
        origin, directions = torch.zeros_like(right[:, -1]), torch.eye(len(right)).to(right)
        if moved.has_bias:
            last = right[:, -1]
            origin = last / (last @ last)
            directions = torch.linalg.svd(last[None])[2][1:].T.contiguous()
        return InputFrame(basis, sizes, right, origin, directions, known)

    def to(self, dtype: torch.dtype) -> InputFrame:
        """In another precision."""
        parts = (self.basis, self.sizes, self.right, self.origin, self.directions, self.known)
        return InputFrame(*(part.to(dtype) for part in parts))

    def columns(self, inputs: Tensor) -> Tensor:
        """The columns (n, h) with which all inputs (n, n) explain D."""
        return (self.basis * self.sizes @ torch.linalg.pinv(inputs)).T

    @property
    def rank(self) -> int:
        """n."""
        return len(self.sizes)


class ReadNetwork(TrainedNetwork):
    """A network above its first layer, at any weights.

    Args:
        model: its module and its weights at both ends of training.
        moved: the displacement of its first layer.
        input_shape: shape of one input.
        sharpness: of smooth functions in the place of ReLUs in `above`, relative to a sample's values; None for ReLUs.
    """

    def __init__(
        self,
        model: NetworkWeights,
        moved: DenseDisplacement,
        input_shape: tuple[int, ...],
        sharpness: float | None = None,
    ) -> None:
        super().__init__(model, input_shape, share=moved.share)
        self.moved, self._sharpness = moved, sharpness

    def above(self, weights: Weights, values: Tensor) -> Tensor:
        """What is read off the outputs (m, k') where the first layer has the given pre-activations (m, h)."""
        first = self.module.get_submodule(self.moved.first.name)

        def replace(_layer: nn.Module, _args: object, output: Tensor) -> Tensor:
            return values.reshape(output.shape).clone()  # the activation may work in place

        handle = first.register_forward_hook(replace)
        try:
            size = len(values), self.moved.first.layer.weight.shape[1]
            with nullcontext() if self._sharpness is None else relative_softplus(self._sharpness):
                outputs = self.outputs(weights, torch.zeros(size, dtype=values.dtype, device=values.device))
        finally:
            handle.remove()
        return outputs @ self.readout.to(values).T

    @cached_property
    def by_neuron(self) -> bool:
        """Whether each neuron adds its own part to the outputs, as without a second hidden layer.

        Second derivatives by the pre-activations are then diagonal: random signs change those sums in sign alone.
        """
        generator, weights = torch.Generator().manual_seed(0), self.moved.after
        drawn = torch.randn((2, 1, len(weights)), generator=generator, dtype=torch.float64).to(weights)
        with torch.enable_grad():
            point, signs = drawn[0].requires_grad_(), drawn[1].detach().sign()
            (back,) = torch.autograd.grad(self.above(self.after, point).sum(), point, create_graph=True)
            ways = torch.stack([torch.ones_like(signs), signs])
            sums, signed = torch.autograd.grad(back, point, ways, is_grads_batched=True)[0]
        return bool((signed - signs * sums).norm() <= 1e-9 * sums.norm())


@dataclass(frozen=True)
class Spaces:
    """Spans of what each of m inputs can have sent back.

    Attributes:
        vectors: (m, q, h), over their mean norm, then projected off `taken`.
        points: the pre-activations at each node, that derivatives are taken by.
        graphs: the vectors of each node, with their graph.
        scale: that vectors were divided by.
        by_neuron: of the network.
        taken: an orthonormal basis (h, r) of what vectors are projected off.
    """

    vectors: Tensor
    points: tuple[Tensor, ...]
    graphs: tuple[Tensor, ...]
    scale: Tensor
    by_neuron: bool
    taken: Tensor

    def derivative(self, coefficients: Tensor, maps: Sequence[Tensor]) -> Tensor:
        """The derivative (m, p, h) of the combinations with coefficients (m, q) along the directions of `maps`."""
        total, begin = torch.zeros(()).to(self.vectors), 0
        for point, graph, way in zip(self.points, self.graphs, maps, strict=True):
            part = coefficients[:, begin : begin + graph.shape[1]]
            begin += graph.shape[1]
            combined = (part[:, :, None] * graph / self.scale).sum(1)
            if self.by_neuron:
                total = total + torch.autograd.grad(combined.sum(), point)[0][:, None, :] * way.T
                continue
            ways = way.T[:, None, :].expand(-1, len(point), -1)
            (moved,) = torch.autograd.grad(combined, point, ways, is_grads_batched=True)
            total = total + moved.transpose(0, 1)
        return total - (total @ self.taken) @ self.taken.T


class Nodes:
    """A network at nodes of the path of training, read at inputs in the coordinates of a frame.

    Args:
        network: above its first layer.
        frame: of the first layer's displacement.
        weights: at each node.
        dtype: of the computation.
    """

    def __init__(
        self, network: ReadNetwork, frame: InputFrame, weights: Sequence[Weights], dtype: torch.dtype = torch.float64
    ) -> None:
        self.frame, self._network, self._weights, self._exact = frame.to(dtype), network, weights, frame
        self._taken = torch.linalg.qr(frame.known)[0].to(dtype)
        first = network.moved.first
        width = first.layer.weight.shape[1]
        self._maps, self._offsets = [], []
        for each in weights:
            matrix = each[first.parameter("weight")] @ frame.right[:, :width].T
            bias = each.get(first.parameter("bias"))
            offset = torch.zeros_like(matrix[:, 0]) if bias is None or network.moved.has_bias else bias
            if bias is not None and network.moved.has_bias:
                matrix = matrix + bias[:, None] * frame.right[:, -1]
            self._maps.append(matrix.to(dtype))
            self._offsets.append(offset.to(dtype))
        self.ways = tuple(matrix @ self.frame.directions for matrix in self._maps)

    def __len__(self) -> int:
        return len(self._weights)

    def to(self, dtype: torch.dtype) -> Nodes:
        """In another precision."""
        return Nodes(self._network, self._exact, self._weights, dtype)

    def activations(self, inputs: Tensor) -> Tensor:
        """Pre-activations (m, h) at the first node."""
        return inputs @ self._maps[0].T + self._offsets[0]

    def spaces(self, inputs: Tensor) -> Spaces:
        """The spaces of inputs (m, n)."""
        points, graphs = [], []
        with torch.enable_grad():
            for matrix, offset, weights in zip(self._maps, self._offsets, self._weights, strict=True):
                point = (inputs @ matrix.T + offset).detach().requires_grad_()
                outputs = self._network.above(weights, point)
                rows = [
                    torch.autograd.grad(outputs[:, at].sum(), point, create_graph=True)[0]
                    for at in range(outputs.shape[1])
                ]
                points.append(point)
                graphs.append(torch.stack(rows, 1))
        vectors = torch.cat([graph.detach() for graph in graphs], 1)
        scale = torch.linalg.vector_norm(vectors, dim=2).mean(1)[:, None, None].clamp_min(1e-30)
        vectors = (vectors - (vectors @ self._taken) @ self._taken.T) / scale
        return Spaces(vectors, tuple(points), tuple(graphs), scale, self._network.by_neuron, self._taken)


def is_curved(network: ReadNetwork) -> bool:
    """Whether what an input sends back to the first layer changes with it, other than in jumps."""
    generator = torch.Generator().manual_seed(0)
    shape = network.moved.before.shape
    weights = network.moved.after / network.moved.after.norm(dim=1, keepdim=True).clamp_min(1e-30)
    drawn = torch.randn((4, shape[1]), generator=generator, dtype=torch.float64).to(weights)
    with torch.enable_grad():
        point = (drawn @ weights.T).requires_grad_()
        outputs = network.above(network.after, point)
        (back,) = torch.autograd.grad(outputs.sum(), point, create_graph=True)
        if not back.requires_grad:
            return False
        (bend,) = torch.autograd.grad(back.square().sum(), point, allow_unused=True)
    return bend is not None and bool((bend != 0).double().mean() > 0.5)
