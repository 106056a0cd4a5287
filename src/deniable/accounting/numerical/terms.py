"""From a `Loss` tree to dominating pairs: what each node becomes, and which nodes have none.

`cases(loss)` flattens the tree into cases, lists of (pair, times). Exact nodes give one pair that serves both
sides; where the pair known to dominate is not known to be attained, upper and lower cases differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import chain

from deniable.accounting.methods.relations import SilencedLot, rewrite_silenced
from deniable.accounting.methods.sampling import shuffled_refusal
from deniable.accounting.numerical import leaves, samples
from deniable.accounting.numerical.choices import CLOSEST, ChoicePlan, is_choice, plan_choices
from deniable.accounting.numerical.classes import coarse
from deniable.accounting.numerical.lattice.bracket import Term
from deniable.accounting.numerical.lattice.search import TermCase, epsilon_bounds
from deniable.accounting.numerical.lattice.sweep import profile_bounds
from deniable.accounting.numerical.leaves import refusal
from deniable.accounting.numerical.pairs import best_run, bounded_range, finite, own
from deniable.accounting.numerical.pairs.continuous import (
    Gaussian,
    Laplace,
    Pair,
    Range,
    SampledShape,
    Symmetrised,
    swap,
)
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.pairs.shifted import GaussianReplace, LaplaceReplace
from deniable.accounting.numerical.pairs.triangle import triangle
from deniable.accounting.numerical.rounding import REACH
from deniable.accounting.numerical.samples import KnownPairs, attained, mix, unknown
from deniable.accounting.numerical.uniform_cut import uniformly_capped
from deniable.accounting.refusals import check_range, check_time, collect_lowers
from deniable.errors import Unaccountable
from deniable.loss import (
    Allocated,
    Approximate,
    BoundedRange,
    CappedSample,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    Grouped,
    IntegerGaussianSum,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    NegativeBinomialRuns,
    Parallel,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Scheme,
    Selected,
    UniformlyCappedSample,
    Zcdp,
    exact,
)

CutSample = CappedSample | UniformlyCappedSample | SilencedLot
Sample = Sampled | Allocated | CutSample | DrawnSample
MOST_OUTCOMES = 5000
"""Outcomes of a finite loss multiplied out under one shared sample."""
MOST_PARTS = 32
"""Parts of a `Parallel` that are compared pair by pair."""


UNLIKELY = (1e-18, 1e-14, 1e-10)
"""δ of one run of a selection up to which its curve is followed; times E[K] and R it is charged as
revealed."""


@dataclass(frozen=True)
class Step:
    """One node as often as it runs: terms that dominate all its runs (None: none known),
    and terms that some runs attain."""

    upper: tuple[Term, ...] | None
    lowers: tuple[tuple[Term, ...], ...]
    why: str = ""


def cases(loss: Loss) -> list[TermCase]:
    """All cases of `loss`; the bound is the largest over them. `Unaccountable` if a node
    has no dominating pair."""
    loss = rewrite_silenced(loss)
    if isinstance(loss, Parallel):
        return _parallel(loss)
    steps = flatten(loss)
    check_range(steps.items())
    coarse_steps = coarse(steps)
    if coarse_steps is None:
        return _cases(_what(steps))
    above, fewer = _cases(_what(coarse_steps[0])), coarse_steps[1]
    below = collect_lowers(lambda: _lower_cases(_what(fewer)))
    return [replace(case, lower=False) for case in above] + list(below)


def _cases(steps: Sequence[Step]) -> list[TermCase]:
    uppers: list[Term] = []
    for step in steps:
        if step.upper is None:
            raise Unaccountable(step.why)
        uppers.extend(step.upper)
    if all(step.lowers == (step.upper,) for step in steps):
        return [TermCase(tuple(uppers))]
    return [TermCase(tuple(uppers), lower=False), *_lower_cases(steps)]


def lower_cases(loss: Loss) -> list[TermCase]:
    """Cases that some mechanism with this loss attains: a certified lower bound even
    where no upper one is known here."""
    loss = rewrite_silenced(loss)
    if isinstance(loss, Parallel):
        return [case for part in loss.parts for case in lower_cases(part)]
    steps = flatten(loss)
    check_range(steps.items())
    coarse_steps = coarse(steps)
    return _lower_cases(_what(steps if coarse_steps is None else coarse_steps[1]))


def _what(nodes: Mapping[Loss, int]) -> list[Step]:
    """Of several kinds of choices one comes last and knows what the others have left for it."""
    last = max(
        (node for node in nodes if isinstance(node, BoundedRange)),
        key=lambda node: exact(node.epsilon) ** 2 * nodes[node],
        default=None,
    )
    look = plan_choices(nodes)
    return [
        _step(node, times, last=node is last, alone=len(nodes) == 1, look=look)
        for node, times in nodes.items()
    ]


def _step(
    node: Loss,
    times: int,
    *,
    last: bool = False,
    alone: bool = False,
    look: ChoicePlan = CLOSEST,
) -> Step:
    check_time()
    if is_choice(node):
        return _choices(float(node.epsilon), times, last, alone, look)
    answer = what(node)
    upper = None
    if answer.upper is not None:
        upper = ((answer.upper, times),)
    lowers: tuple[tuple[Term, ...], ...] = tuple(((pair, times),) for pair in answer.lowers)
    if isinstance(node, Selected) and isinstance(node.runs, NegativeBinomialRuns):
        # Where all scores are equal a run at random is shown, all of its releases.
        run = collect_lowers(lambda: lower_cases(node.of))
        lowers += tuple(
            tuple((pair, times * count) for pair, count in case.terms) for case in run if case.terms
        )
    return Step(upper, lowers, answer.why)


def _choices(epsilon: float, times: int, last: bool, alone: bool, look: ChoicePlan) -> Step:
    """Choices of range ε, a block together; below, all with the same two losses, or
    (`last`) the best for what is left."""
    same = collect_lowers(lambda: (((finite.choice(epsilon, share), times),) for share in look.shares))
    choice: tuple[Term, ...] = ((Range(epsilon), 1),)
    if times == 1:
        return Step(choice, (choice,) if alone else (choice, *same) if last else same)
    if look.parts is None:
        return Step(((Range(epsilon), times),), same)
    blocks = bounded_range.blocks(epsilon, times)
    upper = tuple(
        (bounded_range.above(epsilon, size, look.parts), count) if size > 1 else (Range(epsilon), count)
        for size, count in blocks
    )
    if not last or times > bounded_range.LARGEST_BLOCK or blocks[0] != (times, 1):
        return Step(upper, same)
    best = collect_lowers(lambda: [((bounded_range.below(epsilon, times), 1),)])
    return Step(upper, (*best, *same))


def _lower_cases(steps: Sequence[Step]) -> list[TermCase]:
    """The i-th case takes every node's i-th attained terms; a node without any is taken to reveal nothing."""
    case_list = []
    for i in range(max((len(step.lowers) for step in steps), default=0)):
        selection = [step.lowers[min(i, len(step.lowers) - 1)] for step in steps if step.lowers]
        case_list.append(TermCase(tuple(term for terms in selection for term in terms), upper=False))
    return case_list or [TermCase((), upper=False)]


