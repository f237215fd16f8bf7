"""Writes the constants of the law and of the cost into the explorer: `python docs/build_explorer.py`.

`tests/test_explorer.py` fails if they are out of date, and compares the page's numbers with those of exhume.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.law import ACTIVE_SHARE, HOMOGENEITY, PRACTICAL_RATIO
from exhume.planning.passes import PASSES_PER_STEP, PowerLaw, law_of_passes

PAGE = Path(__file__).parent / "explanation" / "law_explorer.html"
_BLOCK = re.compile(r'(<script type="application/json" id="constants">).*?(</script>)', flags=re.DOTALL)

# Smallest and largest ratio of a sample's error and the noise on the weights (reference/results.md, `python -m benches
# certificate`: sphere d = 20, n = 10, one output), from 3 equations per unknown on and between 2 and 3; and the errors
# without noise, which are those of float32. With fewer equations it was not measured.
ERRORS = {
    "reconstructible": [0.8, 5.0],
    "grey_zone": [1.8, 26.0],
    "rounding": [1e-7, 3e-6],
    "measured_from": 2.0,
}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "The paper's Figure 1": (
        "random features on 100 images of CIFAR-10",
        {"dim": 3072, "samples": 100, "width": 3_072_000, "outputs": 1, "activation": "relu"},
    ),
    "LeNet-5": (
        "its head, 84 features, on 60,000 images of MNIST",
        {"dim": 784, "samples": 60_000, "width": 84, "outputs": 10, "activation": "tanh"},
    ),
    "ResNet-18": (
        "its head, 512 features, on CIFAR-10",
        {"dim": 3072, "samples": 50_000, "width": 512, "outputs": 10, "activation": "relu"},
    ),
    "ViT-B": (
        "its head, 768 features, on ImageNet",
        {"dim": 150_528, "samples": 1_281_167, "width": 768, "outputs": 1000, "activation": "gelu"},
    ),
    "scikit-learn pipeline": (
        "20,000 random features of 10 columns, ridgeless regression on the 442 patients of load_diabetes",
        {"dim": 10, "samples": 442, "width": 20_000, "outputs": 1, "activation": "relu"},
    ),
    "Few-shot probe": (
        "a head of 10 outputs on 2,048 frozen features, 20 images of 32 x 32 pixels in grey",
        {"dim": 1024, "samples": 20, "width": 2048, "outputs": 10, "activation": "gelu"},
    ),
}


def constants() -> dict[str, Any]:
    """All numbers that the page needs."""
    basis, schedule = DEFAULT_TUNING.basis, DEFAULT_TUNING.schedule
    return {
        "practical_ratio": PRACTICAL_RATIO,
        "activations": {
            name: {"homogeneous": degree is not None, "active_share": ACTIVE_SHARE.get(name, 1.0)}
            for name, degree in HOMOGENEITY.items()
        },
        "cost": {
            "least_dims": basis.least_dims,
            "dims_per_sample": basis.dims_per_sample,
            "read_in_basis": schedule.in_basis,
            "read_by_subsets": schedule.by_subsets,
            "small_matrix": schedule.small_matrix,
            "least_saving": schedule.least_saving,
            "passes_per_step": PASSES_PER_STEP,
            "one_output": _of(law_of_passes(1)),
            "several_outputs": _of(law_of_passes(2)),
        },
        "errors": ERRORS,
        "presets": {name: {"summary": summary, "settings": settings} for name, (summary, settings) in PRESETS.items()},
    }


def _of(law: PowerLaw) -> dict[str, float]:
    names = [field.name for field in fields(law) if field.name == "factor" or field.name.startswith("of_")]
    return {name: float(f"{getattr(law, name):.12g}") for name in names}  # rounded: fits differ in their last bits


def main() -> None:
    """Writes the page."""
    text = json.dumps(constants(), indent=1)
    page = _BLOCK.sub(lambda found: found[1] + text + found[2], PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
