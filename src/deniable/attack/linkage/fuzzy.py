"""Linkage of sparse records by a few things known about a person, some of them wrong
(Narayanan, Shmatikov 2008).

Somebody knows of a person a handful of items they rated, the stars to within one and the day to within two
weeks. Rare items say most. The best-matching record is named if it stands out from the second best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, Whole, percent
from deniable.attack.linkage.anonymity import mondrian
from deniable.datasets.ratings import Ratings, ratings
from deniable.errors import InvalidParameter
from deniable.mechanism import Random
from deniable.mechanisms import Laplace
from deniable.units import Unit

ATTACK = "link ratings"


@dataclass(frozen=True)
class Known:
    """What is known about one person: items, about how many stars, about which day."""

    items: Whole
    stars: Floats
    days: Floats


def draw_knowledge(data: Ratings, user: int, items: int, *, days: float = 14, seed: int = 0) -> Known:
    """`items` of the user's ratings at random: stars off by up to one, days by up to
    `days`, one item in eight not theirs."""
    rng = np.random.default_rng((seed, user))
    own_items = np.flatnonzero(data.stars[user])
    if not len(own_items):
        raise InvalidParameter(f"Expected a user with ratings, but user {user} has none.")
    picks = rng.choice(own_items, min(items, len(own_items)), replace=False)
    stars = data.stars[user, picks] + rng.integers(-1, 2, len(picks))
    when = data.days[user, picks] + rng.uniform(-days, days, len(picks))
    wrong = rng.random(len(picks)) < 1 / 8
    mistaken = rng.integers(0, data.stars.shape[1], len(picks))
    return Known(np.where(wrong, mistaken, picks), np.clip(stars, 1, 5).astype(float), when)


def scores(data: Ratings, knowledge: Known) -> Floats:
    """How well each record fits: rare items weigh 1/ln(support), stars and days
    fade by e^(−distance)."""
    weight = 1 / np.log(np.maximum(data.support[knowledge.items], 2) + 1)
    stars, days = data.stars[:, knowledge.items], data.days[:, knowledge.items]
    near = np.exp(-np.abs(stars - knowledge.stars) / 1.5) + np.exp(-np.abs(days - knowledge.days) / 30)
    return np.asarray(((stars > 0) * near) @ weight, np.float64)


def match(data: Ratings, knowledge: Known, *, eccentricity: float = 1.5) -> int | None:
    """The record that fits best, if it leads the second best by `eccentricity`
    deviations of all scores; else None."""
    fit = scores(data, knowledge)
    if len(fit) < 2:
        return None
    second, best = np.partition(fit, -2)[-2:]
    spread = float(fit.std())
    return int(fit.argmax()) if spread and (best - second) / spread > eccentricity else None


def attack(
    original: Ratings, output: Ratings, items: int, targets: int, *, release: str, seed: int = 0
) -> Learnt:
    """Name the records of the first `targets` users who rated anything; record u of
    `output` is that of user u."""
    users = np.flatnonzero(np.count_nonzero(original.stars, axis=1))[:targets]
    guesses = [match(output, draw_knowledge(original, int(user), items, seed=seed)) for user in users]
    right = sum(guess == user for guess, user in zip(guesses, users.tolist(), strict=True))
    name_count = sum(guess is not None for guess in guesses)
    facts = {"named": name_count, "wrong": name_count - right, "items_known": items}
    reading = (
        f"{release}: from {items} ratings known roughly, {name_count} of {len(users)} people were given a "
        f"record and {right} of them ({percent(right / len(users))}) their own; a random record would be "
        f"right for {percent(1 / output.users)}."
    )
    return Learnt(ATTACK, release, right, len(users), 1 / output.users, reading, facts=facts)


def blur(data: Ratings, seed: int = 0, *, days: int = 30, keep: float = 0.7) -> Ratings:
    """Naive noise: a share of the ratings kept, half the stars moved by one, all days moved by up to
    `days`."""
    rng = np.random.default_rng((seed, 7))
    mask = (data.stars > 0) & (rng.random(data.stars.shape) < keep)
    stars = np.clip(data.stars + rng.choice([-1, 0, 0, 1], data.stars.shape), 1, 5)
    when = np.maximum(data.days + rng.integers(-days, days + 1, data.stars.shape), 1)
    return Ratings((stars * mask).astype(np.int8), (when * mask).astype(np.int16))


def coarsen(data: Ratings) -> Ratings:
    """Generalised: liked or not, and the year only."""
    mask = data.stars > 0
    stars = np.where(data.stars >= 4, 5, 2) * mask
    return Ratings(stars.astype(np.int8), ((data.days // 365 * 365 + 182) * mask).astype(np.int16))


def merge_classes(data: Ratings, k: int = 5) -> Ratings:
    """k-anonymous: classes of at least k users, one record for all of a class: what half
    of them rated, on average."""
    classes = mondrian(data.stars, k)
    counts = np.array([np.bincount(classes, item) for item in (data.stars > 0).T]).T
    mask = counts >= np.bincount(classes)[:, None] / 2
    means = [
        np.array([np.bincount(classes, item) for item in value.T]).T / np.maximum(counts, 1)
        for value in (data.stars, data.days)
    ]
    stars, days = (np.where(mask, np.rint(mean), 0)[classes] for mean in means)
    return Ratings(stars.astype(np.int8), days.astype(np.int16))


def draw_records(
    data: Ratings, epsilon: float, *, max_items: int = 60, seed: int = 0, rng: Random | None = None
) -> Ratings:
    """Records drawn from protected popularity: how many users rated each item, by an
    account of ε for a whole user.

    A user counts with at most `max_items` items and once in the number of users, which is private too: L1
    sensitivity `max_items` + 1. Stars and days carry nothing.
    """
    items = data.stars.shape[1]
    unit = Unit.column("user", max_rows=max_items)
    mechanism = Laplace.for_budget(epsilon, max_items + 1, dimension=items + 1, unit=unit)
    with asking.account(epsilon, unit=unit) as account:
        counts = np.asarray(account.run(mechanism, lambda: _bounded_support(data, max_items), rng=rng).value)
    random, users = np.random.default_rng((seed, 8)), max(int(counts[-1]), 1)
    mask = random.random((users, items)) < np.clip(counts[:-1] / users, 0, 1)
    stars = random.integers(1, 6, mask.shape) * mask
    return Ratings(stars.astype(np.int8), (random.integers(1, 2001, mask.shape) * mask).astype(np.int16))


def _bounded_support(data: Ratings, max_items: int) -> Whole:
    """Users per item, of each user only the first `max_items` items (a choice that depends on
    that user alone), and users at last."""
    mask = data.stars > 0
    return np.append((mask & (mask.cumsum(axis=1) <= max_items)).sum(axis=0), data.users).astype(np.int64)


def compare(
    users: int = 1000,
    targets: int = 200,
    items: int = 8,
    *,
    epsilon: float = 1.0,
    seed: int = 0,
    rng: Random | None = None,
) -> list[Learnt]:
    """Raw, generalised, k-anonymous and blurred records, and records drawn from protected counts."""
    data = ratings(users, seed=seed)
    releases = {
        "raw ratings": data,
        "liked or not, and the year": coarsen(data),
        "5-anonymous: one record for five": merge_classes(data, min(5, users)),
        "30 % dropped, stars and days blurred": blur(data, seed),
        f"records drawn from counts of ε = {epsilon:g}": draw_records(data, epsilon, seed=seed, rng=rng),
    }
    return [
        attack(data, version, items, targets, release=name, seed=seed) for name, version in releases.items()
    ]
