"""Local privacy: reports that are private before they leave the phone.

Every protocol is a pair. The client is a mechanism with a loss known beforehand; the
server is a small summary that merges.

>>> from deniable.randomness import SeededRandom
>>> client = LocalHashing(k=1024, epsilon=1)
>>> reports = client.reports([7] * 6_000 + [3] * 4_000, rng=SeededRandom(1))
>>> server = client.server()
>>> server.add(reports)
10000
>>> found = server.estimate()
>>> found.significant(alpha=1e-9).tolist()
[7, 3]
"""

from deniable.local.consistency import norm_mul, norm_sub, simplex
from deniable.local.estimate import Estimate, Mean, MeanVector
from deniable.local.longitudinal import Collection, ReportingDevice
from deniable.local.numeric.numbers import Duchi, Hybrid, Piecewise
from deniable.local.numeric.ranges import RangeEstimate, Ranges
from deniable.local.numeric.vectors import PrivUnit
from deniable.local.open_domains import words
from deniable.local.open_domains.fast_hashing import FastLocalHashing
from deniable.local.open_domains.prefix_tree import HeavyHitters, PrefixTree
from deniable.local.open_domains.puzzle import FragmentPuzzle
from deniable.local.open_domains.rappor import Rappor
from deniable.local.open_domains.rappor_decoding import Decoded
from deniable.local.open_domains.sketch import CountMeanSketch, HadamardSketch
from deniable.local.oracles.choose import best
from deniable.local.oracles.hadamard import HadamardResponse
from deniable.local.oracles.local_hashing import LocalHashing
from deniable.local.oracles.oracle import Oracle
from deniable.local.oracles.response import GeneralisedResponse, SurveyCoin
from deniable.local.oracles.subset import SubsetSelection
from deniable.local.oracles.unary import OptimisedUnary, SymmetricUnary
from deniable.local.protocol import Client, Server
from deniable.local.shuffle import Shuffler
from deniable.local.simulate import Simulation, simulate
from deniable.local.split import Split

__all__ = [
    "Client",
    "Collection",
    "CountMeanSketch",
    "Decoded",
    "Duchi",
    "Estimate",
    "FastLocalHashing",
    "FragmentPuzzle",
    "GeneralisedResponse",
    "HadamardResponse",
    "HadamardSketch",
    "HeavyHitters",
    "Hybrid",
    "LocalHashing",
    "Mean",
    "MeanVector",
    "OptimisedUnary",
    "Oracle",
    "Piecewise",
    "PrefixTree",
    "PrivUnit",
    "RangeEstimate",
    "Ranges",
    "Rappor",
    "ReportingDevice",
    "Server",
    "Shuffler",
    "Simulation",
    "Split",
    "SubsetSelection",
    "SurveyCoin",
    "SymmetricUnary",
    "best",
    "norm_mul",
    "norm_sub",
    "simplex",
    "simulate",
    "words",
]
