"""The replay attack: the training is simulated from its recipe, and solved for the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import EquationCount, Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._finish.replayed import certify_replay
from exhume.attacks._finish.unmixed import unmixed_samples
from exhume.attacks._search.pooled import layers_search
from exhume.attacks._search.replaying.search import ReplaySearch
from exhume.attacks._search.replaying.start import placed
from exhume.attacks._search.replaying.training import Training
from exhume.attacks.layers import Layers
from exhume.attacks.unmix import Unmix
from exhume.equation.parameters import chosen_names
from exhume.equation.path import Nodes
from exhume.equation.replay import ReplayPoint
from exhume.equation.trained_network import TrainedNetwork
from exhume.errors import InputError
from exhume.target import data_subspace as subspaces
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target
from exhume.training import losses
from exhume.training.recipe import Recipe

# First guesses of unknown numbers: share of learning rate x steps that the weights that moved most went under Adam, and
# weight decay.
_MOVED_SHARE, _DECAY = 0.7, 1e-2
# Share of the budget that `unmix` or `layers` may take for a start; not tuned.
_SHARE = 0.5


@dataclass(frozen=True)
class Replay(Attack):
    """Solves theta_T(X) = theta_T: samples whose simulated training, from theta_0, ends at the trained weights.

    It needs the recipe (`Knowledge.recipe`) and the initial weights of all layers, and holds for every optimiser,
    Adam too, and every network. At the true recipe the residual falls to rounding, and the result can be exact.

    Attributes:
        max_starts: starts at most; more are made only while none explains the weights. Where one step size moves all
            weights the first is what `unmix` or `layers` finds; all others are random.

    Examples:
        >>> import exhume
        >>> import torch
        >>> from torch import nn
        >>> _ = torch.manual_seed(0)
        >>> model, samples = nn.Sequential(nn.Linear(6, 60), nn.GELU(), nn.Linear(60, 2)), torch.randn(2, 6)
        >>> before = {name: weight.clone() for name, weight in model.state_dict().items()}
        >>> optimiser = torch.optim.SGD(model.parameters(), 0.2)
        >>> for _ in range(8):
        ...     optimiser.zero_grad()
        ...     nn.functional.cross_entropy(model(samples), torch.tensor([0, 1])).backward()
        ...     optimiser.step()
        >>> recipe = exhume.Recipe(optimiser="sgd", learning_rate=0.2, steps=8)
        >>> known = exhume.Knowledge(recipe=recipe, labels=torch.tensor([0, 1]))
        >>> target = exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(6,), knowledge=known)
        >>> result = exhume.Replay(max_starts=1)(target)
        >>> result.certificate.verdict, exhume.score(result, samples).recovered
        ('exact', 2)
    """

    name: ClassVar[str] = "replay"
    estimates_samples: ClassVar[bool] = False

    max_starts: int = 4

    def __post_init__(self) -> None:
        if self.max_starts < 1:
            raise InputError(f"max_starts must be at least 1, got {self.max_starts}")

    @staticmethod
    def applies_to(target: Target) -> bool:
        """Whether the recipe, all initial weights and the number of samples are known, and no sample is."""
        model, known = target.known_model, target.knowledge
        if model is None or known.recipe is None or known.count is None or known.known_samples:
            return False
        return all(name in model.initial for name in model.trained)

    def equation_count(self, target: Target, num_samples: int) -> EquationCount:
        """All trained weights, and the entries of all samples with the unknown numbers of the recipe."""
        model, recipe = _known(target)
        weights = sum(model.initial[name].numel() for name in model.trained)
        return EquationCount(weights, num_samples * target.features.input_dim + len(recipe.unknown))

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Simulates the training coarsely and then as it was, solving for the samples."""
        target = problem.target
        model, recipe = _known(target)
        assert problem.num_samples is not None  # the base asks for it
        if target.knowledge.known_samples:
            raise InputError("replay finds all samples alike; it does not use known ones: leave them out")
        targets, assumed = _targets(target, recipe, problem.num_samples, None)  # refuses before anything is searched
        given = None if recipe.adaptive else _found_otherwise(problem, session)
        outputs = None if given is None else problem.outputs(given.to(problem.features.dtype))
        if outputs is not None:
            targets, assumed = _targets(target, recipe, problem.num_samples, outputs)
        training = _training(target, model, recipe, targets, session.generator)
        if given is not None and outputs is not None:
            given = placed(given, outputs, targets, losses.get(recipe.loss))
        search = ReplaySearch(problem, training, self.max_starts, given)
        found = session.run_stage(search)
        equation = search.equation(search.last)
        equation, point = equation.weighted_by(equation.at(found.rows), search.last.delta)
        stop, certificate = certify_replay(equation, point, found.stop, torch.finfo(target.displacement.dtype).eps)
        samples = equation.unknowns(found.rows).samples
        return Proposal(
            samples=samples,
            stop=stop,
            signs_determined=True,
            norms_determined=True,
            labels=targets.argmax(1).to(samples) if targets.shape[1] > 1 else targets[:, 0],
            coefficients=_coefficients(problem, samples),
            certificate=certificate,
            evidence=_evidence(training, found, point),
            notes=_notes(training, recipe, assumed, point),
        )


