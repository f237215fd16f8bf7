"""Norms and labels of samples, from the outputs of the trained model at them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.attacks._base.tuning import TrustTuning
from exhume.features import Symmetry
from exhume.target.knowledge import Knowledge


@dataclass(frozen=True)
class Labelled:
    """Samples at their norms, with labels; whether the norms are determined; and a sentence for the result."""

    samples: torch.Tensor
    labels: torch.Tensor
    norms_determined: bool
    note: str


def norms_and_labels(
    samples: torch.Tensor,
    outputs: torch.Tensor,
    symmetry: Symmetry,
    knowledge: Knowledge,
    tuning: TrustTuning,
    credible: bool = True,
) -> Labelled:
    """Norms and labels from the model's outputs at the recovered samples.

    An interpolating model gives y = f(x). If the activation is homogeneous, f(r u) = r f(u), and a known alphabet of
    labels gives r back: r = 1 / |f(u)| for labels -1 and +1, 1 / max f(u) for one-hot ones.

    Args:
        samples: (n, d), on the sphere where the norm is open.
        outputs: f at the samples, (n, k).
        symmetry: of the model's features.
        knowledge: what is known of norms and labels.
        tuning: how far outputs may be from a one-hot vector and still be taken for one.
        credible: whether the samples explain the weights. If not, they are not where the model interpolates, and its
            outputs there do not determine norms.
    """
    labels, alphabet = outputs[:, 0] if outputs.shape[1] == 1 else outputs, knowledge.label_alphabet
    if knowledge.norm is not None:
        size = knowledge.norm / torch.linalg.vector_norm(samples, dim=1)
        scaled = labels if symmetry.identifies_norm else labels * (size if labels.ndim == 1 else size[:, None])
        return Labelled(samples * size[:, None], scaled, True, "Norms: known. Labels: the model's outputs.")
    if symmetry.identifies_norm:
        return Labelled(samples, labels, True, "Norms: the features fix them. Labels: the model's outputs.")
    if alphabet is None or not credible:
        note = "Norms: undetermined, the samples have norm sqrt(d). Labels: the model's outputs at that norm."
        return Labelled(samples, labels, False, note)
    if alphabet == "signs":
        size, named = labels.abs(), labels.sign()
    else:
        size, named = outputs.amax(1), torch.nn.functional.one_hot(outputs.argmax(1), outputs.shape[1]).to(outputs)
    misfit = 0.0 if alphabet == "signs" else float((outputs / size[:, None] - named).abs().max())
    if not bool((size > 0).all()) or misfit > tuning.misfit:
        return Labelled(samples, labels, False, "Norms: undetermined, the model's outputs do not fit the known labels.")
    note = f"Norms and labels: from the known labels ({alphabet}), if the model interpolates them."
    return Labelled(samples / size[:, None], named, True, note)
