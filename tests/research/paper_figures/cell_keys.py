"""For each sweep of the figures: the number of its cells and the hash of their keys, recorded in cell_keys.json.

    python tests/research/paper_figures/cell_keys.py           records sweeps that are not in the file yet
    python tests/research/paper_figures/cell_keys.py SWEEP...  records these anew, for example fig3-laptop

A store holds results by the keys of their cells; with other keys it would compute all of them again. Record a sweep
anew only if its grid was meant to change.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from exhume.research.paper_figures import FIGURES, Scale

RECORD = Path(__file__).with_suffix(".json")


def recorded() -> dict[str, dict[str, Any]]:
    """What the file holds, by the name of the sweep."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def cell_keys(scale: Scale) -> dict[str, Any]:
    """The number of cells and the hash of their keys, in order."""
    keys = [cell.key for cell in scale.cells()]
    return {"cells": len(keys), "sha256": hashlib.sha256("\n".join(keys).encode()).hexdigest()}


def main(sweeps: list[str]) -> None:
    """Writes the file with the named sweeps recorded anew, missing ones added and those of removed figures left out."""
    before = recorded()
    scales = {figure.sweep(name): scale for figure in FIGURES.values() for name, scale in figure.scales().items()}
    if unknown := set(sweeps) - set(scales):
        sys.exit(f"unknown sweeps: {', '.join(sorted(unknown))}; valid: {', '.join(scales)}")
    kept = {
        sweep: before[sweep] if sweep in before and sweep not in sweeps else cell_keys(scale)
        for sweep, scale in scales.items()
    }
    lines = (f'  "{sweep}": {json.dumps(values)}' for sweep, values in kept.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
