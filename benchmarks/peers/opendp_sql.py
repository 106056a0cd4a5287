"""CPU seconds, peak memory and answers of OpenDP, by its Polars interface, as JSON.
benchmarks/curator.py runs this for its peer.

COUNT and SUM by region at ε = 1, split evenly; the mean is their quotient, as ours is.
User level bounds each user to four rows.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

TOP, BOUND, EPSILON, RUNS, TIMES, REGIONS = 200_000, 4, 1.0, 10, 3, 50
dp: Any = importlib.import_module("opendp.prelude")
pl: Any = importlib.import_module("polars")


def query(path: str, *, user: bool) -> Any:
    # With an identifier, contributions counts identifiers: one user.
    unit = dp.unit_of(contributions=1, identifier="user_id") if user else dp.unit_of(contributions=1)
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=EPSILON),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["region"], max_length=10_000_000)],
    )
    rows = context.query().truncate_per_group(BOUND) if user else context.query()
    income = pl.col("income").fill_null(0).dp.sum(bounds=(0, TOP))
    keys = pl.LazyFrame({"region": [f"region {i:02d}" for i in range(REGIONS)]})
    return rows.group_by("region").agg(dp.len(), income).with_keys(keys)


def release(path: str, *, user: bool) -> Any:
    return query(path, user=user).release().collect()


def timed(path: str, *, user: bool) -> dict[str, float]:
    spent = []
    for _ in range(TIMES):
        started = time.process_time()
        release(path, user=user)
        spent.append(time.process_time() - started)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {"cpu": min(spent), "memory": int(status.split("VmHWM:")[1].split()[0]) / 1024}


def answers(path: str) -> list[dict[str, tuple[float, float]]]:
    found = []
    for _ in range(RUNS):
        rows = release(path, user=True).to_dicts()
        found.append({row["region"]: (row["len"], row["income"] / max(1, row["len"])) for row in rows})
    return found


if __name__ == "__main__":
    dp.enable_features("contrib")
    file = sys.argv[1]
    # Row level first: the peak of a process only grows.
    row = timed(file, user=False)
    user = timed(file, user=True)
    scale = query(file, user=True).summarize().filter(pl.col("column") == "len")["scale"][0]
    print(json.dumps({"row": row, "user": user, "answers": answers(file), "count_scale": scale}))
