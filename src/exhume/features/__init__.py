"""Feature maps: the bodies of models as the attacks see them."""

from exhume.features.base import CountedFeatures, FeatureMap, Linearisation
from exhume.features.gaussian import GaussianMatrix, parse_bytes
from exhume.features.random import RandomFeatureMap

__all__ = ["CountedFeatures", "FeatureMap", "GaussianMatrix", "Linearisation", "RandomFeatureMap", "parse_bytes"]
