"""Feature maps: the bodies of models as the attacks see them."""

from exhume.features.base import FeatureMap, Linearisation, RowFeatureMap, TrainedBody
from exhume.features.counted import CountedFeatures
from exhume.features.first_layer import FirstLayerMap, as_first_layer
from exhume.features.gaussian import DenseMatrix, GaussianMatrix, parse_bytes
from exhume.features.heads import Head, list_heads
from exhume.features.module import ModuleFeatureMap
from exhume.features.random import RandomFeatureMap
from exhume.features.symmetry import Symmetry

__all__ = [
    "CountedFeatures",
    "DenseMatrix",
    "FeatureMap",
    "FirstLayerMap",
    "GaussianMatrix",
    "Head",
    "Linearisation",
    "ModuleFeatureMap",
    "RandomFeatureMap",
    "RowFeatureMap",
    "Symmetry",
    "TrainedBody",
    "as_first_layer",
    "list_heads",
    "parse_bytes",
]
