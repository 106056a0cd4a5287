"""One run with many canaries bounds ε: validly, within what it assumes, and on final
models of the real DPSGD."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from deniable import accounting
from deniable.accounting import calibrate_noise
from deniable.audit import Finding, Verdict, statistics
from deniable.audit.bench.sgd import Bug, TinySgd
from deniable.audit.levels import AT_ONCE
from deniable.audit.one_run import (
    RUNS,
    Family,
    accuracy,
    by_recursion,
    certify_run,
    detectable,
    independent_mu,
    mu_from_guesses,
    one_run,
    plan_guesses,
    refutes,
)
from deniable.audit.sgd import Training, whole_run
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.sgd import DPSGD
from deniable.loss import GaussianNoise, Pure
from deniable.randomness import SeededRandom
from tests.audit.repeats import repeats
from tests.learn.sgd.runs import Identity, output

FAMILIES: list[Family] = ["distribution-free", "gaussian", "independent"]
CLAIM = Budget(8.0, 1e-5)


def run(epsilon: float, share: float = 1.0, canaries: int = 1200, bug: Bug = Bug.NONE) -> tuple[Any, Any]:
    """A run of a small model with `share` of the noise that ε asks for."""
    noise = calibrate_noise(epsilon, 1e-5, steps=20)
    claim = Training(share * noise, 1.0, 200, 1.0, 20, 1e-5)
    return TinySgd(claim, bug, features=200).run_with_canaries(canaries, np.random.default_rng(3))


def coins(mu: float, canaries: int, seed: int) -> tuple[Any, Any]:
    """Scores of a run whose canaries are each seen through Gaussian noise."""
    rng = np.random.default_rng([seed, 77])
    inside = rng.random(canaries) < 0.5
    return rng.standard_normal(canaries) + mu * inside, inside


def test_what_is_assumed_more_certifies_more() -> None:
    seen, inside = run(8.0)
    found = [one_run(seen, inside, CLAIM, family=family) for family in FAMILIES]
    assert 2.5 < found[0].epsilon < found[1].epsilon < found[2].epsilon < 8
    assert found[1].epsilon > 4
    assert found[2].verdict is Verdict.CONSISTENT
    assert [len(f.assumes) for f in found] == [1, 2, 3]
    assert "independent of one another" in found[2].assumes[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_too_little_noise_is_caught(family: Family) -> None:
    seen, inside = run(1.0, share=0.2)
    assert one_run(seen, inside, Budget(1.0, 1e-5), family=family).verdict is Verdict.VIOLATION


@pytest.mark.parametrize("bug", [Bug.HALVED_NOISE, Bug.NO_CLIPPING])
def test_planted_bugs_are_caught_by_independent_canaries(bug: Bug) -> None:
    seen, inside = run(4.0, bug=bug)
    assert one_run(seen, inside, Budget(4.0, 1e-5), family="independent").verdict is Verdict.VIOLATION


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_certified_is_true_but_for_alpha(family: Family) -> None:
    """Runs whose true ε is known: at most a few bounds pass it."""
    mu, runs = 1.0, repeats(80)
    true = accounting.epsilon(GaussianNoise(1 / mu), 1e-5).upper
    found = [
        one_run(*coins(mu, 400, seed), Budget(true, 1e-5), family=family).epsilon for seed in range(runs)
    ]
    assert sum(epsilon > true for epsilon in found) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(found) > 0.2 * true


@pytest.mark.parametrize(("counts", "recursion_wins"), [((20_000, 400, 395), True), ((1000, 100, 70), False)])
def test_the_better_of_both_proofs_is_used(counts: tuple[int, int, int], recursion_wins: bool) -> None:
    """Many canaries at δ = 1e-5: the recursion beats the binomial bound; few: the other way round."""
    recursion = by_recursion(*counts, 1e-5, 0.05)
    binomial = statistics.one_run(*counts, delta=1e-5, alpha=0.05)
    assert (recursion > binomial) == recursion_wins
    assert certify_run(*counts, 1e-5, 0.05, "distribution-free") == max(recursion, binomial)


def test_the_recursion_is_the_one_of_the_statistics() -> None:
    for mu in (0.3, 0.8, 1.5, 2.5):
        mine = refutes(1000, 100, 88, lambda r, mu=mu: float(norm.cdf(norm.ppf(r) - mu)), 0.05)
        assert mine == statistics.one_run_refutes(1000, 100, 88, mu=mu, alpha=0.05)


def test_all_right_guesses_of_a_pure_run_are_randomized_response() -> None:
    """δ = 0: (e^ε/(1 + e^ε))^g = alpha."""
    for guesses in (10, 60):
        found = certify_run(100, guesses, guesses, 0.0, 0.05, "distribution-free")
        assert found == pytest.approx(-math.log(0.05 ** (-1 / guesses) - 1), abs=1e-3)


# ------------------------------------------------------------------------------------------------ power


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_called_detectable_is_detected(family: Family) -> None:
    """Runs of that ε pass the claim 95 times in 100; runs that just keep the claim hardly ever."""
    claim, m, runs = Budget(1.0, 1e-5), 600, repeats(40)
    told = detectable(m, plan_guesses(m, claim), claim, alpha=0.05, family=family)
    mu = calibrated(told)
    found = [one_run(*coins(mu, m, seed), claim, family=family).epsilon > 1.0 for seed in range(runs)]
    assert sum(found) >= binom.ppf(1e-6, runs, 0.95)
    assert 1.0 < told < 6


def test_a_run_that_just_keeps_its_claim_is_doubted_but_hardly_ever_accused() -> None:
    """At a confidence of .95 the claim seems refuted in up to one run in twenty; that is no accusation."""
    claim, mu, runs = Budget(1.0, 1e-5), calibrated(1.0), repeats(300)
    verdicts = [one_run(*coins(mu, 400, seed), claim, family="independent").verdict for seed in range(runs)]
    assert verdicts.count(Verdict.LOOK_AGAIN) > 0
    assert verdicts.count(Verdict.VIOLATION) <= binom.ppf(1 - 1e-6, runs, AT_ONCE)


def calibrated(epsilon: float) -> float:
    return 1 / calibrate_noise(epsilon, 1e-5)


def test_a_claim_that_no_guesses_refute_cannot_be_told() -> None:
    assert detectable(20, 10, Budget(8.0, 1e-5), alpha=0.05, family="distribution-free") == math.inf


# ------------------------------------------------------------------------------------------------ plans


def test_a_plan_depends_on_the_claim_alone_and_beats_trying_several() -> None:
    mu, claim = 1.666, CLAIM
    tried = (100, 250, 500, 1000)
    gains = []
    for seed in range(12):
        seen, inside = coins(mu, 1000, seed)
        alone = one_run(seen, inside, claim, family="gaussian")
        several = one_run(seen, inside, claim, family="gaussian", guesses=tried)
        assert alone.options is not None
        assert alone.options["guesses"] == [plan_guesses(1000, claim)]
        gains.append(alone.epsilon - several.epsilon)
    assert np.mean(gains) > 0.2


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_halved_noise_is_caught_by_three_runs_within_the_gaussian_family(epsilon: float) -> None:
    """Too few guesses could not pass ε = 8 even if all of them were right."""
    mu, claim = 2 / calibrate_noise(epsilon, 1e-5), Budget(epsilon, 1e-5)
    finding, verdicts = None, []
    for seed in range(3):
        finding = one_run(*coins(mu, 2000, seed), claim, family="gaussian", confirms=finding)
        verdicts.append(finding.verdict)
    assert verdicts == [Verdict.LOOK_AGAIN, Verdict.LOOK_AGAIN, Verdict.VIOLATION]


def test_a_chain_of_runs_is_of_one_claim_and_unbroken() -> None:
    mu, claim = 2 / calibrate_noise(8.0, 1e-5), Budget(8.0, 1e-5)
    first = one_run(*coins(mu, 2000, 0), claim, family="gaussian")
    assert "1 of 3 runs in a row" in first.reasons[0]
    with pytest.raises(InvalidParameter, match="same claim at the same confidence"):
        one_run(*coins(mu, 2000, 1), Budget(7.0, 1e-5), family="gaussian", confirms=first)
    with pytest.raises(InvalidParameter, match="same claim at the same confidence"):
        one_run(*coins(mu, 2000, 1), claim, family="gaussian", confirms=first, confidence=0.9)
    honest = one_run(*coins(mu / 2, 2000, 1), claim, family="gaussian", confirms=first)
    assert honest.verdict is Verdict.CONSISTENT
    with pytest.raises(InvalidParameter, match=r'says "look again"\. This one says "consistent"'):
        one_run(*coins(mu, 2000, 2), claim, family="gaussian", confirms=honest)


def test_surest_guesses_are_right_as_often_as_they_should_be() -> None:
    rng = np.random.default_rng(1)
    inside = rng.random(400_000) < 0.5
    scores = rng.standard_normal(400_000) + 1.2 * inside - 0.6
    sure = np.argsort(-np.abs(scores))[:20_000]
    right = int(np.sum((scores[sure] > 0) == inside[sure]))
    assert abs(right / 20_000 - accuracy(1.2, 0.05)) < 6.2 * math.sqrt(0.1 / 20_000)
    assert accuracy(1.2, 1.0) == pytest.approx(norm.cdf(0.6))


# ------------------------------------------------------------------------------------------------ independent canaries


def test_right_guesses_bound_mu() -> None:
    assert mu_from_guesses(50, 100, 0.05) == 0
    assert mu_from_guesses(841_345, 1_000_000, 0.05) == pytest.approx(2.0, abs=0.01)
    assert mu_from_guesses(841_345, 1_000_000, 0.05) < 2.0
    found = [independent_mu(*coins(0.8, 2000, seed), 0.05)[0] for seed in range(50)]
    assert sum(mu > 0.8 for mu in found) <= binom.ppf(1 - 1e-6, 50, 0.05)
    assert np.median(found) > 0.65


def test_scores_that_fall_for_members_are_seen_too() -> None:
    seen, inside = coins(2.0, 1000, 1)
    assert independent_mu(-seen, inside, 0.05)[0] > 1.5


# ------------------------------------------------------------------------------------------------ a run's own family


def sampled(training: Training, noise: float, seed: int, canaries: int = 2000) -> tuple[Any, Any]:
    """Σ of what each canary's coordinate released over a run on Poisson samples."""
    rng = np.random.default_rng([seed, 3])
    inside = rng.random(canaries) < 0.5
    drawn = rng.binomial(training.steps, training.rate, canaries) * inside
    return drawn + noise * math.sqrt(training.steps) * rng.standard_normal(canaries), inside


