"""The room of biopsies: the breast-cancer records (Wisconsin, diagnostic) that come with scikit-learn."""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer as read_breast_cancer

from exhume.data.classes import class_targets, describe_targets
from exhume.data.dataset import Dataset
from exhume.data.sources import DataSource
from exhume.data.tables import Column
from exhume.data.tabular import draw, table_dataset

_WHERE = "scikit-learn's load_breast_cancer"


def load_breast_cancer(samples: int = 20, labels: str = "sign", standardise: str = "subset", seed: int = 0) -> Dataset:
    """Draws records of cell nuclei, d = 30; scikit-learn's description names the columns and gives no units.

    Args:
        samples: n of the 569; as many others are the non-members.
        labels: "sign" is -1 for malignant and +1 for benign; "one-hot" has a column for each.
        standardise: "subset" standardises each column over the drawn records, "full" over all 569, "none" not at all.
        seed: of the draw.
    """
    bunch = read_breast_cancer()
    records = torch.from_numpy(bunch.data).double()
    split = draw(samples, len(records), seed, _WHERE)
    classes = [str(name) for name in bunch.target_names]  # malignant, benign
    targets = class_targets(bunch.target[split.members].tolist(), labels, range(len(classes)), len(classes))
    words = describe_targets(targets, classes)
    selection = f"{samples} of the {len(records)} records of {_WHERE} drawn by seed {seed}, {words}"
    columns = [Column(str(name)) for name in bunch.feature_names]
    return table_dataset("breast-cancer", records, columns, split, targets, selection, mode=standardise)


SOURCE = DataSource(
    name="breast-cancer",
    summary="569 biopsies: thirty measures of cell nuclei, malignant or benign",
    load=load_breast_cancer,
    locate=lambda: "shipped with scikit-learn",
    how_to_get="nothing to get",
)
