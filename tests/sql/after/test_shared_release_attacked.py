"""A plain text and a window over its groups are one release: attacked by other data, other terms, copies, forks and kills."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.curator import Curator
from deniable.errors import BudgetExceeded, DeniableError
from deniable.guarantee import Budget
from deniable.randomness import SecureRandom
from deniable.units import Unit

PLAIN = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"
RANKED = "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY n DESC) AS r FROM t GROUP BY ward"
ORDERS = [(PLAIN, RANKED), (RANKED, PLAIN)]


def write(path: Path, rows: int) -> None:
    lines = {"id": [i // 2 for i in range(rows)], "ward": [f"w{i % 3}" for i in range(rows)]}
    pq.write_table(pa.table(lines), path)


def opened(folder: Path, **changes: Any) -> Curator:
    how = {
        "name": "t",
        "unit": Unit.column("id", max_rows=2),
        "limit": Budget(2, 1e-6),
        "ledger": f"sqlite:///{folder}/ledger.db",
        "keys": {"ward": ("w0", "w1", "w2")},
    }
    return Curator.open(folder / "t.parquet", **(how | changes))


def numbers(answer: Any) -> dict[str, int]:
    table = answer.value
    return dict(zip(table["ward"].to_pylist(), table["n"].to_pylist(), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "t.parquet", 300)
    return tmp_path


@pytest.mark.parametrize(("first", "then"), ORDERS)
def test_what_was_released_of_another_version_is_not_shown(folder: Path, first: str, then: str) -> None:
    with opened(folder) as curator:
        before = numbers(curator.sql(first, epsilon=1))
        assert curator.preview(then, epsilon=1).free
    write(folder / "t.parquet", 3000)
    with opened(folder, version="2") as curator:
        assert not curator.preview(then, epsilon=1).free
        answer = curator.sql(then, epsilon=1)
        assert not answer.again
        assert min(numbers(answer).values()) > max(before.values()) + 500


@pytest.mark.parametrize(("first", "then"), ORDERS)
@pytest.mark.parametrize(
    "terms",
    [{"epsilon": 0.99}, {"epsilon": 1, "left_out": False}, {"of": 3}, {"epsilon": 1, "most_rows": 9}],
    ids=str,
)
def test_other_terms_are_another_release(folder: Path, first: str, then: str, terms: dict[str, Any]) -> None:
    with opened(folder) as curator:
        curator.sql(first, epsilon=1)
        spent = curator.account.spent().epsilon
        assert not curator.preview(then, **terms).free
        assert not curator.sql(then, **terms).again
        assert curator.account.spent().epsilon > spent


@pytest.mark.parametrize(("first", "then"), ORDERS)
def test_prepared_in_between_it_stays_one_release(folder: Path, first: str, then: str) -> None:
    with opened(folder, limit=Budget(1, 1e-6)) as curator:
        before = numbers(curator.sql(first, epsilon=1))
        curator.prepare()
        after = curator.sql(then, epsilon=1)
        assert after.again
        assert numbers(after) == before
        with pytest.raises(BudgetExceeded):
            curator.sql(then.replace("FROM t", "FROM t WHERE id > 3"), epsilon=1)


def test_a_copy_or_pickle_of_a_curator_asks_nothing(folder: Path) -> None:
    with opened(folder) as curator:
        curator.sql(PLAIN, epsilon=1)
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises((DeniableError, TypeError)):
                attempt(curator)


@pytest.mark.parametrize("text", [PLAIN, RANKED])
def test_a_forked_child_gets_no_release_of_its_own(folder: Path, text: str) -> None:
    with opened(folder) as curator:
        child = os.fork()
        if child == 0:
            try:
                curator.sql(text, epsilon=1)
            except DeniableError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert curator.account.spent().epsilon == 0


class Killed(SecureRandom):
    """The process ends when the first noise would be drawn: after the charge, before the release is kept."""

    def uniform_integers(self, *args: Any, **named: Any) -> Any:
        os._exit(9)


@pytest.mark.parametrize(("first", "then"), ORDERS)
def test_killed_after_the_charge_the_other_text_is_paid_for_again(
    folder: Path, first: str, then: str
) -> None:
    child = os.fork()
    if child == 0:
        opened(folder, rng=Killed()).sql(first, epsilon=1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with opened(folder) as curator:
        spent = curator.account.spent().epsilon
        assert spent == pytest.approx(1)
        assert not curator.preview(then, epsilon=1).free
        assert not curator.sql(then, epsilon=1).again
        assert curator.account.spent().epsilon == pytest.approx(2)
        assert curator.sql(first, epsilon=1).again  # paid for by the other one
        with pytest.raises(BudgetExceeded):
            curator.sql(first, epsilon=0.5)


@pytest.mark.parametrize(("first", "then"), ORDERS)
def test_a_colleague_pays_for_what_another_read(folder: Path, first: str, then: str) -> None:
    with opened(folder) as curator:
        ada, bob = (curator.share(name, Budget(1, 0)) for name in ("ada", "bob"))
        ada.sql(first, epsilon=1)
        assert bob.account.spent().epsilon == 0
        bob.sql(then, epsilon=1)
        assert bob.account.spent().epsilon == pytest.approx(1)
        assert ada.sql(then, epsilon=1).again
