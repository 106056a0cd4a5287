"""The audit finds planted bugs, accuses nobody who is honest, and what it finds can be run again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.audit import Finding, Pair, Verdict, audit, replay
from deniable.audit.bench import NULLS, case
from deniable.audit.bench.gaussian import gaussian_epsilon
from deniable.audit.levels import Levels
from deniable.audit.rules.classify import OutputView
from deniable.audit.rules.thresholds import Rule
from deniable.audit.runs.source import Source
from deniable.audit.runs.target import as_target
from deniable.audit.sniper.attack import Attack
from deniable.audit.sniper.campaign import Campaign
from deniable.audit.sniper.certificate import certified_curve
from deniable.audit.sniper.claims import ClaimLimit
from deniable.audit.sniper.search import final
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import Approximate, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise, Pure
from deniable.mechanisms import Laplace
from deniable.units import Unit


def gaussian(data: float, n: int, rng: np.random.Generator) -> Any:
    """σ = 1, on a grid that hides the float's low bits."""
    return np.rint((data + rng.standard_normal(n)) * 2**20) / 2**20


def unseeded(data: int) -> int:
    return int(data + np.random.default_rng().integers(0, 2))


def test_halved_noise_is_found() -> None:
    honest, halved = case("Laplace"), case("HalvedNoise")
    assert audit(honest, honest.pairs(), seed=0, samples=300_000).verdict is Verdict.CONSISTENT
    found = audit(halved, halved.pairs(), seed=0, samples=300_000)
    assert found.verdict is Verdict.VIOLATION
    assert 0.15 < found.epsilon <= 0.2
    assert found.exit_code == 1


def test_differing_supports_are_found_and_named() -> None:
    twice = case("ReusedSeed")
    found = audit(twice, twice.pairs(), seed=0, samples=50_000)
    assert found.support_differs
    assert found.epsilon > 5
    assert found.estimate == math.inf
    assert "support differs" in str(found)


@pytest.mark.parametrize(
    "null", [pytest.param(c, id=c.name, marks=[pytest.mark.soak] * (c.name != "NullDigits")) for c in NULLS]
)
def test_whole_audits_of_nulls_raise_no_more_false_alarms_than_stated(null: Any) -> None:
    """The whole pipeline, 40 seeds each, α = .1; the statistics alone run 1000 times in test_statistics."""
    alarms = sum(
        audit(null, null.pairs(), samples=1500, confidence=0.9, seed=seed, workers=1, coupled=False).exit_code
        == 1
        for seed in range(40)
    )
    assert alarms <= binom.ppf(1 - 1e-9, 40, 0.1)


def test_the_certified_epsilon_of_randomized_response_is_close_and_valid() -> None:
    def respond(data: int, n: int, rng: np.random.Generator) -> Any:
        return np.where(rng.random(n) < 0.75, data, 1 - data)

    found = audit(respond, (0, 1), math.log(3), seed=0, samples=200_000)
    assert math.log(3) - 0.03 < found.epsilon <= math.log(3)
    assert found.verdict is Verdict.CONSISTENT


# ------------------------------------------------------------------------------------------------ claims


def test_a_loss_claims_its_whole_curve() -> None:
    """σ = 1 is what it says and not what σ = 2 says; the δ of the violation is chosen by the audit."""
    honest = audit(gaussian, (0, 1), GaussianNoise(1), seed=0, samples=400_000)
    assert honest.verdict is Verdict.CONSISTENT
    flattered = audit(gaussian, (0, 1), GaussianNoise(2), seed=0, samples=400_000)
    assert flattered.verdict is Verdict.VIOLATION
    assert flattered.epsilon <= gaussian_epsilon(flattered.delta, 1.0)