def test_a_run_on_poisson_samples_is_audited_within_its_own_family() -> None:
    noise = calibrate_noise(4.0, 1e-5, rate=0.2, steps=40)
    training = Training(noise, 1.0, 50, 0.2, 40, 1e-5)
    honest = whole_run(*sampled(training, noise, 1), training)
    assert honest.verdict is not Verdict.VIOLATION
    assert 1.2 < honest.epsilon < 4
    gaussian = one_run(*sampled(training, noise, 1), honest.claim, family="gaussian")
    assert honest.epsilon == pytest.approx(gaussian.epsilon, rel=0.1)
    assert "Poisson samples" in honest.assumes[1]
    finding = whole_run(*sampled(training, noise / 2.5, 1), training)
    assert finding.verdict is Verdict.LOOK_AGAIN
    twice = replace(finding, options={**(finding.options or {}), RUNS: 2})
    assert (
        whole_run(*sampled(training, noise / 2.5, 3), training, confirms=twice).verdict is Verdict.VIOLATION
    )
    rng = np.random.default_rng(1)
    assert whole_run(rng.random(300), rng.random(300) < 0.5, training).epsilon == 0


# ------------------------------------------------------------------------------------------------ the real thing


def final_scores(noise: float, canaries: int) -> tuple[Any, Any]:
    """One run of DPSGD on an identity model, each canary a row of its own coordinate,
    scored by its final weight alone."""
    model, rng = Identity(canaries), np.random.default_rng(9)
    before = model.line.weight.detach().double().numpy()[0].copy()
    inside = rng.random(canaries) < 0.5
    rows = torch.eye(canaries)[inside] * 10
    made = DPSGD.from_keywords(
        model, output, n=canaries // 2, lot=canaries // 2, steps=8, clip=1.0, learning_rate=1.0, noise_multiplier=noise,
        progress=False,
    )  # fmt: skip
    trained = made((rows, torch.zeros(len(rows))), rng=SeededRandom(4))
    after = trained.model.state_dict()["line.weight"].double().numpy()[0]
    return before - after, inside


