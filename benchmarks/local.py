"""Local protocols beside pure-ldp and multi-freq-ldpy: reports per CPU second at both
ends, and the error beside theory.

    python benchmarks/local.py            everything; writes its table into docs/benchmarks.md
    python benchmarks/local.py --ours     without the peers, prints only

The peers run as a child process in .venv-bench (or the interpreter that
DENIABLE_BENCH_PYTHON names), in the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _report import write_section
from deniable.local.arrays import Bytes
from deniable.local.oracles.oracle import Oracle
from deniable.local.simulate import PROTOCOLS, Oracles, protocol, simulate, zipf
from deniable.randomness import SecureRandom

ROOT = Path(__file__).resolve().parent.parent
K, EPSILON, USERS, RUNS, ROUNDS = 1024, 1, 100_000, 20, 5
NAMES = [name for name in PROTOCOLS if name != "best"]
Rates = dict[str, dict[str, float]]


def fastest(act: Callable[[], object]) -> float:
    """The least CPU seconds of some rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return min(times)


def serve(client: Oracles, reports: Bytes) -> object:
    """All of a server's work: count every report, then estimate every item."""
    server = client.server()
    server.add(reports)
    return server.estimate(*(() if isinstance(client, Oracle) else (np.arange(K),)))


def ours() -> Rates:
    """Reports encoded, and reports counted with all items estimated once, per CPU second."""
    rng, values = SecureRandom(), np.random.default_rng(0).choice(K, USERS, p=zipf(K))
    found: Rates = {}
    for name in NAMES:
        client = protocol(name, K, EPSILON)
        reports = client.reports(values, rng=rng)
        found[name] = {
            "encode": USERS / fastest(lambda c=client: c.reports(values, rng=rng)),  # type: ignore[misc]
            "add": USERS / fastest(lambda c=client, r=reports: serve(c, r)),  # type: ignore[misc]
        }
    return found


def errors() -> dict[str, tuple[float, float, int, int]]:
    """Mean squared error of `RUNS` runs and its theory, both divided by the users; bytes
    of a report and of the server."""
    found = {}
    for name in NAMES:
        client = protocol(name, K, EPSILON)
        runs = [simulate(client, K, USERS, rng=SecureRandom(), seed=seed) for seed in range(RUNS)]
        measured, expected = (
            float(np.mean(x)) / USERS for x in ([r.mse for r in runs], [r.mse_theory for r in runs])
        )
        found[name] = measured, expected, client.size, len(client.server().to_bytes())
    return found


def peers() -> dict[str, Rates]:
    """What the peers' environment measures."""
    python = os.environ.get("DENIABLE_BENCH_PYTHON", str(ROOT / ".venv-bench" / "bin" / "python"))
    if not Path(python).exists():
        raise SystemExit(f"{python} is not there: make bench installs the peers (or run with --ours).")
    script = ROOT / "benchmarks" / "peers" / "ldp.py"
    said = subprocess.run([python, str(script)], check=True, capture_output=True, text=True)
    found: dict[str, Rates] = json.loads(said.stdout)
    return found


def speed_table(mine: Rates, others: dict[str, Rates]) -> list[str]:
    rows = [
        "| protocol | end | Deniable, /s | pure-ldp, /s | multi-freq-ldpy, /s | ratio to the faster |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, rates in mine.items():
        for end, label in (("encode", "client"), ("add", "server")):
            theirs = [others.get(peer, {}).get(name, {}).get(end) for peer in ("pure-ldp", "multi-freq-ldpy")]
            shown = " | ".join("" if t is None else f"{t:,.0f}" for t in theirs)
            known = [t for t in theirs if t is not None]
            ratio = f"{rates[end] / max(known):,.0f}×" if known else ""
            rows.append(f"| {name} | {label} | {rates[end]:,.0f} | {shown} | {ratio} |")
    return rows


def error_table() -> list[str]:
    rows = [
        "| protocol | report, bytes | server, bytes | MSE ÷ n | theory | ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, (measured, expected, size, state) in errors().items():
        rows.append(
            f"| {name} | {size} | {state:,} | {measured:.3f} | {expected:.3f} | {measured / expected:.3f} |"
        )
    return rows


def main() -> None:
    alone = "--ours" in sys.argv
    speed = speed_table(ours(), {} if alone else peers())
    text = "\n".join(
        [
            "## Local privacy",
            "",
            f"k = {K}, ε = {EPSILON}, n = {USERS:,} Zipf users, one core; reports per CPU second, with the "
            "secure generator.",
            "A server's time holds counting all reports and estimating all items once; the peers' holds "
            "counting only.",
            "Sketches are 64 × 1024.",
            "",
            *speed,
            "",
            f"Error of an item's estimated number of users, mean over all items and {RUNS} runs:",
            "",
            *error_table(),
        ]
    )
    print(text)
    if not alone:
        write_section("local", text)


if __name__ == "__main__":
    main()
