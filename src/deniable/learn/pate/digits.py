"""A recipe: handwritten digits, 250 teachers in closed form, a hundred labels, a
student. All on one processor core.

The teachers' features (deskewing, scattering) are fixed maps of one image; what is learnt about features
(principal components, scales) comes from the public images alone. So one private record still reaches one
teacher only. That holds in floating point, too, where a record's features have the same bits whatever records
lie before and after it: a test looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable.errors import InvalidParameter
from deniable.learn.pate.aggregate import GNMax
from deniable.learn.pate.graph import Graph, medoids, neighbours
from deniable.learn.pate.student import Student, Taught
from deniable.learn.pate.teachers.kernel import KernelRidge
from deniable.learn.pate.teachers.pool import OnPool
from deniable.learn.pate.teachers.voting import Ensemble, teach
from deniable.learn.recipes.exact import fill
from deniable.learn.recipes.maps import deskew
from deniable.learn.scattering import CHANNELS, Scattering
from deniable.ledger import Account
from deniable.mechanism import Random

CLASSES = 10
BATCH = 2000
FINE, COARSE = 200, 100
"""Principal components that the student and the graph see."""
GRAPH_POWER, TEACHER_POWER = 0.5, 0.25
"""Components are divided by these powers of their scale: halfway to white for graph and
student, a quarter for teachers."""


def describe(images: NDArray[np.uint8]) -> Tensor:
    """Bytes [n, 28, 28] to features [n, 3969] (half precision): logarithms of the
    scattering of the deskewed image, centred over channels at each place, which takes
    out the contrast of the stroke. Each image by itself."""
    scatter, parts = Scattering(28), []
    for start in range(0, len(images), BATCH):
        upright = deskew(torch.from_numpy(images[start : start + BATCH].astype(np.float32) / 255))
        logs = scatter(upright).clamp_min_(0).add_(1e-3).log_().reshape(-1, CHANNELS, 49)
        parts.append((logs - logs.mean(dim=1, keepdim=True)).flatten(1).half())
    return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of public features: `points` maps any features to them,
    scaled by a power of their spread."""

    mean: Tensor
    basis: Tensor
    spread: Tensor

    @classmethod
    def from_public(cls, public: Tensor, components: int = FINE) -> Components:
        if len(public) <= components:
            raise InvalidParameter(f"Expected more than {components} public examples, got {len(public)}.")
        features = public.float()
        mean = features.mean(dim=0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            _, spread, basis = torch.svd_lowrank(features - mean, q=components, niter=3)
        return cls(mean, basis, spread)

    def points(self, features: Tensor, power: float, components: int = FINE) -> Tensor:
        """Each row by itself, to the last bit: products of few rows round another way,
        so all have `BATCH` rows."""
        basis, scale = self.basis[:, :components], self.spread[:components] ** -power
        batches = (
            fill(features[i : i + BATCH].float() - self.mean, BATCH) for i in range(0, len(features), BATCH)
        )
        return (
            torch.cat([torch.empty(0, components), *(batch @ basis for batch in batches)])[: len(features)]
            * scale
        )


@dataclass(frozen=True, eq=False)
class Public:
    """What is known without private data: public examples, their graph, and which of them to ask about."""

    view: Components
    points: Tensor
    graph: Graph
    teachers_points: Tensor

    @classmethod
    def from_features(cls, features: Tensor) -> Public:
        view = Components.from_public(features)
        points = view.points(features, GRAPH_POWER)
        return cls(view, points, neighbours(points[:, :COARSE]), view.points(features, TEACHER_POWER, COARSE))

    def questions(self, count: int) -> NDArray[np.int64]:
        return medoids(self.points[:, :COARSE], count)

    def recipe(self, records: int, teachers: int) -> OnPool:
        """Teachers for about `records` private records (a public number): room for six
        deviations more than the mean."""
        mean = records / teachers
        capacity = math.ceil(mean + 6 * math.sqrt(mean))
        return OnPool(
            KernelRidge(width(self.teachers_points), capacity), self.teachers_points.numpy(), self.graph
        )

    def teach(
        self,
        features: Tensor,
        labels: NDArray[np.int64],
        *,
        records: int,
        teachers: int,
        rng: Random | None = None,
    ) -> Ensemble:
        """250 models in a few seconds; each record's teacher is drawn."""
        private = self.view.points(features, TEACHER_POWER, COARSE).numpy()
        return teach(
            self.recipe(records, teachers), private, labels, teachers=teachers, classes=CLASSES, rng=rng
        )

    def learn(self, places: NDArray[np.int64], labels: Sequence[int]) -> Taught:
        return Student(CLASSES, width(self.points)).fit(self.points, self.graph, places, labels)

    def predict(self, student: Taught, features: Tensor) -> NDArray[np.int64]:
        return student.predict(self.view.points(features, GRAPH_POWER))


@dataclass(frozen=True, eq=False)
class Bought:
    """Labels that were paid for."""

    asked: NDArray[np.int64]
    labels: list[int]
    aggregator: GNMax


def buy(
    account: Account,
    ensemble: Ensemble,
    public: Public,
    count: int,
    delta: float,
    *,
    rng: Random | None = None,
) -> Bought:
    """`count` labels for all that the account has: the least noise that fits its limit, charged at `delta`.

    The account's rule must grant one charge at the whole `delta` (`Filter.basic`).
    """
    limit = account.limit
    aggregator = GNMax.for_budget(limit.epsilon, delta, classes=CLASSES, answers=count, unit=account.unit)
    questions = public.questions(count)
    with account.open(aggregator, ensemble, rng=rng, delta=delta) as session:
        labels = session.ask(questions).value
    return Bought(questions, labels, aggregator)


def width(points: Tensor, limit: int = 1000) -> float:
    """The mean squared distance among the first public points: the kernel's width."""
    some = points[:limit]
    half = len(some) // 2
    return float((torch.cdist(some[:half], some[half:]) ** 2).mean())