def flatten(loss: Loss, times: int = 1) -> dict[Loss, int]:
    """Leaves and how often they run: `Repeated` and `Composed` multiply and add up, `Grouped` moves
    inwards."""
    match loss:
        case Repeated(count, of):
            return flatten(of, times * count)
        case Composed(parts):
            total: dict[Loss, int] = {}
            for part in parts:
                for node, count in flatten(part, times).items():
                    total[node] = total.get(node, 0) + count
            return total
        case Grouped(size, of):
            inner = grouped(of, size)
            if isinstance(inner, Grouped):
                return {inner: times}
            return flatten(inner, times)
        case Sampled(1, of, scheme, replace) if scheme is not Scheme.SHUFFLED and not (
            scheme is Scheme.POISSON and replace
        ):
            return flatten(of, times)
        case Parallel():
            heaviest = _dominant(loss)
            if heaviest is None:
                return {loss: times}
            return flatten(heaviest, times)
        case _:
            return {loss: times}


def grouped(loss: Loss, size: int) -> Loss:
    """`Grouped(size, loss)` moved to the leaves, where a group of k is k times the shift or k times ε."""
    match loss:
        case _ if size == 1:
            return loss
        case Repeated(times, of):
            return Repeated(times, grouped(of, size))
        case Composed(parts):
            return Composed(tuple(grouped(part, size) for part in parts))
        case Grouped(inner, of):
            return grouped(of, inner * size)
        case Pure(epsilon):
            return Pure(exact(epsilon) * size)
        case GaussianNoise(multiplier):
            return GaussianNoise(exact(multiplier) / size)
        case LaplaceNoise(multiplier):
            return LaplaceNoise(exact(multiplier) / size)
        case DiscreteLaplaceNoise(scale, sensitivity):
            return DiscreteLaplaceNoise(scale, sensitivity * size)
        case DiscreteGaussianNoise(sigma, sensitivity, dimension):
            return DiscreteGaussianNoise(sigma, exact(sensitivity) * size, dimension)
        case BoundedRange(epsilon):
            return BoundedRange(exact(epsilon) * size)
        case Zcdp(rho):
            return Zcdp(exact(rho) * size**2)
        case _:
            return Grouped(size, loss)


