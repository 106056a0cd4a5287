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

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable.accounting.radius.input_noise import InputNoise
from deniable.accounting.radius.robustness import (
    Evaluation,
    Isolation,
    RadiusCertificate,
    Votes,
    certify_radius,
)
from deniable.accounting.radius.votes import DEFAULT_ALPHA, Looks, winner
from deniable.errors import InvalidParameter
from deniable.randomness import SecureRandom
from deniable.randomness.generator import Generator
from deniable.smooth.decision import NO, OPEN, YES, Sampling, StoppingRule
from deniable.smooth.draws import noisy_copies, read_input
from deniable.smooth.models.classifiers import adapt, labels
from deniable.smooth.models.digests import digest_array
from deniable.smooth.models.isolation import Poll, SpotChecks, examine
from deniable.smooth.models.protocol import Classifier
from deniable.smooth.planner import looks_for

Array = NDArray[Any]
Integers = NDArray[np.int64]
Item = TypeVar("Item")
Watch = Callable[[Sequence[Any], str], Iterable[Any]]
Votings = Iterator[Integers]
"""Labels of further noisy copies: one array for each number of them that is sent."""


@dataclass(frozen=True)
class Circumstances:
    """What votes are about, taken with them: the noise, the norm and size of the input, how it was evaluated
    (with the model's digest), and the input's digest."""

    noise: InputNoise
    norm: float
    dimension: int
    evaluation: Evaluation
    input: str


@dataclass(frozen=True)
class Certified:
    """The smoothed answer is `label` everywhere within `radius` in the ℓ`norm` norm,
    with this confidence; None abstains.

    `samples` is what it took, choosing included. `holds` says of a radius that was asked for whether it is
    certified (True), out of reach (False, a claim of its own at the same confidence) or undecided (None).
    """

    label: int | None
    radius: float
    confidence: float
    samples: int
    votes: Votes
    circumstances: Circumstances
    holds: bool | None = None

    @property
    def norm(self) -> float:
        return self.circumstances.norm

    @property
    def bank(self) -> bool:
        return self.circumstances.evaluation.bank

    @property
    def abstained(self) -> bool:
        return self.label is None


