"""Apple's Count Mean Sketch and fragment puzzle on a Zipf vocabulary: known words
estimated, unknown words found."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from deniable.local import CountMeanSketch, FragmentPuzzle, PrefixTree
from deniable.local.estimate import quantile
from deniable.local.open_domains.words import read, spell
from deniable.local.simulate import zipf
from deniable.plots import local as plots
from deniable.randomness import SecureRandom
from deniable.reproduce.report import Progress, Report

SUMMARY = (
    "Apple 2017: a Zipf vocabulary through the Count Mean Sketch; unknown words by puzzle and by prefix tree"
)

USERS, BATCH, EPSILON = 400_000, 100_000, 4
SHOWN = 25


def vocabulary() -> list[str]:
    """512 words that can be spoken, in an order without meaning."""
    parts = ["".join(pair) for pair in product("kmptrsln", "aeiou")]
    words = [a + b + c for a, b, c in product(parts, parts, ("", "n", "s"))]
    return [words[i] for i in np.random.default_rng(1).permutation(len(words))[:512]]


def run(folder: Path, progress: Progress) -> Report:
    words, rng, people = vocabulary(), SecureRandom(), np.random.default_rng(0)
    cms, fragments, lengths = (
        CountMeanSketch(EPSILON, hashes=512),
        FragmentPuzzle(3, EPSILON - 3, hashes=128),
        PrefixTree(40, EPSILON),
    )
    sketch, puzzle, tree = cms.server(), fragments.server(), lengths.server()
    truth = np.zeros(len(words), np.int64)
    for _ in progress(range(USERS // BATCH), "Reports"):
        indices = people.choice(len(words), BATCH, p=zipf(len(words), 1.3))
        truth += np.bincount(indices, minlength=len(words))
        values = np.array(words)[indices]
        sketch.add(cms.reports(values, rng=rng))
        puzzle.add(fragments.reports(values, rng=rng))
        tree.add(lengths.reports(spell(values, 8), rng=rng))
    estimate, pieces, prefixes = sketch.estimate(words), puzzle.estimate(), tree.estimate()
    by_puzzle = {word for word, _, _ in pieces.found()}
    by_tree = set(read(prefixes.values, 8))
    half = quantile(0.95) * estimate.standard_errors
    rows = [
        (
            word,
            int(truth[i]),
            round(float(estimate.counts[i])),
            round(float(half[i])),
            _mark(word in by_puzzle),
            _mark(word in by_tree),
        )
        for i, word in enumerate(words[:SHOWN])
    ]
    draw = partial(
        plots.estimates,
        truth[:SHOWN].tolist(),
        estimate.counts[:SHOWN].tolist(),
        half[:SHOWN].tolist(),
        title=f"Count Mean Sketch: {USERS:,} users, ε = {EPSILON}, 512 words",
        path=folder / "count-mean-sketch.png",
    )
    inside = float((np.abs(estimate.counts - truth) <= half).mean())
    false = len((by_puzzle | by_tree) - set(words))
    reading = (
        f"{inside:.0%} of the 95 % intervals hold the truth. Without any dictionary the fragment puzzle "
        f"finds {len(by_puzzle)} words (ε = 3 for the fragment and 1 for the word) and the prefix tree "
        f"{len(by_tree)}; {false} found words are nobody's."
    )
    columns = ("word", "users", "estimate", "±", "puzzle", "prefix tree")
    return Report("Count Mean Sketch: the most frequent words", columns, rows, draw, reading)


def _mark(is_true: bool) -> str:
    if is_true:
        return "found"
    return ""
