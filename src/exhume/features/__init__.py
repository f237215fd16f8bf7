"""Feature maps: the bodies of models as the attacks see them."""

from exhume.features.base import FeatureMap, Linearisation, RowFeatureMap
from exhume.features.counted import CountedFeatures
from exhume.features.gaussian import DenseMatrix, GaussianMatrix, parse_bytes
from exhume.features.random import RandomFeatureMap

__all__ = [
    "CountedFeatures",
    "DenseMatrix",
    "FeatureMap",
    "GaussianMatrix",
    "Linearisation",
    "RandomFeatureMap",
    "RowFeatureMap",
    "parse_bytes",
]