@dataclass(frozen=True)
class Smoothed:
    """`classifier` under `noise`: the class that noisy copies of an input get most often.

    `norm` is the norm of radii, left out: the noise's own. Whole-number inputs are divided by `scale` before
    the classifier sees them. Copies are evaluated `batch` at a time, always exactly so many, so that every
    noisy input is evaluated in one way; with `batch=1` each is a call of its own. `rng` is for tests: left
    out, noise comes from the operating system's randomness.

    Before it votes, the classifier must show that it answers each input on its own (`isolation`): one that
    mixes its batch, remembers earlier calls or answers at random is refused.
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
        if self.batch < 1 or not 0 < self.scale < math.inf:
            raise InvalidParameter(
                f"Expected batch={self.batch} of at least 1 and a finite scale={self.scale} above 0."
            )
        object.__setattr__(self, "_adapted", adapt(self.classifier, self.classes, device=self.device))
        object.__setattr__(self, "_polls", {})
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
        """Votes of so many fresh noisy copies, by class; a copy whose scores are no numbers has none."""
        return self._ballots(x, samples)[: self.model.classes]

    def predict(self, x: ArrayLike, *, samples: int = 1000, alpha: float = DEFAULT_ALPHA) -> int | None:
        """The smoothed answer, or None where the two leading classes cannot be told apart.

        An answer is not the likeliest class with probability at most alpha (Cohen et al.
        2019; Hung, Fithian 2019).
        """
        label = int(winner(self._ballots(x, samples), alpha)[0])
        if 0 <= label < self.model.classes:
            return label
        return None

    def certify(self, x: ArrayLike, sampling: Sampling | None = None) -> Certified:
        """The answer at `x` and a radius within which it certainly holds, or an abstention."""
        point = read_input(self.noise, x)
        rule = self.rule(sampling or Sampling(), point.size)
        poll = self.poll(point)
        circumstances = self.circumstances(point, poll)
        answer = self.decide(self._votings(point, stages(rule), poll), rule, circumstances)
        poll.ask_again()  # what no digest reaches, such as a file or a clock, may have changed it
        self.check_unchanged(circumstances)
        return answer

    def certify_all(
        self,
        inputs: Sequence[ArrayLike] | Array,
        sampling: Sampling | None = None,
        *,
        watch: Watch | None = None,
    ) -> list[Certified]:
        """`certify` for each input, with fresh noise for each; `watch(items, words)` may
        draw a progress bar."""
        return [self.certify(x, sampling) for x in report_progress(list(inputs), "Certifying", watch)]

    def rule(self, plan: Sampling, dimension: int) -> StoppingRule:
        """How this plan turns votes into radii; looks at one size, or at several where
        one radius is to be decided."""
        # Of two classes the other is all that is left, with votes for none; no second bound is needed.
        plan = replace(plan, runner_up=plan.runner_up and self.model.classes > 2)
        looks = Looks((plan.samples,), plan.alpha)
        if plan.radius is not None:
            looks = looks_for(
                self.noise,
                plan.radius,
                plan.samples,
                plan.alpha,
                norm=self.metric,
                dimension=dimension,
                runner_up=plan.runner_up,
            )
        return StoppingRule(self.noise, self.metric, dimension, plan, looks)

    def decide(self, votings: Votings, rule: StoppingRule, circumstances: Circumstances) -> Certified:
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
        return decide_answer(rule, selection, counts, circumstances)

    def certificate(self, x: ArrayLike, answer: Certified) -> RadiusCertificate:
        """What was certified of `x`, for others to compute again: `deniable verify`.

        `InvalidParameter` if the votes are of another input, or of a classifier that has changed since.
        """
        votes, about = answer.votes, answer.circumstances
        if digest_array(read_input(about.noise, x)) != about.input:
            raise InvalidParameter(
                "These votes were taken of another input, so no certificate was written. Certify this one."
            )
        own = (self.noise, self.metric, self.batch, float(self.scale))
        if own != (about.noise, about.norm, about.evaluation.batch, about.evaluation.scale):
            raise InvalidParameter(
                f"These votes were taken under {about.noise} in batches of {about.evaluation.batch}, not as "
                "this object takes them, so no certificate was written. Ask the object that certified."
            )
        if answer.abstained:
            raise InvalidParameter(
                "The classifier abstained here: there is nothing to write a certificate of."
            )
        self.check_unchanged(about)
        return certify_radius(about.noise, about.norm, about.dimension, votes, about.evaluation, about.input)

    def circumstances(self, point: Array, poll: Poll, *, bank: bool = False) -> Circumstances:
        """What votes on `point` on this poll will be about."""
        same_bits = self.noise.integer and not bank and poll.is_stable
        evaluation = Evaluation(poll.model, self.batch, same_bits, bank, float(self.scale), poll.isolation)
        return Circumstances(self.noise, self.metric, point.size, evaluation, digest_array(point))

    def check_unchanged(self, circumstances: Circumstances) -> None:
        """Refuse votes of a classifier that is no longer the one they were taken of."""
        if self.model.digest != circumstances.evaluation.model:
            raise InvalidParameter(
                "The classifier has changed since its votes began: its parameters, buffers, attributes or "
                "code are not what they were. No certificate was written. Certify again, with a classifier "
                "that does not change when it is used."
            )

    def poll(self, x: ArrayLike) -> Poll:
        """How the classifier votes on inputs like `x`; `InvalidParameter` if it does not answer each noisy
        input on its own. Asked once for each shape and type of input, and again when it has changed.
        """
        point = read_input(self.noise, x)
        polls: dict[tuple[Any, ...], Poll] = self._polls  # type: ignore[attr-defined]
        kind = (point.shape, point.dtype.str)
        poll = polls.get((*kind, self.model.digest))
        if poll is None:
            draw = noisy_copies(self.noise, point, SecureRandom())
            companions = np.random.default_rng()
            poll = examine(self.model, lambda n: self.to_inputs(draw(n)), self.batch, companions)
            polls[*kind, poll.model] = poll  # the first answers may have filled a cache
        return poll

    # ---------------------------------------------------------------------------------------------- inside

    def tally(self, votes: Integers) -> Integers:
        """Votes by class, and last those for none."""
        return np.bincount(votes, minlength=self.model.classes + 1)

    def _ballots(self, x: ArrayLike, samples: int) -> Integers:
        point = read_input(self.noise, x)
        return self.tally(next(self._votings(point, [samples], self.poll(point))))

    def _votings(self, x: Array, sizes: Sequence[int], poll: Poll) -> Votings:
        """Labels of fresh noisy copies, for each of `sizes` in turn."""
        draw = noisy_copies(self.noise, x, self.rng)
        checks = None
        if poll.isolation is Isolation.SEEN:
            checks = SpotChecks(self.model.outputs)
        for size in sizes:
            parts = [
                self._labels(draw(min(self.batch, size - i)), poll, checks)
                for i in range(0, size, self.batch)
            ]
            yield np.concatenate(parts)

    def _labels(self, copies: Array, poll: Poll, checks: SpotChecks | None) -> Integers:
        rows = len(copies)
        if rows < self.batch:  # one way of evaluation: the batch is always of one size
            copies = np.concatenate([copies, np.repeat(copies[-1:], self.batch - rows, axis=0)])
        batch = self.to_inputs(copies)
        outputs = poll.evaluate(batch.copy() if checks else batch)  # a classifier may write into it
        votes = labels(outputs, len(copies), self.model.classes)[:rows]
        if checks is not None:
            checks.look(batch[:rows], outputs[:rows])
        return votes

    def to_inputs(self, copies: Array) -> Array:
        """Whole numbers as the classifier wants them: 32-bit floats, divided by `scale`."""
        if np.issubdtype(copies.dtype, np.integer):
            return (copies / self.scale).astype(np.float32)
        return copies


def decide_answer(
    rule: StoppingRule, choosing: Integers, counts: Integers, circumstances: Circumstances
) -> Certified:
    """What the votes of both samples say, at the look where they ended; the last count is of votes for
    none."""
    label, row, last = np.array([choosing.argmax()]), counts[None], len(counts) - 1
    verdict = {YES: True, NO: False, OPEN: None}[int(rule.holds(row, label)[0])]
    ahead, radius = bool(rule.leads(row, label)[0]), float(rule.certify(row, label)[0])
    if not choosing[last] and not counts[last]:
        choosing, counts = choosing[:last], counts[:last]
    elif verdict is False:
        verdict = None  # a share of votes for none is no rival that could be out of reach
    votes = Votes(
        int(label[0]), tuple(choosing.tolist()), tuple(counts.tolist()), rule.looks, rule.plan.runner_up
    )
    if votes.label == last:  # most copies have no scores: no class to certify
        ahead, radius, verdict = False, 0.0, None
    return Certified(
        votes.label if ahead else None,
        radius,
        1 - rule.plan.alpha,
        int(choosing.sum() + counts.sum()),
        votes,
        circumstances,
        verdict,
    )


def stages(rule: StoppingRule) -> list[int]:
    """How many noisy copies each look adds; the first also chooses the class."""
    first, *later = np.diff([0, *rule.looks.sizes]).tolist()
    return [rule.plan.choosing + first, *later]


def report_progress(items: Sequence[Item], words: str, watch: Watch | None) -> Iterable[Item]:
    """The items, told to `watch` as they pass, if there is one."""
    if watch is None:
        return items
    return watch(items, words)
