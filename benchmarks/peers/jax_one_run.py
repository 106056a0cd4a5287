"""ε from the scores of canaries of one run, by JAX Privacy's auditor.

    .venv-jax/bin/python benchmarks/peers/jax_one_run.py SCORES.npz EPSILONS.npz

SCORES holds `scores` and `inside` (audits, canaries), `delta` and `alpha`. EPSILONS has one array (audits) for each way,
and `seconds`, the CPU seconds of each way. The module needs numpy, scipy and dp-accounting: it is loaded by itself,
without JAX.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FRACTION, SEED = 0.5, 0
"""Its own default share of canaries that choose a threshold where they are split."""


def auditing() -> Any:
    package = importlib.util.find_spec("jax_privacy")
    assert package is not None
    assert package.origin is not None
    spec = importlib.util.spec_from_file_location("auditing", Path(package.origin).parent / "auditing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["auditing"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    given, module = np.load(sys.argv[1]), auditing()
    alpha, delta = float(given["alpha"]), float(given["delta"])
    strategies = {"all": module.Bonferroni(), "split": module.Split(FRACTION, SEED)}
    answers: dict[str, Any] = {}
    seconds = {}
    for family, method in {"free": "epsilon_one_run", "gaussian": "epsilon_one_run_fdp"}.items():
        for strategy, how in strategies.items():
            begun, way = time.process_time(), f"{family}, {strategy}"
            answers[way] = np.array(
                [
                    getattr(module.CanaryScoreAuditor(scores[inside], scores[~inside]), method)(
                        alpha, delta, threshold_strategy=how
                    )
                    for scores, inside in zip(given["scores"], given["inside"], strict=True)
                ]
            )
            seconds[way] = (time.process_time() - begun) / len(given["scores"])
    np.savez(sys.argv[2], names=list(seconds), seconds=list(seconds.values()), **answers)


if __name__ == "__main__":
    main()
