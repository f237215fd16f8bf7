"""Scores: a reconstruction compared with the truth. The attack's side never imports this."""

from exhume.results.certificate import RECOVERED_BELOW
from exhume.scoring.against_truth import Match, Score, score, score_samples

__all__ = ["RECOVERED_BELOW", "Match", "Score", "score", "score_samples"]
