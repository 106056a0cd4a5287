"""Differential privacy for data about people: exact noise, certified
accounting, a ledger that holds its limit.

>>> import deniable as dp
>>> training = dp.GaussianNoise(4).sampled(0.01) * 10_000
>>> print(dp.epsilon(training, delta=1e-5))
[0.946..., 0.947...] (numerical)

Public names load when they are first used (PEP 562), so that `import deniable` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deniable._version import VERSION as __version__

if TYPE_CHECKING:
    from deniable import (
        accounting,
        attack,
        audit,
        curator,
        datasets,
        federated,
        learn,
        ledger,
        local,
        mechanisms,
        randomness,
        smooth,
    )
    from deniable.accounting import calibrate, certify, compare, delta, epsilon, tradeoff, verify
    from deniable.curator import Answer, Curator
    from deniable.errors import (
        AccountFrozen,
        BudgetExceeded,
        DataError,
        DeniableError,
        InvalidBudget,
        InvalidCertificate,
        InvalidLoss,
        InvalidParameter,
        InvalidQuery,
        LedgerError,
        MissingExtra,
        TamperedLedger,
        Unaccountable,
        UnitMismatch,
    )
    from deniable.guarantee import Bound, Budget, Certificate
    from deniable.ledger import Account, Ledger
    from deniable.loss import (
        POISSON,
        SHUFFLED,
        WITHOUT_REPLACEMENT,
        Allocated,
        Approximate,
        BoundedRange,
        CappedSample,
        Composed,
        DiscreteGaussianNoise,
        DiscreteLaplaceNoise,
        DrawnSample,
        FiniteOutcomes,
        GaussianNoise,
        Grouped,
        IntegerGaussianSum,
        LaplaceNoise,
        Loss,
        MixedGaussianNoise,
        NegativeBinomialRuns,
        Parallel,
        PoissonRuns,
        Pure,
        Repeated,
        ResponseNoise,
        Sampled,
        Scheme,
        Selected,
        Shuffled,
        Silenced,
        Zcdp,
    )
    from deniable.mechanism import Error, Interactive, Mechanism, Release, Sequentially
    from deniable.randomness import SecureRandom, SeededRandom
    from deniable.server import Remote
    from deniable.units import Unit

__all__ = [
    "POISSON",
    "SHUFFLED",
    "WITHOUT_REPLACEMENT",
    "Account",
    "AccountFrozen",
    "Allocated",
    "Answer",
    "Approximate",
    "Bound",
    "BoundedRange",
    "Budget",
    "BudgetExceeded",
    "CappedSample",
    "Certificate",
    "Composed",
    "Curator",
    "DataError",
    "DeniableError",
    "DiscreteGaussianNoise",
    "DiscreteLaplaceNoise",
    "DrawnSample",
    "Error",
    "FiniteOutcomes",
    "GaussianNoise",
    "Grouped",
    "IntegerGaussianSum",
    "Interactive",
    "InvalidBudget",
    "InvalidCertificate",
    "InvalidLoss",
    "InvalidParameter",
    "InvalidQuery",
    "LaplaceNoise",
    "Ledger",
    "LedgerError",
    "Loss",
    "Mechanism",
    "MissingExtra",
    "MixedGaussianNoise",
    "NegativeBinomialRuns",
    "Parallel",
    "PoissonRuns",
    "Pure",
    "Release",
    "Remote",
    "Repeated",
    "ResponseNoise",
    "Sampled",
    "Scheme",
    "SecureRandom",
    "SeededRandom",
    "Selected",
    "Sequentially",
    "Shuffled",
    "Silenced",
    "TamperedLedger",
    "Unaccountable",
    "Unit",
    "UnitMismatch",
    "Zcdp",
    "__version__",
    "accounting",
    "attack",
    "audit",
    "calibrate",
    "certify",
    "compare",
    "curator",
    "datasets",
    "delta",
    "epsilon",
    "federated",
    "learn",
    "ledger",
    "local",
    "mechanisms",
    "randomness",
    "smooth",
    "tradeoff",
    "verify",
]

_PARTS = (
    "accounting",
    "attack",
    "audit",
    "curator",
    "datasets",
    "federated",
    "learn",
    "ledger",
    "local",
    "mechanisms",
    "randomness",
    "smooth",
)
_HOMES = {
    "accounting": "calibrate certify compare delta epsilon tradeoff verify",
    "curator": "Answer Curator",
    "errors": "AccountFrozen BudgetExceeded DataError DeniableError InvalidBudget InvalidCertificate "
    "InvalidLoss InvalidParameter InvalidQuery LedgerError MissingExtra TamperedLedger Unaccountable "
    "UnitMismatch",
    "guarantee": "Bound Budget Certificate",
    "ledger": "Account Ledger",
    "loss": "POISSON SHUFFLED WITHOUT_REPLACEMENT Allocated Approximate BoundedRange CappedSample Composed "
    "DiscreteGaussianNoise DrawnSample FiniteOutcomes IntegerGaussianSum MixedGaussianNoise Silenced "
    "DiscreteLaplaceNoise GaussianNoise Grouped LaplaceNoise Loss NegativeBinomialRuns Parallel PoissonRuns "
    "Pure Repeated ResponseNoise Sampled Scheme Selected Shuffled Zcdp",
    "mechanism": "Error Interactive Mechanism Release Sequentially",
    "randomness": "SecureRandom SeededRandom",
    "server": "Remote",
    "units": "Unit",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return importlib.import_module(f"deniable.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'deniable' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"deniable.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: object) -> None:
    """`%load_ext deniable` in a notebook: the cell magic `%%deniable`."""
    importlib.import_module("deniable.curator.notebook").load_ipython_extension(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
