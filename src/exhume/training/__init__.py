"""Training of networks by gradient descent: public knowledge, to make victims and to retrace how they were made."""

from exhume.training.descent import Training, train

__all__ = ["Training", "train"]
