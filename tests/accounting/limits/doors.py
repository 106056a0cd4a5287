"""Every public function of accounting, and how an input of the fuzz is handed to it."""

from __future__ import annotations

import inspect
import json
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from deniable import accounting
from deniable.accounting import filters, matrices, meaning, numerical, proportion, radius, renyi
from deniable.accounting.filters.charges import charge, price
from deniable.accounting.filters.odometer import odometer
from deniable.accounting.methods import gaussian, moments, pure, shuffle, strong, zcdp
from deniable.accounting.radius import certified_radius, input_noise, robustness, votes
from deniable.accounting.runs import noisy_run, selection, sparse_vector
from deniable.guarantee import Bound, Budget, Certificate
from deniable.loss import Loss, NegativeBinomialRuns, Sampled, Scheme, Selected, Shuffled, exact
from deniable.units import Relation, Unit


@dataclass(frozen=True)
class Question:
    """One input: a loss as JSON, which is read where a function needs it, and eight numbers."""

    tree: Any
    numbers: tuple[Any, ...]

    @classmethod
    def read(cls, text: str) -> Question:
        value = json.loads(text)
        return cls(value["loss"], tuple(map(_number, value["numbers"])))

    @property
    def loss(self) -> Loss:
        return Loss.from_dict(self.tree)

    def whole(self, i: int) -> int:
        """A number as a count."""
        value = self.numbers[i]
        if isinstance(value, float) and not math.isfinite(value):
            return 1
        return int(value)

    def pick(self, i: int, choices: Any) -> Any:
        options = list(choices)
        return options[self.whole(i) % len(options)]

    @property
    def budget(self) -> Budget:
        return Budget(self.numbers[0], self.numbers[1])

    @property
    def noise(self) -> input_noise.InputNoise:
        n = self.numbers
        kind = self.whole(7) % 7
        return (
            lambda: input_noise.Gaussian(n[4]),
            lambda: input_noise.Laplace(n[4]),
            lambda: input_noise.Uniform(n[4]),
            lambda: input_noise.IntegerGaussian(n[4]),
            lambda: input_noise.IntegerLaplace(n[4]),
            lambda: input_noise.IntegerUniform(self.whole(4)),
            lambda: input_noise.Ablation(self.whole(4), self.whole(5)),
        )[kind]()

    @property
    def participation(self) -> matrices.Participation:
        return matrices.Participation(self.whole(0), self.whole(1), self.whole(2))

    @property
    def toeplitz(self) -> Any:
        steps = self.whole(0)
        return (
            lambda: matrices.square_root(steps),
            lambda: matrices.banded(steps, self.whole(3)),
            lambda: matrices.buffered(steps, self.whole(3)),
            lambda: matrices.Toeplitz((1.0, *map(float, self.numbers))),
        )[self.whole(4) % 4]()

    @property
    def encoder(self) -> Any:
        steps = self.whole(0)
        return (
            *(lambda: self.toeplitz,) * 4,
            lambda: matrices.Tree(steps),
            lambda: np.tril(np.cos(np.arange(steps * steps, dtype=float)).reshape(steps, steps)),
        )[self.whole(4) % (6 if 1 <= steps <= 2000 else 5)]()


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


Door = Callable[[Question], Any]
DOORS: dict[str, Door] = {}


def _enter(module: ModuleType, **doors: Door) -> None:
    for name, door in doors.items():
        DOORS[f"{module.__name__.removeprefix('deniable.')}.{name}"] = door


def _with_loss(function: Callable[..., Any]) -> Door:
    """A function of a loss and one number."""
    return lambda q: function(q.loss, q.numbers[0])


def _with_numbers(function: Callable[..., Any], count: int) -> Door:
    return lambda q: function(*q.numbers[:count])


# ------------------------------------------------------------------------------------------------ the front


def _certificate(q: Question) -> Certificate:
    claim = abs(float(q.numbers[1]))
    bound = Bound(min(1.0, claim), claim, "numerical", "numerical")
    return Certificate(q.loss, _unit(q), q.numbers[0], bound, (), "0")


def _unit(q: Question) -> Unit:
    return Unit.row(replace=q.loss.relation is Relation.REPLACED)


def _sampling(q: Question) -> dict[str, Any]:
    return {"scheme": q.pick(5, Scheme), "replace": q.whole(6) % 2 == 1}


def _calibrate(q: Question) -> float:
    return accounting.calibrate(lambda x: q.loss * max(1, int(min(x, 1e18))), q.budget, increasing=True)


