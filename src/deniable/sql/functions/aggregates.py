"""Every aggregate that a query may use: how it is written, and which node the parser makes of it."""

from __future__ import annotations

from sqlglot import expressions as exp

from deniable.sql.tree import Statistic

AGGREGATES: dict[str, str] = {
    Statistic.COUNT: "COUNT(*), COUNT(x), COUNT_IF(c)",
    Statistic.COUNT_DISTINCT: "COUNT(DISTINCT x), APPROX_COUNT_DISTINCT(x)",
    Statistic.COUNT_UNITS: "COUNT(DISTINCT unit)",
    Statistic.SUM: "SUM(x)",
    Statistic.AVG: "AVG(x), MEAN(x)",
    Statistic.VARIANCE: "VARIANCE(x), VAR_SAMP(x)",
    Statistic.VARIANCE_POP: "VAR_POP(x)",
    Statistic.STDDEV: "STDDEV(x), STDDEV_SAMP(x)",
    Statistic.STDDEV_POP: "STDDEV_POP(x)",
    Statistic.MIN: "MIN(x)",
    Statistic.MAX: "MAX(x)",
    Statistic.QUANTILE: (
        "MEDIAN(x), QUANTILE_CONT(x, 0.9), QUANTILE_DISC(x, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP "
        "(ORDER BY x)"
    ),
}

NUMERIC: dict[type[exp.Expr], Statistic] = {
    exp.Sum: Statistic.SUM,
    exp.Avg: Statistic.AVG,
    exp.Variance: Statistic.VARIANCE,
    exp.VariancePop: Statistic.VARIANCE_POP,
    exp.Stddev: Statistic.STDDEV,
    exp.StddevSamp: Statistic.STDDEV,
    exp.StddevPop: Statistic.STDDEV_POP,
    exp.Min: Statistic.MIN,
    exp.Max: Statistic.MAX,
}
"""Aggregates of one number, by the node that the parser makes of them."""
