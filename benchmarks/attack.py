"""How many bits reconstruction finds and how fast, beside HiGHS and scipy's bounded
least squares on the same answers.

Run: python benchmarks/attack.py
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import lsq_linear

from _report import write_section
from deniable.attack import asking, difference, fuzzy, hide, link, series, sticky, tables
from deniable.attack.counts.reconstruct import against_account, against_noise, exhaustive_errors, secret
from deniable.attack.counts.solve import SolvingMethod, expected_share, least_squares, round_bits, solve
from deniable.attack.learnt import Learnt, percent, percent_up

NOISE, RATIO = 0.3, 4
Found = tuple[float, float]


def timed(find: Callable[[], np.ndarray], bits: np.ndarray) -> Found:
    """CPU seconds and the share of bits that is right."""
    start = time.process_time()
    guess = find()
    return time.process_time() - start, float((guess == bits).mean())


def peers(people: int) -> tuple[Found, Found | None, Found | None]:
    """Ours, HiGHS (least sum of discrepancies) and scipy's bounded least squares, on the same answers."""
    bits = secret(people)
    subsets = asking.random_subsets(RATIO * people, people)
    answers = asking.noisy(asking.exact(bits), NOISE * math.sqrt(people))(subsets)
    ours = timed(lambda: round_bits(least_squares(subsets, answers)), bits)
    highs = timed(lambda: solve(subsets, answers, SolvingMethod.SUMMED), bits) if people <= 256 else None
    dense = subsets.astype(np.float64)
    scipys = timed(lambda: round_bits(lsq_linear(dense, answers, (0, 1)).x), bits) if people <= 1024 else None
    return ours, highs, scipys


def cell(found: Found | None, ours: Found) -> str:
    return "" if found is None else f"{found[0]:.2f} s, {percent(found[1])} ({found[0] / ours[0]:.0f}×)"


def solvers() -> list[str]:
    rows = [
        "| people | Deniable | HiGHS, L1 (time ÷ ours) | scipy `lsq_linear` (time ÷ ours) | expected |",
        "|---:|---:|---:|---:|---:|",
    ]
    for people in (128, 256, 512, 1024, 2048, 4096):
        ours, highs, scipys = peers(people)
        cells = f"{ours[0]:.3f} s, {percent(ours[1])} | {cell(highs, ours)} | {cell(scipys, ours)}"
        rows.append(f"| {people:,} | {cells} | {percent(expected_share(NOISE, RATIO))} |")
    return rows


def whole(seeds: int = 5) -> str:
    """The whole attack at 4,096 people: making the questions, answering and solving."""
    found = [against_noise(4096, 4 * 4096, NOISE, seed=seed) for seed in range(seeds)]
    shares, seconds = [one.share for one in found], [one.facts["seconds"] for one in found]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"The whole attack (4,096 people, 16,384 questions, noise 0.3·√n, {seeds} seeds): "
        f"{percent(min(shares))} to {percent(max(shares))} of the bits in {min(seconds):.2f} to "
        f"{max(seconds):.2f} CPU s; peak memory of this process {memory:.0f} MB."
    )


def by_noise() -> list[str]:
    rows = ["| noise ÷ √n | found | expected |", "|---:|---:|---:|"]
    for noise in (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0):
        found = against_noise(2048, 4 * 2048, noise)
        rows.append(f"| {noise:g} | {percent(found.share)} | {percent(found.facts['expected'])} |")
    return rows


def by_epsilon() -> list[str]:
    rows = [
        "| limit of the account (δ = 1e-6) | found | no attack can expect more than |",
        "|---:|---:|---:|",
    ]
    for epsilon in (0.1, 1.0, 3.0, 10.0, 100.0):
        found = against_account(2048, 4 * 2048, epsilon)
        rows.append(f"| ε = {epsilon:g} | {percent(found.share)} | {percent_up(found.ceiling or 1.0)} |")
    return rows


def theorem() -> list[str]:
    rows = [
        "| E | wrong bits, random errors | wrong bits, misleading curator | 4E |",
        "|---:|---:|---:|---:|",
    ]
    found = exhaustive_errors(12, (0.5, 1.0, 1.5, 2.0))
    pairs = zip(found[0::2], found[1::2], strict=True)
    return rows + [f"| {a.error:g} | {a.wrong_bits} | {b.wrong_bits} | {a.bound:g} |" for a, b in pairs]


def others() -> list[str]:
    """The worst unprotected release of every other attack, and the protected one."""
    rows = ["| attack | release | learnt | by chance |", "|---|---|---:|---:|"]
    attacks: dict[str, Callable[[], list[Learnt]]] = {
        "differencing": difference.compare,
        "trick query": sticky.compare,
        "zip, birth date, sex": link.compare,
        "eight ratings": fuzzy.compare,
        "six days of steps": series.compare,
        "classes": hide.compare,
        "census tables": tables.compare,
    }
    for name, compare in attacks.items():
        found = compare()
        worst = max(found[1:-1], key=lambda one: one.share - one.chance)
        for one in (found[0], worst, found[-1]):
            rows.append(f"| {name} | {one.release} | {percent(one.share)} | {percent(one.chance)} |")
    return rows


def main() -> None:
    at_scale = whole()  # first, so that the peak of memory is its own
    parts = [
        "## Attacks",
        "Reconstruction of one bit per person from 4n counts over uniformly random sets with Gaussian noise "
        "of 0.3·√n: CPU time of solving and share of bits found (`python benchmarks/attack.py`).",
        "\n".join(solvers()),
        at_scale,
        "2,048 people, 8,192 counts: share found by noise, and by the limit of an account that answers them "
        "all at once.",
        "\n".join(by_noise()),
        "\n".join(by_epsilon()),
        "12 people, all 4,096 subsets asked, all tables tried (Dinur, Nissim 2003, Theorem 1).",
        "\n".join(theorem()),
        "The other attacks: the raw release, the worst of the anonymised or naively noisy ones, and the one "
        "from an account of ε = 1.",
        "\n".join(others()),
    ]
    text = "\n\n".join(parts)
    print(text)
    write_section("attack", text)


if __name__ == "__main__":
    main()
