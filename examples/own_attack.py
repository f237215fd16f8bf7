"""An attack of one's own in one file, entered into the benchmark.

    exhume benchmark --quick --attack examples/own_attack.py:RandomRestarts

or, to see it on one victim: python examples/own_attack.py

It is gradient descent with Adam from several random starts, a plain baseline, and stands for your own idea. The base
class checks the input, counts the passes, and certifies what `run` returns.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from exhume.attacks import Attack, Problem, Proposal, Session
from exhume.benchmark import VICTIMS
from exhume.results.stop import Stop
from exhume.scoring.against_truth import score_on_dataset


@dataclass(frozen=True)
class RandomRestarts(Attack):
    """Adam on the share of the weights that the samples do not explain; the start with the smallest one wins.

    Attributes:
        starts: random starts.
        steps: of each start.
        rate: of Adam.
    """

    name: ClassVar[str] = "random_restarts"
    reads_head_only: ClassVar[bool] = True

    starts: int = 2
    steps: int = 300
    rate: float = 0.05

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Descends from every start and returns the best samples."""
        equation, features = problem.equation(), problem.features
        best, smallest = None, float("inf")
        for _ in range(self.starts):
            samples = torch.randn((problem.num_samples, features.input_dim), generator=session.generator)
            samples = samples.to(features.device, features.dtype)
            optimiser = torch.optim.Adam([samples], self.rate)
            for _ in range(self.steps):
                point = equation.at(samples)
                samples.grad = equation.gradient(point) * (-2 / equation.squared_norm)
                if point.loss < smallest:
                    best, smallest = samples.detach().clone(), point.loss
                if session.record_within_budget(point):  # progress, history, and the budget of passes and seconds
                    break
                optimiser.step()
            if session.budget_spent():
                break
        stop = session.budget_spent() or (Stop.CONVERGED if smallest < 1e-12 else Stop.STEP_LIMIT)
        return Proposal(best, stop, signs_determined=False, norms_determined=False)


def main(victim="law-digits", **settings):
    """Runs the attack on a victim of the benchmark and scores it; returns the score."""
    made = VICTIMS[victim].build()
    result = RandomRestarts(**settings)(made.target)
    print(result.summary())
    score = score_on_dataset(result, made.dataset, made.target.features)  # the truth is used only here
    print(score.summary())
    return score


if __name__ == "__main__":
    main()
