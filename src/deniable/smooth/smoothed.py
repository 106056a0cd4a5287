"""A classifier smoothed by noise: what it answers, and how far its answer certainly holds.

>>> import numpy as np
>>> from deniable.accounting.radius.input_noise import Gaussian
>>> from deniable.randomness import SeededRandom
>>> def side(points):  # which side of the line x₀ = 0
...     return (points[:, 0] > 0).astype(np.int64)
>>> smoothed = Smoothed(side, Gaussian(0.25), classes=2, rng=SeededRandom(1))
>>> answer = smoothed.certify(np.array([0.5, 3.0]))
>>> answer.label, answer.norm, answer.confidence, answer.samples, 0.4 < answer.radius < 0.5
(1, 2.0, 0.999, 10100, True)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable.accounting.radius.input_noise import InputNoise
from deniable.accounting.radius.robustness import Evaluation, RadiusCertificate, Votes, certify_radius
from deniable.accounting.radius.votes import DEFAULT_ALPHA, Looks, winner
from deniable.errors import InvalidParameter
from deniable.randomness import SecureRandom
from deniable.randomness.generator import Generator
from deniable.smooth.classifiers import Classifier, adapt, labels
from deniable.smooth.decision import NO, OPEN, YES, Sampling, StoppingRule
from deniable.smooth.draws import noisy_copies
from deniable.smooth.planner import looks_for

Array = NDArray[Any]
Integers = NDArray[np.int64]
Item = TypeVar("Item")
Watch = Callable[[Sequence[Any], str], Iterable[Any]]
Votings = Iterator[Integers]
"""Labels of further noisy copies: one array for each number of them that is sent."""


@dataclass(frozen=True)
class Certified:
    """The smoothed answer is `label` everywhere within `radius` in the ℓ`norm` norm,
    with this confidence; None abstains.

    `samples` is what it took, choosing included. `holds` says of a radius that was asked for whether it is
    certified (True), out of reach (False, a claim of its own at the same confidence) or undecided (None).
    """

    label: int | None
    radius: float
    norm: float
    confidence: float
    samples: int
    votes: Votes
    holds: bool | None = None
    bank: bool = False

    @property
    def abstained(self) -> bool:
        return self.label is None


@dataclass(frozen=True)
class Smoothed:
    """`classifier` under `noise`: the class that noisy copies of an input get most often.

    `norm` is the norm of radii, left out: the noise's own. Whole-number inputs are divided by `scale` before
    the classifier sees them. Copies are evaluated `batch` at a time; under whole-number noise always exactly
    so many, so that every noisy input is evaluated in one way. `rng` is for tests: left out, noise comes from
    the operating system's randomness.
    """

    classifier: Any
    noise: InputNoise
    classes: int | None = None
    norm: float | None = None
    batch: int = 500
    scale: float = 1.0
    device: str | None = None
    rng: Generator = field(default_factory=SecureRandom, compare=False)

    def __post_init__(self) -> None:
        if self.batch < 1 or not self.scale > 0:
            raise InvalidParameter(
                f"Expected batch={self.batch} of at least 1 and scale={self.scale} above 0."
            )
        object.__setattr__(self, "_adapted", adapt(self.classifier, self.classes, device=self.device))
        object.__setattr__(self, "_steady", {})
        self.noise.loss_at(1, self.metric, dimension=1)  # refuses a norm that the noise has no loss for

    @property
    def model(self) -> Classifier:
        """The classifier behind its adapter."""
        classifier: Classifier = self._adapted  # type: ignore[attr-defined]
        return classifier

    @property
    def metric(self) -> float:
        """The p of the ℓp norm that radii are in."""
        if self.norm is None:
            return self.noise.norm
        return self.norm

    # ---------------------------------------------------------------------------------------------- answers

    def counts(self, x: ArrayLike, samples: int) -> Integers:
        """Votes of so many fresh noisy copies, by class."""
        return self.tally(next(self._votings(_input(x), [samples])))

    def predict(self, x: ArrayLike, *, samples: int = 1000, alpha: float = DEFAULT_ALPHA) -> int | None:
        """The smoothed answer, or None where the two leading classes cannot be told apart.

        An answer is not the likeliest class with probability at most alpha (Cohen et al.
        2019; Hung, Fithian 2019).
        """
        label = int(winner(self.counts(x, samples), alpha)[0])
        if label < 0:
            return None
        return label

    def certify(self, x: ArrayLike, sampling: Sampling | None = None) -> Certified:
        """The answer at `x` and a radius within which it certainly holds, or an abstention."""
        point, plan = _input(x), sampling or Sampling()
        rule = self.rule(plan, point.size)
        return self.decide(self._votings(point, stages(rule)), rule)

    def certify_all(
        self,
        inputs: Sequence[ArrayLike] | Array,
        sampling: Sampling | None = None,
        *,
        watch: Watch | None = None,
    ) -> list[Certified]:
        """`certify` for each input, with fresh noise for each; `watch(items, words)` may
        draw a progress bar."""
        return [self.certify(x, sampling) for x in watched(list(inputs), "Certifying", watch)]

    def rule(self, plan: Sampling, dimension: int) -> StoppingRule:
        """How this plan turns votes into radii; looks at one size, or at several where
        one radius is to be decided."""
        looks = Looks((plan.samples,), plan.alpha)
        if plan.radius is not None:
            two = plan.runner_up and self.model.classes > 2
            looks = looks_for(
                self.noise,
                plan.radius,
                plan.samples,
                plan.alpha,
                norm=self.metric,
                dimension=dimension,
                runner_up=two,
            )
        return StoppingRule(self.noise, self.metric, dimension, plan, looks)

    def decide(self, votings: Votings, rule: StoppingRule) -> Certified:
        """Choose on the first labels, bound by all later ones, look by look."""
        first, plan = next(votings), rule.plan
        selection, counts = self.tally(first[: plan.choosing]), self.tally(first[plan.choosing :])
        label = np.array([selection.argmax()])
        verdict = int(rule.holds(counts[None], label)[0])
        for more in votings if verdict == OPEN else ():
            counts = counts + self.tally(more)
            verdict = int(rule.holds(counts[None], label)[0])
            if verdict != OPEN:
                break
        return certified_from(rule, selection, counts)

    def certificate(self, x: ArrayLike, certified: Certified) -> RadiusCertificate:
        """What was certified of `x`, for others to compute again: `deniable verify`."""
        point = _input(x)
        is_steady = self.noise.integer and not certified.bank and self.steady(point)
        evaluation = Evaluation(self.model.digest, self.batch, is_steady, certified.bank, float(self.scale))
        digest = hashlib.sha256(f"{point.dtype}{point.shape}".encode() + point.tobytes()).hexdigest()
        return certify_radius(self.noise, self.metric, point.size, certified.votes, evaluation, digest)

    def steady(self, x: ArrayLike) -> bool:
        """Whether answers are the same, bit for bit, in every place of a batch and in every evaluation.

        Seen on one batch of noisy copies of `x`, put in three other orders: evidence,
        not proof, and asked once for each shape.
        """
        point = _input(x)
        verdicts: dict[tuple[int, ...], bool] = self._steady  # type: ignore[attr-defined]
        if point.shape not in verdicts:
            verdicts[point.shape] = self._seen_steady(point)
        return verdicts[point.shape]

    # ---------------------------------------------------------------------------------------------- inside

    def tally(self, voted: Integers) -> Integers:
        """Votes by class."""
        return np.bincount(voted, minlength=self.model.classes)

    def _votings(self, x: Array, sizes: Sequence[int]) -> Votings:
        """Labels of fresh noisy copies, for each of `sizes` in turn."""
        draw = noisy_copies(self.noise, x, self.rng)
        for size in sizes:
            parts = [self._labels(draw(min(self.batch, size - i))) for i in range(0, size, self.batch)]
            yield np.concatenate(parts)

    def _labels(self, copies: Array) -> Integers:
        rows = len(copies)
        if self.noise.integer and rows < self.batch:  # one way of evaluation: the batch is always of one size
            copies = np.concatenate([copies, np.repeat(copies[-1:], self.batch - rows, axis=0)])
        return labels(self.model.outputs(self.fed(copies)), len(copies), self.model.classes)[:rows]

    def fed(self, copies: Array) -> Array:
        """Whole numbers as the classifier wants them: 32-bit floats, divided by `scale`."""
        if np.issubdtype(copies.dtype, np.integer):
            return (copies / self.scale).astype(np.float32)
        return copies

    def _seen_steady(self, point: Array) -> bool:
        batch = self.fed(noisy_copies(self.noise, point, self.rng)(self.batch))
        first = self.model.outputs(batch)
        orders = [np.arange(self.batch), np.roll(np.arange(self.batch), 1), self.rng.permutation(self.batch)]
        return all(_same(self.model.outputs(batch[order]), first[order]) for order in orders)


def certified_from(
    rule: StoppingRule, choosing: Integers, counts: Integers, *, bank: bool = False
) -> Certified:
    """What the votes of both samples say, at the look where they ended."""
    label, row = np.array([choosing.argmax()]), counts[None]
    votes = Votes(
        int(label[0]), tuple(choosing.tolist()), tuple(counts.tolist()), rule.looks, rule.plan.runner_up
    )
    return Certified(
        votes.label if rule.ahead(row, label)[0] else None,
        float(rule.certified(row, label)[0]),
        rule.norm,
        1 - rule.plan.alpha,
        int(choosing.sum() + counts.sum()),
        votes,
        {YES: True, NO: False, OPEN: None}[int(rule.holds(row, label)[0])],
        bank,
    )


def stages(rule: StoppingRule) -> list[int]:
    """How many noisy copies each look adds; the first also chooses the class."""
    first, *later = np.diff([0, *rule.looks.sizes]).tolist()
    return [rule.plan.choosing + first, *later]


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _input(x: ArrayLike) -> Array:
    array = np.ascontiguousarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x)
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise InvalidParameter("Expected finite numbers in the input. Nothing was certified.")
    return array


def watched(items: Sequence[Item], words: str, watch: Watch | None) -> Iterable[Item]:
    """The items, told to `watch` as they pass, if there is one."""
    if watch is None:
        return items
    return watch(items, words)
