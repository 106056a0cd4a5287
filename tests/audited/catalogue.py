"""What is shipped and touches private data, each with neighbours that show its loss, and
a twin that lacks some of its noise.

Mechanisms whose own tests attack them already are named by those tests' lists
(`ELSEWHERE`); compositions by their parts.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

import deniable
from deniable.federated import CrossSilo, FedAvg, Federation, OnClient, Shared, SiloPart
from deniable.guarantee import Budget
from deniable.learn.by_group_private import ByGroup
from deniable.learn.by_group_public import GroupMeasures
from deniable.learn.clip.closed_forms import owners
from deniable.learn.clip.closed_forms.owners import by_owner
from deniable.learn.clip.per_example import PerExample
from deniable.learn.convex.descent import Descent as GradientSteps
from deniable.learn.convex.descent import GradientPerturbation
from deniable.learn.convex.fit import ObjectivePerturbation, OutputPerturbation
from deniable.learn.convex.losses import HuberHinge
from deniable.learn.convex.scaled import ScaledRegression
from deniable.learn.counts import CountTables, Growth, TreeNode
from deniable.learn.pate.cautionary import NoiseAfterVote
from deniable.learn.pate.publish import DependentBound, Published
from deniable.learn.pca import PrivatePCA, Projection
from deniable.learn.recipes.abadi import PcaNetwork
from deniable.learn.recipes.classifier import Recipe, RecipeClassifier
from deniable.learn.recipes.linear import LinearDescent
from deniable.learn.select import Selection
from deniable.learn.sgd import DPSGD, Arrivals, Execution, FixedLots, Learning, Privacy, Users
from deniable.learn.sgd.data import rows as containers
from deniable.learn.sgd.noise import CorrelatedNoise
from deniable.learn.sgd.outcome import Trained
from deniable.learn.sgd.training.distributed import Distributed
from deniable.learn.sgd.training.steps import TrainingSteps
from deniable.learn.sgd.training.walk import Walking
from deniable.learn.standardize import PrivateStandardizer, Standardizer
from deniable.ledger.bounded import Bounded
from deniable.local import GeneralisedResponse, Shuffler, SurveyCoin
from deniable.local.longitudinal import Collection
from deniable.loss import Composed, GaussianNoise, Loss, NegativeBinomialRuns, Repeated
from deniable.mechanism import Random, Sequentially
from deniable.mechanisms import Laplace, RandomizedResponse, cautionary
from deniable.mechanisms.integer_noise import IntegerNoise
from deniable.smooth import IntegerLaplace, NoisyInput
from deniable.sql.after.release import Blocks
from deniable.sql.plan import keys, noise, quantiles
from deniable.sql.plan.bounds import row_classes
from deniable.sql.plan.bounds.values import ValueBounds
from deniable.sql.plan.measures.totals import Sum
from deniable.sql.plan.plan import Plan
from deniable.sql.profile.rows import PeopleByRows
from deniable.sql.profile.spread import ValueSpread
from deniable.sql.profile.totals import PeopleByTotals
from deniable.units import Unit
from tests.audit.test_shipped import SHIPPED
from tests.audited.twins import QuietBound, QuietNoise
from tests.federated.test_audited import SILENT, federated, people, weight_of
from tests.learn.pate.test_aggregate import AUDITED as VOTES
from tests.learn.pate.worlds import given
from tests.learn.sgd.runs import Identity, output
from tests.local.test_audit import BROKEN as BROKEN_CLIENTS
from tests.local.test_audit import HONEST as CLIENTS

Floats = NDArray[np.float64]


def same(answer: Any) -> Any:
    return answer


def called(mechanism: Any, data: Any, rng: Random) -> Any:
    return mechanism(data, rng=rng)


@dataclass(frozen=True)
class Audited:
    """A mechanism, its twin, and neighbours; `look` makes numbers of an answer, `least`
    is the ε that is certified at least.

    `run` says how it is run, where it is not simply called on the data.
    """

    mechanism: Any
    twin: Any
    pair: tuple[Any, Any]
    look: Callable[[Any], Any] = same
    samples: int = 3000
    least: float = 0.0
    run: Callable[[Any, Any, Random], Any] = called

    @property
    def name(self) -> str:
        return type(self.mechanism).__name__

    def target(self, of: Any) -> Callable[..., Any]:
        # Not self: a new start then imports what is called, and not this catalogue with all of torch.
        look, run = self.look, self.run
        return lambda data, rng: look(run(of, data, rng))


# ------------------------------------------------------------------------------------------------ models


NOBODY: tuple[Any, Any] = (np.empty((0, 1)), np.empty(0))
SOMEBODY: tuple[Any, Any] = (np.ones((1, 1)), np.ones(1))
HINGE = HuberHinge()


@dataclass(frozen=True)
class QuietObjective(ObjectivePerturbation):
    """An eighth of the linear term that the claim asks for."""

    @property
    def scale(self) -> float:
        return super().scale / 8


def quieter(mechanism: GradientPerturbation) -> GradientPerturbation:
    """The same with a fifth of the noise that it calibrated."""
    made = replace(mechanism)
    object.__setattr__(made, "noise_multiplier", mechanism.noise_multiplier / 5)
    return made


STEP = GradientPerturbation(HINGE, 1, 1, 0, 2, 0.01, descent=GradientSteps(1, 1, 1.0, 1.0))


def matrix(projection: Projection) -> Floats:
    """All that the release says: the noisy second moments."""
    return np.asarray((projection.components.T * projection.strengths) @ projection.components)[
        np.triu_indices(2)
    ]


SPREAD = ([[0.05], [0.95]] * 10, [*([[0.05], [0.95]] * 10), [1.0]])


def scaling(made: Standardizer) -> list[float]:
    """The noisy sums of u, of u² − ½ and of rows."""
    u = 2 * made.mean - 1
    return [*(made.count * u), *(made.count * (4 * made.deviation**2 + u * u - 0.5)), made.count]


def split(node: TreeNode) -> list[float]:
    ends = (node.below, node.above)
    return [node.label, node.feature, node.cut, *(-1 if end is None else end.label for end in ends)]


NO_CELLS = np.empty((0, 1), int), np.empty(0, int)
TWO_CELLS = np.array([[0], [1]]), np.array([0, 1])
ONE_CELL = np.array([[0]]), np.array([0])


def first_group(measures: tuple[GroupMeasures, ...]) -> list[float]:
    """Of the group whose rows differ: how many there are, and the share that is found."""
    return [measures[0].rows, measures[0].recall.value]


TEN_WOMEN = [1] * 10, [0.9] * 10, ["w"] * 10
NINE_WOMEN = [1] * 9, [0.9] * 9, ["w"] * 9


def rdp_of(made: Published) -> float:
    return made.rdp


FULL = DPSGD.from_keywords(
    Identity(2),
    output,
    n=40,
    lot=40,  # smaller lots are tried in several batches; all rows are in it
    steps=1,
    clip=1.0,
    learning_rate=1.0,
    noise_multiplier=1.0,
    progress=False,
)
FEW = torch.zeros(3, 2), torch.zeros(3)
MORE = torch.cat([FEW[0], torch.tensor([[5.0, 0.0]])]), torch.zeros(4)


PEOPLE = replace(FULL, privacy=replace(FULL.privacy, unit=Unit.column("person", max_rows=4)))
HER = torch.tensor([[5.0, 0.0]]).expand(4, 2)
NOBODY_ELSE = Users(FEW, ["a", "b", "b"])
HER_TOO = Users((torch.cat([FEW[0], HER]), torch.zeros(7)), ["a", "b", "b", *["her"] * 4])


class EachRow(DPSGD):
    """Draws people, and clips each of their rows by itself."""

    def rows(self, data: Any) -> Any:
        return containers.rows(data.data if isinstance(data, Users) else data, self.example)


class Expert(torch.nn.Module):
    """One matrix of a stack, for the positions of all rows that are not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.ParameterDict({"weight": torch.zeros(1, 1, 2)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, 2)
        places = torch.where(flat.abs().sum(1) > 0)[0]
        out = torch.nn.functional.linear(flat[places], self.line["weight"][0])
        return torch.zeros(len(flat), 1).index_add(0, places, out).view(len(x), -1).sum(1, keepdim=True)


class OtherOwners(DPSGD):
    """Takes each position of an expert for another row's, so that a row is clipped position by position, and does
    not try its gradients before it trains: the trial finds it."""

    def __call__(self, data: Any, *, rng: Random) -> Trained:
        if not self.checked.ways:
            self.check(data)

        def wrong(tape: Any, x: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
            return by_owner(tape, x, torch.arange(len(owner)) % tape.examples)

        untried = mock.patch.object(PerExample, "again", return_value=None)
        with untried, mock.patch.object(owners, "by_owner", wrong):
            return super().__call__(data, rng=rng)


ROUTED = replace(FULL, model=Expert())
NO_POSITIONS = torch.zeros(3, 4, 2), torch.zeros(3)
HER_POSITIONS = torch.cat([NO_POSITIONS[0], HER[None]]), torch.zeros(4)


def settings(run: DPSGD) -> dict[str, Any]:
    return {part.name: getattr(run, part.name) for part in fields(run) if part.init}


FTRL = DPSGD(
    Identity(2), output, lots=FixedLots(n=4, lot=2, epochs=2, bands=2),
    privacy=Privacy(noise_multiplier=1.5, clip=1.0), learning=Learning(1.0), how=Execution(progress=False),
)  # fmt: skip
STREAM = Arrivals(FEW, [1, 1, 1]), Arrivals(MORE, [1, 1, 1, 0])


class RepeatedNoise(CorrelatedNoise):
    """Adds the same noise again at the second of two steps."""

    def draw(self, group: str | None, size: int, deviation: float, rng: Random) -> torch.Tensor:
        row = self._rows.get(group)
        return row.pop() if row else super().draw(group, size, deviation, rng)


@dataclass(frozen=True)
class Streamed:
    """A run of `FixedLots`, and all that it releases: the first coordinate of each of its noisy sums. `noise` may be
    another than it says."""

    run: DPSGD
    noise: type[CorrelatedNoise] = CorrelatedNoise

    @property
    def loss(self) -> Loss:
        return self.run.loss

    def __call__(self, data: Any, *, rng: Random) -> Floats:
        walk, rows = self.run.walk(rng), self.run.rows(data)
        walk._correlation = self.noise((1.0, 0.5))
        steps = [walk.step(walk.draw(rows))["line.weight"] for _ in range(self.run.plan.steps)]
        return np.array([float(step[0, 0]) for step in steps]) * self.run.plan.lot


def with_and_without(sums: Floats) -> float:
    """Steps with the row, less half of those without: what their noises have in common goes."""
    return float(sums[0::2].sum() - sums[1::2].sum() / 2)


def total(sums: Floats) -> float:
    return float(sums.sum())


def moved(run: Trained) -> float:
    """The first weight after training: it moved by the first coordinate of the one noisy gradient."""
    return float(run.model.state_dict()["line.weight"].ravel()[0])


def last_layer(made: RecipeClassifier) -> float:
    return float(made.linear.bias[0] - made.linear.bias[1])


PICTURES = torch.ones(1, 2, 2), np.array([0])
NO_PICTURE = PICTURES[0][:0], PICTURES[1][:0]
RECIPE = Recipe(
    2,
    torch.nn.Identity(),
    LinearDescent(1, 1.0, 1.0, momentum=0.0),
    statistics_noise=3.0,
    step_noise=0.5,
    classes=2,
)

LEARNT = [
    Audited(OutputPerturbation(HINGE, 1, 1, 8, 2), OutputPerturbation(HINGE, 1, 1, 8, 8), (NOBODY, SOMEBODY), least=0.9),
    Audited(
        OutputPerturbation(HINGE, 1, 1, 8, 2, 0.01), OutputPerturbation(HINGE, 1, 1, 8, 8, 0.01), (NOBODY, SOMEBODY),
        samples=6000, least=0.5,
    ),
    Audited(
        ObjectivePerturbation(HINGE, 1, 1, 8, 2), QuietObjective(HINGE, 1, 1, 8, 2), (NOBODY, SOMEBODY), samples=1500, least=0.6,
    ),
    Audited(
        ObjectivePerturbation(HINGE, 1, 1, 8, 2, 0.01), QuietObjective(HINGE, 1, 1, 8, 2, 0.01), (NOBODY, SOMEBODY),
        samples=1500,
    ),
    Audited(STEP, quieter(STEP), (NOBODY, SOMEBODY), least=0.2),
    Audited(PrivatePCA(2, 2, 1.0), PrivatePCA(2, 2, 0.25), (np.empty((0, 2)), np.ones((1, 2))), matrix, least=0.3),
    Audited(
        PrivatePCA(2, 2, epsilon=2), PrivatePCA(2, 2, epsilon=8), (np.empty((0, 2)), np.ones((1, 2))), matrix, least=0.8
    ),
    Audited(
        PrivateStandardizer((0,), (1,), None, 1.0), PrivateStandardizer((0,), (1,), None, 0.25), SPREAD, scaling, least=0.3,
    ),
    Audited(
        PrivateStandardizer((0,), (1,), epsilon=2), PrivateStandardizer((0,), (1,), epsilon=8), SPREAD, scaling, least=0.8,
    ),
    Audited(CountTables(1, 2, 2, 2), CountTables(1, 2, 2, 8), (NO_CELLS, ONE_CELL), least=1.0),
    Audited(CountTables(1, 2, 2, 2, 0.01), CountTables(1, 2, 2, 8, 0.01), (NO_CELLS, ONE_CELL), least=0.3),
    Audited(
        ByGroup(("w", "x"), 2, bins=2), ByGroup(("w", "x"), 8, bins=2), (NINE_WOMEN, TEN_WOMEN), first_group, 1000, 0.4,
    ),
    Audited(Growth(CountTables(1, 2, 2, 1), 1), Growth(CountTables(1, 2, 2, 6), 1), (ONE_CELL, TWO_CELLS), split, least=0.2),
    Audited(
        Selection((RandomizedResponse.for_budget(1),), float, NegativeBinomialRuns(1, 0.1)),
        Selection((RandomizedResponse.for_budget(6),), float, NegativeBinomialRuns(1, 0.1)), (True, False),
        lambda chosen: chosen.value, 1500,
    ),
    Audited(
        DependentBound(3, 2, 20, 5, 2, 2, 0.1, 0.5), QuietBound(3, 2, 20, 5, 2, 2, 0.1, 0.5),
        ([[15, 5, 0]] * 5, [[14, 6, 0]] * 5), rdp_of, 1500,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Slow:
    """A mechanism whose runs take milliseconds and whose loss is that of one Gaussian of
    `mu`: a hundred runs must do.

    `look` gives one number of an answer. Which neighbour a run sees is a fair coin, so the runs bound μ as
    independent canaries do (`audit.one_run.independent_mu`).
    """

    mechanism: Any
    twin: Any
    pair: tuple[Any, Any]
    look: Callable[[Any], float]
    runs: int

    @property
    def name(self) -> str:
        return type(self.mechanism).__name__

    @property
    def mu(self) -> float:
        return gaussian_mu(self.mechanism.loss)

    def scores(self, of: Any, rng: Random) -> tuple[Floats, NDArray[np.bool_]]:
        inside = rng.bernoulli(Fraction(1, 2), self.runs)
        return np.array([self.look(of(self.pair[int(coin)], rng=rng)) for coin in inside]), inside


def gaussian_mu(loss: Loss) -> float:
    """The μ of Gaussian releases composed, each on all rows: the squares of theirs add
    up (Dong, Roth, Su 2022)."""
    match loss:
        case GaussianNoise(multiplier):
            return 1 / float(multiplier)
        case Repeated(times, of):
            return math.sqrt(times) * gaussian_mu(of)
        case Composed(parts):
            return math.hypot(*map(gaussian_mu, parts))
        case _:
            raise TypeError(f"{loss} is not made of Gaussian releases.")


SLOW = [
    Slow(FULL, replace(FULL, privacy=replace(FULL.privacy, noise_multiplier=0.25)), (FEW, MORE), moved, 120),
    Slow(Streamed(FTRL), Streamed(FTRL, RepeatedNoise), STREAM, with_and_without, 160),
    Slow(
        Streamed(FTRL),
        Streamed(replace(FTRL, lots=FixedLots(n=4, lot=2, epochs=12, bands=2))),
        STREAM,
        total,
        120,
    ),
    Slow(PEOPLE, EachRow(**settings(PEOPLE)), (NOBODY_ELSE, HER_TOO), moved, 120),
    Slow(ROUTED, OtherOwners(**settings(ROUTED)), (NO_POSITIONS, HER_POSITIONS), moved, 120),
    Slow(
        RECIPE, replace(RECIPE, step_noise=0.1, statistics_noise=1.0), (NO_PICTURE, PICTURES), last_layer, 250
    ),
]


# ------------------------------------------------------------------------------------------------ phones, rows, queries


def estimated(collection: Collection[Any], value: Any, rng: Random) -> Any:
    """One device reports and the server estimates from what came."""
    return collection(collection.client.reports([value], rng=rng), rng=rng)


def mixed(shuffler: Shuffler, value: int, rng: Random) -> list[int]:
    """How often each report came, of one device with `value` among others with 0."""
    reports = shuffler.client.reports([value] + [0] * (shuffler.reports - 1), rng=rng)
    told = shuffler(reports, rng=rng)[:, 2]
    return [int((told == 0).sum()), int((told == 1).sum())]


def rows(people: list[int]) -> pa.Table:
    return pa.table({"person": pa.array(people, pa.int64()), "one": pa.array([1] * len(people), pa.int64())})


@dataclass(frozen=True)
class CountOfRows:
    """Laplace noise on the number of rows of a table."""

    scale: float = 1.0

    @property
    def loss(self) -> Loss:
        return Laplace(self.scale).loss

    @property
    def unit(self) -> Unit:
        return Unit.row()

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: pa.Table, *, rng: Random) -> int:
        return int(Laplace(self.scale)(data.num_rows, rng=rng))


TWO_ROWS = Unit.column("person", max_rows=2)
TOTAL = Sum()
ONCE = noise.IntegerSensitivity(1, 1)
HALVES = noise.laplace(noise.IntegerSensitivity(1, 1), Fraction(1))


OTHERS = [
    Audited(
        Collection(GeneralisedResponse(4, 1)), Collection(GeneralisedResponse(4, 3)), (0, 1),
        lambda estimate: estimate.counts, 3000, least=0.5, run=estimated,
    ),
    Audited(Shuffler(GeneralisedResponse(2, 3), 4), Shuffler(GeneralisedResponse(2, 7), 4), (0, 1), run=mixed),
    Audited(
        Bounded(CountOfRows(), TWO_ROWS), Bounded(CountOfRows(), Unit.column("person", max_rows=6)),
        (rows([1, 2]), rows([1, 2, *[3] * 9])), least=1.2,
    ),
    Audited(
        NoisyInput(IntegerLaplace(2), 2), NoisyInput(IntegerLaplace(0.5), 2), (np.array([7, 3]), np.array([7, 5])), least=0.6,
    ),
    Audited(Sequentially((Laplace(2), Laplace(2))), Sequentially((Laplace(0.5), Laplace(2))), (0, 1), least=0.3),
    Audited(
        row_classes.Classes((1, 2, 4), noise.laplace(row_classes.moved(replaced=False), Fraction(1))),
        row_classes.Classes((1, 2, 4), noise.laplace(row_classes.moved(replaced=False), Fraction(4))),
        ({0: 4, 1: 15}, {0: 4, 1: 15, 2: 1}), lambda crowd: [float(size) for size in crowd.sizes], least=0.4,
    ),
    Audited(
        ValueBounds(TOTAL, HALVES), ValueBounds(TOTAL, QuietNoise(**vars(HALVES))),
        ({4: 12}, {4: 13}), lambda pair: [float(x) for x in pair], 6000, least=0.6,
    ),
    Audited(noise.laplace(HALVES.sensitivity, Fraction(1)), noise.laplace(HALVES.sensitivity, Fraction(4)), (0, 1),
            run=lambda measure, data, rng: data + measure.draw(1, rng)[0], least=0.6),
    Audited(
        quantiles.Rank(Fraction(1, 2), Fraction(1), 1, 101), quantiles.Rank(Fraction(1, 2), Fraction(4), 1, 101),
        ({50: 1}, {50: 1, 100: 1}), samples=20_000, least=0.3,
    ),
    Audited(
        quantiles.Bracket(Fraction(1, 2), 3, noise.laplace(ONCE, Fraction(1)), 0.3),
        quantiles.Bracket(Fraction(1, 2), 3, noise.laplace(ONCE, Fraction(4)), 0.3),
        ({}, {1: 1}), lambda pair: [float(x) for x in pair], 20_000, least=0.3,
        run=lambda bracket, data, rng: bracket(data, 1, rng=rng),
    ),
    Audited(
        keys.KeySelection(Fraction(1), Fraction(1, 100), 1), keys.KeySelection(Fraction(3), Fraction(1, 100), 1),
        ({("a",): 1}, {("a",): 2}), len, 80_000, least=0.2,
    ),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ clients' own coins


def coined(noise: Any) -> FedAvg:
    """One round whose clients add their update by a coin that they tell nobody, their noise always."""
    run = federated(noise)
    return replace(run, privacy=replace(run.privacy, unit=SILENT))


COINED = [
    Audited(coined(on_client(coins=0.3)), coined(on_client(coins=1)), pair, weight_of, samples=500)
    for on_client, pair in (
        (partial(OnClient, 0.3), (people(9.0), people(0.0))),
        (partial(Shared, 0.3, bits=32, least=2), (people(9.0, 0.0), people(0.0, 0.0))),
    )
]
"""Twins whose coins always fall on heads. A client that is silent on tails, noise and all: tests/federated."""


AUDITED = [*LEARNT, *OTHERS, *COINED]


CLIENTS_WITHOUT_TWIN = [
    one for one in CLIENTS if not any(isinstance(broken, type(one[0])) for broken, *_ in BROKEN_CLIENTS)
]


def bold(client: Any) -> Any:
    """The same client with three times the ε of its claim."""
    return (
        SurveyCoin(Fraction(9, 10))
        if isinstance(client, SurveyCoin)
        else replace(client, epsilon=3 * client.epsilon)
    )


# ------------------------------------------------------------------------------------------------ what should not be used


@dataclass(frozen=True)
class Cautioned:
    """A mechanism that is shipped as a warning, neighbours, and the claim that somebody might believe of
    it."""

    mechanism: Any
    pair: tuple[Any, Any]
    believed: Budget
    run: Callable[[Any, Any, Random], Any] = called
    samples: int = 2000

    @property
    def name(self) -> str:
        return type(self.mechanism).__name__

    def target(self) -> Callable[..., Any]:
        run, mechanism = self.run, self.mechanism
        return lambda data, rng: run(mechanism, data, rng)


CAUTIONED = [
    Cautioned(cautionary.ReleaseEverything(0.3), ([1], [1, 2]), Budget(1, 0.01), samples=8000),
    Cautioned(cautionary.NameAndShame(0.3), ([1], [1, 2]), Budget(1, 0.01), samples=8000),
    Cautioned(cautionary.LaplaceAfterArgmax(("a", "b"), 1000), ([1, 1], [1, 2]), Budget(1, 0.01)),
    Cautioned(cautionary.PlainMedian(), ([1, 2, 3], [1, 9, 3]), Budget(1, 0.01)),
    Cautioned(cautionary.RootlessGaussian(6, 0.3), (0, 1), Budget(6, 0.3), samples=30_000),
    Cautioned(cautionary.MisplacedGaussian(4, 0.3), (0, 1), Budget(4, 0.3), samples=30_000),
    Cautioned(
        NoiseAfterVote(3, 20), (given([[3, 2, 0]]), given([[2, 3, 0]])), Budget(1, 0.01),
        lambda mechanism, data, rng: mechanism.open(data, rng=rng).ask([0])[0],
    ),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------ all there is


PARTS = ("mechanisms", "learn", "local", "sql", "federated", "smooth", "ledger", "mechanism")
ABSTRACT = {"Client", "Oracle", "Mechanism", "Interactive"}

ELSEWHERE: dict[type, str] = {
    **{type(shipped.mechanism): "tests/audit/test_shipped.py" for shipped in SHIPPED},
    **{type(client): "tests/local/test_audit.py" for client, *_ in CLIENTS},
    **{type(kind): "tests/learn/pate/test_aggregate.py" for kind, _ in VOTES},
    Plan: "tests/audit/test_endpoint.py",
    **dict.fromkeys((PeopleByRows, ValueSpread, PeopleByTotals), "tests/sql/profile/test_audit.py"),
    FedAvg: "tests/federated/test_audited.py",
    CrossSilo: "tests/federated/silos/test_audited.py",
    IntegerNoise: "tests/audit/test_shipped.py",  # as the noise of Laplace and Gaussian
}
"""Classes that other tests attack, beside broken twins. (`DPSGD` here as a whole run;
its steps in tests/learn/sgd.)"""

COMPOSED: dict[type, tuple[type, ...]] = {
    PcaNetwork: (PrivatePCA, DPSGD),
    Distributed: (DPSGD,),
    TrainingSteps: (DPSGD,),
    Federation: (FedAvg, CrossSilo),
    SiloPart: (CrossSilo,),
    Walking: (DPSGD,),
    ScaledRegression: (PrivateStandardizer, GradientPerturbation),
    Blocks: (Plan,),
}
"""Classes that run others of this catalogue one after the other, or on several
processes, and state the sum of their losses."""


def shipped() -> Iterator[type]:
    """Every public class that states a loss and answers about data."""
    for module in pkgutil.walk_packages(deniable.__path__, "deniable."):
        if module.name.split(".")[1] in PARTS:
            for name, found in vars(importlib.import_module(module.name)).items():
                own = inspect.isclass(found) and found.__module__ == module.name
                final = own and not inspect.isabstract(found) and name not in ABSTRACT
                if final and not name.startswith("_") and answers(found):
                    yield found


def answers(found: type) -> bool:
    """Whether a class has a loss, and is called with data (or opened on it, or draws noise for it)."""
    named = {*dir(found), *(f.name for f in fields(found))} if is_dataclass(found) else set(dir(found))
    return "loss" in named and bool({"__call__", "open", "draw"} & named)