@pytest.mark.parametrize("claim", [Pure(0.05), Budget(0.05), 0.05, (0.05, 0.0), Approximate(0.05, 0)])
def test_a_claim_can_be_stated_in_every_form(claim: Any) -> None:
    target = case("Laplace")
    found = audit(target, target.pairs(), claim, seed=0, samples=300_000)
    assert found.verdict is Verdict.VIOLATION
    assert (float(found.claim.epsilon), found.delta) == (0.05, 0.0)


def test_delta_is_granted() -> None:
    """Giving the secret away with probability .01 is (0, .011)-private, and not (1, 1e-4)-private."""

    def leak(data: int, n: int, rng: np.random.Generator) -> Any:
        return np.where(rng.random(n) < 0.01, data, -1)

    assert audit(leak, (0, 1), (0.5, 0.011), seed=0, samples=200_000).verdict is Verdict.CONSISTENT
    assert audit(leak, (0, 1), (1.0, 1e-4), seed=0, samples=200_000).verdict is Verdict.VIOLATION


def test_the_curve_lies_below_the_true_one_everywhere() -> None:
    found = audit(gaussian, (0, 1), GaussianNoise(1), seed=0, samples=400_000)
    assert max(epsilon for _, epsilon in found.curve) > 2
    for delta, epsilon in found.curve:
        assert delta == 0 or epsilon <= gaussian_epsilon(delta, 1.0)
    assert [d for d, _ in found.curve] == sorted(d for d, _ in found.curve)


def test_a_curve_without_evidence_is_zero() -> None:
    assert {epsilon for _, epsilon in certified_curve(np.full((5, 2), 100), 0.05)} == {0.0}


def test_few_samples_for_a_large_claim_are_underpowered() -> None:
    target = case("Laplace")
    found = audit(target, target.pairs(), 12.0, seed=0, samples=1000)
    assert found.verdict is Verdict.UNDERPOWERED
    assert (found.exit_code, found.detectable) == (3, math.inf)


# ------------------------------------------------------------------------------------------------ coupled runs


def noisy(data: int, seed: int) -> float:
    """Integer noise of ε = ¼ whose seed depends on the data, so that the two runs of a pair share nothing."""
    rng = np.random.default_rng([seed, data])
    return float(data + rng.geometric(1 - math.exp(-0.25)) - rng.geometric(1 - math.exp(-0.25)))


def test_coupled_runs_certify_more_from_as_many_samples() -> None:
    target = case("Laplace")
    pairs, coins = (
        audit(target, target.pairs(), samples=200_000, coupled=how, seed=2) for how in (None, False)
    )
    assert (pairs.method, coins.method) == ("sniper, coupled runs", "sniper")
    assert coins.estimate - coins.epsilon > 2 * (pairs.estimate - pairs.epsilon)
    assert pairs.epsilon > 0.09
    assert any("row for row" in sentence for sentence in pairs.assumes)
    assert not any("row for row" in sentence for sentence in coins.assumes)


def test_claims_with_delta_are_never_coupled() -> None:
    target = case("Laplace")
    assert audit(target, target.pairs(), (0.1, 0.01), seed=0, samples=20_000).method == "sniper"


def test_a_callable_that_takes_a_seed_is_run_in_pairs() -> None:
    """On the same seed the two outputs are equal but for the shift, so that what is
    certified is close at 4,000 calls."""

    def shifted(data: int, seed: int) -> float:
        return float(data + np.rint(np.random.default_rng(seed).laplace(0, 2) * 8) / 8)

    found = audit(shifted, (0, 1), 0.5, seed=0, samples=4000)
    assert found.method == "sniper, coupled runs"
    assert len(found.assumes) == 1
    assert 0.38 < found.epsilon <= 0.53


