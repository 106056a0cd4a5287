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
import warnings
from typing import TYPE_CHECKING

from deniable._version import VERSION as __version__


def _by_name(homes: dict[str, str]) -> dict[str, str]:
    return {name: home for home, names in homes.items() for name in names.split()}


if TYPE_CHECKING:
    from deniable import (
        accounting,
        attack,
        audit,
        curator,
        datasets,
        errors,
        federated,
        learn,
        ledger,
        local,
        loss,
        mechanisms,
        randomness,
        smooth,
    )
    from deniable.accounting import calibrate, certify, compare, delta, epsilon, tradeoff, verify
    from deniable.curator import Answer, Curator
    from deniable.errors import (
        AccountFrozen,
        BudgetExceeded,
        DeniableError,
        InvalidParameter,
        InvalidQuery,
        UnitMismatch,
    )
    from deniable.guarantee import Bound, Budget, Certificate
    from deniable.ledger import Account, Ledger
    from deniable.loss import GaussianNoise, LaplaceNoise, Loss, Pure
    from deniable.mechanism import Mechanism, Release
    from deniable.randomness import SecureRandom, SeededRandom
    from deniable.server import Remote
    from deniable.units import Unit

__all__ = [
    "Account",
    "AccountFrozen",
    "Answer",
    "Bound",
    "Budget",
    "BudgetExceeded",
    "Certificate",
    "Curator",
    "DeniableError",
    "GaussianNoise",
    "InvalidParameter",
    "InvalidQuery",
    "LaplaceNoise",
    "Ledger",
    "Loss",
    "Mechanism",
    "Pure",
    "Release",
    "Remote",
    "SecureRandom",
    "SeededRandom",
    "Unit",
    "UnitMismatch",
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
    "errors",
    "federated",
    "learn",
    "ledger",
    "local",
    "loss",
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
    "errors",
    "federated",
    "learn",
    "ledger",
    "local",
    "loss",
    "mechanisms",
    "randomness",
    "smooth",
)
_HOMES = {
    "accounting": "calibrate certify compare delta epsilon tradeoff verify",
    "curator": "Answer Curator",
    "errors": "AccountFrozen BudgetExceeded DeniableError InvalidParameter InvalidQuery UnitMismatch",
    "guarantee": "Bound Budget Certificate",
    "ledger": "Account Ledger",
    "loss": "GaussianNoise LaplaceNoise Loss Pure",
    "mechanism": "Mechanism Release",
    "randomness": "SecureRandom SeededRandom",
    "server": "Remote",
    "units": "Unit",
}
_MOVED = {
    "errors": "DataError InvalidBudget InvalidCertificate InvalidLoss LedgerError MissingExtra "
    "TamperedLedger Unaccountable",
    "loss": "POISSON SHUFFLED WITHOUT_REPLACEMENT Allocated Approximate BoundedRange CappedSample "
    "Composed DiscreteGaussianNoise DiscreteLaplaceNoise DrawnSample FiniteOutcomes Grouped "
    "IntegerGaussianSum MixedGaussianNoise NegativeBinomialRuns Parallel PoissonRuns "
    "Repeated ResponseNoise Sampled Scheme Selected Shuffled Silenced Zcdp",
    "mechanism": "Error Interactive Sequentially",
}
"""Names that the top level had before 0.3. They are found there, with a warning, until the next one."""

_HOME = _by_name(_HOMES)
_OLD_HOME = _by_name(_MOVED)


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return importlib.import_module(f"deniable.{name}")
    if name in _OLD_HOME:
        home = f"deniable.{_OLD_HOME[name]}"
        warnings.warn(
            f"deniable.{name} has moved: use {home}.{name}. The next version has it there alone.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(home), name)
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