def test_the_final_model_of_a_real_run_is_audited_from_one_run() -> None:
    noise = calibrate_noise(8.0, 1e-5, steps=8)
    seen, inside = final_scores(noise, 800)
    found = {family: one_run(seen, inside, CLAIM, family=family) for family in FAMILIES}
    assert all(f.verdict is not Verdict.VIOLATION for f in found.values())
    assert found["gaussian"].epsilon > 3
    assert found["independent"].epsilon > 5.5
    seen, inside = final_scores(noise / 2, 800)
    assert one_run(seen, inside, CLAIM, family="independent").verdict is Verdict.VIOLATION


# ------------------------------------------------------------------------------------------------ false alarms


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("values", [1, 3], ids=["constant", "ties"])
def test_scores_that_tell_nothing_accuse_no_more_often_than_alpha(family: Family, values: int) -> None:
    """Also where they are equal, and where canaries are given by their coins."""
    accused, runs = 0, repeats(100)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        inside = np.sort(rng.random(120) < 0.5)
        found = one_run(rng.integers(0, values, 120), inside, Budget(0.1, 1e-5), family=family, seed=seed)
        accused += found.epsilon > 0
    assert accused <= binom.ppf(1 - 1e-6, runs, 0.05)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.5, 0.04)])
def test_a_run_that_is_unlucky_for_all_canaries_at_once_is_not_accused(epsilon: float, delta: float) -> None:
    """(ε, δ) used up: randomized response on every canary and, with probability δ, the
    truth about all of them."""
    passed, runs = 0, repeats(150)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 2])
        inside = rng.random(200) < 0.5
        wrong = (rng.random(200) < 1 / (1 + math.exp(epsilon))) & (rng.random() >= delta)
        passed += one_run(inside ^ wrong, inside, (epsilon, delta), seed=seed).epsilon > epsilon
    assert passed <= binom.ppf(1 - 1e-6, runs, 0.05)


