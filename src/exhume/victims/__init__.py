"""Victims: models to train and attack."""

from exhume.victims.descent import Training, train
from exhume.victims.random_features import RandomFeatures

__all__ = ["RandomFeatures", "Training", "train"]
