"""Loss against feature passes, both methods on one problem: sphere d=30, n=20, p=5dn. Draws figs/convergence.png."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import exhume
from benches.problems import FIGURES, signed_error, sphere_problem, table


def main() -> None:
    training, victim = sphere_problem(30, 20, 5, seed=0)
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    rows = []
    for method, colour, options in (("exact", "tab:blue", {}), ("descent", "tab:red", {"max_steps": 20_000})):
        result = exhume.reconstruct(victim.target(), num_samples=20, method=method, **options)
        axis.loglog(result.history["passes"], result.history["loss"], color=colour, label=method)
        rows.append((method, f"{signed_error(result, training):.1e}", f"{result.passes:.0f}", f"{result.seconds:.1f}"))
    axis.set(xlabel="feature passes", ylabel="normalised loss", title="sphere d = 30, n = 20, p = 5dn")
    axis.legend()
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / "convergence.png", dpi=110)
    table(("method", "error", "passes", "seconds"), rows)
    print("\nexact: signed error; descent: up to sign")