def what(node: Loss) -> KnownPairs:
    """The pair of one leaf."""
    match node:
        case Pure(epsilon):
            return attained(finite.response(float(epsilon)))
        case Approximate(epsilon, delta):
            return attained(finite.approximate(float(epsilon), float(delta)))
        case ResponseNoise(truth, options):
            return attained(finite.answers(float(truth), options))
        case GaussianNoise(multiplier):
            return attained(Gaussian(float(multiplier)))
        case LaplaceNoise(multiplier):
            return attained(Laplace(float(multiplier)))
        case BoundedRange(epsilon):
            return leaves.bounded_range(float(epsilon))
        case DiscreteLaplaceNoise():
            return leaves.integer_laplace(node)
        case DiscreteGaussianNoise():
            return leaves.integer_gaussian(node)
        case FiniteOutcomes():
            return attained(own.finite(node))
        case MixedGaussianNoise():
            return attained(own.mixture(node) or finite.response(0.0))
        case IntegerGaussianSum():
            return leaves.integer_sum(node)
        case Sampled():
            return _sampled(node)
        case Grouped():
            return _group(node)
        case Allocated():
            return _allocated(node)
        case CappedSample() | UniformlyCappedSample() | SilencedLot():
            return _capped(node)
        case DrawnSample():
            return _drawn(node)
        case Selected():
            return _selected(node)
        case Zcdp():
            return leaves.concentrated(node)
        case _:
            return unknown(refusal(node, "no dominating pair is known for it"))


# ------------------------------------------------------------------------------------------------ sampling


def _sampled(node: Sampled) -> KnownPairs:
    rate = float(node.rate)
    if node.scheme is Scheme.SHUFFLED:
        return unknown(shuffled_refusal(node))
    if node.scheme is Scheme.POISSON and node.replace:
        return _poisson_replace(node, rate)
    inside = _shared(node)
    lowers = inside.each_lower(lambda pair: mix(pair, rate))
    if inside.upper is None:
        return unknown(inside.why, lowers)
    if not node.replace:
        upper = mix(inside.upper, rate)
        if inside.is_exact:
            return attained(upper)
        return KnownPairs(upper, lowers)
    if inside.upper.sided:
        return unknown(refusal(node, "its content is not symmetric"), lowers)
    symmetric = Symmetrised(SampledShape(inside.upper, rate))
    if rate == 1 or not isinstance(inside.upper, Gaussian):
        return KnownPairs(symmetric, lowers)
    gaussians = [pair for pair in inside.lowers if isinstance(pair, Gaussian)]
    return KnownPairs(
        symmetric,
        lambda: chain(lowers(), (triangle(pair.sigma, (1 - rate, rate)) for pair in gaussians)),
    )


def _shared(node: Sample, of: Loss | None = None) -> KnownPairs:
    """Everything released from one sample, as one pair: Gaussians merge, finite pairs are multiplied out.

    `of` stands in for the node's own content."""
    inner = [(item, times) for item, times in flatten(of or node.of).items()]
    if not inner:
        return attained(finite.response(0.0))
    if not all(_plain(item, node) for item, _ in inner):
        why = "its content is stated for another neighbour than the sample gives it"
        return unknown(refusal(node, why))
    answers = [what(item) for item, _ in inner]
    if len(inner) == 1 and inner[0][1] == 1:
        return answers[0]
    pairs = [item.upper for item in answers]
    if all(isinstance(pair, Gaussian) for pair in pairs):
        return _merged([(pair, times) for pair, (_, times) in zip(pairs, inner, strict=True)])
    if all(isinstance(pair, Finite) for pair in pairs) and all(item.is_exact for item in answers):
        return _multiplied(node, [(pair, times) for pair, (_, times) in zip(pairs, inner, strict=True)])
    return _product(node, [_step(item, times) for item, times in inner])


def _product(node: Loss, steps: Sequence[Step]) -> KnownPairs:
    """Unlike noises seen together, put on one lattice; Gaussians among them are one."""
    uppers: list[Term] = []
    for step in steps:
        if step.upper is None:
            return unknown(step.why)
        uppers.extend(step.upper)
    upper = own.product(_factors(uppers), upper=True)
    if upper is None:
        why = "its releases share one sample, and their product has too many outcomes"
        return unknown(refusal(node, why))
    return KnownPairs(upper, lambda: _lower_product(steps))