def _known(target: Target) -> tuple[NetworkWeights, Recipe]:
    """The network with all initial weights, and the recipe; an error that says what is missing."""
    model, recipe = target.known_model, target.knowledge.recipe
    if recipe is None:
        raise InputError(
            "replay needs the recipe of the training: Knowledge(recipe=exhume.Recipe(...)), or --recipe FILE"
        )
    if model is None:
        raise InputError("replay simulates the training of a network, and this target has none")
    missing = [name for name in model.trained if name not in model.initial]
    if missing:
        raise InputError(f"replay needs all weights before training; not known: {', '.join(missing)}")
    return model, recipe


def _found_otherwise(problem: Problem, session: Session) -> Tensor | None:
    """Samples that `unmix` or `layers` finds where one step size moved all weights; None for neither.

    A dense layer without ReLU shows the span of the samples, where the search from noise is quick.
    """
    target = problem.target
    model = target.known_model
    assert model is not None
    if Unmix.applies_to(target):
        assert problem.num_samples is not None
        return unmixed_samples(problem, session, problem.num_samples, share=_SHARE)
    if not Layers.applies_to(target):
        return None
    names, _ = chosen_names(target, "all", from_initial=True)
    network = TrainedNetwork(model, target.input_shape, torch.float32)
    try:
        search = layers_search(problem, network, Nodes((), names), Layers.max_starts)
        return session.run_stage(search, _SHARE).rows
    except InputError:  # gradients that do not fit into memory
        return None


def _targets(target: Target, recipe: Recipe, count: int, outputs: Tensor | None) -> tuple[Tensor, str | None]:
    """Y (n, k), and what labels that are not known were taken to be: those of a start's outputs, or equal parts."""
    size, loss, labels = target.num_outputs, losses.get(recipe.loss), target.knowledge.labels
    assumed = None
    if labels is None:
        if recipe.loss == "square":
            raise InputError("replay of a square loss needs the labels: Knowledge(labels=...), or --know labels=FILE")
        assumed, classes = "the classes in equal parts", torch.arange(count) % max(size, 2)
        if outputs is not None:
            assumed = "those that the trained network gives the samples that the search starts from"
            classes = outputs.argmax(1) if size > 1 else (outputs[:, 0] > 0).long()
        labels = classes if size > 1 else 2.0 * classes - 1
    if len(labels) != count:
        raise InputError(f"{len(labels)} labels are known, but {count} samples are looked for")
    return loss.targets(labels, size).to(target.displacement), assumed


def _training(
    target: Target, model: NetworkWeights, recipe: Recipe, targets: Tensor, generator: torch.Generator
) -> Training:
    """The training, with first guesses of unknown numbers, inside the span of the first layer if that shows."""
    weights = model.weights(model.trained)
    initial = {name: model.initial[name].to(weights[name]) for name in model.trained}
    moved = torch.cat([(weights[name] - initial[name]).flatten() for name in model.trained])
    fitted = (recipe.learning_rate is None, recipe.weight_decay is None)
    if recipe.learning_rate is None:
        recipe = recipe.changed(learning_rate=float(moved.abs().max()) / (_MOVED_SHARE * recipe.steps))
    if recipe.weight_decay is None:
        recipe = recipe.changed(weight_decay=_DECAY)
    basis = None
    if not recipe.adaptive:
        try:
            space = subspaces.from_first_layer(model, target.input_shape, generator)
            # Another rank than the number of samples: then that is wrong, or the samples depend on each other.
            basis = space.basis.to(targets) if space.dim == len(targets) else None
        except InputError:  # the first layer shows no span
            basis = None
    trained = torch.cat([weights[name].flatten() for name in model.trained]).to(targets)
    return Training(model.module, initial, trained, recipe, fitted, target.input_shape, targets, basis)


def _coefficients(problem: Problem, samples: Tensor) -> Tensor:
    """Of the head's displacement on the features of the samples, by least squares, (n, k)."""
    phi = problem.features.forward(samples.to(problem.features.dtype))
    found = torch.linalg.lstsq(phi.double().T, problem.target.displacement.double().T).solution
    return found.to(samples)


def _evidence(training: Training, found: SearchResult, point: ReplayPoint) -> dict[str, object]:
    evidence: dict[str, object] = {"starts": found.starts, "recipe": training.recipe.model_dump(mode="json")}
    if any(training.fitted):
        evidence["fitted_factors"] = point.rows[-1, :2].exp().tolist()
    return evidence


def _notes(training: Training, recipe: Recipe, assumed: str | None, point: ReplayPoint) -> dict[str, str]:
    notes = {"recipe": f"Recipe: {recipe.sentence()}."}
    if assumed:
        notes["labels"] = f"Labels: not known, and taken to be {assumed}."
    if training.basis is not None:
        notes["span"] = f"Span: solved in the {len(training.basis)} dimensions that the first layer moved in."
    if not recipe.order_known:
        notes["order"] = "Order of the batches: unknown; every step was simulated with all samples."
    if any(training.fitted):
        rate, decay = point.rows[-1, :2].exp().tolist()
        rate, decay = rate * (training.recipe.learning_rate or 0.0), decay * (training.recipe.weight_decay or 0.0)
        notes["fitted"] = (
            f"Fitted: learning rate {rate:.4g} at {training.recipe.steps} steps, weight decay {decay:.3g}."
        )
    return notes
