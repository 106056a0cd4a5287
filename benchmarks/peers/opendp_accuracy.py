"""Answers of OpenDP, by its Polars interface, as JSON. benchmarks/accuracy.py runs this for its peer.

    python opendp_accuracy.py TABLE.parquet CASE.json

A case has the public keys, the bound of the values, ε, and for each query the bounds on rows per person to try. The table holds
many runs, each with its own people and its own keys ("3|A" is A in run 3), so that one release answers for all: each has noise
of its own, as large as if it were alone. Counts alone have all of ε; counts and sums together share it evenly; the median
has all of it, with every whole number as a candidate.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

dp: Any = importlib.import_module("opendp.prelude")
pl: Any = importlib.import_module("polars")


def rows(table: Any, case: dict[str, Any], margins: list[Any]) -> Any:
    """A new budget for one query."""
    context = dp.Context.compositor(
        data=table,
        privacy_unit=dp.unit_of(contributions=1, identifier="who"),
        privacy_loss=dp.loss_of(epsilon=case["epsilon"]),
        split_evenly_over=1,
        margins=margins,
    )
    return context.query()


def by_key(table: Any, case: dict[str, Any], bound: int, *, sums: bool) -> dict[str, list[float]]:
    margin = dp.polars.Margin(by=["k"], max_length=10_000_000)
    wanted = [dp.len(), pl.col("x").fill_null(0).dp.sum(bounds=(0, case["top"]))] if sums else [dp.len()]
    query = rows(table, case, [margin]).truncate_per_group(bound).group_by("k").agg(*wanted)
    frame = query.with_keys(pl.LazyFrame({"k": case["keys"]})).release().collect()
    return {row["k"]: [row["len"], *([row["x"]] if sums else [])] for row in frame.to_dicts()}


def median(table: Any, case: dict[str, Any], bound: int) -> dict[str, list[float]]:
    margin = dp.polars.Margin(by=["run"], max_length=10_000_000)
    value = pl.col("x").fill_null(0).dp.median(list(range(case["top"] + 1)))
    query = rows(table, case, [margin]).truncate_per_group(bound).group_by("run").agg(value)
    frame = query.with_keys(pl.LazyFrame({"run": case["runs"]})).release().collect()
    return {row["run"]: [row["x"]] for row in frame.to_dicts()}


def answers(path: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    table = pl.read_parquet(path).lazy()
    queries = {
        "counts": lambda bound: by_key(table, case, bound, sums=False),
        "both": lambda bound: by_key(table, case, bound, sums=True),
        "median": lambda bound: median(table, case, bound),
    }
    return [
        {"bound": bound, "query": query, "answers": queries[query](bound)}
        for query, bounds in case["bounds"].items()
        for bound in bounds
    ]


if __name__ == "__main__":
    dp.enable_features("contrib")
    print(json.dumps(answers(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))))
