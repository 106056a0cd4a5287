"""CPU seconds, peak memory and answers of SmartNoise SQL, as JSON. benchmarks/curator.py
runs this for its peer.

COUNT and SUM by region at ε = 1/2 each; the mean is their quotient, as ours is. User level bounds each user
to four rows. The table lies in a pandas frame, which SmartNoise's embedded reader asks through SQLite. What
is timed is a query, not the reading of the parquet; one run of each, since a run takes a minute.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

TOP, BOUND, EPSILON, DELTA = 200_000, 4, 1.0, 1e-6
QUERY = "SELECT region, COUNT(*) AS n, SUM(income) AS total FROM data.visits GROUP BY region"
snsql: Any = importlib.import_module("snsql")
parquet: Any = importlib.import_module("pyarrow.parquet")


def reader(frame: Any, *, user: bool) -> Any:
    """Keys are public, so none is censored; counts may be negative, so none is clamped."""
    table: dict[str, Any] = {"row_privacy": not user, "max_ids": BOUND if user else 1, "rows": len(frame)}
    table |= {"sample_max_ids": True, "censor_dims": False, "clamp_counts": False}
    table |= {"region": {"type": "string"}, "income": {"type": "int", "lower": 0, "upper": TOP}}
    table |= {"user_id": {"type": "int", "private_id": True}} if user else {}
    privacy = snsql.Privacy(epsilon=EPSILON / 2, delta=DELTA)
    return snsql.from_df(frame, privacy=privacy, metadata={"": {"data": {"visits": table}}})


def timed(frame: Any, *, user: bool) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    asked = reader(frame, user=user)
    started = time.process_time()
    rows = asked.execute(QUERY)[1:]
    spent = time.process_time() - started
    status = Path("/proc/self/status").read_text(encoding="ascii")
    memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return {"cpu": spent, "memory": memory}, {region: (n, total / max(1, n)) for region, n, total in rows}


if __name__ == "__main__":
    data = parquet.read_table(sys.argv[1]).to_pandas()
    # Row level first: the peak of a process only grows.
    row, _ = timed(data, user=False)
    user, answer = timed(data, user=True)
    print(json.dumps({"row": row, "user": user, "answers": [answer]}))
