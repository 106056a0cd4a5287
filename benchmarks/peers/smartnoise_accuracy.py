"""Answers of SmartNoise SQL, as JSON. benchmarks/accuracy.py runs this for its peer.

    python smartnoise_accuracy.py TABLE.parquet CASE.json

The table holds many runs, each with its own people and keys, as for OpenDP. Counts alone have all of ε; counts and sums
together half of it each. Keys are public, so none is censored; counts may be
negative, so none is clamped; columns have no NULLs, as is declared to all.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

DELTA = 1e-6
snsql: Any = importlib.import_module("snsql")
parquet: Any = importlib.import_module("pyarrow.parquet")


def reader(frame: Any, case: dict[str, Any], bound: int, epsilon: float) -> Any:
    table: dict[str, Any] = {
        "row_privacy": False,
        "max_ids": bound,
        "rows": len(frame),
        "sample_max_ids": True,
    }
    table |= {"censor_dims": False, "clamp_counts": False, "k": {"type": "string", "nullable": False}}
    table |= {"x": {"type": "int", "lower": 0, "upper": case["top"], "nullable": False}}
    table |= {"who": {"type": "int", "private_id": True}}
    privacy = snsql.Privacy(epsilon=epsilon, delta=DELTA)
    return snsql.from_df(frame, privacy=privacy, metadata={"": {"data": {"t": table}}})


def asked(frame: Any, case: dict[str, Any], bound: int, *, sums: bool) -> dict[str, list[float]]:
    columns = "COUNT(*) AS n, SUM(x) AS total" if sums else "COUNT(*) AS n"
    private = reader(frame, case, bound, case["epsilon"] / (2 if sums else 1))
    return {line[0]: line[1:] for line in private.execute(f"SELECT k, {columns} FROM data.t GROUP BY k")[1:]}


def answers(path: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    frame = parquet.read_table(path, columns=["who", "k", "x"]).to_pandas()
    return [
        {"bound": bound, "query": query, "answers": asked(frame, case, bound, sums=query == "both")}
        for query, bounds in case["bounds"].items()
        for bound in bounds
        if query != "median"
    ]


if __name__ == "__main__":
    found = answers(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    print(json.dumps(found, default=float))
