"""CIFAR-10 frogs and trucks: n=10 at p=3.25dn with both methods, raw pixels, n=30 at p=3dn (EXHUME_DATA)."""

import resource
import sys

import exhume
from benches.problems import FIGURES, table
from exhume import data
from exhume.scoring.gallery import save_gallery

DESCENT_STEPS = 300
CASES = (
    ("exact", 5, 100_000, "subset", 32),
    ("descent", 5, 100_000, "subset", 32),
    ("exact", 5, 6_240, "none", 8),
    ("exact", 5, 100_000, "none", 32),
    ("exact", 15, 3 * 3072 * 30, "subset", 32),
)


def main() -> None:
    rows = []
    for method, per_class, width, standardise, size in CASES:
        training = data.load("cifar10", per_class=per_class, standardise=standardise, size=size)
        victim = exhume.RandomFeatures(num_features=width).fit(training.inputs, training.labels)
        assert training.picture is not None
        knowledge = exhume.Knowledge.about(training.labels)
        target = victim.target(knowledge=knowledge, input_shape=training.picture.shape)
        options = {"max_steps": DESCENT_STEPS} if method == "descent" else {}
        result = exhume.reconstruct(target, method=method, seed=1, **options)
        judged = exhume.score(result, training.inputs, true_labels=training.labels)
        found = result.samples[[match.row for match in judged.matches]].to(training.inputs)
        norms = float((found.norm(dim=1) / training.inputs.norm(dim=1) - 1).abs().max())
        errors = judged.claimed_errors
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        rows.append(
            (
                method,
                2 * per_class,
                f"{'raw' if standardise == 'none' else 'standardised'}, {size} x {size}",
                f"{sum(errors) / len(errors):.1e}",
                f"{max(errors):.1e}",
                f"{norms:.1e}" if result.norms_determined else "-",
                "-" if judged.label_accuracy is None else f"{judged.label_accuracy:.0%}",
                f"{result.passes:.0f}",
                f"{result.seconds:.0f}",
                result.certificate.verdict,
            )
        )
        print(rows[-1], f"peak memory so far {peak:.1f} GB", file=sys.stderr, flush=True)
        if method == "exact":
            FIGURES.mkdir(exist_ok=True)
            path = FIGURES / f"cifar10_{2 * per_class}_{standardise}.png"
            title = f"{judged.recovered} of {2 * per_class} recovered (true above, recovered below with its error)"
            save_gallery(path, training.inputs, found, errors, training.picture.to_pictures, title=title)
    columns = ("method", "n", "images", "error", "worst image", "worst norm", "labels", "passes", "seconds", "verdict")
    table(columns, rows)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB; galleries in {FIGURES}")