def _dpsgd(q: Question) -> Any:
    sampling = q.pick(4, accounting.LotSampling)
    cap = q.whole(5) if q.whole(6) % 2 else None
    unit = (Unit.row(), Unit.row(replace=True), Unit.row(zero_out=True))[q.whole(7) % 3]
    loss = accounting.dpsgd(
        q.numbers[0], q.whole(1), q.whole(2), q.whole(3), sampling=sampling, unit=unit, cap=cap
    )
    return accounting.epsilon(loss, 1e-6)


def _opendp(q: Question) -> Any:
    measurement = SimpleNamespace(
        input_metric="SymmetricDistance()",
        output_measure=q.pick(
            0, ("MaxDivergence", "ZeroConcentratedDivergence", "Approximate(MaxDivergence)")
        ),
        map=lambda distance: q.numbers[1] if q.whole(0) % 3 < 2 else q.numbers[1:3],
    )
    return accounting.from_opendp(measurement, Unit.row())


_enter(
    accounting,
    LotSampling=lambda q: accounting.LotSampling(q.pick(0, accounting.LotSampling)),
    Tradeoff=lambda q: accounting.tradeoff(q.loss, points=max(2, min(500, q.whole(0)))).power,
    calibrate=_calibrate,
    calibrate_noise=lambda q: accounting.calibrate_noise(
        *q.numbers[:2], rate=q.numbers[2], steps=q.whole(3), **_sampling(q)
    ),
    calibrate_rate=lambda q: accounting.calibrate_rate(
        *q.numbers[:2], noise_multiplier=q.numbers[2], steps=q.whole(3), **_sampling(q)
    ),
    calibrate_steps=lambda q: accounting.calibrate_steps(
        *q.numbers[:2], noise_multiplier=q.numbers[2], rate=q.numbers[3], **_sampling(q)
    ),
    certify=lambda q: accounting.certify(q.loss, _unit(q), q.numbers[0]),
    compare=_with_loss(accounting.compare),
    delta=_with_loss(accounting.delta),
    dpsgd=_dpsgd,
    epsilon=_with_loss(accounting.epsilon),
    from_event=lambda q: accounting.from_event(accounting.to_event(q.loss), q.pick(0, Relation)),
    from_opendp=_opendp,
    to_event=lambda q: accounting.to_event(q.loss),
    tradeoff=lambda q: accounting.tradeoff(q.loss, np.array([q.numbers[0], q.numbers[1]], dtype=float)),
    verify=lambda q: accounting.verify(_certificate(q)),
)
for _name, _method in accounting.METHODS.items():
    DOORS[f"accounting.METHODS.{_name}"] = _with_loss(_method)
    DOORS[f"accounting.delta by {_name}"] = _with_loss(partial(accounting.delta, method=_name))

# ------------------------------------------------------------------------------------------------ methods

_enter(
    accounting.amplify,
    amplify_pair=lambda q: accounting.amplify.amplify_pair(
        Sampled(q.numbers[0], q.loss), *map(exact, q.numbers[1:3])
    ),
    epsilon=_with_loss(accounting.amplify.epsilon),
)
_enter(
    gaussian,
    analytic_sigma=_with_numbers(gaussian.analytic_sigma, 3),
    classical_sigma=_with_numbers(gaussian.classical_sigma, 3),
    epsilon=_with_loss(gaussian.epsilon),
    epsilon_of=_with_numbers(gaussian.epsilon_of, 2),
    hockey_stick=_with_numbers(gaussian.hockey_stick, 2),
    squared_mu=lambda q: gaussian.squared_mu(q.loss),
    textbook_epsilon=_with_loss(gaussian.textbook_epsilon),
)
_enter(
    moments,
    epsilon=_with_loss(moments.epsilon),
    theorem1_constant=lambda q: moments.theorem1_constant(*q.numbers[:2], q.whole(2), q.numbers[3]),
)
_enter(
    pure,
    epsilon=_with_loss(pure.epsilon),
    exact_epsilon=lambda q: pure.exact_epsilon(q.loss),
    exact_pair=lambda q: pure.exact_pair(q.loss),
    group_pair=lambda q: pure.group_pair(max(1, q.whole(0)), pure.exact_pair(q.loss)),
    share=_with_numbers(pure.share, 1),
)


def _shuffled(q: Question) -> Shuffled:
    if isinstance(loss := q.loss, Shuffled):
        return loss
    return Shuffled(max(1, q.whole(1)), loss)