def _lower_product(steps: Sequence[Step]) -> Iterator[Pair]:
    if not all(step.lowers for step in steps):
        return
    lower = own.product(_factors([term for step in steps for term in step.lowers[0]]), upper=False)
    if lower is not None:
        yield lower


def _factors(terms: Sequence[Term]) -> list[Term]:
    gaussians = [(pair, count) for pair, count in terms if isinstance(pair, Gaussian)]
    rest = [(pair, count) for pair, count in terms if not isinstance(pair, Gaussian)]
    gaussian = None
    if gaussians:
        gaussian = _merged(gaussians).upper
    if gaussian is None:
        return rest
    return [*rest, (gaussian, 1)]


def _merged(factors: Sequence[tuple[Pair | None, int]]) -> KnownPairs:
    """Gaussians seen together are one Gaussian; what they leave out adds up."""
    parts = [(pair, times) for pair, times in factors if isinstance(pair, Gaussian)]
    squares = sum(Fraction(times) / Fraction(pair.sigma) ** 2 for pair, times in parts)
    gaussian = Gaussian(1 / math.sqrt(squares), sum(times * pair.left for pair, times in parts))
    if gaussian.left:
        return KnownPairs(gaussian)
    return attained(gaussian)


def _plain(inner: Loss, outer: Sample) -> bool:
    """Whether `inner` means the same under a sample: noise does, and so does a Poisson
    sample in a Poisson sample."""
    if isinstance(inner, Sampled) and isinstance(outer, Sampled):
        poisson = inner.scheme is Scheme.POISSON and outer.scheme is Scheme.POISSON
        return poisson and not inner.replace and not outer.replace
    return not any(isinstance(part, Grouped | Parallel | Sample) for part in inner.walk())


def _multiplied(node: Loss, factors: Sequence[tuple[Pair | None, int]]) -> KnownPairs:
    parts = [(pair, times) for pair, times in factors if isinstance(pair, Finite)]
    outcomes = math.prod(min(len(pair.losses), MOST_OUTCOMES) ** min(times, 64) for pair, times in parts)
    if outcomes > MOST_OUTCOMES:
        why = f"its releases share one sample and have over {MOST_OUTCOMES} outcomes"
        return unknown(refusal(node, why))
    return attained(reduce(finite.product, (pair for pair, times in parts for _ in range(times))))


def _poisson_replace(node: Sampled, rate: float) -> KnownPairs:
    """One record replaced: its coin stays, so the noise is seen at shift 0, +1 or −1."""
    match _shared(node).upper:
        case Gaussian(sigma, 0.0):
            return attained(GaussianReplace(sigma, rate))
        case Laplace(b):
            return attained(LaplaceReplace(b, rate))
        case _:
            why = "under Poisson sampling, a replaced record is known for Gaussian and Laplace noise only"
            return unknown(refusal(node, why))


def _group(node: Grouped) -> KnownPairs:
    """A group that is there as a whole or not at all: the sample catches a binomial number of its records."""
    if isinstance(node.of, Sampled) and node.of.scheme is Scheme.POISSON and not node.of.replace:
        inside = _shared(node.of).upper
        if isinstance(inside, Gaussian) and not inside.left:
            if node.of.rate == 1:
                return attained(Gaussian(inside.sigma / node.size))
            pair = samples.caught(inside.sigma, node.size, float(node.of.rate))
            if pair is not None:
                return attained(pair)
        why = (
            f"under sampling, groups are known for Gaussian noise, with up to {samples.MOST_COUNTS} counts "
            "of records"
        )
        return unknown(refusal(node, why))
    return unknown(refusal(node, "no pair is known for a group of it"))


def _allocated(node: Allocated) -> KnownPairs:
    inside = _shared(node)
    if inside.upper is not None and (inside.upper.sided or any(pair.sided for pair in inside.lowers)):
        return unknown(refusal(node, "a step of it is not symmetric"))
    if node.steps > samples.MOST_STEPS:
        return unknown(refusal(node, f"passes are accounted up to {samples.MOST_STEPS:,} steps"))
    if inside.upper is not None and max(map(abs, inside.upper.span(samples.TAIL))) > samples.LOUD:
        return samples.told(inside, node.steps)
    return samples.allocated(inside, node.steps)


def _capped(node: CutSample) -> KnownPairs:
    match node:
        case SilencedLot():
            cut = samples.silenced
        case UniformlyCappedSample():
            cut = uniformly_capped
        case _:
            cut = samples.capped
    return cut(_shared(node), _shared(node, grouped(node.of, 2)), float(node.rate), node.cap, node.rows)


