"""What would reduce the risk of a pipeline: chosen by what its steps give away."""

from __future__ import annotations

from collections.abc import Iterator

from exhume.estimators.findings import PipelineFindings, StepFinding, StepKind

# Estimators that keep rows without needing them once fitted: what to delete, so that nothing else changes.
DISPENSABLE = {
    "DBSCAN": "components_",
    "HDBSCAN": "_raw_data",
    "LocalOutlierFactor": "_fit_X",
}
_INSTEAD = {
    "KNNImputer": "SimpleImputer or IterativeImputer, which keep no rows",
    "KernelPCA": "PCA, which keeps directions and a mean",
    "Nystroem": "RBFSampler, whose components are random, with fewer components than numbers in the rows",
    "LocalOutlierFactor": "IsolationForest, which keeps thresholds instead of rows",
    "KMeans": "fewer clusters, so that none holds one row",
    "GaussianNB": "classes with more than one row",
}
_ANY_INSTEAD = "a model that keeps no rows (trees, a linear model), or one fitted on its predictions for other rows"


def remedies_for(pipeline: PipelineFindings) -> Iterator[tuple[str, str]]:
    """Titles and texts, for the steps that give most away first."""
    for step in _once(pipeline, StepKind.KEEPS_ROWS):
        if step.name in DISPENSABLE:
            name = DISPENSABLE[step.name]
            yield (
                f"Delete {name} of {step.name} before you save it",
                f"del estimator.{name}: predictions for rows that were fitted do not need it. An outlier detector with "
                "novelty=True does. Then audit the file again.",
            )
        yield (
            f"Do not publish {step.name}",
            f"It needs rows of its training data to predict, so no setting removes them. Use instead: "
            f"{_INSTEAD.get(step.name, _ANY_INSTEAD)}. Or serve its predictions and keep the file.",
        )
    for step in _once(pipeline, StepKind.RECOVERED):
        yield from _of_weights(step)
    if any(step.kind is StepKind.STATISTICS for step in pipeline.steps):
        yield (
            "Publish no more statistics than needed",
            "Means, variances, ranges and the number of rows of scalers bring recovered rows back to their units. Fit "
            "scalers on other data of the same kind, or round what they store.",
        )
    yield (
        "Train with differential privacy",
        "The only remedy with a proof against every attack, also those not known yet; it costs accuracy, the more the "
        "fewer rows there are. Not measured here.",
    )


def _of_weights(step: StepFinding) -> Iterator[tuple[str, str]]:
    if step.name.startswith("MLP"):
        yield (
            "Store no random_state",
            "The attack makes the initial weights again from it. Fit with random_state=None; deleting the number "
            "afterwards is not enough if it is small, since small numbers are found by trying.",
        )
        yield (
            "Do not rely on a larger alpha",
            "With sgd, rows came back also at alpha=0.1 (python -m benches estimators). A network that lbfgs fits "
            "until nothing of its initial weights is left withstood this attack, which is no proof of safety.",
        )
        yield (
            "Fit on more rows for each neuron",
            "A row is told from others by the neurons that it leaves inactive; the attack needs at least 3 neurons for "
            "each row, and more rows than columns hide each other.",
        )
        return
    yield (
        "Use fewer components",
        "The coefficients determine the rows only if there are more of them than numbers in all rows together: choose "
        "n_components below rows times columns.",
    )
    yield (
        "Do not rely on a larger alpha or a smaller C",
        "A stronger penalty makes the coefficients smaller, and they stay a combination of the same features: with "
        "Ridge(alpha=1000) all rows came back as with 0.1 (python -m benches records).",
    )


def _once(pipeline: PipelineFindings, kind: StepKind) -> Iterator[StepFinding]:
    """The first step of every class."""
    seen: set[str] = set()
    for step in pipeline.steps:
        if step.kind is kind and step.name not in seen:
            seen.add(step.name)
            yield step