def _selected(q: Question) -> Selected:
    if isinstance(loss := q.loss, Selected):
        return loss
    return Selected(loss, NegativeBinomialRuns(1, q.numbers[1]))


_enter(
    shuffle,
    closed_form=lambda q: shuffle.closed_form(_shuffled(q), q.numbers[0]),
    delta=lambda q: shuffle.delta(_shuffled(q), q.numbers[0]),
    epsilon=lambda q: shuffle.epsilon(_shuffled(q), q.numbers[0]),
)
_enter(
    strong,
    advanced=_with_loss(strong.advanced),
    optimal=_with_loss(strong.optimal),
    optimal_delta=_with_loss(strong.optimal_delta),
    outcomes=lambda q: strong.outcomes(q.loss),
)
_enter(
    zcdp,
    delta=_with_loss(zcdp.delta),
    epsilon=_with_loss(zcdp.epsilon),
    response=_with_numbers(zcdp.response, 1),
    rho=lambda q: zcdp.rho(q.loss),
)
_enter(
    numerical,
    delta=_with_loss(numerical.delta),
    epsilon=_with_loss(numerical.epsilon),
    lower=_with_loss(numerical.lower),
    profile=lambda q: numerical.profile(q.loss, list(q.numbers)),
)
_enter(
    renyi,
    condition=lambda q: renyi.condition(q.loss),
    curve=lambda q: renyi.curve(q.loss, list(q.numbers)),
    delta=_with_loss(renyi.delta),
    divergence=_with_loss(renyi.divergence),
    epsilon=_with_loss(renyi.epsilon),
)

# ------------------------------------------------------------------------------------------------ rooms


def _filter(q: Question) -> Any:
    limit = filters.Filter.of(q.budget, q.pick(7, filters.Purpose))
    paid = limit.charge(q.loss, delta=q.numbers[2])
    return limit.admits(paid * 3), limit.spent(paid), limit.left(paid), limit.reading(paid)


def _odometer(q: Question) -> Any:
    limit = filters.Filter.of(q.budget, q.pick(7, filters.Purpose))
    return odometer(limit, limit.charge(q.loss))


_enter(
    filters,
    Filter=_filter,
    Left=_filter,
    Spent=_filter,
    Purpose=_filter,
    above=lambda q: filters.above(Fraction(q.numbers[0])),
    convert_order=lambda q: filters.convert_order(q.whole(0), q.numbers[1], Fraction(q.numbers[2])),
)
DOORS["accounting.filters.odometer.odometer"] = _odometer
DOORS["accounting.filters.charges.charge"] = lambda q: charge(q.loss, (2.0, 32.0), gaussian=True)
DOORS["accounting.filters.charges.price"] = lambda q: price(q.loss, q.numbers[0])
_enter(
    matrices,
    BufferedToeplitz=lambda q: matrices.buffered(q.whole(0), q.whole(1)).toeplitz.encoder,
    Participation=lambda q: (q.participation.max_times, q.participation.has_fewer_patterns(10**6)),
    Toeplitz=lambda q: matrices.Toeplitz((1.0, *map(float, q.numbers))).encoder,
    Tree=lambda q: matrices.Tree(q.whole(0)).encoder,
    banded=lambda q: matrices.banded(q.whole(0), q.whole(1)),
    buffered=lambda q: matrices.buffered(q.whole(0), q.whole(1)),
    cyclic_loss=lambda q: accounting.epsilon(
        matrices.cyclic_loss(q.toeplitz, rate=q.numbers[5], sigma=q.numbers[6]), 1e-6
    ),
    loss=lambda q: matrices.loss(
        q.encoder, q.participation, sigma=q.numbers[5], relation=q.pick(6, Relation)
    ),
    sensitivity=lambda q: matrices.sensitivity(q.encoder, q.participation),
    square_root=lambda q: matrices.square_root(q.whole(0)),
)
_enter(
    meaning,
    Posterior=_with_numbers(meaning.posterior, 3),
    advantage=_with_numbers(meaning.advantage, 2),
    attacker_power=_with_numbers(meaning.attacker_power, 3),
    group_delta=lambda q: meaning.group_delta(*q.numbers[:2], q.whole(2)),
    group_odds=lambda q: meaning.group_odds(q.numbers[0], q.whole(1)),
    posterior=lambda q: meaning.posterior(*q.numbers[:3], slack=q.numbers[3]),
)


def _looks(q: Question) -> votes.Looks:
    return votes.Looks((q.whole(0), q.whole(0) + q.whole(1)), q.numbers[2])


