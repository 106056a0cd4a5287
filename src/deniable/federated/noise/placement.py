"""Where the noise is added, and what that means for whom it protects.

`Central`: a server that is trusted adds noise to the sum. `OnClient`: each client adds enough for itself, and
the server may be anybody. `Shared`: each client adds a share of the noise to an integer vector, a secure sum
adds them up, and only the sum is seen.

A client that is removed takes its own noise along, so noise added by clients is never the central Gaussian
for a client that is added or removed (ten clients of one clip each: ε = 2.59 at δ = 1e-6, where one Gaussian
of the same variance has 1.37). It is stated for `Unit.client(zero_out=True)` (silent, but still adding its
noise) or `Unit.client(replace=True)` (twice the clip).

Whoever drew the cohort knows it, and noise that clients add tells how many they were: where clients add it,
being drawn by the server gives nothing, against the server or against those who see models only, and every
participation is charged in full (docs/theory/federated.md, F4). A coin that a client keeps to itself does:
with `coins` below 1 a client's update is in what it sends with that probability, its noise always.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable import checks
from deniable.accounting import matrices
from deniable.errors import InvalidParameter
from deniable.federated.noise.encode import FINEST, Encoding, Floats, Integers, centre, norm_of
from deniable.federated.secure_sum.agreement import Adversary, Quorum
from deniable.learn.sgd.noise import GradientGrid, gaussians
from deniable.loss import DiscreteGaussianNoise, GaussianNoise, IntegerGaussianSum, Loss, Number
from deniable.loss.noises import LEAST_SHARE
from deniable.mechanism import Random
from deniable.mechanisms.integer_noise import IntegerNoise, gaussian
from deniable.units import Relation, Unit

DEVIATIONS = 4.5
"""The modulus holds so many deviations of a coordinate of the sum. Beyond it the sum
wraps around: an error, not a loss."""


class Summing(Protocol):
    """Makes the noisy sum of a round's updates, each clipped there; None where too few answered for it to be
    opened."""

    def __call__(self, updates: Iterable[Floats], silent: int = 0) -> Floats | None:
        """`silent` clients beside them take part and send noise alone."""


class View(StrEnum):
    """Whom a run protects from."""

    SERVER = "server"
    """The server too, which knows who was drawn in which round."""
    MODELS = "models"
    """Those who see the models of all rounds, and nothing of who took part."""


@dataclass(frozen=True)
class UpdateShape:
    """What a placement must know of a run: numbers in an update, its bound, the declared
    mean size of a cohort, the rounds."""

    dimension: int
    clip: float
    cohort: float
    rounds: int = 1


def bound_norm(update: Floats, clip: float) -> Floats:
    """The update of norm at most `clip`, up to rounding; zeros where it is no number: a client
    whose training failed says nothing."""
    norm = norm_of(update)
    if not math.isfinite(norm):
        return np.zeros_like(update)
    if norm <= clip:
        return update
    return update * (clip / norm)


def on_grid(update: Floats, grid: GradientGrid) -> Integers:
    """The clipped update in grid units, its norm checked in integers: nothing of floating point bears on
    it."""
    units: Integers = _to_integers(update, grid, np.empty(len(update))).astype(np.int64)
    return units


def _to_integers(update: Floats, grid: GradientGrid, room: Floats) -> Floats:
    """The same as whole numbers in double precision, in the memory of `room`."""
    scale, largest = _measures(grid)
    norm = norm_of(update)
    if math.isfinite(norm):
        np.multiply(update, scale * (grid.clip / max(norm, grid.clip)), out=room)
        np.rint(room, out=room)
    if not math.isfinite(norm) or not _is_within(room, largest):
        room.fill(0)
    return room


def _is_within(units: Floats, largest: int) -> bool:
    """Whether the norm of whole numbers is at most `largest`.

    Squares that add up to less than 2⁵³ do so without rounding; what passes 2⁵³, rounded or not, is far above
    the square of a number below 2²⁶. Only vectors of ten thousand million numbers have longer norms.
    """
    if largest < 1 << 26:
        return float(units @ units) <= largest**2
    integers = units.astype(np.int64)
    return int(integers @ integers) <= largest**2


def _sum_on_grid(updates: Iterable[Floats], grid: GradientGrid) -> tuple[Integers, int]:
    """The sum of clipped updates in grid units, and how many they are."""
    units, room, count = np.zeros(grid.dimension, np.int64), np.empty(grid.dimension), 0
    for update in updates:
        np.add(units, _to_integers(update, grid, room), out=units, casting="unsafe")
        count += 1
    return units, count


def longest_message(grid: GradientGrid, multiplier: float) -> float:
    """Grid units beyond which no client that keeps to the rules comes with all its noise, but for probability
    e^-30. Whoever sends more is left out: one client could move the mean as far as integers go.

    Reference: Hsu, Kakade, Zhang 2012, Theorem 1, for noise whose coordinates are subgaussian.
    """
    noise, t = grid.loss(multiplier), 30.0
    return grid.sensitivity + float(noise.sigma) * math.sqrt(
        grid.dimension + 2 * math.sqrt(grid.dimension * t) + 2 * t
    )


@lru_cache(maxsize=64)
def _measures(grid: GradientGrid) -> tuple[float, int]:
    """Grid units in 1, a power of two, and the largest norm in grid units."""
    return float(1 / grid.step), grid.sensitivity


@dataclass(frozen=True)
class Central:
    """Noise of `multiplier` × the clip, added by the server to the sum: whoever sees
    models is held off, the server is trusted.

    Guarantee: integer Gaussian noise on a sum of integer vectors of norm at most one
               clip, for a client added or removed.
    Reference: McMahan, Ramage, Talwar, Zhang 2018; Canonne, Kamath, Steinke 2020.
    """

    multiplier: Number | None = None

    @property
    def view(self) -> View:
        return View.MODELS

    def release(self, multiplier: float, shape: UpdateShape, unit: Unit) -> Loss:
        if unit.relation is Relation.SILENCED:
            raise _unit("Central", "Unit.client() or Unit.client(replace=True)", unit)
        return _noise_for_unit(GradientGrid(shape.clip, shape.dimension).loss(multiplier), unit)

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        grid = GradientGrid(shape.clip, shape.dimension)

        def total(updates: Iterable[Floats], silent: int = 0) -> Floats:
            units, _ = _sum_on_grid(updates, grid)
            return grid.noisy(torch.from_numpy(units), multiplier, rng).numpy()

        return total


@dataclass(frozen=True)
class OnClient:
    """Noise of `multiplier` × the clip on each client's own update, before it leaves the
    device. No server is trusted.

    Guarantee: one integer Gaussian for each of at most `participations` messages of a
               client; the server sees each of them. With `coins`, on a Poisson sample of
               that rate: without the update a message has the same noise.
    """

    multiplier: Number | None = None
    participations: int = 1
    coins: Number = 1

    def __post_init__(self) -> None:
        checks.whole("participations", self.participations, at_least=1)
        check_coins(self.coins)

    @property
    def view(self) -> View:
        return View.SERVER

    def release(self, multiplier: float, shape: UpdateShape, unit: Unit) -> Loss:
        _check_stays("OnClient", unit)
        return _noise_for_unit(GradientGrid(shape.clip, shape.dimension).loss(multiplier), unit)

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        grid = GradientGrid(shape.clip, shape.dimension)
        sigma = float(grid.loss(multiplier).sigma)

        def total(updates: Iterable[Floats], silent: int = 0) -> Floats:
            units, speakers = _sum_on_grid(updates, grid)
            if speakers + silent:
                units += _joint(sigma, speakers + silent).draw(rng, shape.dimension)
            return units * float(grid.step)

        return total


@dataclass(frozen=True)
class Shared:
    """Shares of noise on integer vectors of `bits` bits, added up by a secure sum: only
    the sum is seen, by anybody.

    Each client adds `multiplier` × the clip / √(least − colluders), so that `least` answers of which
    `colluders` know their own noise still carry the whole. Clients refuse to open a sum over fewer than
    `least` (`federated.secure_sum`). With `coins` below 1 every client that takes part adds its share of the
    noise, and its update with that probability, by a coin that it tells nobody: then sampling holds against
    everybody, the server too.

    Guarantee: that of a sum of integer Gaussians for a client that is silenced or replaced, once for each of
               at most `participations` rounds of a client; for a silenced one on a Poisson sample of rate
               `coins`; against the server and `colluders` clients together, whatever the server sends (or,
               for adversary=CURIOUS, as long as it keeps to the protocol).
    Reference: Kairouz, Liu, Steinke 2021; docs/theory/secure-sums.md.
    """

    multiplier: Number | None = None
    bits: int = 16
    least: int = 2
    colluders: int = 0
    participations: int = 1
    coins: Number = 1
    adversary: Adversary = Adversary.LYING

    def __post_init__(self) -> None:
        checks.whole("participations", self.participations, at_least=1)
        object.__setattr__(self, "adversary", _adversary(self.adversary))
        checks.whole("colluders", self.colluders, at_least=0)
        checks.whole("least", self.least, at_least=self.colluders + 2)
        if self.bits not in (16, 32):
            raise InvalidParameter(f"Expected bits of 16 or 32, got {self.bits}.")
        check_coins(self.coins)

    @property
    def view(self) -> View:
        return View.SERVER

    @property
    def parties(self) -> int:
        """Those whose noise counts."""
        return self.least - self.colluders

    @property
    def most(self) -> float:
        """The largest cohort to which clients agree: a larger one could be shown two lists of survivors."""
        if self.adversary is Adversary.CURIOUS:
            return math.inf
        return 2 * self.least - self.colluders - 1

    def encoding(self, multiplier: float, shape: UpdateShape, seed: bytes = b"") -> Encoding:
        """The finest grid on which a sum of the expected cohort stays within the modulus."""
        length = Encoding(shape.dimension, shape.clip, shape.clip).length
        agreeing = float(self.coins) * shape.cohort * shape.clip / math.sqrt(length)
        noise = multiplier * shape.clip * math.sqrt(max(shape.cohort, self.parties) / self.parties)
        finest = shape.clip / FINEST
        step = max(2 * DEVIATIONS * math.hypot(agreeing, noise) / 2**self.bits, finest)
        return Encoding(shape.dimension, shape.clip, step, seed)

    def share(self, multiplier: float, encoding: Encoding) -> float:
        """The deviation of each client's noise, in grid units."""
        sigma = math.nextafter(multiplier * encoding.sensitivity / math.sqrt(self.parties), math.inf)
        if sigma < LEAST_SHARE:
            raise InvalidParameter(
                f"Expected shares of noise of at least {float(LEAST_SHARE)} grid units, got {sigma:.3g} with "
                f"bits={self.bits} and least={self.least}. Use more bits, or a smaller least. Nothing was "
                "charged."
            )
        return sigma

    def release(self, multiplier: float, shape: UpdateShape, unit: Unit) -> Loss:
        encoding = self.encoding(multiplier, shape)
        _check_stays("Shared", unit)
        is_replacement = unit.relation is Relation.REPLACED
        sensitivity = (2 if is_replacement else 1) * encoding.sensitivity
        sigma = self.share(multiplier, encoding)
        return IntegerGaussianSum(self.parties, sigma, sensitivity, encoding.length, replace=is_replacement)

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        sigma = self.share(multiplier, self.encoding(multiplier, shape))

        def total(updates: Iterable[Floats], silent: int = 0) -> Floats | None:
            seed = int(rng.uniform_integers(2**62)).to_bytes(8, "big")
            encoding = self.encoding(multiplier, shape, seed)
            coins = np.random.default_rng(int(rng.uniform_integers(2**62)))
            units = np.zeros(encoding.length, np.int64)
            answers = silent
            for update in updates:
                units += encoding.encode(update, coins)
                answers += 1
            # Fewer shares carry less noise than the loss speaks of, and more clients than `most` do not trust
            # the server's list: such a sum is never opened, here as by real clients.
            if not self.least <= answers <= self.most:
                return None
            units += _joint(sigma, answers).draw(rng, encoding.length)
            return encoding.decode(centre(units, self.bits))

        return total


