"""Answers of whole plans: every interval holds what would be said without noise, as
often as it claims, and is not idle."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
import pytest
from scipy import stats

from deniable.randomness import SeededRandom
from deniable.sql.answer.joint_noise import LinearForm
from deniable.sql.answer.table import GroupReader, Released, _ends, bound_piece, find_certain, find_pieces
from deniable.sql.engines import Engine, Statement
from deniable.sql.functions.function import Cell
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import NoisyMeasure, Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.request import Terms
from deniable.sql.tree import Aggregate, AggregateRef, Call, Expr, Literal, Output, Query, Result
from deniable.sql.tree import Statistic as S
from deniable.units import Unit
from tests.sql.planned import FLAG, FLOAT, INTEGER, N_BOUNDS, X_BOUNDS, Around, N, X, duck, query

ROWS = [(i, "a", float(i % 83) / 10, i % 8, i % 3 == 0) for i in range(900)]
XS, NS = [row[2] for row in ROWS], [row[3] for row in ROWS]
AGGREGATES = (
    Aggregate(S.COUNT),
    Aggregate(S.COUNT, None, FLAG),
    Aggregate(S.SUM, X, bounds=X_BOUNDS),
    Aggregate(S.AVG, X, bounds=X_BOUNDS),
    Aggregate(S.AVG, N, bounds=N_BOUNDS),
    Aggregate(S.VARIANCE, N, bounds=N_BOUNDS),
    Aggregate(S.QUANTILE, N, level=Fraction(1, 2), bounds=N_BOUNDS),
    Aggregate(S.QUANTILE, X, level=Fraction(9, 10), bounds=X_BOUNDS),
    Aggregate(S.MIN, N, bounds=N_BOUNDS),
    Aggregate(S.MAX, X, bounds=X_BOUNDS),
)
COUNT, FLAGGED, TOTAL, MEAN, _, _, MEDIAN, _, LEAST, _ = (AggregateRef(i, FLOAT) for i in range(10))


def call(op: str, *args: Expr) -> Call:
    return Call(op, args, FLOAT)


OUTPUTS: dict[str, tuple[Expr, float]] = {
    "count": (COUNT, 900),
    "sum": (TOTAL, sum(XS)),
    "mean": (MEAN, statistics.fmean(XS)),
    "whole mean": (AggregateRef(4, FLOAT), statistics.fmean(NS)),
    "variance": (AggregateRef(5, FLOAT), statistics.variance(NS)),
    "median": (MEDIAN, 3.5),
    "high": (AggregateRef(7, FLOAT), 7.4),
    "least": (LEAST, 0),
    "largest": (AggregateRef(9, FLOAT), 8.2),
    "share": (call("divide", FLAGGED, COUNT), 1 / 3),
    "ratio": (call("divide", TOTAL, FLAGGED), sum(XS) / 300),
    "guarded": (call("divide", FLAGGED, call("nullif", COUNT, Literal(0, INTEGER))), 1 / 3),
    "square": (
        call("multiply", call("subtract", MEAN, MEDIAN), call("subtract", MEAN, MEDIAN)),
        (statistics.fmean(XS) - 3.5) ** 2,
    ),
    "difference": (call("subtract", COUNT, call("multiply", Literal(2, INTEGER), FLAGGED)), 300),
    "mixed": (call("add", call("multiply", MEDIAN, LEAST), call("divide", FLAGGED, COUNT)), 1 / 3),
}
CONFIDENCE = 0.8


class Remembered(Around):
    """A DuckDB that computes each statement once: without noise it says the same every time."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.seen: dict[Statement, pa.Table] = {}

    def run(self, statement: Statement) -> pa.Table:
        if statement not in self.seen:
            self.seen[statement] = self.engine.run(statement)
        return self.seen[statement]


def released(made: Plan, runs: int, seed: int) -> list[Result]:
    rng = SeededRandom(seed)
    with duck(ROWS) as engine:
        remembered = Remembered(engine)
        return [made(remembered, rng=rng) for _ in range(runs)]


def asked(noise: str, epsilon: int) -> Plan:
    unit, outputs = Unit.row(), tuple(Output(name, of) for name, (of, _) in OUTPUTS.items())
    base = query(AGGREGATES, unit)
    made = Query(base.relation, (), AGGREGATES, outputs, ((),))
    return plan(made, unit, Terms(epsilon=epsilon, delta=1e-6, noise=noise, confidence=CONFIDENCE))


def noisy(made: Plan, aggregate: int) -> NoisyMeasure:
    """The first measure that an aggregate stands on."""
    return made.sets[0].measures[made.stands[aggregate][0]]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_every_interval_holds_the_truth_as_often_as_it_says(noise: str) -> None:
    runs = 200
    results = released(asked(noise, 8), runs, 11)
    for name, (_, truth) in OUTPUTS.items():
        slack = 1e-9 * (1 + abs(truth))
        missed = sum(not r.low[name][0] - slack <= truth <= r.high[name][0] + slack for r in results)
        assert stats.binomtest(missed, runs, 1 - CONFIDENCE, alternative="greater").pvalue > 1e-9, name
        for r in results:
            value = r.table.column(name)[0].as_py()
            assert value is None or r.low[name][0] - slack <= value <= r.high[name][0] + slack, name


