"""Linear models from a convex loss: output perturbation, objective perturbation, and the estimators that use them."""

from deniable.learn.convex.fit import ObjectivePerturbation, OutputPerturbation
from deniable.learn.convex.losses import HuberHinge, HuberResidual, Logistic, MarginLoss

__all__ = ["HuberHinge", "HuberResidual", "Logistic", "MarginLoss", "ObjectivePerturbation", "OutputPerturbation"]
