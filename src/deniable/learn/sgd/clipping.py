"""What bounds one example: one norm for all, one per group of parameters, or one that
follows a quantile of the norms.

Each rule says how the noise of one step is shared among what the step releases. The whole step, seen under
one sample, is Gaussian noise of multiplier z: releases with multipliers mᵢ together have (Σmᵢ⁻²)^-½ (Dong,
Roth, Su 2019), and every rule here chooses its mᵢ, rounded up, so that this is at least z.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import nn

from deniable import checks
from deniable.accounting.rounding import round_up
from deniable.errors import InvalidParameter

ALL = "all"
"""The one group of a rule that has no groups."""


@dataclass(frozen=True)
class Flat:
    """One bound on the norm of an example's whole gradient (Abadi et al. 2016)."""

    clip: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", float(checks.number("clip", self.clip, above=0)))

    @property
    def groups(self) -> None:
        return None

    @property
    def bounds(self) -> dict[str, float]:
        return {ALL: self.clip}

    def multipliers(self, noise_multiplier: float) -> dict[str, float]:
        return {ALL: noise_multiplier}


@dataclass(frozen=True)
class Group:
    """Parameters that are clipped together. `noise` is the group's multiplier relative
    to that of the other groups."""

    parameters: tuple[str, ...]
    clip: float
    noise: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", checks.choices("parameters", self.parameters))
        object.__setattr__(self, "clip", float(checks.number("clip", self.clip, above=0)))
        object.__setattr__(self, "noise", float(checks.number("noise", self.noise, above=0)))


@dataclass(frozen=True)
class PerLayer:
    """A bound and a noise of its own for each group of parameters: {"body": Group(names,
    clip=1), "head": Group(names, clip=.1)}.

    The groups' noises are released from one sample, so they are one Gaussian with multiplier (Σmᵢ⁻²)^-½; with
    equal `noise` each of L groups has √L times the multiplier of the whole.
    """

    parts: tuple[tuple[str, Group], ...]

    def __init__(self, parts: Mapping[str, Group]) -> None:
        items = parts.items() if isinstance(parts, Mapping) else ()
        if not items or not all(isinstance(group, Group) for _, group in items):
            raise InvalidParameter(
                f'Expected groups like {{"head": Group(("2.weight",), clip=1)}}, got {parts!r}.'
            )
        object.__setattr__(self, "parts", tuple((str(name), group) for name, group in items))

    @classmethod
    def by_module(cls, model: nn.Module, clip: float) -> PerLayer:
        """One group for each module with trainable parameters of its own, each with
        `clip`/√L, so that the whole is `clip`."""
        parameters = {
            name for name, p in model.named_parameters() if p.requires_grad
        }  # a tied one by its first name only
        members = {
            name or ALL: tuple(
                full
                for own, _ in part.named_parameters(recurse=False)
                if (full := f"{name}.{own}".lstrip(".")) in parameters
            )
            for name, part in model.named_modules()
        }
        layers = {name: names for name, names in members.items() if names}
        return cls({name: Group(names, clip / math.sqrt(len(layers))) for name, names in layers.items()})

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return {name: group.parameters for name, group in self.parts}

    @property
    def bounds(self) -> dict[str, float]:
        return {name: group.clip for name, group in self.parts}

    def multipliers(self, noise_multiplier: float) -> dict[str, float]:
        total = noise_multiplier * math.sqrt(math.fsum(group.noise**-2 for _, group in self.parts))
        return {name: round_up(total * group.noise) for name, group in self.parts}


@dataclass(frozen=True)
class Adaptive:
    """A bound C that follows the `quantile` of the examples' norms (Andrew, Thakkar,
    McMahan, Ramaswamy 2021).

    After each step C becomes C·exp(−speed·(b − quantile)), where b is the share of examples with a norm
    within C: the noisy sum of bᵢ − ½, divided by the lot, plus ½. One example moves that sum by at most ½, so
    noise of deviation `count_noise` has the multiplier 2·count_noise, and the gradients keep z_grad = (z⁻² −
    (2·count_noise)⁻²)^-½ of a step's z: the count is paid. C stays within [low, high]. `count_noise` is in
    examples; a twentieth of the lot is a good choice.
    """

    start: float = 0.1
    count_noise: float = 10.0
    quantile: float = 0.5
    speed: float = 0.2
    low: float = 1e-3
    high: float = 1e3

    def __post_init__(self) -> None:
        for name in ("start", "count_noise", "speed", "low", "high"):
            object.__setattr__(self, name, float(checks.number(name, getattr(self, name), above=0)))
        object.__setattr__(
            self, "quantile", float(checks.number("quantile", self.quantile, above=0, below=1))
        )
        if not self.low <= self.start <= self.high:
            raise InvalidParameter(
                f"Expected start={self.start:g} in [low, high] = [{self.low:g}, {self.high:g}]."
            )

    @property
    def groups(self) -> None:
        return None

    @property
    def bounds(self) -> dict[str, float]:
        return {ALL: self.start}

    @property
    def count_multiplier(self) -> float:
        return 2 * self.count_noise

    def multipliers(self, noise_multiplier: float) -> dict[str, float]:
        if noise_multiplier >= self.count_multiplier * (1 - 1e-9):
            raise InvalidParameter(
                f"Expected count_noise={self.count_noise:g} above {noise_multiplier / 2:g}, half the noise "
                "multiplier of a step: else the count alone would cost more than the step may. Nothing was "
                "charged."
            )
        ratio = noise_multiplier / self.count_multiplier
        return {ALL: round_up(noise_multiplier / math.sqrt((1 - ratio) * (1 + ratio)))}

    def next_bound(self, bound: float, share: float) -> float:
        """The next bound, from a noisy share."""
        # A wild draw of the noise must not overflow; what lies beyond [low, high] is clamped there anyway.
        turn = max(-50.0, min(50.0, -self.speed * (share - self.quantile)))
        return min(self.high, max(self.low, bound * math.exp(turn)))


Rule: TypeAlias = Flat | PerLayer | Adaptive
"""How gradients are clipped: `groups` names the parameters of each group (None: all are one group), `bounds`
is the largest norm of an example's gradient in each at the first step, and `multipliers` the deviation of
each group's noise over its bound, for a step whose whole multiplier is given."""


def rule(clip: float | Rule) -> Rule:
    """A number means one bound for all."""
    return clip if isinstance(clip, Flat | PerLayer | Adaptive) else Flat(clip)