def test_a_guard_against_zero_widens_nothing_and_a_square_is_not_negative() -> None:
    for result in released(asked("laplace", 8), 20, 3):
        assert (result.low["guarded"][0], result.high["guarded"][0]) == (
            result.low["share"][0],
            result.high["share"][0],
        )
        assert 0 <= result.low["square"][0] <= result.high["square"][0] < math.inf


def test_quantiles_say_more_than_their_bounds() -> None:
    results = released(asked("laplace", 40), 20, 5)
    widths = {
        name: statistics.mean(float(r.high[name][0] - r.low[name][0]) for r in results) for name in OUTPUTS
    }
    assert widths["median"] <= 2.5
    assert widths["high"] <= 2.5
    assert widths["least"] <= 2
    assert widths["largest"] <= 3
    assert all(r.low["least"][0] == 0 and r.high["largest"][0] == 10 for r in results)


def test_pieces_of_one_output_fail_no_more_often_together_than_the_output_may() -> None:
    """The output "mixed" reads four aggregates, two of them quantiles, whose intervals
    may fail in a quarter of β each."""
    made, beta = asked("laplace", 8), 1 - CONFIDENCE
    bracket = noisy(made, 6).bracket
    assert bracket is not None
    assert bracket.beta == pytest.approx(beta / 4)
    reader, group = GroupReader(made.start), Released(0, (), (900,) * 12, ((0, 7),) * 12)
    mixed = OUTPUTS["mixed"][0]
    pieces = reader.pieces(mixed)
    assert len(pieces) == 3
    apart = reader.cell(call("divide", FLAGGED, COUNT), [call("divide", FLAGGED, COUNT)], group, beta / 2)
    together = reader.cell(mixed, pieces, group, beta)
    assert (together.high - together.low) - (apart.high - apart.low) == pytest.approx(49)


def test_two_pieces_fail_half_as_often_each() -> None:
    made, beta = asked("laplace", 8), 1 - CONFIDENCE
    reader, group = GroupReader(made.start), Released(0, (), (900,) * 12, ((0, 7),) * 12)
    product = call("multiply", COUNT, FLAGGED)
    cell = reader.cell(product, reader.pieces(product), group, beta)
    reach = [noisy(made, i).noise.within(beta / 2) for i in (0, 1)]  # type: ignore[union-attr]
    assert (cell.low, cell.high) == ((900 - reach[0]) * (900 - reach[1]), (900 + reach[0]) * (900 + reach[1]))


def test_the_bracket_of_a_float_allows_for_rounding_it() -> None:
    made = asked("laplace", 8)
    reader, group = GroupReader(made.start), Released(0, (), (300,) * 12, ((200, 400),) * 12)
    high = AggregateRef(7, FLOAT)
    cell, grid = reader.cell(high, [high], group, 0.05), noisy(made, 7).grid
    assert grid is not None
    assert not grid.exact
    assert cell.low == float(grid.lower + grid.unit * Fraction(399, 2))
    assert cell.high == float(grid.lower + grid.unit * Fraction(801, 2))


def test_a_share_of_a_count_is_narrower_than_its_box() -> None:
    made = asked("laplace", 1)
    flagged, count = noisy(made, 1).noise, noisy(made, 0).noise
    assert isinstance(flagged, Noise)
    assert isinstance(count, Noise)
    radii = flagged.within((1 - CONFIDENCE) / 2), count.within((1 - CONFIDENCE) / 2)
    box = (300 + radii[0]) / (900 - radii[1]) - (300 - radii[0]) / (900 + radii[1])
    results = released(made, 20, 5)
    assert max(float(r.high["share"][0] - r.low["share"][0]) for r in results) < 0.8 * box


def test_an_interval_holds_the_number_that_is_shown() -> None:
    """What is told of rows beyond a bound makes a count a fraction; the column shows it rounded."""
    cells = [Cell(Fraction(383924, 100), 3839.24, 3900.0), Cell(Fraction(3839), 3838.0, 3839.4), Cell(None)]
    low, high = _ends(cells, pa.array([3839, 3839, None], pa.int64()))
    assert low.tolist() == [3839.0, 3838.0, -math.inf]
    assert high.tolist() == [3900.0, 3839.4, math.inf]