class First:
    """The first number of an output, the smaller the higher, as its score; or nothing to do with it."""

    def __init__(self, *, blind: bool) -> None:
        self.blind = blind

    def score(self, rows: Any) -> Any:
        return np.random.default_rng(0).random(len(rows)) if self.blind else -rows[:, 0]

    def to_dict(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("coupled", [False, True])
def test_the_final_is_won_on_fresh_samples(coupled: bool) -> None:
    """However much an attack promised on the samples that chose it, one that shows something is taken."""
    target = case("HalvedNoise")
    pair = target.pairs()[0]
    with Source(as_target(target), 5, 1, coupled=coupled) as source:
        campaign = Campaign(
            source, [ClaimLimit(0.0, 0.1)], Levels.for_look(0.95), 1_000_000, lambda share, what: None
        )
        made = [
            Attack(
                pair,
                OutputView.RAW,
                First(blind=blind),
                Rule(0.5 if blind else -1.0, -math.inf),
                0.0,
                margin,
                (),
                coupled,
            )
            for blind, margin in ((True, 9.0), (False, 0.0))
        ]
        assert final(campaign, made) is made[1]
        assert source.draw_count == 100_000
        assert source.coupled is coupled


def test_what_an_attack_guessed_before_counts_in_the_final() -> None:
    pair = case("Laplace").pairs()[0]
    attack = Attack(pair, OutputView.RAW, First(blind=True), Rule(0.5, -math.inf), 0.0, 0.0, ())
    twice = attack.add_samples((1, 2, 3), 10).add_samples((4, 0, 1), 5)
    assert (twice.tally, twice.sample_count) == ((5, 2, 4), 15)


def test_where_the_coupling_shows_little_a_fair_coin_is_used() -> None:
    found = audit(noisy, (0, 1), 0.25, seed=0, samples=20_000, confidence=0.999)
    assert found.method == "sniper"
    assert 0.05 < found.epsilon <= 0.25


def test_coupled_findings_replay_to_the_same_counts() -> None:
    target = case("HalvedNoise")
    found = audit(target, target.pairs(), seed=0, samples=40_000)
    again = replay(Finding.from_json(found.to_json()), target)
    assert (again.method, again.epsilon) == (found.method, found.epsilon)
    assert again.witness is not None
    assert found.witness is not None
    assert (again.witness.right, again.witness.wrong) == (found.witness.right, found.witness.wrong)
    assert replay(found, case("Laplace")).verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("null", NULLS, ids=lambda c: c.name)
def test_coupled_runs_of_a_null_are_equal_and_never_alarm(null: Any) -> None:
    for seed in range(5):
        found = audit(null, null.pairs(), samples=2000, confidence=0.5, seed=seed)
        assert (found.epsilon, found.exit_code != 1) == (0.0, True)


# ------------------------------------------------------------------------------------------------ targets and pairs


def test_a_mechanism_brings_its_claim_and_its_unit() -> None:
    found = audit(Laplace(2), (0, 1), unit=Unit.value(), seed=0, samples=6000)
    assert found.claim.epsilon == 0.5
    assert found.verdict is Verdict.CONSISTENT


def test_a_mechanism_that_understates_its_loss_is_found() -> None:
    found = audit(Laplace(2), (0, 1), DiscreteLaplaceNoise(8, 1), unit=Unit.value(), seed=0, samples=6000)
    assert found.verdict is Verdict.VIOLATION


def test_pairs_that_are_no_neighbours_are_refused_before_anything_runs() -> None:
    def never(data: Any) -> None:
        raise AssertionError("was run")

    with pytest.raises(InvalidParameter, match="Nothing was run"):
        audit(never, ([1, 2], [3]), 1.0, unit=Unit.row())
    with pytest.raises(InvalidParameter, match="Expected a pair of neighbours, or a unit"):
        audit(never, None, 1.0)
    with pytest.raises(InvalidParameter, match="Expected a claim to audit"):
        audit(never, (0, 1))


def test_the_telling_pair_is_found_among_dull_ones() -> None:
    def step(data: int, n: int, rng: np.random.Generator) -> Any:
        return rng.integers(0, 4, n) + (data >= 10)

    dull = [Pair(i, i + 1, f"dull {i}") for i in range(5)]
    found = audit(step, [*dull, Pair(9, 10, "telling")], 0.5, seed=0, samples=60_000)
    assert found.witness is not None
    assert (found.witness.pair, found.support_differs) == ("telling", True)


def test_any_callable_is_audited_within_its_time() -> None:
    found = audit(unseeded, (0, 1), 0.5, time=1, workers=1, confidence=1 - 1e-9)
    assert found.verdict is Verdict.VIOLATION
    assert found.support_differs


def test_an_endpoint_that_shows_which_groups_exist_is_found() -> None:
    """A query as a callable on a pair of tables; the answer is a mapping whose keys depend on the data."""

    def query(table: dict[str, list[str]], seed: int) -> dict[str, float]:
        rng = np.random.default_rng(seed)
        return {city: table["city"].count(city) + rng.laplace(0, 2) for city in sorted(set(table["city"]))}

    tables = {"city": ["Bern", "Bern", "Rome"]}, {"city": ["Bern", "Bern"]}
    found = audit(query, tables, 0.5, unit=Unit.row(), seed=0, samples=2000)
    assert found.verdict is Verdict.VIOLATION
    assert found.support_differs


# ------------------------------------------------------------------------------------------------ findings


FOUND = audit(case("HalvedNoise"), case("HalvedNoise").pairs(), samples=300_000, seed=4)


def test_the_same_seed_gives_the_same_finding() -> None:
    again = audit(case("HalvedNoise"), case("HalvedNoise").pairs(), samples=300_000, seed=4, workers=1)
    assert replace(again, seconds=0.0).to_json() == replace(FOUND, seconds=0.0).to_json()
    other = audit(case("HalvedNoise"), case("HalvedNoise").pairs(), samples=300_000, seed=5)
    assert other.witness is not None
    assert FOUND.witness is not None
    assert other.witness.right != FOUND.witness.right


def test_a_finding_survives_json_and_replays_to_the_same_counts() -> None:
    read = Finding.from_json(FOUND.to_json())
    assert read.to_json() == FOUND.to_json()
    again = replay(read, case("HalvedNoise"))
    assert again.witness is not None
    assert FOUND.witness is not None
    assert (again.witness.right, again.witness.wrong) == (FOUND.witness.right, FOUND.witness.wrong)
    assert (again.verdict, again.epsilon) == (FOUND.verdict, FOUND.epsilon)


def test_a_replay_on_the_mended_target_acquits_it() -> None:
    assert replay(FOUND, case("Laplace")).verdict is Verdict.CONSISTENT


def test_a_replay_with_another_seed_is_a_new_confirmation() -> None:
    again = replay(FOUND, case("HalvedNoise"), seed=99)
    assert again.verdict is Verdict.VIOLATION
    assert again.epsilon != FOUND.epsilon


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "no finding of version 1"),
        ("[", "cannot be read"),
        ('{"finding": 1}', "cannot be read: KeyError"),
    ],
)
def test_what_is_no_finding_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Finding.from_json(text)


def test_a_finding_without_a_witness_cannot_be_replayed() -> None:
    with pytest.raises(InvalidParameter, match="has no attack to run again"):
        replay(replace(FOUND, witness=None), case("Laplace"))


def test_a_finding_says_what_it_cannot_see_and_rounds_down() -> None:
    said = str(replace(FOUND, epsilon=0.19999))
    assert said.startswith("VIOLATION: HalvedNoise, claimed ε = 0.1.")
    assert "ε ≥ 0.1999 " in said
    assert "Cannot see pairs that were not tried." in said
    assert "smallest ε that could have been told" in said


def test_continuous_noise_under_a_discrete_claim_of_the_same_ratio_is_consistent() -> None:
    """Continuous Laplace is no worse than its integer twin; the reverse is DESIGN's trap
    and is caught by accounting."""
    target = case("Laplace")
    found = audit(target, target.pairs(), LaplaceNoise(10), seed=0, samples=200_000, confidence=1 - 1e-6)
    assert found.verdict is Verdict.CONSISTENT
