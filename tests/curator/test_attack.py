"""The reconstruction attack through the curator's SQL: a limit of ε = 1 stops it, one
without meaning does not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deniable.attack.asking import PERSON, through_sql
from deniable.attack.counts.reconstruct import Reconstruction, ceiling, reconstruct, secret
from deniable.curator import Curator
from deniable.guarantee import Budget
from deniable.randomness import SeededRandom

PEOPLE, QUERIES = 48, 130


def attacked(limit: float, epsilon: float) -> Reconstruction:
    table = pa.table({"key": np.arange(PEOPLE), "sick": secret(PEOPLE).astype(np.int64)})
    with Curator.open(
        table, name="patients", unit=PERSON, limit=Budget(limit), ledger="sqlite://", rng=SeededRandom(3)
    ) as curator:

        def run(text: str) -> float:
            return float(curator.sql(text, epsilon=epsilon).value.column(0)[0].as_py())

        ask = through_sql(run, table="patients", key="key", keys=range(PEOPLE), condition="sick = 1")
        return reconstruct(ask, PEOPLE, QUERIES)


def test_a_limit_without_meaning_gives_every_bit_away() -> None:
    found = attacked(limit=10_000, epsilon=10)
    assert found.answer_count == QUERIES
    assert (found.bits == secret(PEOPLE)).mean() > 0.95


def test_a_limit_of_one_ends_the_conversation_before_the_bits_are_found() -> None:
    found = attacked(limit=1, epsilon=0.02)
    assert found.answer_count == 50
    # Any attack expects at most 73 %; seven deviations of a fair count above that is the chance of one in
    # 10^12.
    assert (found.bits == secret(PEOPLE)).mean() < ceiling(1) + 7 * 0.5 / PEOPLE**0.5
