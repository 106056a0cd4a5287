"""The nodes of a loss, and their JSON. `deniable.loss` says what they are for."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, ClassVar, Self, TypeAlias

from deniable import strict_json
from deniable.errors import InvalidLoss
from deniable.strict_json import MOST_DIGITS, shown
from deniable.units import Relation, Unit

Number: TypeAlias = int | float | Fraction

DEEPEST = 64
"""Levels of a tree: every walk over it is a recursion that must fit on the stack."""
MOST_NODES = 100_000
"""Nodes of a tree, a part that is used twice counted twice: every walk visits each."""


def exact(x: Number) -> Fraction:
    """The rational number that `x` means: a float is the decimal that it prints.

    >>> exact(0.1), exact(1e-6), exact(Fraction(10, 3))
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(10, 3))
    """
    return Fraction(repr(float(x))) if isinstance(x, float) else Fraction(x)


class Scheme(StrEnum):
    """How a sample is drawn from the data before a mechanism sees it."""

    POISSON = "poisson"
    """Each record enters by its own coin of probability `rate`."""
    WITHOUT_REPLACEMENT = "without replacement"
    """A uniform subset of fixed size; `rate` is its share of the data."""
    SHUFFLED = "shuffled"
    """Fixed batches of a shuffled pass. Not Poisson, and never accounted as if it were."""


POISSON = Scheme.POISSON
WITHOUT_REPLACEMENT = Scheme.WITHOUT_REPLACEMENT
SHUFFLED = Scheme.SHUFFLED


class Node:
    """A frozen dataclass with a stable JSON form: `{"node": "Pure", "epsilon": 0.1}`, every field, in order."""

    kinds: ClassVar[dict[str, type[Node]]] = {}
    tree_depth: ClassVar[int] = 1
    tree_size: ClassVar[int] = 1
    """Levels and nodes of the tree; a combinator counts its own once, when it is made (`_count_tree`)."""

    def __init_subclass__(cls) -> None:
        Node.kinds[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {"node": type(self).__name__} | {f.name: _encode(getattr(self, f.name)) for f in fields}

    def to_json(self) -> str:
        """The canonical text: the same loss always gives the same bytes."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_dict(cls, value: object) -> Self:
        node = _decode(value)
        if not isinstance(node, cls):
            raise InvalidLoss(f"Expected a {cls.__name__} in JSON, got {type(node).__name__}.")
        return node

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Anything else is refused with the reason."""
        return cls.from_dict(strict_json.parse(text, InvalidLoss, "a loss"))


class Loss(Node):
    """The root of the tree. `a + b`, `a * k`, `a.sampled(rate)` and `a.grouped(k)` build combinators."""

    @property
    def relation(self) -> Relation | None:
        """The neighbour relation this loss is stated for; None if the tree does not say (a leaf holds for whatever
        relation its mechanism was made for)."""
        return None

    @property
    def replaces(self) -> bool | None:
        """Whether a unit is replaced; None if the tree does not say."""
        relation = self.relation
        return None if relation is None else relation is Relation.REPLACED

    def __add__(self, other: Loss) -> Composed:
        if not isinstance(other, Loss):
            return NotImplemented
        return Composed(_parts(self) + _parts(other))

    def __mul__(self, times: int) -> Loss:
        return self if times == 1 and type(times) is int else Repeated(times, self)

    __rmul__ = __mul__

    def sampled(self, rate: Number, scheme: Scheme = POISSON, *, replace: bool = False) -> Sampled:
        return Sampled(rate, self, scheme, replace)

    def grouped(self, size: int) -> Grouped:
        return Grouped(size, self)


def _parts(loss: Loss) -> tuple[Loss, ...]:
    return loss.parts if isinstance(loss, Composed) else (loss,)


# ------------------------------------------------------------------------------------------------ leaves


@dataclass(frozen=True)
class Pure(Loss):
    """ε-differential privacy, nothing more known (Dwork, McSherry, Nissim, Smith 2006). Worst case: randomized response."""

    epsilon: Number

    def __post_init__(self) -> None:
        _number(self, "epsilon", at_least=0)

    def __str__(self) -> str:
        return f"ε = {show(self.epsilon)}"


@dataclass(frozen=True)
class Approximate(Loss):
    """(ε, δ)-differential privacy, nothing more known."""

    epsilon: Number
    delta: Number

    def __post_init__(self) -> None:
        _number(self, "epsilon", at_least=0)
        _number(self, "delta", at_least=0, at_most=1)

    def __str__(self) -> str:
        return f"ε = {show(self.epsilon)} at δ = {show(self.delta)}"


@dataclass(frozen=True)
class Zcdp(Loss):
    """ρ-zCDP: Rényi divergence at most ρ·α at every order α > 1 (Bun, Steinke 2016)."""

    rho: Number

    def __post_init__(self) -> None:
        _number(self, "rho", at_least=0)

    def __str__(self) -> str:
        return f"ρ = {show(self.rho)} (zCDP)"


@dataclass(frozen=True)
class BoundedRange(Loss):
    """The log-likelihood ratios of two neighbours span at most ε (exponential mechanism: Durfee, Rogers 2019)."""

    epsilon: Number

    def __post_init__(self) -> None:
        _number(self, "epsilon", at_least=0)

    def __str__(self) -> str:
        return f"a choice of range ε = {show(self.epsilon)}"


@dataclass(frozen=True)
class ResponseNoise(Loss):
    """Randomized response among `options` answers: the truth with probability `truth`, else another one at random.

    Guarantee: ε = ln(truth·(options − 1)/(1 − truth)), attained. Reference: Warner 1965; k-ary: Kairouz et al. 2014.
    """

    truth: Number
    options: int = 2

    def __post_init__(self) -> None:
        _integer(self, "options", at_least=2)
        _number(self, "truth", above=0, below=1)
        if exact(self.truth) * self.options < 1:
            raise InvalidLoss(
                f"Expected truth={show(self.truth)} in [1/{self.options}, 1): below it lies are likelier."
            )

    def __str__(self) -> str:
        return f"the truth among {self.options} answers with probability {show(self.truth)}"


@dataclass(frozen=True)
class LaplaceNoise(Loss):
    """Continuous Laplace noise of scale `multiplier` × the L1 sensitivity. Never stated for integer noise."""

    multiplier: Number

    def __post_init__(self) -> None:
        _number(self, "multiplier", above=0)

    def __str__(self) -> str:
        return f"Laplace noise of {show(self.multiplier)} × the sensitivity"


@dataclass(frozen=True)
class GaussianNoise(Loss):
    """Continuous Gaussian noise of deviation `multiplier` × the L2 sensitivity. Never stated for integer noise."""

    multiplier: Number

    def __post_init__(self) -> None:
        _number(self, "multiplier", above=0)

    def __str__(self) -> str:
        return f"Gaussian noise of {show(self.multiplier)} × the sensitivity"


@dataclass(frozen=True)
class DiscreteLaplaceNoise(Loss):
    """Integer Laplace noise, P(x) ∝ exp(−|x|/scale), on integer vectors of L1 sensitivity `sensitivity` (grid units).

    Its profile is *larger* than that of continuous noise of the same ratio: at sensitivity 1 it is randomized response.
    """

    scale: Number
    sensitivity: int = 1

    def __post_init__(self) -> None:
        _number(self, "scale", above=0)
        _integer(self, "sensitivity", at_least=1)

    def __str__(self) -> str:
        return f"integer Laplace noise of scale {show(self.scale)} on sensitivity {show(self.sensitivity)}"


@dataclass(frozen=True)
class DiscreteGaussianNoise(Loss):
    """Integer Gaussian noise, P(x) ∝ exp(−x²/2σ²), on integer vectors of L2 sensitivity `sensitivity` (grid units).

    `dimension` is the number of coordinates, None if it is not stated; one coordinate has a tighter numerical bound.
    Reference: Canonne, Kamath, Steinke 2020.
    """

    sigma: Number
    sensitivity: Number = 1
    dimension: int | None = None

    def __post_init__(self) -> None:
        _number(self, "sigma", above=0)
        _number(self, "sensitivity", above=0)
        if self.dimension is not None:
            _integer(self, "dimension", at_least=1)

    def __str__(self) -> str:
        return f"integer Gaussian noise of σ = {show(self.sigma)} on sensitivity {show(self.sensitivity)}"


# ------------------------------------------------------------------------------------------------ combinators


@dataclass(frozen=True)
class Sampled(Loss):
    """`of`, run on a random sample of the data that nobody sees.

    Releases that share one sample are `Sampled(rate, Composed(…))`; `Composed((Sampled, Sampled))` are independent samples.
    `replace` is the neighbour relation: False adds or removes one unit, True replaces one. What `of` is stated for:

    - Poisson: adding or removing one unit's record in the sample, whatever `replace` says (a replaced record is taken out
      by its coin, the new one comes in by the same);
    - without replacement: replacing one record of the sample (its size is fixed).
    """

    rate: Number
    of: Loss
    scheme: Scheme = POISSON
    replace: bool = False

    def __post_init__(self) -> None:
        _number(self, "rate", above=0, at_most=1)
        _loss(self, "of")
        if not isinstance(self.scheme, Scheme):
            raise InvalidLoss(f"Expected scheme={shown(self.scheme)} to be one of {', '.join(Scheme)}.")
        _boolean(self, "replace")
        if self.relation is not Relation.SILENCED:
            _stated_for(self, _replaced(self.scheme is WITHOUT_REPLACEMENT), self.of)

    @property
    def relation(self) -> Relation:
        """On a Poisson sample what is stated for a silenced unit stays so: its coin is the same, its contribution is not."""
        if self.scheme is POISSON and not self.replace and self.of.relation is Relation.SILENCED:
            return Relation.SILENCED
        return _replaced(self.replace)

    def __str__(self) -> str:
        kind = {"poisson": "a Poisson sample", "without replacement": "a fixed-size sample"}
        one = ", one record replaced" if self.replace else ""
        return f"{self.of}, on {kind.get(self.scheme, 'shuffled batches')} of rate {show(self.rate)}{one}"


@dataclass(frozen=True)
class Repeated(Loss):
    """`of`, `times` times over the same data, each run free to depend on the earlier answers."""

    times: int
    of: Loss

    def __post_init__(self) -> None:
        _integer(self, "times", at_least=1)
        _loss(self, "of")

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    def __str__(self) -> str:
        return f"{show(self.times)} × ({self.of})"


@dataclass(frozen=True)
class Composed(Loss):
    """All of `parts` over the same data, each free to depend on the earlier answers. Empty: nothing was revealed."""

    parts: tuple[Loss, ...]

    def __post_init__(self) -> None:
        _losses(self, "parts")
        # Once, at the start: asked anew at each level, a deep tree would take for ever.
        stated = next((known for known in (part.relation for part in self.parts) if known is not None), None)
        object.__setattr__(self, "_relation", stated)
        if stated is not None:
            _stated_for(self, stated, *self.parts)

    @property
    def relation(self) -> Relation | None:
        return getattr(self, "_relation", None)

    def __str__(self) -> str:
        return " + ".join(f"({p})" for p in self.parts) or "nothing"


@dataclass(frozen=True)
class Parallel(Loss):
    """`parts` on disjoint parts of the data, **each unit's rows all in one part**; stated for adding or removing one unit.

    Adding or removing a unit touches one part. `replace=True` replaces a unit: it may leave one part and enter another, so
    two parts are touched (or one part twice). A region is no partition of people: `Parallel.split` checks.
    """

    parts: tuple[Loss, ...]
    replace: bool = False

    def __post_init__(self) -> None:
        _losses(self, "parts")
        if not self.parts:
            raise InvalidLoss("Expected at least one part in Parallel(parts=()).")
        _boolean(self, "replace")
        _stated_for(self, Relation.ADDED, *self.parts)

    @property
    def relation(self) -> Relation:
        return _replaced(self.replace)

    @classmethod
    def split(cls, parts: tuple[Loss, ...], *, by: str, unit: Unit) -> Parallel:
        """Parts made by the values of column `by`, valid only if all rows of a unit share that value.

        >>> Parallel.split((Pure(1), Pure(2)), by="region", unit=Unit.column("patient_id"))
        Traceback (most recent call last):
            ...
        deniable.errors.InvalidLoss: Rows of one patient_id may lie in several values of "region", so these parts add up...
        """
        if not unit.falls_in_one_part(by):
            raise InvalidLoss(
                f'Rows of one {unit.column_name} may lie in several values of "{by}", so these parts add up: '
                f'use Composed, split by "{unit.column_name}", or bound the unit to max_rows=1.'
            )
        return cls(parts, unit.replace)

    def __str__(self) -> str:
        touched = "the two largest" if self.replace else "the largest"
        return f"{touched} of ({', '.join(str(p) for p in self.parts)}), on disjoint parts"


@dataclass(frozen=True)
class Grouped(Loss):
    """`of`, for a group of `size` units that change together: all added, all removed, or each replaced."""

    size: int
    of: Loss

    def __post_init__(self) -> None:
        _integer(self, "size", at_least=1)
        _loss(self, "of")

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    def __str__(self) -> str:
        return f"({self.of}) for a group of {show(self.size)}"


@dataclass(frozen=True)
class Shuffled(Loss):
    """One local report `of` from each of at least `reports` people, seen only after a shuffler mixed them.

    Reference: Feldman, McMillan, Talwar 2021 and 2023. `of` must be a pure local loss (`Pure`, `ResponseNoise`); the unit of
    the result is one person whose value is replaced.
    """

    reports: int
    of: Loss

    def __post_init__(self) -> None:
        _integer(self, "reports", at_least=1)
        _loss(self, "of")
        _stated_for(self, Relation.REPLACED, self.of)

    @property
    def relation(self) -> Relation:
        return Relation.REPLACED

    def __str__(self) -> str:
        return f"({self.of}) shuffled among {show(self.reports)} reports"


@dataclass(frozen=True)
class PoissonRuns(Node):
    """The number of runs is Poisson of this mean (none at all with probability e^−mean)."""

    mean: Number

    def __post_init__(self) -> None:
        _number(self, "mean", above=0)

    def __str__(self) -> str:
        return f"Poisson({show(self.mean)}) runs"


@dataclass(frozen=True)
class NegativeBinomialRuns(Node):
    """Truncated negative binomial: η = 1 is geometric, η = 0 logarithmic (Papernot, Steinke 2022, Definition 1)."""

    eta: Number
    gamma: Number

    def __post_init__(self) -> None:
        _number(self, "eta", above=-1)
        _number(self, "gamma", above=0, below=1)

    def __str__(self) -> str:
        return f"negative binomial(η = {show(self.eta)}, γ = {show(self.gamma)}) runs"


@dataclass(frozen=True)
class Selected(Loss):
    """The best of a random number of runs of `of`, whose own output includes the score; only the best one is shown.

    Reference: Papernot, Steinke 2022, Theorems 2 and 6. A fixed number of runs is not covered and costs far more.
    """

    of: Loss
    runs: PoissonRuns | NegativeBinomialRuns

    def __post_init__(self) -> None:
        _loss(self, "of")
        if not isinstance(self.runs, PoissonRuns | NegativeBinomialRuns):
            raise InvalidLoss(f"Expected runs={shown(self.runs)} to be PoissonRuns or NegativeBinomialRuns.")

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    def __str__(self) -> str:
        return f"the best of {self.runs} of ({self.of})"


def mismatch(loss: Loss, unit: Unit) -> str | None:
    """Why `loss` says nothing about `unit`: it is stated for the other neighbour relation. None if it is not."""
    stated = loss.relation
    if stated is None or stated is unit.relation:
        return None
    return f"This loss is stated for a unit that is {stated.value}, so it says nothing about {unit}: {loss}."


# ------------------------------------------------------------------------------------------------ fields


def show(x: Number) -> str:
    """A number as people write it.

    >>> show(10_000), show(0.01), show(Fraction(10, 3)), show(1e-6)
    ('10,000', '0.01', '10/3', '1e-06')
    """
    return f"{x:,}" if isinstance(x, int) else str(x) if isinstance(x, Fraction) else f"{x:g}"


def _number(
    node: Node,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Check a field and store it as int, float or Fraction (numpy scalars and whole Fractions become plain)."""
    value = getattr(node, name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidLoss(f"Expected {name}={shown(value)} of {type(node).__name__} to be a number.")
    plain: Number
    if isinstance(value, Integral):
        plain = int(value)
    elif isinstance(value, Rational):
        plain = Fraction(int(value.numerator), int(value.denominator))
        plain = int(plain) if plain.denominator == 1 else plain
    else:
        plain = float(value)
    _check_digits(node, name, plain)
    low, high = (
        ("(", above) if above is not None else ("[", at_least),
        (below, ")") if below is not None else (at_most, "]"),
    )
    inside = (
        (isinstance(plain, int | Fraction) or math.isfinite(plain))
        and (above is None or plain > above)
        and (at_least is None or plain >= at_least)
        and (below is None or plain < below)
        and (at_most is None or plain <= at_most)
    )
    if not inside:
        left = f"{low[0]}{low[1]:g}" if low[1] is not None else "(−∞"
        right = f"{high[0]:g}{high[1]}" if high[0] is not None else "∞)"
        raise InvalidLoss(f"Expected {name}={value} of {type(node).__name__} in {left}, {right}.")
    object.__setattr__(node, name, plain)


def _check_digits(node: Node, name: str, value: Number) -> None:
    """Numbers of thousands of digits are refused where they enter: exact sums with them would take for ever."""
    if isinstance(value, float):
        return
    bits = max(abs(value.numerator), value.denominator).bit_length()
    if bits > 3.33 * MOST_DIGITS:
        raise InvalidLoss(
            f"Expected {name} of {type(node).__name__} in at most {MOST_DIGITS:,} digits, "
            f"got about {round(bits * 0.30103):,}. Round it."
        )


def _integer(node: Node, name: str, *, at_least: int) -> None:
    value = getattr(node, name)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidLoss(f"Expected {name}={shown(value)} of {type(node).__name__} to be a whole number.")
    _check_digits(node, name, int(value))
    if value < at_least:
        raise InvalidLoss(f"Expected {name}={value} of {type(node).__name__} to be at least {at_least}.")
    object.__setattr__(node, name, int(value))


def _boolean(node: Node, name: str) -> None:
    if not isinstance(getattr(node, name), bool):
        raise InvalidLoss(f"Expected {name}={shown(getattr(node, name))} of {type(node).__name__} to be True or False.")


def _replaced(replace: bool) -> Relation:
    return Relation.REPLACED if replace else Relation.ADDED


def _stated_for(node: Node, relation: Relation, *parts: Loss) -> None:
    """Neighbour relations never mix in one tree: a loss for added rows says nothing about replaced ones."""
    for part in parts:
        stated = part.relation
        if stated is not None and stated is not relation:
            raise InvalidLoss(
                f"{type(node).__name__} needs losses stated for a unit {relation.value}, "
                f"but ({part}) is for one {stated.value}."
            )


def _loss(node: Node, name: str) -> None:
    if not isinstance(getattr(node, name), Loss):
        raise InvalidLoss(f"Expected {name}={shown(getattr(node, name))} of {type(node).__name__} to be a Loss.")
    _count_tree(node, (getattr(node, name),))


def _losses(node: Node, name: str) -> None:
    value = getattr(node, name)
    if not isinstance(value, tuple | list) or not all(isinstance(p, Loss) for p in value):
        raise InvalidLoss(f"Expected {name}={shown(value)} of {type(node).__name__} to be a tuple of losses.")
    object.__setattr__(node, name, tuple(value))
    _count_tree(node, tuple(value))


def _count_tree(node: Node, parts: tuple[Loss, ...]) -> None:
    """Refuse a tree that a reader could not walk; each level adds to what its parts have counted already."""
    depth = 1 + max((part.tree_depth for part in parts), default=0)
    size = 1 + sum(part.tree_size for part in parts)
    if depth > DEEPEST:
        raise InvalidLoss(
            f"This loss would be a tree of {depth} levels, over the {DEEPEST} that are read. "
            "Put the parts side by side in one Composed, and count equal ones by Repeated."
        )
    if size > MOST_NODES:
        raise InvalidLoss(
            f"This loss would be a tree of {size:,} nodes, over the {MOST_NODES:,} that are read. "
            "Count equal parts by Repeated, or state several losses."
        )
    object.__setattr__(node, "tree_depth", depth)
    object.__setattr__(node, "tree_size", size)


# ------------------------------------------------------------------------------------------------ JSON


def _encode(value: object) -> Any:
    match value:
        case Node():
            return value.to_dict()
        case tuple():
            return [_encode(v) for v in value]
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case _:
            return value


def _decode(value: object, level: int = 1) -> Node:
    if not isinstance(value, Mapping):
        raise InvalidLoss(f'Expected a JSON object with a "node", got {type(value).__name__}.')
    if level > DEEPEST:
        raise InvalidLoss(f"The JSON of this loss has over {DEEPEST} levels, more than are read.")
    name = value.get("node")
    kind = Node.kinds.get(name) if isinstance(name, str) else None
    if kind is None or kind is Loss:
        raise InvalidLoss(f"Unknown loss node {shown(name)}.")
    fields = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given = set(value) - {"node"}
    if given != fields:
        raise InvalidLoss(
            f"Expected the fields {sorted(fields)} of {kind.__name__}, got {shown(sorted(map(str, given)))}."
        )
    return kind(**{name: _decode_field(name, value[name], level) for name in fields})


def _decode_field(name: str, value: object, level: int) -> object:
    match value:
        case dict():
            return _decode(value, level + 1)
        case list():
            if level > DEEPEST:
                raise InvalidLoss(f"The JSON of this loss has over {DEEPEST} levels, more than are read.")
            return tuple(_decode_field(name, v, level + isinstance(v, list)) for v in value)
        case str() if name == "scheme":
            if value not in list(Scheme):
                raise InvalidLoss(f"Expected scheme={shown(value)} to be one of {', '.join(Scheme)}.")
            return Scheme(value)
        case str():
            return _fraction(name, value)
        case _:
            return value


def _fraction(name: str, text: str) -> Fraction:
    if "/" not in text:
        raise InvalidLoss(f"Expected {name}={shown(text)} to be a number or a fraction like 10/3.")
    return strict_json.rational(text, InvalidLoss, name)
