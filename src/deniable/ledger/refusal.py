"""What is said when a charge is refused. No sentence depends on data: all of it is in
the journal or in the question."""

from __future__ import annotations

from deniable.accounting import epsilon
from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge
from deniable.errors import AccountFrozen, BudgetExceeded, DeniableError, LedgerError
from deniable.ledger.journal.entries import Standing, Status
from deniable.loss import Loss, show
from deniable.numbers import decimal_floor
from deniable.units import Unit, UnitKind


def stop_error(standing: Standing) -> LedgerError:
    if standing.status is Status.CLOSED:
        return LedgerError(
            f'The account "{standing.name}" is closed. Nothing was run and nothing was charged.'
        )
    return AccountFrozen(
        f'The account "{standing.name}" is frozen until its owner, {standing.owner}, looks. '
        "Nothing was run and nothing was charged."
    )


def explain_units(account: Unit, loss: Unit) -> str:
    """Why the one does not cover the other, and the way out."""
    if account.kind is UnitKind.COLUMN and loss.kind is UnitKind.ROW:
        return (
            f"One {account.column_name} may have many rows, and group privacy needs a bound on them that the "
            "mechanism enforces, not one that is declared: use a mechanism that bounds the rows it counts, "
            "like deniable.ledger.Bounded."
        )
    if account.kind is loss.kind and account.replace != loss.replace:
        return (
            "Replacing is removing and adding, and costs another loss: state the mechanism for the account's "
            "unit."
        )
    return (
        "Losses of different units do not add up: use an account of that unit, or state the mechanism for "
        "this one."
    )


def refusal(standing: Standing, charge: Charge, loss: Loss | None = None) -> BudgetExceeded:
    """The sentence and the numbers of a charge that does not fit."""
    limit, balance, total = standing.filter, standing.spent, standing.spent + charge
    say = _over_delta if total.delta > limit.reserve else _over_epsilon
    if loss is not None and balance == limit.nothing and _fits_alone(limit, loss):
        say = _over_shares
    return BudgetExceeded(
        say(standing, charge, total),
        asked=limit.reading(charge),
        spent=limit.reading(balance),
        total=limit.reading(total),
        limit=float(limit.limit.epsilon),
    )


def parent_refusal(standing: Standing) -> BudgetExceeded:
    """The refusal for whom the numbers of the data set are not told. Those of the error are her own "
    "part's."""
    limit, balance = standing.filter, standing.filter.reading(standing.spent)
    return BudgetExceeded(
        f'The data set that "{standing.name}" is a part of has not enough left for this query. Nothing was '
        "run "
        "and nothing was "
        f"charged. Ask for less, or speak to its owner, {standing.owner}.",
        asked=float("nan"),
        spent=balance,
        total=float("nan"),
        limit=float(limit.limit.epsilon),
    )


def _over_delta(standing: Standing, charge: Charge, total: Charge) -> str:
    before, price, after = (f"{float(x):.4g}" for x in (standing.spent.delta, charge.delta, total.delta))
    return (
        f'This query would bring the δ of the account "{standing.name}" to {after}, over the '
        f"{float(standing.filter.reserve):.4g} that its limit keeps for such charges (spent: {before}, "
        f"asked: {price}). Nothing was run and nothing was charged. Name a smaller delta, or use another "
        "account."
    )


def _over_epsilon(standing: Standing, charge: Charge, total: Charge) -> str:
    limit = standing.filter
    before, price, after = (_tell(limit.reading(x)) for x in (standing.spent, charge, total))
    return (
        f'This query would bring the account "{standing.name}" to ε = {after}, over its limit ε = '
        f"{show(limit.limit.epsilon)} "
        f"(spent: {before}, asked: {price}). Nothing was run and nothing was charged. "
        f"{_way_out(limit, standing.spent)}"
    )


def _fits_alone(limit: Filter, loss: Loss) -> bool:
    """Whether a loss is within the limit by itself, with all of δ for its own."""
    try:
        return epsilon(loss, float(limit.limit.delta)).upper <= limit.limit.epsilon
    except DeniableError:
        return False


def _over_shares(standing: Standing, charge: Charge, total: Charge) -> str:
    limit = standing.filter.limit
    return (
        f'This run by itself is within the limit of the account "{standing.name}", {limit}, but the account '
        "keeps a part of δ for other charges, so it does not fit. Nothing was run and nothing was charged. "
        "An account for one run spends all of its limit on it: "
        'ledger.create(…, purpose="run"), or deniable ledger create … --purpose run. '
        "In this one, state the run with less ε or a smaller δ."
    )


def _way_out(limit: Filter, total: Charge) -> str:
    left = limit.left(total)
    if not left.epsilon:
        return "Use another account."
    noise = ""
    if left.rho:
        noise = f" (or ρ ≤ {decimal_floor(left.rho, 6)} of zCDP)"
    if left.mu and not left.rho:
        noise = f" (or Gaussian noise of μ ≤ {decimal_floor(left.mu, 6)}, the sensitivity over the noise)"
    return f"Ask with ε ≤ {decimal_floor(left.epsilon, 6)}{noise}, or use another account."


def _tell(x: float) -> str:
    if x == float("inf"):
        return "∞"
    return f"{x:.10g}"