def test_the_order_in_which_canaries_are_given_tells_nothing() -> None:
    """Members last, all scores equal: sorted as they stand, every guess would be right."""
    inside = np.repeat([False, True], 500)
    for family in FAMILIES:
        assert one_run(np.ones(1000), inside, CLAIM, family=family).epsilon < 0.2


@pytest.mark.parametrize("within", [0, 200, 300, 700, 1000])
def test_coins_that_were_not_fair_are_refused(within: int) -> None:
    inside = np.arange(1000) < within
    with pytest.raises(
        InvalidParameter, match=f"fair coin, but {within:,} of 1,000 are in. Nothing was certified"
    ):
        one_run(np.arange(1000), inside, CLAIM, family="independent")


# ------------------------------------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("family", FAMILIES)
def test_a_finding_keeps_scores_and_thresholds(family: Family) -> None:
    seen, inside = coins(1.5, 1000, 4)
    found = one_run(seen, inside, CLAIM, family=family)
    assert Finding.from_json(found.to_json()) == found
    witness = found.witness
    assert witness is not None
    assert sum(map(sum, witness.counts)) == witness.trials == (800 if family == "independent" else 1000)
    assert witness.right > 1.5 * witness.wrong
    guessed = witness.trials if family == "independent" else plan_guesses(1000, CLAIM)
    assert witness.right + witness.wrong == guessed
    cuts, counts = np.array(witness.cuts), np.array(witness.counts)
    outer = counts[np.searchsorted(cuts, witness.high, side="right") :].sum()
    outer += counts[: np.searchsorted(cuts, witness.low, side="right")].sum()
    assert outer == guessed
    assert f"{witness.trials:,} canaries." in str(found)


