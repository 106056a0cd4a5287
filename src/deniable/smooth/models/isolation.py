"""Does a classifier answer each input on its own? This is asked before it votes.

A radius is about one function of one noisy input. Votes are taken of many noisy inputs at a time, so a
classifier whose answer for one of them depends on the others (batch statistics), on its place, or on what it
was asked before, votes for something else: its counts may all be for one class, and prove nothing.

Where the network can be recorded as a program of one input (`programs`), it cannot mix inputs: that is a
proof, and the votes are taken in this way. The program must still give the answers of the network in use.
Whoever evaluates one noisy input a call (`batch=1`) cannot mix inputs either. Everything else is compared:
noisy inputs alone and in their batch, then some of them among other companions, and, while it votes, some of
every batch that votes, alone.

The tolerance: at one size of batch companions may change a score by 16 times what its place alone does to it,
plus 64 units of rounding. Another place, another size, or a program may change it by a thousandth of the
largest score of its class, since other kernels add in another order; where scores have the 8 or 11 bits of
half precision, by 8 units of the largest score of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.radius.robustness import Isolation
from deniable.errors import InvalidParameter
from deniable.smooth.models.classifiers import labels
from deniable.smooth.models.protocol import Batch, Classifier, Evaluate, Outputs

Floats = NDArray[np.float64]
Draw = Callable[[int], Batch]

PROBES = {Isolation.PROVED: 2, Isolation.SEEN: 8}
"""Noisy inputs that are put among other companions."""
ALONE, SPOTS = 128, 2
"""Noisy inputs of the trial, and of each batch that votes, whose scores are compared with those of a call of
their own. A batch that changes a tenth of its labels passes the trial with probability 2e-5."""
CALLS = 32
"""Noisy inputs of a trial where each is a call of its own."""
OTHER_KERNEL = 1e-3
"""What another kernel may change, as a share of the largest score of the class."""
JITTER, UNITS = 16, 64
FAR = 1e3
HALF, HALF_UNITS = 2.0**-10, 8
"""Units of rounding from which on scores count as half precision, and how many of them another kernel may
change."""
RARE = 0.01
"""The share of rows that may differ by more under another kernel: a sign or a step inside a network turns
where two numbers are equal up to rounding."""

WAY_OUT = (
    "Nothing was certified. Let batch normalisation use running statistics, or evaluate one noisy input at "
    "a time (batch=1)."
)


@dataclass(frozen=True)
class Poll:
    """How a classifier votes: the evaluation, what is known of it, whether its bits are the same in every
    place of a batch, and the digest of the classifier that this was seen of."""

    evaluate: Evaluate
    isolation: Isolation
    is_stable: bool
    model: str
    ask_again: Callable[[], None]
    """Refuses a classifier that now gives other scores than in its trial."""


def examine(model: Classifier, draw: Draw, size: int, rng: np.random.Generator) -> Poll:
    """The poll on which `model` votes `size` noisy inputs at a time; `InvalidParameter` if it has none."""
    rows = draw(CALLS if size == 1 else size)
    evaluate, isolation = model.rowwise(rows)
    if isolation is Isolation.SEEN and size == 1:
        return _examine_calls(model, rows, draw, rng)
    trial = _Trial(evaluate, rows, draw, rng)
    labels(trial.first, len(rows), model.classes)
    trial.ask_again()
    if isolation is Isolation.PROVED:
        in_use = _compare_with_use(model, trial)
    else:
        in_use = trial
        _compare_calls(model, trial)
        trial.compare_companions(PROBES[isolation])
    same_bits = trial.compare_places()
    in_use.ask_again()
    return Poll(evaluate, isolation, same_bits, model.digest, in_use.ask_again)


def _examine_calls(model: Classifier, rows: Batch, draw: Draw, rng: np.random.Generator) -> Poll:
    """The poll of a classifier that gets one noisy input a call: there is no other that it could mix in."""
    trial = _Trial(partial(_call_each, model.outputs), rows, draw, rng)
    labels(trial.first, len(rows), model.classes)
    trial.ask_again()
    same_bits = trial.compare_places()
    trial.ask_again()
    return Poll(trial.evaluate, Isolation.ALONE, same_bits, model.digest, trial.ask_again)


def _call_each(evaluate: Evaluate, batch: Batch) -> Outputs:
    return np.concatenate([evaluate(row[None]) for row in batch])


class SpotChecks:
    """Some of the rows that vote, evaluated once more in a call of their own: their scores must be the same.

    This sees a classifier that mixes only the very batches that vote.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self.evaluate = evaluate
        self.rng = np.random.default_rng()
        self.looks = self.gaps = 0

    def look(self, batch: Batch, outputs: Outputs) -> None:
        """Compare some rows of a batch that has just been evaluated."""
        places = self.rng.choice(len(batch), min(SPOTS, len(batch)), replace=False)
        try:
            single = _call_each(self.evaluate, batch[places].copy())
        except Exception:  # an exported program may be for batches of one size only
            return
        self.looks += len(places)
        self.gaps += _count_gaps(single, outputs[places], find_slack(outputs))
        if self.gaps > max(1, RARE * self.looks):
            raise InvalidParameter(
                "This classifier does not answer each input on its own: while it voted, noisy inputs got "
                f"other scores in their batch than alone. {WAY_OUT}"
            )