def _joint(sigma: float, count: int) -> IntegerNoise:
    """The noise of `count` clients in one draw, for a simulation, where nobody sees a single one: an integer
    Gaussian of their variance, from which their sum differs by less than the loss allows for (T9 of
    docs/theory/numerical.md), and which moves less than the noise of fewer would."""
    return gaussian(math.nextafter(sigma * math.sqrt(count) * (1 + 2.0**-50), math.inf))


@dataclass(frozen=True)
class Correlated:
    """Noise of a trusted server that is correlated over rounds, for cohorts that cannot be sampled (DP-FTRL).

    Clients take turns: client k takes part in every `apart`-th round. The noise of one
    round takes back part of the noise of those before it (a square-root factorisation of
    `bands` bands), so sums of many rounds carry less of it.

    Guarantee: one Gaussian release for the whole run, for a client that is silenced or
               replaced and takes part at most every `apart` rounds. Noise is drawn in
               double precision, as in `learn.sgd.noise`, not on a grid.
    Reference: Kairouz et al. 2021 (DP-FTRL); Choquette-Choo et al. 2023; docs/theory/matrices.md.
    """

    multiplier: Number | None = None
    apart: int = 10
    bands: int | None = None

    def __post_init__(self) -> None:
        checks.whole("apart", self.apart, at_least=1)
        if self.bands is not None:
            checks.whole("bands", self.bands, at_least=1)

    @property
    def view(self) -> View:
        return View.MODELS

    def encoder(self, rounds: int) -> matrices.Toeplitz:
        """Bands no wider than the distance of two turns keep a client's columns orthogonal."""
        return matrices.banded(rounds, min(rounds, self.bands or self.apart))

    def sensitivity(self, rounds: int) -> float:
        who = matrices.Participation(rounds, times=-(-rounds // self.apart), apart=self.apart)
        return matrices.sensitivity(self.encoder(rounds), who)

    def release(self, multiplier: float, shape: UpdateShape, unit: Unit) -> Loss:
        """The whole run at once: noise of `multiplier` × what one client moves in all its rounds together."""
        if unit.relation is Relation.ADDED:
            raise InvalidParameter(
                "Expected Unit.client(zero_out=True) or Unit.client(replace=True) with noise=Correlated(…): "
                "turns are taken by number, so a client that comes or goes would shift the others' "
                f"({unit}). Nothing was charged."
            )
        return GaussianNoise(multiplier / (2 if unit.relation is Relation.REPLACED else 1))

    def summing(self, multiplier: float, shape: UpdateShape, rng: Random) -> Summing:
        rounds = checks.whole("rounds", shape.rounds, at_least=1)
        encoder = self.encoder(rounds)
        # A float sum of clipped updates may pass its bound in the last bits; the noise is raised by more than
        # that.
        deviation = multiplier * self.sensitivity(rounds) * shape.clip * (1 + 2.0**-30)
        earlier: list[NDArray[np.float64]] = []

        def total(updates: Iterable[Floats], silent: int = 0) -> Floats:
            units = np.zeros(shape.dimension)
            for update in updates:
                units += bound_norm(update, shape.clip)
            fresh = gaussians(rng, shape.dimension).numpy() * deviation
            earlier.append(encoder.noise(fresh, earlier))
            del earlier[: -encoder.bands]
            noisy: Floats = units + earlier[-1]
            return noisy

        return total


def usual_least(cohort: float, rate: Number, colluders: int = 0) -> int:
    """Answers without which no sum is opened, for cohorts of this mean size.

    Against a lying server a cohort of n clients needs more than (n + colluders)/2. Where all take part that
    is enough. A cohort that is drawn varies: two thirds of the mean leave as much room above it as below.
    """
    least = Quorum.of(math.ceil(cohort), colluders).least
    return least if rate == 1 else max(least, math.ceil(2 * cohort / 3))


AnyPlacement: TypeAlias = Central | OnClient | Shared | Correlated
"""A place for the noise: `release` is what one round reveals about a client that takes part in it, whatever
the others do; `summing` is what makes the sums of a whole run."""


def _adversary(name: Adversary | str) -> Adversary:
    try:
        return Adversary(name)
    except ValueError:
        raise InvalidParameter(
            f"Expected adversary=Adversary.LYING or Adversary.CURIOUS, got {name!r}."
        ) from None


def check_coins(coins: Number) -> None:
    if not 0 < checks.number("coins", coins, above=0) <= 1:
        raise InvalidParameter(f"Expected coins={coins} in (0, 1].")


def _check_stays(name: str, unit: Unit) -> None:
    if unit.relation is Relation.ADDED:
        raise _unit(name, "Unit.client(zero_out=True) or Unit.client(replace=True)", unit)


def _noise_for_unit(noise: DiscreteGaussianNoise, unit: Unit) -> DiscreteGaussianNoise:
    """A client that comes, goes or falls silent moves a sum by what it sent; a replaced one by twice that."""
    if unit.relation is not Relation.REPLACED:
        return noise
    return DiscreteGaussianNoise(noise.sigma, 2 * noise.sensitivity, noise.dimension)


def _unit(name: str, units: str, unit: Unit) -> InvalidParameter:
    return InvalidParameter(
        f"Expected {units} with noise={name}(…), got {unit}: a client that is removed takes the noise it "
        "adds along. Nothing was charged."
    )


def as_floats(update: Tensor) -> Floats:
    values: Floats = update.double().numpy()
    return values
