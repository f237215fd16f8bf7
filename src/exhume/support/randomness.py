"""Randomness: generators that depend on a seed and on what they are for."""

from __future__ import annotations

import hashlib

import torch


def seed_for(seed: int, purpose: str) -> int:
    """32 bits (all that torch's CPU generator reads) for one purpose of a seed.

    Two purposes with the same seed are independent: an attack started with the seed that drew the data must not begin
    at the data.
    """
    return int.from_bytes(hashlib.sha256(f"{purpose}:{int(seed)}".encode()).digest()[:4], "little")


def generator_for(seed: int, purpose: str) -> torch.Generator:
    """A CPU generator for one purpose of a seed."""
    return torch.Generator().manual_seed(seed_for(seed, purpose))