def _counts(q: Question) -> list[int]:
    return [q.whole(i) for i in range(4)]


def _claim(q: Question) -> robustness.RadiusCertificate:
    counted = robustness.Votes(0, tuple(_counts(q)), tuple(_counts(q)), _looks(q))
    evaluation = robustness.Evaluation("0" * 64, 8, True)
    return robustness.RadiusCertificate(
        q.noise, q.pick(6, (1, 2, math.inf)), q.numbers[5], q.whole(3), counted, evaluation, "0" * 64
    )


_enter(
    radius,
    by_definition=lambda q: radius.by_definition(q.noise, *q.numbers[:2]),
    lecture=_with_numbers(radius.lecture, 2),
    overtaken=lambda q: radius.overtaken(q.loss, *q.numbers[:2]),
    radii=lambda q: radius.radii(q.noise, *q.numbers[:2], q.pick(6, (None, 1, 2, math.inf)), q.whole(3)),
    radius=lambda q: radius.radius(lambda r: q.loss.grouped(max(1, int(min(r, 1e9)))), *q.numbers[:2]),
    is_safe=lambda q: radius.is_safe(q.loss, *q.numbers[:2]),
)
DOORS["accounting.radius.certified_radius.holds"] = lambda q: certified_radius.holds(
    q.noise, q.numbers[5], *q.numbers[:2], q.pick(6, (None, 1, 2, math.inf)), q.whole(3)
)
_enter(
    robustness,
    certify_radius=lambda q: robustness.certify_radius(
        q.noise, q.pick(6, (1, 2, math.inf)), q.whole(3), _claim(q).votes, _claim(q).evaluation, "0" * 64
    ),
    verify_radius=lambda q: robustness.verify_radius(_claim(q)),
)
_enter(
    votes,
    bounds=lambda q: votes.bounds([_counts(q)], [0], q.numbers[4]),
    hopes=lambda q: votes.hopes([_counts(q)], [0], q.numbers[4]),
    winner=lambda q: votes.winner([_counts(q)], q.numbers[4]),
)
_enter(
    proportion,
    lower=_with_numbers(proportion.lower, 3),
    upper=_with_numbers(proportion.upper, 3),
    interval=_with_numbers(proportion.interval, 3),
)
_enter(
    noisy_run,
    NoisyRun=lambda q: noisy_run.NoisyRun(
        q.numbers[2], q.numbers[3], q.whole(4), scheme=q.pick(5, Scheme), replace=q.whole(6) % 2 == 1
    ).solve(q.pick(7, noisy_run.Unknown), *q.numbers[:2]),
    Unknown=lambda q: q.pick(7, noisy_run.Unknown),
)
_enter(
    selection,
    mean_runs=lambda q: selection.mean_runs(_selected(q).runs),
    pure_epsilon=lambda q: selection.pure_epsilon(pure.exact_epsilon(_selected(q).of), _selected(q).runs),
    select_curve=lambda q: renyi.curve(_selected(q), [2.0, 3.0]),
)
_enter(
    sparse_vector,
    above_threshold=lambda q: sparse_vector.above_threshold(
        *q.numbers[:3], answers=q.whole(3), monotone=q.whole(4) % 2 == 1
    ),
)


# ------------------------------------------------------------------------------------------------ what there is

ROOMS = (accounting, filters, matrices, meaning, numerical, radius, renyi)


def public_names() -> Iterator[str]:
    """Every function and class that accounting offers: by the lists of its packages, by the modules in these lists, and by
    the modules of its well-known runs."""
    for room in ROOMS:
        for name in room.__all__:
            value = getattr(room, name)
            if isinstance(value, ModuleType):
                yield from _module_names(value)
            elif callable(value):
                yield _path(room, name)
    runs = import_module("deniable.accounting.runs")
    for module in pkgutil.iter_modules(runs.__path__):
        if module.name != "dpsgd":  # exported above
            yield from _module_names(import_module(f"{runs.__name__}.{module.name}"))


def _module_names(module: ModuleType) -> Iterator[str]:
    names = getattr(module, "__all__", None)
    for name, value in vars(module).items():
        is_own = inspect.isfunction(value) or inspect.isclass(value)
        if name in names if names else is_own and value.__module__ == module.__name__ and name[0] != "_":
            yield _path(module, name)


def _path(module: ModuleType, name: str) -> str:
    return f"{module.__name__.removeprefix('deniable.')}.{name}"