class _Trial:
    """One batch of noisy inputs, and what the classifier first said of it."""

    def __init__(self, evaluate: Evaluate, rows: Batch, draw: Draw, rng: np.random.Generator) -> None:
        self.evaluate, self.rows, self.draw, self.rng = evaluate, rows, draw, rng
        self.first = self.scores(rows)
        self.slack = find_slack(self.first)

    def scores(self, batch: Batch) -> Outputs:
        """The scores of a copy: a classifier may write into what it is given."""
        with np.errstate(all="ignore"):
            return self.evaluate(batch.copy())

    def ask_again(self) -> None:
        gaps = _gaps(self.scores(self.rows), self.first)
        if (gaps > _rounding(self.first)).any():
            raise InvalidParameter(
                "This classifier gave other scores when it was asked about the same noisy inputs again, so "
                "its votes are not those of one function. Nothing was certified. Pass a classifier without "
                "randomness and without memory of earlier calls."
            )

    def compare_companions(self, count: int) -> None:
        """Scores of some inputs among copies of themselves, and among other companions."""
        size = len(self.rows)
        probes = self.rows[self.rng.choice(size, min(count, size), replace=False)]
        own = [self.scores(np.repeat(probe[None], size, axis=0)) for probe in probes]
        alone = np.stack([scores[0] for scores in own])
        jitter = np.max([_gaps(scores, scores[:1]).max(axis=0) for scores in own], axis=0)
        if (jitter > self.slack).any():
            raise InvalidParameter(
                "This classifier gives equal inputs other scores at other places of a batch, so its votes "
                f"are not those of one function. {WAY_OUT}"
            )
        tolerance = np.minimum(JITTER * jitter, self.slack) + _rounding(np.concatenate(own))
        for words, batch in self._companions():
            places = self.rng.choice(size, len(probes), replace=False)
            batch[places] = probes
            try:
                scores = self.scores(batch)
            except Exception:  # rows far from the input: a classifier may refuse what noise never gives
                if words == NEAR:
                    raise
                continue
            if (_gaps(scores[places], alone) > tolerance).any():
                raise InvalidParameter(
                    "This classifier does not answer each input on its own: the scores of a noisy input "
                    f"changed when {words} stood beside it in the batch. A radius would be about the batch, "
                    f"not about the input. {WAY_OUT}"
                )

    def compare_places(self) -> bool:
        """Whether scores are the same, bit for bit, in other orders of the batch; up to rounding they must
        be."""
        size = len(self.rows)
        same_bits = True
        for order in (np.roll(np.arange(size), 1), np.arange(size)[::-1], self.rng.permutation(size)):
            scores, first = self.scores(self.rows[order]), self.first[order]
            same_bits = same_bits and scores.dtype == first.dtype and scores.tobytes() == first.tobytes()
            if differ(scores, first, self.slack):
                raise InvalidParameter(
                    "This classifier's scores depend on the order of the batch, so its votes are not those "
                    f"of one function. {WAY_OUT}"
                )
        return same_bits and self.scores(self.rows).tobytes() == self.first.tobytes()

    def _companions(self) -> Iterator[tuple[str, Batch]]:
        rows = self.rows
        far = (FAR * (1 + float(np.abs(rows).max(initial=0.0)))) * np.ones_like(rows[:1])
        alternating = np.where(np.arange(len(rows)) % 2, 1, -1).reshape(-1, *[1] * (rows.ndim - 1))
        yield NEAR, self.draw(len(rows))
        yield NEAR, np.repeat(rows[:1], len(rows), axis=0)
        yield "zeros", np.zeros_like(rows)
        yield "large numbers", np.repeat(far, len(rows), axis=0).astype(rows.dtype)
        yield "large negative numbers", np.repeat(-far, len(rows), axis=0).astype(rows.dtype)
        yield "numbers of both signs", (alternating * (rows + far)).astype(rows.dtype)
        single = rows.copy()
        single[int(self.rng.integers(len(rows)))] = far[0]
        yield "one row of large numbers", single


