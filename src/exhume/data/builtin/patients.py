"""Records of patients that come with scikit-learn: diabetes, and breast cancer (Wisconsin, diagnostic)."""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer as read_breast_cancer
from sklearn.datasets import load_diabetes as read_diabetes

from exhume.data.classes import class_targets, describe_targets
from exhume.data.dataset import Dataset, Selection, table_dataset
from exhume.data.formats import Column, standardised_column
from exhume.data.registry import SHIPPED, data_set
from exhume.errors import InputError
from exhume.support.randomness import generator_for
from exhume.support.validation import one_of, whole_number

DIABETES_LABELS = ("real", "sign")
_DIABETES, _BREAST_CANCER = "scikit-learn's load_diabetes", "scikit-learn's load_breast_cancer"
# In the words of the description that scikit-learn ships with the data (`load_diabetes().DESCR`), for its columns age,
# sex, bmi, bp, s1 to s6. It gives a unit for the age only, and does not say which sex is 1 and which 2.
_DIABETES_COLUMNS = (
    Column("age", "years"),
    Column("sex", "coded 1 or 2"),
    Column("body mass index"),
    Column("average blood pressure"),
    Column("total serum cholesterol"),
    Column("low-density lipoproteins"),
    Column("high-density lipoproteins"),
    Column("total cholesterol / HDL"),
    Column("log of serum triglycerides"),
    Column("blood sugar level"),
)


@data_set("diabetes", "442 patients: age, sex, blood pressure and seven more numbers", SHIPPED)
def load_diabetes(samples: int = 20, labels: str = "real", standardise: str = "subset", seed: int = 0) -> Dataset:
    """Draws records of diabetes patients, d = 10, and the progression of their disease after a year.

    Args:
        samples: n of the 442; as many others are the non-members.
        labels: "real" is the progression, standardised over the drawn records; "sign" is +1 if it is above their
            median and -1 otherwise.
        standardise: "subset" standardises each column over the drawn records, "full" over all 442, "none" not at all.
        seed: of the draw.
    """
    one_of("labels", labels, DIABETES_LABELS)
    bunch = read_diabetes(scaled=False)
    records, progression = torch.from_numpy(bunch.data).double(), torch.from_numpy(bunch.target).double()
    members, others = _draw(samples, len(records), seed, _DIABETES)
    chosen = progression[members]
    if labels == "real":
        targets, words = standardised_column(chosen), "labels the standardised progression of the disease"
    else:
        targets = torch.where(chosen > chosen.quantile(0.5), 1.0, -1.0)
        words = "labels +1 for a progression above the median and -1 for others"
    words = f"{samples} of the {len(records)} records of {_DIABETES} drawn by seed {seed}, {words}"
    selection = Selection("diabetes", records[members], records[others], targets, words)
    return table_dataset(selection, _DIABETES_COLUMNS, standardise, records)


@data_set("breast-cancer", "569 biopsies: thirty measures of cell nuclei, malignant or benign", SHIPPED)
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
    members, others = _draw(samples, len(records), seed, _BREAST_CANCER)
    classes = [str(name) for name in bunch.target_names]  # malignant, benign
    targets = class_targets(bunch.target[members].tolist(), labels, range(len(classes)))
    words = describe_targets(targets, classes)
    words = f"{samples} of the {len(records)} records of {_BREAST_CANCER} drawn by seed {seed}, {words}"
    selection = Selection("breast-cancer", records[members], records[others], targets, words)
    return table_dataset(selection, [Column(str(name)) for name in bunch.feature_names], standardise, records)


def _draw(samples: int, available: int, seed: int, where: str) -> tuple[list[int], list[int]]:
    """Draws `samples` of the `available` records by `seed`, and as many others as are left."""
    whole_number("samples", samples)
    if samples > available:
        raise InputError(f"samples: wanted {samples}, available {available} records of {where}")
    generator = generator_for(whole_number("seed", seed, least=0), f"records of {where}")
    order = torch.randperm(available, generator=generator).tolist()
    return order[:samples], order[samples : 2 * samples]