def _drawn(node: DrawnSample) -> KnownPairs:
    answer = samples.drawn(lambda k: _shared(node, grouped(node.of, k)), node.draws, node.rows)
    if answer.upper is not None or answer.why.endswith("know one."):
        return answer
    return unknown(refusal(node, answer.why))


@lru_cache(maxsize=16)
def _selected(node: Selected) -> KnownPairs:
    """From the profile of one run; below, one run at random, and the smallest of Gaussian answers."""
    try:
        run = cases(node.of)
    except Unaccountable as problem:
        return unknown(str(problem), lambda: _selected_lowers(node))
    tops = (epsilon_bounds(run, delta)[1] for delta in UNLIKELY)
    top = next((epsilon for epsilon in tops if math.isfinite(epsilon)), math.inf)
    if not 0 < top < REACH / 2:
        why = "one of its runs may reveal too much, or reveals nothing"
        return unknown(refusal(node, why), lambda: _selected_lowers(node))
    upper = best_run.above(lambda at: profile_bounds(run, at)[1], top, node.runs)
    return KnownPairs(upper, lambda: _selected_lowers(node))


def _selected_lowers(node: Selected) -> Iterator[Pair]:
    single = [
        pair for case in lower_cases(node.of) for pair, times in case.terms if len(case.terms) == times == 1
    ]
    for pair in single:
        yield best_run.one_run(pair, node.runs)
    for pair in single:
        if isinstance(pair, Gaussian):
            yield best_run.smallest(pair.sigma, node.runs)


# --------------------------------------------------------------------------------------------- disjoint parts


def _dominant(loss: Parallel) -> Loss | None:
    """A loss that dominates every part at a glance: all are equal, or the same noise with more of it.

    For a replaced unit, a group of two of the heaviest part dominates both a change in
    one part and one in two.
    """
    heaviest = _heaviest(loss.parts)
    if not loss.replace:
        return heaviest
    if isinstance(heaviest, GaussianNoise | LaplaceNoise | Pure):
        return grouped(heaviest, 2)
    return None


def _heaviest(parts: Sequence[Loss]) -> Loss | None:
    if all(part == parts[0] for part in parts):
        return parts[0]
    for kind in (GaussianNoise, LaplaceNoise):
        if all(isinstance(part, kind) for part in parts):
            return min(parts, key=lambda part: exact(part.multiplier))  # type: ignore[attr-defined]
    for kind_of_choice in (Pure, BoundedRange):
        if all(isinstance(part, kind_of_choice) for part in parts):
            return max(parts, key=lambda part: exact(part.epsilon))  # type: ignore[attr-defined]
    return None


def _parallel(loss: Parallel) -> list[TermCase]:
    """Alone at the top no answer comes first, so the unit's part does not depend on
    answers: the largest part counts.

    A replaced unit leaves one part and enters another, two parts in opposite directions,
    or is replaced within one.
    """
    parts = list(dict.fromkeys(loss.parts))
    if not loss.replace:
        return [case for part in parts for case in cases(part)]
    if len(parts) > MOST_PARTS:
        raise Unaccountable(refusal(loss, f"{len(parts)} different parts are over {MOST_PARTS}"))
    own_cases = [case for part in parts for case in cases(_replaced(part))]
    repeats = [part for part in parts if loss.parts.count(part) > 1]
    pairs = [(a, b) for i, a in enumerate(parts) for b in parts[i + 1 :]] + [(part, part) for part in repeats]
    joint_cases = [_joined(a, b) for source, other in pairs for a in cases(source) for b in cases(other)]
    return own_cases + [case for case in joint_cases if case.upper or case.lower]


def _replaced(part: Loss) -> Loss:
    """`part`, stated for adding or removing a unit, for one unit taken out and another put in."""
    match part:
        case Repeated(times, of):
            return Repeated(times, _replaced(of))
        case Composed(parts):
            return Composed(tuple(_replaced(piece) for piece in parts))
        case Sampled(rate, of, Scheme.POISSON, False):
            return Sampled(rate, of, Scheme.POISSON, True)
        case Sampled() | Grouped() | Parallel():
            raise Unaccountable(refusal(part, "a unit replaced within this part has no known pair"))
        case _:
            return grouped(part, 2)


def _joined(one: TermCase, other: TermCase) -> TermCase:
    reverse = tuple((swap(pair), times) for pair, times in other.terms)
    is_lower = one.lower and other.lower and not any(pair.one_way for pair, _ in one.terms + other.terms)
    return TermCase(one.terms + reverse, one.upper and other.upper, is_lower)