def test_a_quantile_costs_what_was_asked_with_its_brackets() -> None:
    for noise in ("laplace", "gaussian"):
        made = asked(noise, 1)
        bracket = noisy(made, 6).bracket
        assert bracket is not None
        point = noisy(made, 6).noise
        assert isinstance(point, Rank)
        costs = {
            "laplace": point.epsilon + bracket.noise.epsilon,
            "gaussian": point.epsilon**2 / 8 + bracket.noise.rho,
        }
        amount = made.price.allotment.amounts[made.stands[6][0]]
        assert amount * (1 - Fraction(1, 10**9)) <= costs[noise] <= amount


# ------------------------------------------------------------------------------------------------ pieces of an output


def known(index: int) -> LinearForm | None:
    return LinearForm(Fraction(10 * index + 10), {index: (Fraction(1), 1)}) if index < 3 else None


PIECES: list[tuple[Callable[[], Expr], list[Expr]]] = [
    (lambda: call("round", call("divide", FLAGGED, COUNT)), [call("divide", FLAGGED, COUNT)]),
    (lambda: call("add", COUNT, FLAGGED), [call("add", COUNT, FLAGGED)]),
    (lambda: call("add", MEAN, FLAGGED), [MEAN, FLAGGED]),
    (lambda: call("multiply", COUNT, FLAGGED), [COUNT, FLAGGED]),
    (
        lambda: call("multiply", call("divide", COUNT, FLAGGED), COUNT),
        [call("divide", COUNT, FLAGGED), COUNT],
    ),
    (lambda: call("divide", MEAN, COUNT), [MEAN, COUNT]),
    (lambda: call("negate", call("cast", COUNT)), [call("negate", call("cast", COUNT))]),
    (lambda: Literal(1, INTEGER), []),
    (lambda: call("divide", COUNT, Literal(0, INTEGER)), [COUNT]),
]


@pytest.mark.parametrize(("expr", "wanted"), PIECES)
def test_pieces_are_as_large_as_they_can_be(expr: Callable[[], Expr], wanted: list[Expr]) -> None:
    assert list(find_pieces(expr(), known)) == wanted


def test_the_ends_of_a_piece_are_those_of_its_form() -> None:
    tenth = call(
        "divide", call("subtract", Literal(4, INTEGER), call("add", COUNT, FLAGGED)), Literal(10, INTEGER)
    )
    low, high = bound_piece(tenth, known, 0.05)
    assert (low, high) == pytest.approx(((4 - 32) / 10, (4 - 28) / 10))
    assert bound_piece(call("divide", COUNT, FLAGGED), known, 0.05) == pytest.approx((9 / 21, 11 / 19))


# ------------------------------------------------------------------------------------------------ what is certain


CERTAIN = (
    Aggregate(S.COUNT),
    Aggregate(S.COUNT, None, FLAG),
    Aggregate(S.COUNT, X),
    Aggregate(S.COUNT, X, FLAG),
    Aggregate(S.SUM, X, FLAG, bounds=(Fraction(-2), Fraction(5))),
    Aggregate(S.SUM, X, bounds=(Fraction(3), Fraction(5))),
    Aggregate(S.COUNT_DISTINCT, X),
    Aggregate(S.SUM, X),
)


@pytest.mark.parametrize(
    ("top", "bottom", "wanted"),
    [
        (1, 0, (0, 1)),
        (0, 1, None),
        (2, 0, (0, 1)),
        (0, 2, None),
        (3, 2, (0, 1)),
        (3, 1, (0, 1)),
        (1, 3, None),
        (2, 3, None),
        (4, 1, (-2, 5)),
        (4, 0, (-2, 5)),
        (5, 1, None),
        (5, 2, (0, 5)),
        (6, 0, None),
        (1, 6, None),
        (7, 0, None),
    ],
)
def test_a_share_is_known_to_be_one(top: int, bottom: int, wanted: tuple[int, int] | None) -> None:
    share = call("divide", call("cast", AggregateRef(top, FLOAT)), AggregateRef(bottom, FLOAT))
    assert find_certain(share, CERTAIN) == wanted
    percent = call(
        "divide",
        call("multiply", Literal(-100, INTEGER), AggregateRef(top, FLOAT)),
        AggregateRef(bottom, FLOAT),
    )
    scaled = None if wanted is None else (-100 * wanted[1], -100 * wanted[0])
    assert find_certain(percent, CERTAIN) == scaled


def test_a_share_of_few_rows_lies_between_none_and_all() -> None:
    """The count may be 0 by its noise: without more there would be no interval."""
    made = asked("laplace", 1)
    reader, share = GroupReader(made.start), call("divide", FLAGGED, COUNT)
    few = Released(0, (), (3, 2) + (0,) * 10, (None,) * 12)
    cell = reader.cell(share, reader.pieces(share), few, 0.05)
    assert (cell.low, cell.high) == (0, 1)
    many = Released(0, (), (900, 890) + (0,) * 10, (None,) * 12)
    cell = reader.cell(share, reader.pieces(share), many, 0.05)
    assert 0.9 < cell.low < cell.high <= 1
