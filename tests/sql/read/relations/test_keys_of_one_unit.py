"""Subqueries that group by a declared key that leads to the unit (orders of a customer): their groups are rows
of people, so what is counted and averaged over them is the true number but for noise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from deniable import Budget, Curator, Unit
from deniable.errors import InvalidQuery

SCHEMA = """version: "1"
tables:
  orders:
    unit: customer
    columns:
      id: {type: integer}
      customer: {type: integer}
      state: {type: text, keys: [open, paid]}
  items:
    path: [order_id -> orders.id]
    columns:
      order_id: {type: integer}
      shop: {type: integer}
      price: {type: integer, bounds: [0, 100]}
"""
ORDERS = pa.table(
    {
        "id": range(400),
        "customer": [i // 3 for i in range(400)],
        "state": ["open" if i % 4 else "paid" for i in range(400)],
    }
)
ITEMS = pa.table(
    {
        "order_id": [i % 400 for i in range(1000)],
        "shop": [i % 7 for i in range(1000)],
        "price": [i % 90 for i in range(1000)],
    }
)
INNER = "SELECT order_id, COUNT(*) AS n, SUM(price) AS value FROM items GROUP BY order_id"
QUESTIONS = [
    f"SELECT COUNT(*) AS x FROM ({INNER}) t",
    f"SELECT AVG(value) AS x FROM ({INNER}) t",
    f"WITH t AS ({INNER}) SELECT AVG(n) AS x FROM t",
    "SELECT COUNT(*) AS x FROM (SELECT DISTINCT order_id FROM items) t",
    f"SELECT COUNT(*) AS x FROM ({INNER} HAVING COUNT(*) > 2) t",
    "SELECT AVG(n) AS x FROM (SELECT o.id, o.state, COUNT(*) AS n FROM orders o JOIN items i ON i.order_id = o.id "
    "GROUP BY o.id, o.state) t WHERE state = 'paid'",
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    schema: Path = tmp_path_factory.mktemp("shop") / "shop.yaml"
    schema.write_text(SCHEMA, encoding="utf-8")
    unit, limit = Unit.column("customer", max_rows=12), Budget(10**7, 1e-6)
    tables = {"orders": ORDERS, "items": ITEMS}
    with Curator.open(
        tables, account="shop", schema=schema, unit=unit, limit=limit, ledger="sqlite://"
    ) as curator:
        yield curator


@pytest.mark.parametrize("text", QUESTIONS)
def test_groups_of_one_order_are_counted_as_the_engine_counts_them(shop: Curator, text: str) -> None:
    connection = duckdb.connect()
    connection.register("orders", ORDERS)
    connection.register("items", ITEMS)
    [(truth,)] = connection.sql(text).fetchall()
    [row] = shop.sql(text, epsilon=50_000).value.to_pylist()
    assert row["x"] == pytest.approx(float(truth), rel=0.005)


def test_a_key_that_leads_to_nobody_is_refused_with_what_to_write(shop: Curator) -> None:
    with pytest.raises(
        InvalidQuery,
        match="If each shop belongs to one person, add the unit of privacy to the inner GROUP BY",
    ):
        shop.preview("SELECT AVG(n) FROM (SELECT shop, COUNT(*) AS n FROM items GROUP BY shop)", epsilon=1)
