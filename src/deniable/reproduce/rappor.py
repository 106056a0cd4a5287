"""RAPPOR (Erlingsson et al. 2014): a Zipf vocabulary, decoded from Bloom filters, with
what was found and what was not."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from deniable import numbers
from deniable.local import Rappor
from deniable.local.estimate import quantile
from deniable.local.simulate import zipf
from deniable.plots import local as plots
from deniable.randomness import SecureRandom
from deniable.reproduce.report import Progress, Report

SUMMARY = "Erlingsson et al. 2014 (RAPPOR): a Zipf vocabulary of 100 words found among 200 candidates"

USERS, BATCH = 500_000, 100_000
WORDS = tuple(f"word-{i:03d}" for i in range(1, 101))
OTHERS = tuple(f"absent-{i:03d}" for i in range(1, 101))
SHOWN = 30


def run(folder: Path, progress: Progress) -> Report:
    client, rng, people = Rappor(), SecureRandom(), np.random.default_rng(0)
    server, truth = client.server(), np.zeros(len(WORDS), np.int64)
    for _ in progress(range(USERS // BATCH), "Reports"):
        indices = people.choice(len(WORDS), BATCH, p=zipf(len(WORDS)))
        truth += np.bincount(indices, minlength=len(WORDS))
        server.add(client.reports(np.array(WORDS)[indices], rng=rng))
    estimate = server.estimate(WORDS + OTHERS)
    discoveries = estimate.found()
    rows = [
        (word, int(truth[WORDS.index(word)]) if word in WORDS else 0, round(count), round(error))
        for word, count, error in discoveries
    ]
    names = [estimate.candidates.index(word) for word, _, _ in discoveries if word in WORDS][:SHOWN]
    draw = partial(
        plots.estimates,
        [float(truth[i]) for i in names],
        [float(estimate.counts[i]) for i in names],
        [quantile(0.95) * float(estimate.standard_errors[i]) for i in names],
        title=(
            f"RAPPOR: {USERS:,} users, ε = {numbers.up(client.epsilon)} a report, "
            f"{numbers.up(client.memo_epsilon)} for life"
        ),
        path=folder / "rappor.png",
    )
    false = sum(word not in WORDS for word, _, _ in discoveries)
    reading = (
        f"{len(discoveries)} words are found at significance 0.05 (Bonferroni over {len(WORDS + OTHERS)} "
        f"candidates), {false} of them nobody's; the vocabulary has {len(WORDS)}. As in the paper a word "
        "needs a multiple of √users users to rise above the noise. One report costs ε = "
        f"{numbers.up(client.epsilon, 5)} (the paper prints 1.0743), all reports of a memo "
        f"{numbers.up(client.memo_epsilon, 5)}."
    )
    columns = ("word", "users", "estimate", "standard error")
    return Report("RAPPOR: words found, most frequent first", columns, rows, draw, reading)
