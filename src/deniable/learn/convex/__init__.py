"""Linear models from a convex loss: noise on the minimum, in the objective or in each
gradient, and their estimators."""

from deniable.learn.convex.descent import Descent, GradientPerturbation
from deniable.learn.convex.fit import ObjectivePerturbation, OutputPerturbation
from deniable.learn.convex.losses import HuberHinge, HuberResidual, Logistic, MarginLoss

__all__ = [
    "Descent",
    "GradientPerturbation",
    "HuberHinge",
    "HuberResidual",
    "Logistic",
    "MarginLoss",
    "ObjectivePerturbation",
    "OutputPerturbation",
]
