"""One-layer features sharded over several processes, each with its own rows of V."""

from __future__ import annotations

from typing import Any

from exhume.errors import InputError
from exhume.features.matrix import BLOCK_ROWS, GaussianMatrix, RowMatrix
from exhume.features.one_layer import OneLayerMap
from exhume.features.protocol import FeatureMap
from exhume.support.distributed import WHOLE, Processes, Shard, stripe_for

CAN_BE_SHARDED = "random features and networks of one hidden layer, act(W x + b)"


def sharded(feature_map: FeatureMap, processes: Processes) -> OneLayerMap:
    """This process's part of a map: about p/R rows of V, in stripes that no other process holds.

    A seeded V is generated in blocks of rows, and a process generates only its own. A narrow V, of a few blocks per
    process, is cut into finer stripes, and each process keeps its part in memory whatever the budget.
    """
    if not isinstance(feature_map, OneLayerMap):
        raise InputError(
            f"the features of a {type(feature_map).__name__} cannot be shared out over processes; "
            f"valid: {CAN_BE_SHARDED}"
        )
    if feature_map.coordinates is not WHOLE:
        raise InputError("this feature map is one process's part of another already; share out the whole one")
    count, ranks = feature_map.num_features, processes.ranks
    if count < ranks:
        raise InputError(f"{count} features cannot be shared out over {ranks} processes; valid: at most {count}")
    stripe = stripe_for(count, ranks, BLOCK_ROWS)
    shard = Shard.striped(processes, count, stripe)
    matrix = _part_of(feature_map.matrix, shard, whole_blocks=stripe == BLOCK_ROWS)
    return feature_map.with_rows(matrix, shard.local_indices, shard)


def division(feature_map: FeatureMap) -> dict[str, Any]:
    """How a map is shared out: for every process its coordinates and its bytes of V; empty if it is not."""
    processes = feature_map.coordinates.processes
    if processes.ranks == 1 or not isinstance(feature_map, OneLayerMap):
        return {}
    return {
        "ranks": processes.ranks,
        "coordinates_of_ranks": processes.gather(feature_map.matrix.shape[0]),
        "bytes_of_ranks": processes.gather(feature_map.matrix.kept_bytes),
    }


def division_notes(divided: dict[str, Any]) -> tuple[str, ...]:
    """A sentence on the division, or none if there is none."""
    if not divided:
        return ()
    widths, sizes = divided["coordinates_of_ranks"], divided["bytes_of_ranks"]
    kept = f"{max(sizes) / 1e6:.3g} MB of V" if max(sizes) else "nothing of V, which was generated in every pass"
    return (
        f"Processes: {divided['ranks']} shared {sum(widths)} coordinates out; each held {min(widths)} to {max(widths)} "
        f"of them and kept {kept}.",
    )


def _part_of(matrix: RowMatrix, shard: Shard, *, whole_blocks: bool) -> RowMatrix:
    """The rows that the shard holds."""
    if not isinstance(matrix, GaussianMatrix):
        return matrix.subset(shard.local_indices)
    if whole_blocks:
        return GaussianMatrix(
            shard.local_indices.numel(),
            matrix.shape[1],
            matrix.seed,
            memory_budget=matrix.memory_budget,
            device=matrix.device,
            blocks=(shard.processes.rank, shard.processes.ranks),
        )
    # Block by block: a matrix that may keep nothing gathers rows without having all of them at once.
    return GaussianMatrix(*matrix.shape, matrix.seed, memory_budget=0, device=matrix.device).subset(shard.local_indices)
