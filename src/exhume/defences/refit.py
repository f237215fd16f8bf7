"""Heads trained anew on the features of a body that stays as it is: closed forms in the n x n Gram matrix."""

from __future__ import annotations

import torch

from exhume.defences.altered import body_saw_the_data, owner_initial_head, unread_bias
from exhume.errors import InputError
from exhume.support.labels import as_outputs
from exhume.target.target import Target
from exhume.victims.random_features import gram_of, ridge_coefficients

# Entries of the features of all samples, (n, p), up to which a head is trained anew: 4 GB in float32.
MOST_ENTRIES = 10**9


def start_of(target: Target) -> torch.Tensor:
    """The head (k, p) that training starts from: the one that the owner knows, else zero."""
    initial = owner_initial_head(target)
    return torch.zeros_like(target.displacement) if initial is None else initial


def features_of(target: Target, inputs: torch.Tensor) -> torch.Tensor:
    """Phi (n, p) of the target's features, if they fit."""
    width = target.features.num_features
    if len(inputs) * width > MOST_ENTRIES:
        raise InputError(
            f"{len(inputs)} samples x {width} features are too many to train the head anew; "
            f"at most {MOST_ENTRIES:,} numbers"
        )
    return target.features.forward(inputs.to(target.features.device, target.features.dtype))


def fitted_head(
    target: Target,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    relative_ridge: float = 0.0,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """W = W_0 + (Y - f_0)^T (K + m I)^-1 Phi, the minimum of ||Y - f||^2 + m ||W - W_0||^2, with K = Phi Phi^T.

    Nothing larger than n x n is inverted.

    Args:
        target: whose features and initial head W_0 are taken.
        inputs, labels: (n, d), and (n,) or (n, k).
        relative_ridge: m over the mean eigenvalue of K; 0 is the minimum-norm fit.
        kept: indices of the features that the head may read; by default all.
    """
    features, start = features_of(target, inputs), start_of(target)
    if kept is not None:
        features, start = features[:, kept], start[:, kept]
    wanted = as_outputs(labels, target.num_outputs).double().to(features.device)
    before = features.double() @ start.double().T + unread_bias(target).double()  # f_0
    gram = gram_of(features)
    shift = relative_ridge * float(gram.diagonal().mean())
    coefficients = ridge_coefficients(gram, wanted - before, shift / len(gram))
    return start + (coefficients.to(features.dtype).T @ features).to(start)  # (k, p)


def note_on_refit(target: Target, loss: str = "square loss") -> str:
    """What a reader must know about a head that was trained anew."""
    parts = [f"head trained anew by {loss}"]
    if owner_initial_head(target) is None:
        parts.append("from zero, as its initial weights are not known")
    if body_saw_the_data(target):
        parts.append("the body stays as the data trained it")
    return "; ".join(parts)


def without_alphabet(target: Target) -> Target:
    """The target to an attacker who knows that this model does not output its labels exactly."""
    return target.assuming(label_alphabet=None) if target.knowledge.label_alphabet else target
