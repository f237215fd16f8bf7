"""Feature maps: the bodies of models as the attacks see them."""

from exhume.features.find_head import Head, list_heads
from exhume.features.first_layer import FirstLayerMap
from exhume.features.matrix import DenseMatrix, GaussianMatrix
from exhume.features.module import ModuleFeatureMap
from exhume.features.one_layer import OneLayerMap
from exhume.features.pass_counter import PassCounter
from exhume.features.protocol import FeatureMap, Linearisation, OneLayerFeatures, Saveable, Symmetry, TrainedBody
from exhume.features.random_features import RandomFeatureMap

__all__ = [
    "DenseMatrix",
    "FeatureMap",
    "FirstLayerMap",
    "GaussianMatrix",
    "Head",
    "Linearisation",
    "ModuleFeatureMap",
    "OneLayerFeatures",
    "OneLayerMap",
    "PassCounter",
    "RandomFeatureMap",
    "Saveable",
    "Symmetry",
    "TrainedBody",
    "list_heads",
]
