"""Contributions are bounded by weights and by keyed choice, from a unit's own rows only."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scipy import stats

from deniable.sql.dialects import DUCKDB, SPARK
from deniable.sql.write.contributions import ONE, Limit, chosen, summed, weighted
from tests.sql.planned import duck

ROWS = "SELECT person AS _unit, region AS k0 FROM visits"


def visits(person: int, regions: str) -> list[tuple[Any, ...]]:
    return [(person, region, None, None, None) for region in regions]


def weights(rows: list[Any], limit: Limit, condition: str = "") -> dict[int, list[int]]:
    source, weight = weighted(ROWS, limit, condition, DUCKDB)
    with duck(rows) as engine:
        found = engine.connection.execute(f"SELECT _unit, {weight} FROM {source}").fetchall()
    return {person: [w for p, w in found if p == person] for person, _ in found}


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 100])
@pytest.mark.parametrize("most", [1, 3, 4])
def test_a_units_rows_weigh_at_most_its_bound_together(rows: int, most: int) -> None:
    limit = Limit(True, most, 1, ONE)
    (mine,) = weights(visits(1, "a" * rows), limit).values()
    assert len(mine) == rows
    assert sum(mine) <= limit.total
    assert sum(mine) > limit.total - rows if rows >= most else mine == [ONE] * rows


def test_a_weight_depends_on_that_units_rows_only() -> None:
    limit = Limit(True, 2, 1, ONE)
    alone = weights(visits(1, "aab"), limit)[1]
    assert weights(visits(1, "aab") + visits(2, "abcabc"), limit)[1] == alone == [2 * ONE // 3] * 3


def test_rows_outside_the_public_keys_do_not_share_the_weight() -> None:
    limit = Limit(True, 1, 1, ONE)
    found = weights(visits(1, "azzz") + visits(2, "zz"), limit, "k0 IN ('a', 'b')")
    assert found[1][0] == ONE
    assert 2 not in found


def test_a_row_without_a_unit_counts_for_nothing() -> None:
    nobody: list[Any] = [(None, "a", None, None, None)]
    found = weights(nobody + visits(1, "a"), Limit(True, 1, 1, ONE))
    assert found == {1: [ONE]}


def test_units_are_summed_without_a_join_where_there_are_no_keys() -> None:
    rows = [(None, "a", None, None, None), *visits(1, "aab"), *visits(2, "c")]
    source, size = summed(ROWS, {"t": "COUNT(CASE WHEN k0 = 'a' THEN 1 END)"}, DUCKDB)
    with duck(rows) as engine:
        units = engine.connection.execute(f"SELECT {size}, t FROM {source} ORDER BY 1").fetchall()
    assert units == [(1, 0), (3, 2)]


def test_without_a_unit_every_row_weighs_one() -> None:
    source, weight = weighted("SELECT 1", Limit(False), "", DUCKDB)
    assert weight == "1"
    assert "JOIN" not in source


def kept(rows: list[Any], most: int, salt: str = "1") -> list[str]:
    with duck(rows) as engine:
        found = engine.connection.execute(chosen(ROWS, ["k0"], most, salt, DUCKDB)).fetchall()
    return sorted(str(key) for (key,) in found)


def test_at_most_so_many_different_values_of_a_unit_are_kept_with_all_their_rows() -> None:
    assert kept(visits(1, "aabbb"), 2) == ["a", "a", "b", "b", "b"]
    assert len(set(kept(visits(1, "abcdabcdabcd"), 2))) == 2
    assert len(kept(visits(1, "abcdefgh"), 3)) == 3
    assert len(kept([(1, None, None, None, None), *visits(1, "abcd")], 2)) == 2


def test_the_choice_is_the_same_whatever_the_order_and_the_others() -> None:
    first = kept(visits(1, "abcdefgh"), 3)
    assert kept(visits(1, "hgfedcba"), 3) == first
    assert sorted(kept(visits(1, "abcdefgh") + visits(2, "xyz"), 3)) == sorted([*first, "x", "y", "z"])


def test_the_salt_changes_the_choice() -> None:
    assert len({tuple(kept(visits(1, "abcdefgh"), 3, salt)) for salt in "0123456789"}) > 3


def test_each_of_a_units_values_is_as_likely_to_be_kept_as_any_other() -> None:
    """Over salts: with a hash that mixes the salt in as one more argument some values come first four times as often."""
    values, salts = "abcdefghi", 800
    first: Counter[str] = Counter()
    with duck(visits(1, values) + visits(2, values)) as engine:
        for salt in range(salts):
            text = chosen(ROWS, ["k0"], 1, format(salt * 0x9E3779B97F4A7C15 % 2**62, "x"), DUCKDB)
            first.update(key for (key,) in engine.connection.execute(text).fetchall())
    assert stats.chisquare([first[value] for value in values]).pvalue > 1e-9


def test_two_units_choose_independently() -> None:
    values, salts = "abc", 360
    pairs: Counter[tuple[str, ...]] = Counter()
    with duck(visits(1, values) + visits(2, values)) as engine:
        for salt in range(salts):
            text = chosen(f"SELECT * FROM ({ROWS})", ["_unit", "k0"], 1, format(salt, "x"), DUCKDB)
            pairs[tuple(key for _, key in sorted(engine.connection.execute(text).fetchall()))] += 1
    assert len(pairs) == 9
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-9


def test_names_are_quoted_in_every_dialect() -> None:
    assert DUCKDB.quote('a"b') == '"a""b"'
    assert SPARK.quote("a`b") == "`a``b`"
