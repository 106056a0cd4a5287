"""Learning from private data: DP-SGD, PCA, convex models, PATE, and features that cost nothing.

    DPSGD, make_private        training by noisy clipped gradients, as a mechanism or in your own loop (torch)
    loops                      the same in the loops of Lightning and of transformers
    PerExample                 exact per-example clipping at about the cost of the plain gradient (torch)
    PrivateLogisticRegression, PrivateLinearSVM, PrivateLinearRegression, PrivateNaiveBayes,
    PrivateDecisionTree
                               estimators with the interface of scikit-learn
    PrivatePCA, PrivateStandardizer, Scattering
                               preprocessing; the last has no data in it
    pate                       teachers that vote, labels that are bought
    Selection                  tuning that is counted in ε
    forget                     models to forget people from: shards, certified removal
    by_group, ByGroup          how well a classifier serves each group, on public or, charged, private rows

Everything here needs `deniable[learn]` and loads when it is first used.
"""

from __future__ import annotations

import importlib

from deniable import extras

_PARTS = (
    "clip", "convex", "counts", "forget", "loops", "pate", "pca", "recipes", "scattering", "select", "sgd",
    "standardize", "table_training",
)  # fmt: skip
_HOMES = {
    "by_group_private": "ByGroup",
    "by_group_public": "by_group",
    "clip": "BatchLoss Clipped PerExample",
    "convex": (
        "Descent GradientPerturbation HuberHinge HuberResidual Logistic ObjectivePerturbation "
        "OutputPerturbation"
    ),
    "convex.estimators": "PrivateLinearRegression PrivateLinearSVM PrivateLogisticRegression",
    "counts": "PrivateDecisionTree PrivateNaiveBayes",
    "pca": "PrivatePCA Projection",
    "scattering": "Scattering",
    "select": "Selection",
    "standardize": "PrivateStandardizer Standardizer",
    "sgd": "Adaptive Arrivals DPSGD Distributed Execution FixedLots Flat Group Learning Lots Padded PerLayer "
    "Privacy Trained Users make_private resume train",
}
_OF_OPACUS = {
    "PrivacyEngine": "make_private(DPSGD(model, criterion, …), optimizer, data, account=…)",
    "BatchMemoryManager": "Execution(microbatch=…)",
    "ModuleValidator": "DPSGD names the layer that it cannot take",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*sorted(_HOME), *_PARTS]


def __getattr__(name: str) -> object:
    try:
        if name in _PARTS:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _HOME:
            value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
            globals()[name] = value
            return value
    except ModuleNotFoundError as error:
        if error.name in ("torch", "sklearn"):
            raise extras.missing(f"Learning needs {error.name}", "learn") from None
        raise
    if name in _OF_OPACUS:
        raise AttributeError(f'{name} is of Opacus. Here: {_OF_OPACUS[name]}; see "Coming from Opacus".')
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
