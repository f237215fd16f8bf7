"""The room of patients: the diabetes records that come with scikit-learn, in original units."""

from __future__ import annotations

import torch
from sklearn.datasets import load_diabetes as read_diabetes

from exhume.data.checks import one_of
from exhume.data.dataset import Dataset
from exhume.data.sources import DataSource
from exhume.data.tables import Column
from exhume.data.tabular import draw, real_targets, table_dataset

LABELS = ("real", "sign")
_WHERE = "scikit-learn's load_diabetes"
# In the words of the description that scikit-learn ships with the data (`load_diabetes().DESCR`), for its columns age,
# sex, bmi, bp, s1 to s6. It gives a unit for the age only, and does not say which sex is 1 and which 2.
_COLUMNS = (
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


def load_diabetes(samples: int = 20, labels: str = "real", standardise: str = "subset", seed: int = 0) -> Dataset:
    """Draws records of diabetes patients, d = 10, and the progression of their disease after a year.

    Args:
        samples: n of the 442; as many others are the non-members.
        labels: "real" is the progression, standardised over the drawn records; "sign" is +1 if it is above their
            median and -1 otherwise.
        standardise: "subset" standardises each column over the drawn records, "full" over all 442, "none" not at all.
        seed: of the draw.
    """
    one_of("labels", labels, LABELS)
    bunch = read_diabetes(scaled=False)
    records, progression = torch.from_numpy(bunch.data).double(), torch.from_numpy(bunch.target).double()
    split = draw(samples, len(records), seed, _WHERE)
    chosen = progression[split.members]
    if labels == "real":
        targets, words = real_targets(chosen), "labels the standardised progression of the disease"
    else:
        targets = torch.where(chosen > chosen.quantile(0.5), 1.0, -1.0)
        words = "labels +1 for a progression above the median and -1 for others"
    selection = f"{samples} of the {len(records)} records of {_WHERE} drawn by seed {seed}, {words}"
    return table_dataset("diabetes", records, _COLUMNS, split, targets, selection, mode=standardise)


SOURCE = DataSource(
    name="diabetes",
    summary="442 patients: age, sex, blood pressure and seven more numbers",
    load=load_diabetes,
    locate=lambda: "shipped with scikit-learn",
    how_to_get="nothing to get",
)
