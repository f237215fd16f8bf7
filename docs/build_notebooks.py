"""Writes and executes the notebooks of docs/notebooks: `python docs/build_notebooks.py [NAME...]`.

The cells stand here as plain text, so that changes can be reviewed. `tests/test_notebooks.py` runs the notebooks and
compares their cells.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).with_name("notebooks")

# One text per notebook; cells are separated by lines of "---", and text cells start with "#md".
NOTEBOOKS = {
    "quick_start": """
#md # Quick start
Recover ten training images from the weights of a model, and find out how good the result is without the images.
---
import matplotlib.pyplot as plt

import exhume
from exhume import data

digits = data.load("digits", samples=10)
digits.inputs.shape, digits.labels.shape
---
#md ## The forecast
A model with p weights determines n samples of d numbers from about p = dn on.
---
print(exhume.forecast(3200, input_dim=64, num_samples=10).sentence)
---
#md ## A victim, and what an adversary holds
---
victim = exhume.RandomFeatures(num_features=3200, activation="relu", seed=0).fit(digits.inputs, digits.labels)
target = victim.target()  # weights, no data
---
#md ## The attack
---
result = exhume.reconstruct(target, num_samples=10)
print(result.certificate.verdict, f"expected error {result.certificate.predicted_error:.0e}")
---
#md ## Only now: compare with the truth
---
score = exhume.score(result, digits.inputs)
print(f"{score.recovered} of {score.num_samples} recovered, error {score.error:.0e}")
---
figure, axes = plt.subplots(2, 10, figsize=(8, 1.8), dpi=60)
for column, match in enumerate(score.matches):
    for row, pixels in enumerate((digits.inputs[match.truth_index], result.samples[match.row])):
        axes[row, column].imshow(pixels.reshape(8, 8), cmap="gray")
        axes[row, column].axis("off")
figure.suptitle("true images above, recovered ones below")
plt.show()
""",
    "audit": """
#md # Audit an ordinary network
A perceptron is trained with mini-batches and momentum. Does it give its training images away?
---
import torch
from torch import nn

import exhume
from exhume import data

digits = data.load("digits", samples=10, labels="one-hot")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
initial = {name: weight.clone() for name, weight in model.state_dict().items()}
optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for _ in range(100):
    for rows in torch.randperm(10).split(5):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(digits.inputs[rows]), digits.labels[rows]).backward()
        optimiser.step()
---
#md ## The audit
It forecasts, attacks, certifies, compares with the data that you give it, and writes one page: `audit/report.html`.
---
result = exhume.audit(model.eval(), initial=initial, input_shape=(64,), truth=digits, out="audit")
print(result.report.verdict.headline)
---
for sentence in result.report.verdict.sentences:
    print("-", sentence)
---
#md ## What would reduce the risk
---
for remedy in result.report.remedies:
    print("-", remedy.title)
""",
    "scikit_learn": """
#md # Audit a scikit-learn pipeline
Which patients can be read out of a fitted pipeline? One call answers it, for any estimator or pipeline in memory.
`exhume audit --estimator model.skops` does the same for a file.
---
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import exhume

patients = load_diabetes(as_frame=True, scaled=False)
rows, progression = patients.data[:12], patients.target[:12]
---
#md ## An estimator that keeps its training rows
A support vector machine needs its support vectors to predict, and they are patients. The scaler before it is undone.
---
kept = exhume.audit(make_pipeline(StandardScaler(), SVR()).fit(rows, progression), truth=rows)
print(kept.summary())
---
#md ## An estimator that keeps none
Ridge regression holds 480 coefficients. Behind random Fourier features they are a combination of the features of the
twelve patients, and the attack solves for the patients. `truth` is used only to compare.
---
features = RBFSampler(gamma=0.1, n_components=480, random_state=0)
model = make_pipeline(StandardScaler(), features, Ridge()).fit(rows, progression)
computed = exhume.audit(model, truth=rows)
print(computed.summary())
---
#md One patient, in the units of the table:
---
match = computed.score.matches[0]
recovered = pd.Series(computed.result.samples[match.row].numpy(), index=rows.columns)
pd.DataFrame({"true": rows.iloc[match.truth_index], "recovered": recovered.round(6)}).T
---
#md ## What is not examined is not called safe
No attack of exhume reads a forest, so the outcome is `inconclusive`, and the command would exit with 3.
---
forest = exhume.audit(make_pipeline(StandardScaler(), RandomForestRegressor()).fit(rows, progression), truth=rows)
print(forest.summary())
---
assert (kept.score.recovered, computed.score.recovered, forest.exit_code) == (12, 12, 3)
""",
    "figure3": """
#md # The threshold of Figure 3, on small data
The paper's Figure 3 shows that the error of reconstruction falls when p exceeds dn. Here with d = 20 and n = 8 on the
sphere, for the paper's attack (`descent`, with few steps) and the exact one. `exhume reproduce fig3` runs the whole
figure.
---
import matplotlib.pyplot as plt

import exhume
from exhume import data

DIM, SAMPLES = 20, 8
RATIOS = (0.5, 0.8, 1.5, 2, 3, 5, 10)
sphere = data.load("sphere", dim=DIM, samples=SAMPLES, seed=0)
---
def error(ratio, method, **settings):
    victim = exhume.RandomFeatures(num_features=int(ratio * DIM * SAMPLES), seed=0).fit(sphere.inputs, sphere.labels)
    result = exhume.reconstruct(
        victim.target(), num_samples=SAMPLES, method=method, allow_underdetermined=True, max_passes=3000, **settings
    )
    return exhume.score(result, sphere.inputs).error_up_to_sign


errors = {
    "exact": [error(ratio, "exact", max_starts=2) for ratio in RATIOS],
    "descent": [error(ratio, "descent", max_steps=1500) for ratio in RATIOS],
}
---
figure, axis = plt.subplots(figsize=(5, 3), dpi=60)
for method, values in errors.items():
    axis.loglog(RATIOS, values, marker="o", label=method)
axis.axvline(1, color="grey", linestyle="--")
axis.set_xlabel("p / dn")
axis.set_ylabel("error up to sign")
axis.legend()
plt.show()
---
below = [value for ratio, value in zip(RATIOS, errors["exact"], strict=True) if ratio < 1]
above = [value for ratio, value in zip(RATIOS, errors["exact"], strict=True) if ratio >= 2]
assert min(below) > 0.1 > max(above)
""",
}


def cells_of(name: str) -> list[NotebookNode]:
    """The cells of a notebook, without outputs."""
    cells = []
    for place, text in enumerate(NOTEBOOKS[name].strip().split("\n---\n")):
        make = new_markdown_cell if text.startswith("#md ") else new_code_cell
        cells.append(make(text.removeprefix("#md "), id=f"cell-{place}"))
    return cells


def executed(name: str, folder: Path) -> NotebookNode:
    """The notebook, run from its first to its last cell in a folder."""
    notebook = new_notebook(cells=cells_of(name), metadata={"language_info": {"name": "python"}})
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def main() -> None:
    """Writes the notebooks named on the command line; by default all."""
    import tempfile

    for name in sys.argv[1:] or NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(name, Path(folder)), FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
