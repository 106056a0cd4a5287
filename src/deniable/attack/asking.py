"""Asking a curator for counts over chosen sets of people, whoever the curator is.

An `Ask` takes a matrix with one row of zeros and ones for each question (who is in the set) and gives the
answers, in order. Fewer answers than questions mean that it refused from there on. `exact`, `noisy` and
`ask_account` answer from bits in memory; `ask_each` makes an `Ask` of a function that answers one question,
and `through_sql` of one that runs a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.filters import Filter
from deniable.errors import BudgetExceeded, InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.mechanism import Mechanism, Random
from deniable.units import Unit

Subsets: TypeAlias = NDArray[np.uint8]
Answers: TypeAlias = NDArray[np.float64]
Ask: TypeAlias = Callable[[Subsets], Answers]

PERSON = Unit.row(replace=True)
"""Who is in the data is known; what a person's bit is, is not: neighbours exchange one row for another."""

_BLOCK = 1024


def random_subsets(queries: int, people: int, seed: int = 0) -> Subsets:
    """`queries` uniformly random sets of people: every person is in each by a fair coin of their own."""
    if queries < 1 or people < 1:
        raise InvalidParameter(f"Expected queries={queries} and people={people} to be at least 1.")
    rng = np.random.default_rng(seed)
    octets = np.frombuffer(rng.bytes(queries * ((people + 7) // 8)), np.uint8).reshape(queries, -1)
    return np.unpackbits(octets, axis=1, count=people)


def all_subsets(people: int) -> Subsets:
    """Every set of people there is: 2ⁿ rows.

    >>> all_subsets(2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    if not 1 <= people <= 20:
        raise InvalidParameter(f"Expected people={people} from 1 to 20 to list all their subsets.")
    return ((np.arange(1 << people)[:, None] >> np.arange(people)) & 1).astype(np.uint8)


def counts(subsets: Subsets, bits: NDArray[Any]) -> Answers:
    """The true answers. Single precision holds whole numbers to 2^24 exactly; blocks keep the memory
    small."""
    secret = np.asarray(bits, np.float32)
    parts = [subsets[i : i + _BLOCK].astype(np.float32) @ secret for i in range(0, len(subsets), _BLOCK)]
    return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)


def exact(bits: NDArray[Any]) -> Ask:
    """A curator who answers the truth."""
    return lambda subsets: counts(subsets, bits)


def noisy(ask: Ask, deviation: float, seed: int = 0) -> Ask:
    """A curator who adds Gaussian noise of her own choice, the same amount for every
    question, and never stops answering."""
    rng = np.random.default_rng(seed)

    def answer(subsets: Subsets) -> Answers:
        answers = ask(subsets)
        return answers + rng.normal(scale=deviation, size=len(answers))

    return answer


def ask_each(ask: Callable[[Subsets], float]) -> Ask:
    """An `Ask` of a function that answers one question; the first `BudgetExceeded` ends the conversation."""

    def answer(subsets: Subsets) -> Answers:
        answers: list[float] = []
        for subset in subsets:
            try:
                answers.append(float(ask(subset)))
            except BudgetExceeded:
                break
        return np.array(answers)

    return answer


def ask_account(
    account: Account,
    bits: NDArray[Any],
    mechanism: Callable[[int], Mechanism[Any]],
    *,
    batch: int = 1,
    rng: Random | None = None,
) -> Ask:
    """A curator who answers through a ledger account, `batch` questions at a time, until it is spent.

    `mechanism(k)` answers k counts of people at once; its unit must be the account's. A flipped bit moves
    each count by one at most, so its sensitivity is k in L1 and √k in L2.
    """

    def answer(subsets: Subsets) -> Answers:
        replies: list[Answers] = []
        for start in range(0, len(subsets), batch):
            some = subsets[start : start + batch]
            try:
                release = account.run(
                    mechanism(len(some)), lambda subset=some: _to_integers(counts(subset, bits)), rng=rng
                )
            except BudgetExceeded:
                break
            replies.append(np.asarray(release.value, np.float64).reshape(-1))
            if len(replies[-1]) != len(some):
                raise InvalidParameter(
                    f"Expected a mechanism that answers {len(some)} counts, got {len(replies[-1])} answers."
                )
        return np.concatenate(replies) if replies else np.zeros(0)

    return answer


@contextmanager
def account(epsilon: float, delta: float = 0, unit: Unit = PERSON) -> Iterator[Account]:
    """An account in memory for made-up data, that ends with the attack."""
    with Ledger.open("sqlite://") as ledger:
        yield ledger.create("attacked", unit, limit=Budget(epsilon, delta))


def release_model(run: Mechanism[Any], data: Any, *, epsilon: float, delta: float) -> Any:
    """The model that a run of DP-SGD releases through an account of exactly (ε, δ) for a
    row, which it spends."""
    with Ledger.open("sqlite://") as ledger:
        ledger_account = ledger.create(
            "attacked", Unit.row(), limit=Budget(epsilon, delta), filter=Filter.basic
        )
        return ledger_account.run(run, data, delta=delta).value.model


def through_sql(
    run: Callable[[str], float], *, table: str, key: str, keys: Sequence[int], condition: str
) -> Ask:
    """Ask by SQL: how many rows of `table` meet `condition`, among those whose `key` is in the set?

    `run` sends the text of a query that gives one number; it raises `BudgetExceeded`
    when it will answer no more.
    """
    names = np.asarray(keys)

    def ask(subset: Subsets) -> float:
        members = ", ".join(map(str, names[subset.astype(bool)].tolist())) or "NULL"
        return run(f"SELECT count(*) FROM {table} WHERE {condition} AND {key} IN ({members})")

    return ask_each(ask)


def _to_integers(answers: Answers) -> Any:
    """Whole numbers for an integer mechanism: one number for one question."""
    ints = np.rint(answers).astype(np.int64)
    return ints if len(ints) > 1 else int(ints[0])
