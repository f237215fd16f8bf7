"""Victims: models to train and attack."""

from exhume.training.gradient_descent import Training, train
from exhume.victims.random_features import RandomFeatures

__all__ = ["RandomFeatures", "Training", "train"]
