"""The families of defences by name, and how they are chosen."""

from __future__ import annotations

from collections.abc import Iterable

from exhume.defences.base import Defence
from exhume.defences.coordinates import Coordinates
from exhume.defences.noise import Noise
from exhume.defences.private import PrivateTraining
from exhume.defences.pruning import Pruning
from exhume.defences.ridge import Ridge
from exhume.defences.rounding import Rounding
from exhume.defences.samples import MoreSamples
from exhume.errors import unknown_name

DEFENCES: dict[str, type[Defence]] = {
    defence.name: defence for defence in (Rounding, Noise, Pruning, Coordinates, Ridge, MoreSamples, PrivateTraining)
}


def chosen(families: Iterable[str | Defence] | None) -> list[Defence]:
    """Defences by name, with their own settings, or as they are given; all of them for None."""
    defences = []
    for family in DEFENCES if families is None else families:
        if isinstance(family, str) and family not in DEFENCES:
            raise unknown_name("defence", family, DEFENCES)
        defences.append(DEFENCES[family]() if isinstance(family, str) else family)
    return defences
