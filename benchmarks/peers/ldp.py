"""Reports per CPU second of pure-ldp and multi-freq-ldpy, as JSON. Run by
benchmarks/local.py in the peers' environment.

Each peer is called as its documentation shows, one report at a time: neither has another way.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

K, EPSILON, HASHES, WIDTH = 1024, 1.0, 64, 1024

warnings.simplefilter("ignore")


def rate(act: Callable[[Any], Any], inputs: list[Any]) -> float:
    act(inputs[0])
    start = time.process_time()
    for each in inputs:
        act(each)
    return len(inputs) / (time.process_time() - start)


def pure_ldp() -> dict[str, dict[str, float]]:
    hashing: Any = importlib.import_module("pure_ldp.frequency_oracles.local_hashing")
    unary: Any = importlib.import_module("pure_ldp.frequency_oracles.unary_encoding")
    sketch: Any = importlib.import_module("pure_ldp.frequency_oracles.apple_cms")

    def index(x: int) -> int:
        return x

    def pair(client: Any, server: Any, encoded: int, added: int) -> dict[str, float]:
        values = [i % K for i in range(encoded)]
        encode = rate(client.privatise, values)
        reports = [client.privatise(x) for x in values[:added]]
        return {"encode": encode, "add": rate(server.aggregate, reports)}

    found = {
        "oue": pair(
            unary.UEClient(EPSILON, K, use_oue=True, index_mapper=index),
            unary.UEServer(EPSILON, K, use_oue=True, index_mapper=index),
            10_000,
            10_000,
        ),
        "olh": pair(
            hashing.LHClient(EPSILON, K, use_olh=True, index_mapper=index),
            hashing.LHServer(EPSILON, K, use_olh=True, index_mapper=index),
            100_000,
            2_000,
        ),
    }
    for name, transformed in (("cms", False), ("hcms", True)):
        server = sketch.CMSServer(EPSILON, HASHES, WIDTH, is_hadamard=transformed)
        client = sketch.CMSClient(EPSILON, server.get_hash_funcs(), WIDTH, is_hadamard=transformed)
        found[name] = pair(client, server, 10_000, 10_000)
    return found


def multi_freq_ldpy() -> dict[str, dict[str, float]]:
    unary: Any = importlib.import_module("multi_freq_ldpy.pure_frequency_oracles.UE")
    hashing: Any = importlib.import_module("multi_freq_ldpy.pure_frequency_oracles.LH")

    def batch(aggregate: Callable[[list[Any]], Any], reports: list[Any]) -> float:
        start = time.process_time()
        aggregate(reports)
        return len(reports) / (time.process_time() - start)

    bits = [unary.UE_Client(i % K, K, EPSILON) for i in range(5_000)]
    pairs = [hashing.LH_Client(i % K, K, EPSILON) for i in range(2_000)]
    return {
        "oue": {
            "encode": rate(lambda x: unary.UE_Client(x, K, EPSILON), [i % K for i in range(20_000)]),
            "add": batch(lambda r: unary.UE_Aggregator_MI(r, EPSILON), bits),
        },
        "olh": {
            "encode": rate(lambda x: hashing.LH_Client(x, K, EPSILON), [i % K for i in range(100_000)]),
            "add": batch(lambda r: hashing.LH_Aggregator_MI(r, K, EPSILON), pairs),
        },
    }


if __name__ == "__main__":
    json.dump({"pure-ldp": pure_ldp(), "multi-freq-ldpy": multi_freq_ldpy()}, sys.stdout)