NEAR = "other noise"


def _compare_calls(model: Classifier, trial: _Trial) -> None:
    """Rows of a batch such as those that vote must have the scores that they have in a call of their own."""
    rows = trial.rows[:ALONE]
    try:
        single = _call_each(model.outputs, rows.copy())
    except Exception:  # an exported program may be for batches of one size only
        return
    if differ(single, trial.first[: len(rows)], trial.slack):
        raise InvalidParameter(
            "This classifier answers otherwise when a noisy input is alone in its batch, so its votes "
            f"depend on the other inputs of the batch or on their number. {WAY_OUT}"
        )


def _compare_with_use(model: Classifier, trial: _Trial) -> _Trial:
    """A program cannot mix its inputs; the network in use must not either, or users run another function."""
    try:
        together = _Trial(model.outputs, trial.rows, trial.draw, trial.rng)
    except Exception:  # a network for one input only has no batch to mix, and must answer single inputs
        together = _Trial(partial(_call_each, model.outputs), trial.rows, trial.draw, trial.rng)
    else:
        together.compare_companions(PROBES[Isolation.PROVED])
        _compare_calls(model, trial)
    if differ(together.first, trial.first, trial.slack):
        raise InvalidParameter(
            "This network does not answer each input on its own: its scores in a batch are not those that "
            "its operations give one input at a time. It mixes the inputs of a batch or depends on their "
            f"number. {WAY_OUT}"
        )
    return together


def differ(scores: Outputs, reference: Outputs, slack: Floats) -> bool:
    """Whether more rows differ by more than `slack` than another kernel explains."""
    return _count_gaps(scores, reference, slack) > max(1, RARE * len(reference))


def _count_gaps(scores: Outputs, reference: Outputs, slack: Floats) -> int:
    """Rows whose scores differ by more than `slack`, or whose labels do: labels are what votes. In half
    precision near scores may be equal in one kernel and not in another, so that labels say no more."""
    if scores.shape != reference.shape:
        return len(reference) + 1
    apart = (_gaps(scores, reference) > slack).any(axis=1)
    if reference.ndim == 2 and _unit(reference) < HALF:
        apart |= scores.argmax(axis=1) != reference.argmax(axis=1)
    return int(apart.sum())


def find_slack(outputs: Outputs) -> Floats:
    """What another kernel may change."""
    sizes, unit = _sizes(outputs), _unit(outputs)
    slack = OTHER_KERNEL * sizes
    if unit < HALF:
        return slack
    # Scores come from sums over the same layers: where one class has small ones, its rounding is not smaller.
    return np.asarray(np.maximum(slack, HALF_UNITS * unit * sizes.max(initial=0.0)))


def _unit(outputs: Outputs) -> float:
    """The rounding of scores, as a share of them: that of bfloat16 where 32 bits hold nothing else."""
    if not np.issubdtype(outputs.dtype, np.floating):
        return 0.0
    if outputs.dtype == np.float32 and not (outputs == np.rint(outputs)).all():
        low_bits = np.ascontiguousarray(outputs).view(np.uint32) & 0xFFFF
        if not low_bits.any():
            return 2.0**-7
    return float(np.finfo(outputs.dtype).eps)


def _columns(outputs: Outputs) -> Outputs:
    """Labels as one column."""
    return outputs.reshape(len(outputs), -1)


def _sizes(outputs: Outputs) -> Floats:
    """The largest finite score of each class; 0 for labels, which must be equal."""
    if outputs.ndim == 1:
        return np.zeros(1)
    sizes = np.abs(outputs.astype(np.float64))
    return np.asarray(np.where(np.isfinite(sizes), sizes, 0.0).max(axis=0, initial=0.0))


def _rounding(outputs: Outputs) -> Floats:
    if np.issubdtype(outputs.dtype, np.floating):
        return UNITS * float(np.finfo(outputs.dtype).eps) * _sizes(outputs)
    return np.zeros(_columns(outputs).shape[1])


def _gaps(first: Outputs, second: Outputs) -> Floats:
    """How far scores are apart; what is no finite number must be the same on both sides."""
    a, b = _columns(first).astype(np.float64), _columns(second).astype(np.float64)
    if a.shape[1] != b.shape[1]:
        return np.full((len(a), 1), np.inf)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