def test_claims_may_be_plain_numbers() -> None:
    seen, inside = coins(1.5, 400, 5)
    assert one_run(seen, inside, (8.0, 1e-5)).claim == CLAIM
    assert one_run(seen, inside, 2).claim == one_run(seen, inside, Pure(2)).claim == Budget(2)
    with pytest.raises(
        InvalidParameter, match=r"got GaussianNoise\. A loss that claims a whole curve is stated at one δ"
    ):
        one_run(seen, inside, GaussianNoise(1.0))


# ------------------------------------------------------------------------------------------------ refusals


def test_coin_flips_show_nothing() -> None:
    rng = np.random.default_rng(0)
    found = one_run(rng.random(500), rng.random(500) < 0.5, Budget(1.0, 1e-5))
    assert found.epsilon == 0
    assert found.verdict is Verdict.UNDERPOWERED


@pytest.mark.parametrize(
    ("scores", "coin", "more", "said"),
    [
        ([1.0, 2.0], [True], {}, "Expected at least 10 scores with a coin each"),
        ([math.nan] * 20, [True] * 20, {}, "got NaN or nothing among them"),
        (["high"] * 20, [True, False] * 10, {}, "Expected scores that are numbers"),
        ([], [], {}, "got 0 scores and 0 coins"),
        ([1.0] * 20, [0.3] * 20, {}, "coin to be True or False"),
        ([1.0] * 20, ["yes", "no"] * 10, {}, "coin to be True or False"),
        ([1.0] * 20, [True, False] * 10, {"guesses": [1]}, "of at least 2 each"),
        ([1.0] * 20, [True, False] * 10, {"guesses": []}, "of at least 2 each"),
        (
            [1.0] * 20,
            [True, False] * 10,
            {"family": "cauchy"},
            "to be one of distribution-free, gaussian, independent",
        ),
        ([1.0] * 20, [True, False] * 10, {"confidence": 1.0}, "Expected confidence=1.0 in"),
        (
            [1.0] * 20,
            [True, False] * 10,
            {"claim": Budget(1.0), "family": "gaussian"},
            "No Gaussian run keeps an ε",
        ),
    ],
)
def test_what_proves_nothing_is_refused(scores: Any, coin: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        one_run(scores, coin, **({"claim": CLAIM} | more))


@pytest.mark.parametrize(
    "claim", [Budget(0.0, 1e-5), Budget(1000.0, 1e-5), Budget(1.0, 0.5), Budget(1.0, 1e-300)]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_odd_claims_are_audited_all_the_same(claim: Budget, family: Family) -> None:
    seen, inside = coins(0.0, 300, 6)
    found = one_run(np.where(seen > 2, np.inf, seen), inside, claim, family=family)
    assert found.epsilon <= 0.5
    assert found.detectable >= float(claim.epsilon)


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "published", "ours", "gaussian"),
    [(1000, 100, 75, 1e-4, 0.673, 0.680, 0.838), (100_000, 1510, 1439, 1e-5, 2.675, 2.793, 3.305)],
)
def test_published_counts_give_the_published_bound_and_ours_is_above(
    canaries: int, guesses: int, right: int, delta: float, published: float, ours: float, gaussian: float
) -> None:
    """Steinke, Nasr, Jagielski 2023, appendix D and section 7; the table of docs/guide/audit.md."""
    counts = canaries, guesses, right
    alone = statistics.one_run(*counts, delta=delta, alpha=0.05)
    assert alone == pytest.approx(published, abs=1e-3)
    assert ours <= certify_run(*counts, delta, 0.05, "distribution-free") < ours + 1e-3
    assert gaussian <= certify_run(*counts, delta, 0.05, "gaussian") < gaussian + 1e-3
