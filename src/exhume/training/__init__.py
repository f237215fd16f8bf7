"""Training of networks by gradient descent: of victims, and in attacks that simulate how a victim was trained."""

from exhume.training.gradient_descent import Training, train

__all__ = ["Training", "train"]
