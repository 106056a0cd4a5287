"""Sums over released cells are off by √n noises, not by n; but only where no noise has chosen what is summed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pyarrow as pa
import pytest
from scipy.stats import binom

from deniable.curator import Answer, Curator
from deniable.guarantee import Budget
from deniable.randomness import SeededRandom
from deniable.sql.after.release import CellNoise, ReleasedBlock
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise
from deniable.units import Unit

GROUPS, CELLS, ROWS = 50, 20, 5
G, J = (tuple(f"{i:02d}" for i in range(many)) for many in (GROUPS, CELLS))
BLOCK = "(SELECT g, j, COUNT(*) AS n FROM t GROUP BY g, j)"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    pairs = [(g, j) for g in G for j in J for _ in range(ROWS)]
    return pa.table(
        {"g": [g for g, _ in pairs], "j": [j for _, j in pairs], "who": [i % 400 for i in range(len(pairs))]}
    )


def opened(table: pa.Table, seed: int = 1, unit: Unit | None = None) -> Curator:
    return Curator.open(
        table,
        name="t",
        unit=unit or Unit.row(),
        limit=Budget(10**6, 1e-2),
        ledger="sqlite://",
        keys={"g": G, "j": J},
        rng=SeededRandom(seed),
    )


@pytest.fixture(scope="module")
def curator(table: pa.Table) -> Iterator[Curator]:
    with opened(table) as one:
        yield one


def halves(answer: Answer, name: str) -> list[float]:
    low, high = (side.column(name).to_pylist() for side in (answer.low, answer.high))
    return [(b - a) / 2 for a, b in zip(low, high, strict=True)]


def held(answer: Answer, name: str, true: float) -> int:
    low, high = (side.column(name).to_pylist() for side in (answer.low, answer.high))
    return sum(a <= true <= b for a, b in zip(low, high, strict=True))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_sums_of_groups_are_held_and_tight(table: pa.Table, noise: str) -> None:
    times = total = 0
    for seed in range(3):
        with opened(table, seed) as curator:
            sums = curator.sql(
                f"SELECT g, SUM(n) AS s, AVG(n) AS m FROM {BLOCK} GROUP BY g", epsilon=0.5, noise=noise
            )
            cell = halves(curator.sql(f"SELECT g, j, n FROM {BLOCK}", epsilon=0.5, noise=noise), "n")[0]
        assert max(halves(sums, "s")) <= 1.3 * CELLS**0.5 * cell
        assert max(halves(sums, "m")) <= 1.3 * cell / CELLS**0.5
        times += held(sums, "s", ROWS * CELLS)
        assert held(sums, "m", ROWS) == held(sums, "s", ROWS * CELLS)
        total += GROUPS
    # Each of the sums has cells of its own, so they fail independently.
    assert binom.cdf(times, total, 0.95) > 1e-9


ROOTS = {
    "running": f"SELECT g, j, SUM(n) OVER (PARTITION BY g ORDER BY j) AS s FROM {BLOCK} ORDER BY g, j",
    "counted": f"SELECT g, j, SUM(n) OVER (PARTITION BY g ORDER BY j ROWS UNBOUNDED PRECEDING) AS s FROM {BLOCK} ORDER BY g, j",
    "renamed": f"WITH a AS {BLOCK}, b (x, y, z) AS (SELECT g, j, n FROM a WHERE g < '07') SELECT SUM(z) AS s FROM b GROUP BY x",
    "filtered": f"SELECT g, SUM(n) FILTER (WHERE j <= '19') AS s FROM {BLOCK} GROUP BY 1 HAVING SUM(n) > 0 ORDER BY s LIMIT 3",
    "nested": "SELECT g, j, SUM(COUNT(*)) OVER (PARTITION BY g ORDER BY j) AS s FROM t GROUP BY g, j ORDER BY g, j",
}


@pytest.mark.parametrize("name", ROOTS)
def test_the_root_is_taken_where_keys_choose_the_rows(name: str, curator: Curator) -> None:
    cell = halves(curator.sql(f"SELECT g, j, n FROM {BLOCK}", epsilon=0.5), "n")[0]
    widths = halves(curator.sql(ROOTS[name], epsilon=0.5), "s")
    assert widths[-1] <= 1.3 * CELLS**0.5 * cell


def over(window: str, source: str = BLOCK) -> str:
    return f"SELECT SUM(n) OVER ({window}) AS s, COUNT(n) OVER ({window}) AS c FROM {source}"


CHOSEN = {
    "where": f"SELECT SUM(n) AS s, COUNT(n) AS c FROM {BLOCK} WHERE n > 4",
    "filter": f"SELECT SUM(n) FILTER (WHERE n > 4) AS s, COUNT(n) FILTER (WHERE n > 4) AS c FROM {BLOCK}",
    "limit": f"SELECT SUM(n) AS s, COUNT(n) AS c FROM (SELECT n FROM {BLOCK} ORDER BY n DESC LIMIT 100)",
    "bracket": f"SELECT SUM(n) AS s, COUNT(n) AS c FROM ((SELECT n FROM {BLOCK} ORDER BY n DESC) LIMIT 100)",
    "cte": f"WITH a AS (SELECT n FROM {BLOCK} ORDER BY n DESC LIMIT 100) SELECT SUM(n) AS s, COUNT(n) AS c FROM a",
    "qualify": f"SELECT SUM(n) AS s, COUNT(n) AS c FROM (SELECT n FROM {BLOCK} QUALIFY RANK() OVER (ORDER BY n) < 90)",
    "rank": f"SELECT SUM(n) AS s, COUNT(n) AS c FROM (SELECT n, RANK() OVER (ORDER BY n) AS r FROM {BLOCK}) WHERE r < 90",
    "alias": f"SELECT n > 4 AS b, SUM(n) AS s, COUNT(n) AS c FROM {BLOCK} GROUP BY 1",
    "alias of a key": f"SELECT n > 4 AS g, SUM(n) AS s, COUNT(n) AS c FROM {BLOCK} GROUP BY ALL",
    "order": over("ORDER BY n"),
    "named": f"SELECT SUM(n) OVER w AS s, COUNT(n) OVER w AS c FROM {BLOCK} WINDOW w AS (ORDER BY n)",
    "partition": over("PARTITION BY n > 4"),
    "ties": over("ORDER BY g ROWS UNBOUNDED PRECEDING"),
    "rows as they come": over("ROWS UNBOUNDED PRECEDING", f"(SELECT n FROM {BLOCK} ORDER BY n)"),
    "join": f"WITH a AS {BLOCK} SELECT SUM(a.n) AS s, COUNT(a.n) AS c FROM a JOIN (SELECT g FROM a) AS b ON a.g = b.g",
    "union": f"WITH a AS {BLOCK} SELECT SUM(n) AS s, COUNT(n) AS c FROM (SELECT n FROM a UNION ALL SELECT n FROM a)",
    "subquery": f"WITH a AS {BLOCK} SELECT SUM(n) AS s, COUNT(n) AS c FROM a WHERE g IN (SELECT g FROM a WHERE n > 4)",
}


@pytest.mark.parametrize("name", CHOSEN)
def test_it_is_not_where_noise_or_a_join_may_choose_them(name: str, curator: Curator) -> None:
    cell = halves(curator.sql(f"SELECT g, j, n FROM {BLOCK}", epsilon=0.5), "n")[0]
    answer = curator.sql(CHOSEN[name], epsilon=0.5)
    if "s" not in answer.low.column_names:
        return  # no interval is honest as well
    counts = answer.value.column("c").to_pylist()
    for width, count in zip(halves(answer, "s"), counts, strict=True):
        assert width >= count * cell


def test_sums_that_are_compared_share_their_failures(curator: Curator) -> None:
    sums = f"(SELECT g, SUM(n) AS s FROM {BLOCK} GROUP BY g)"
    single = max(halves(curator.sql(f"SELECT s FROM {sums}", epsilon=0.5), "s"))
    widest = halves(curator.sql(f"SELECT MAX(s) AS m FROM {sums}", epsilon=0.5), "m")[0]
    # A fiftieth of β at least: 3.3 instead of 2 deviations.
    assert widest >= 1.4 * single


def test_two_sums_over_one_column_are_counted_apart(curator: Curator) -> None:
    parts = ("SUM(n) FILTER (WHERE j < '10') AS a", "SUM(n) FILTER (WHERE j >= '10') AS b")
    sums = f"(SELECT g, {', '.join(parts)} FROM {BLOCK} GROUP BY g)"
    text = f"SELECT MAX(a) AS a, MAX(b) AS b, MAX(a) + MAX(b) AS c FROM {sums}"
    answer = curator.sql(text, epsilon=0.5)
    apart = halves(answer, "a")[0] + halves(answer, "b")[0]
    assert halves(answer, "c")[0] > 1.02 * apart


def test_what_is_left_out_is_not_made_smaller(table: pa.Table) -> None:
    with opened(table, unit=Unit.column("who", max_rows=8)) as curator:
        cells = halves(curator.sql(f"SELECT g, j, n FROM {BLOCK}", epsilon=2), "n")
        total = curator.sql(f"SELECT SUM(n) AS s FROM {BLOCK}", epsilon=2)
    assert halves(total, "s")[0] >= sum(cells) / 2


def test_a_kept_noise_is_read_again_and_an_older_release_has_none() -> None:
    noise = Noise(Family.LAPLACE, 3, IntegerSensitivity(1, 1))
    table = pa.table({"k0": ["a"], "a0": [1]})
    block = ReleasedBlock(table, {}, {}, {"a0": CellNoise(noise, Fraction(1, 3), 0.05)})
    said = block.to_dict()
    again = ReleasedBlock.from_dict(said)
    assert again.noises["a0"].line(9, 4) == block.noises["a0"].line(9, 4)
    assert again.noises["a0"].worth == Fraction(1, 3)
    del said["noises"]
    assert ReleasedBlock.from_dict(said).noises == {}
