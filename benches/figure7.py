"""The paper's Figure 7: a two-layer network on 100 CIFAR-10 images, p_L = 4dn: trained and attacked (EXHUME_DATA)."""

import resource
import time

import exhume
from benches.problems import FIGURES, say, table
from exhume import data, networks
from exhume.gallery import save_gallery
from exhume.victims import train
from exhume.victims.networks import target

PER_CLASS, RATIO = 10, 4


def main() -> None:
    training = data.load("cifar10", classes="all", per_class=PER_CLASS)
    count, dim = training.inputs.shape
    outputs = training.labels.shape[1]
    network = networks.TwoLayer(dim, RATIO * dim * count // outputs, outputs, seed=100)
    began = time.perf_counter()
    trained = train(network, training.inputs, training.labels, stable=True)
    trained_in = time.perf_counter() - began
    say(f"width {network.num_features}: loss {trained.loss:.1e} after {trained.steps} steps, {trained_in:.0f} s")
    say(f"{trained.note} Features moved by {100 * trained.drift:.2g} %.")
    assert training.picture is not None
    victim = target(
        trained,
        input_shape=training.picture.shape,
        knowledge=exhume.Knowledge.about(training.labels, interpolated=trained.interpolates),
    )
    del trained, network
    seen: list[float] = []

    def report(event: exhume.attacks.ProgressEvent) -> None:
        if not seen or event.passes > seen[-1] + 50:
            seen.append(event.passes)
            say(f"step {event.step}, {event.passes:.0f} passes, residual {event.loss**0.5:.4f}")

    result = exhume.reconstruct(victim, progress=report)
    say(result.summary())
    judged = exhume.score(result, training.inputs, true_labels=training.labels)
    errors = [match.error for match in judged.matches]
    columns = ("n", "recovered", "error", "worst", "predicted", "labels", "steps", "passes", "seconds", "training")
    row = (
        count,
        judged.recovered,
        f"{judged.error:.4f}",
        f"{max(errors):.4f}",
        f"{result.certificate.predicted_error or float('nan'):.4f}",
        f"{judged.label_accuracy or 0:.0%}",
        result.steps,
        f"{result.passes:.0f}",
        f"{result.seconds:.0f}",
        f"{trained_in:.0f} s",
    )
    table(columns, [row])
    FIGURES.mkdir(exist_ok=True)
    found = result.samples[[match.row for match in judged.matches]].to(training.inputs)
    title = f"{judged.recovered} of {count} recovered (true above, recovered below with its error)"
    path = FIGURES / "figure7.png"
    save_gallery(path, training.inputs, found, errors, training.picture.to_pictures, title=title)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB; gallery in {path}")
