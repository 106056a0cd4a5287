"""Federated runs: what they cost, whom they protect, and that a client moves them by no more than was
said."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deniable import Budget, Ledger, Unit, accounting
from deniable.errors import AccountFrozen, DataError, InvalidParameter, UnitMismatch
from deniable.federated import (
    Capped,
    Central,
    ClientPrivacy,
    Clients,
    Cohorts,
    Correlated,
    FedAvg,
    LocalRecipe,
    OnClient,
    Shared,
    Uniform,
    iid,
)
from deniable.federated.noise.placement import UpdateShape, on_grid
from deniable.federated.rounds import Rounds
from deniable.learn.sgd.clipping import Adaptive
from deniable.learn.sgd.noise import GradientGrid
from deniable.loss import DiscreteGaussianNoise, GaussianNoise, IntegerGaussianSum, Silenced
from deniable.randomness import SeededRandom
from tests.federated.runs import run_of

CRITERION = nn.CrossEntropyLoss()


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def data(clients: int = 40, rows: int = 8) -> Clients:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(clients * rows, 4)).astype(np.float32)
    return iid(x, (x[:, 0] > 0).astype(np.int64), clients=clients)


def run(**settings: object) -> FedAvg:
    given: dict[str, object] = {
        "clients": 40,
        "rate": 0.5,
        "rounds": 3,
        "noise": Central(1.0),
        "progress": False,
    }
    return run_of(model(), CRITERION, **(given | settings))


def test_values_and_keywords_make_one_run() -> None:
    net = model()
    whole = FedAvg(
        net, CRITERION, cohorts=Cohorts(20, 0.5, 3), privacy=ClientPrivacy(Central(1.0), clip=0.5),
        local=LocalRecipe(batch=None),
    )  # fmt: skip
    door = FedAvg.from_keywords(
        net, CRITERION, clients=20, rate=0.5, rounds=3, noise=Central(1.0), clip=0.5, batch=None
    )
    assert whole == door


@pytest.mark.parametrize(
    ("name", "here"), [("clients", "Cohorts(clients=…)"), ("local_steps", "LocalRecipe(steps=…)")]
)
def test_a_field_of_a_value_is_refused_with_the_value(name: str, here: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"FedAvg has no argument {name}. Here it is {here}; see")):
        FedAvg(model(), CRITERION, **{name: 3})  # type: ignore[arg-type]


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(
        InvalidParameter, match="Expected privacy to be of the class ClientPrivacy, got Central"
    ):
        FedAvg(model(), CRITERION, cohorts=Cohorts(), privacy=Central(1.0))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ what it costs


def test_central_noise_costs_what_sampled_gaussian_noise_costs() -> None:
    federated = run(rate=0.1, rounds=40)
    bound = accounting.epsilon(federated.loss, 1e-4)
    continuous = accounting.epsilon(GaussianNoise(1.0).sampled(0.1) * 40, 1e-4)
    assert bound.upper == pytest.approx(continuous.upper, rel=2e-3)
    assert federated.unit == Unit.client()


@pytest.mark.parametrize(("epsilon", "z"), [(2, 1.546), (8, 0.737)])
def test_noise_is_solved_from_the_budget(epsilon: float, z: float) -> None:
    federated = run(clients=1000, rate=0.1, rounds=50, noise=Central(), epsilon=epsilon, delta=1e-4)
    assert federated.multiplier == pytest.approx(z, rel=2e-3)
    assert accounting.epsilon(federated.loss, 1e-4).upper <= epsilon


def test_against_the_server_sampling_gives_nothing() -> None:
    """N = 1000, rate .1, 50 rounds, ε = 2: 3.88 with at most 5 participations, where
    models alone would allow 1.55."""
    seen = run(clients=1000, rate=0.1, rounds=50, noise=OnClient(participations=5), epsilon=2, delta=1e-4)
    assert seen.multiplier == pytest.approx(
        3.878, rel=1e-2
    )  # silenced: one clip, where a replaced one moves two
    replaced = run(
        clients=1000, rate=0.1, rounds=50, noise=OnClient(participations=5), epsilon=2, delta=1e-4,
        unit=Unit.client(replace=True),
    )  # fmt: skip
    assert replaced.multiplier == pytest.approx(2 * 3.878, rel=1e-2)


def test_a_run_states_both_losses() -> None:
    federated = run(noise=Shared(2.0, bits=32, least=10, participations=3), rate=0.1, rounds=50)
    assert federated.loss == federated.loss_against("server") == federated.loss_against("models")
    assert federated.loss.relation is federated.unit.relation
    assert run().loss_against("models") == run().loss
    with pytest.raises(InvalidParameter, match="the server sees every update"):
        run().loss_against("server")


def test_where_clients_add_noise_the_servers_draw_hides_nobody() -> None:
    """Two clients of which both must answer: a sum is opened with probability q², and then nothing hides that
    both were drawn. So δ(ε) is q² times that of the noise: more than a Poisson sample of rate q would have."""
    rate, epsilon = 0.1, 2.0
    federated = run(clients=2, rate=rate, rounds=1, noise=Shared(1.0, bits=32, least=2))
    release = federated.noise.release(1.0, federated.shape, federated.unit)
    truth = rate**2 * accounting.delta(release, epsilon).lower
    assert truth > 10 * accounting.delta(release.sampled(rate), epsilon).upper
    for view in ("server", "models"):
        assert accounting.delta(federated.loss_against(view), epsilon).upper >= truth


@pytest.mark.parametrize("noise", [OnClient, Shared])
def test_a_coin_that_a_client_keeps_to_itself_is_a_sample(noise: type[OnClient] | type[Shared]) -> None:
    """All clients take part in all rounds and add their update by their own coin: the noise of a trusted server
    that draws at that rate."""
    central = run(clients=1000, rate=0.1, rounds=50, noise=Central(), epsilon=2, delta=1e-4)
    terms = {"least": 600, "bits": 32} if noise is Shared else {}
    own = run(
        clients=1000,
        rate=1,
        rounds=50,
        noise=noise(participations=50, coins=0.1, **terms),
        epsilon=2,
        delta=1e-4,
    )
    assert own.multiplier == pytest.approx(central.multiplier, rel=2e-3)
    assert own.denominator == pytest.approx(central.denominator)
    assert accounting.epsilon(own.loss_against("server"), 1e-4).upper <= 2


def test_under_shared_noise_coins_give_a_replaced_client_nothing() -> None:
    def epsilon(noise: OnClient | Shared) -> float:
        return accounting.epsilon(run(noise=noise, unit=Unit.client(replace=True)).loss, 1e-5).upper

    tossed, sure = (epsilon(Shared(1.0, bits=32, least=14, coins=coins)) for coins in (0.1, 1))
    assert tossed == pytest.approx(sure, rel=1e-6)
    assert epsilon(OnClient(1.0, coins=0.1)) < 0.9 * epsilon(OnClient(1.0))


@pytest.mark.parametrize(("noise", "deviation"), [(OnClient(), 3**0.5), (Shared(bits=32, least=3), 1.0)])
def test_who_keeps_silent_still_adds_its_noise(noise: OnClient | Shared, deviation: float) -> None:
    shape = UpdateShape(20_000, 1.0, 3)
    total = noise.summing(1.0, shape, SeededRandom(1))(iter(()), 3)
    assert np.std(np.asarray(total)) == pytest.approx(deviation, rel=0.03)


def test_clients_add_their_update_by_their_own_coins() -> None:
    """Of 4000 visits about a tenth; every visit counts as one."""
    federated = run(clients=1000, rate=1, rounds=4, noise=OnClient(1.0, participations=3, coins=0.1))
    rounds, speakers = Rounds(federated, data(1000, 1), SeededRandom(1)), 0
    for _ in range(3):
        cohort = rounds._cohort()
        assert len(cohort) == 1000
        speakers += len(rounds._speakers(cohort))
    assert len(rounds._cohort()) == 0
    assert abs(speakers - 300) < 6 * (3000 * 0.1 * 0.9) ** 0.5


@pytest.mark.parametrize("noise", [OnClient(1.0), Shared(1.0, bits=32, least=14)])
def test_noise_of_clients_is_not_stated_for_removal(noise: OnClient | Shared) -> None:
    with pytest.raises(InvalidParameter, match="takes the noise it adds along"):
        run(noise=noise, unit=Unit.client())
    with pytest.raises(InvalidParameter, match="unit of one client"):
        run(noise=noise, unit=Unit.row())


def test_a_shared_sum_over_fewer_than_least_is_never_opened() -> None:
    """A cohort of four carries four shares, made for ten: less noise than the loss speaks of."""
    noise = Shared(1.0, bits=32, least=10)
    total = noise.summing(1.0, UpdateShape(16, 1.0, 10.0), SeededRandom(1))
    assert total(iter([np.ones(16)] * 9)) is None
    assert total(iter([np.ones(16)] * 10)) is not None
    few = run(noise=Shared(1.0, bits=32, least=30, participations=9), rate=0.5, rounds=3, clients=40)
    result = few(data(20), rng=SeededRandom(1))
    assert result.history.update_norm == [0.0, 0.0, 0.0]
    for trained, before in zip(result.model.parameters(), few.model.parameters(), strict=True):
        assert torch.equal(trained, before)


def test_a_replaced_client_moves_twice_the_clip() -> None:
    shape = UpdateShape(10, 1.0, 20)
    for noise in (OnClient(1.0), Shared(1.0, bits=32, least=10)):
        silent = noise.release(1.0, shape, Unit.client(zero_out=True))
        replaced = noise.release(1.0, shape, Unit.client(replace=True))
        assert isinstance(silent, DiscreteGaussianNoise | IntegerGaussianSum)
        assert isinstance(replaced, DiscreteGaussianNoise | IntegerGaussianSum)
        assert replaced.sensitivity == 2 * silent.sensitivity
        assert replaced.sigma == silent.sigma


def test_shares_too_small_for_integer_sums_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"2\.5 grid units"):
        run(noise=Shared(0.01, bits=16, least=400_000), clients=10**6)


# ------------------------------------------------------------------------------------------------ what a client can move


def totals(noise: Central | OnClient | Shared, updates: list[np.ndarray], seed: int = 1) -> np.ndarray:
    shape = UpdateShape(len(updates[0]), 1.0, len(updates))
    return np.asarray(noise.summing(1.0, shape, SeededRandom(seed))(iter(updates)))


def test_a_client_moves_the_central_sum_by_at_most_the_clip() -> None:
    rng = np.random.default_rng(5)
    others = [rng.normal(size=50) for _ in range(5)]
    for own in (
        rng.normal(size=50) * 1e9,
        np.full(50, np.nan),
        np.full(50, np.inf),
        rng.normal(size=50) * 1e-3,
    ):
        moved = totals(Central(), [*others, own]) - totals(Central(), others)
        grid = GradientGrid(1.0, 50)
        assert np.linalg.norm(moved) <= grid.sensitivity * float(grid.step) * (1 + 1e-12)


def test_the_norm_is_checked_in_integers() -> None:
    grid = GradientGrid(1.0, 1000)
    for seed in range(20):
        update = np.random.default_rng(seed).normal(size=1000) * 10.0**seed
        units = on_grid(update, grid)
        assert 0 < int(units @ units) <= grid.sensitivity**2


@pytest.mark.parametrize(
    ("noise", "deviation"),
    [(Central(), 1.0), (OnClient(), np.sqrt(20)), (Shared(bits=32, least=12, colluders=2), np.sqrt(20 / 10))],
)
def test_the_noise_has_the_deviation_it_should(noise: Central | OnClient | Shared, deviation: float) -> None:
    """20 silent clients of 4,096 numbers: the right scale passes, 0.9 and 1.1 of it would not (p = 1e-9)."""
    total = totals(noise, [np.zeros(4096)] * 20)
    ratio = float(np.sqrt(np.mean(total**2))) / deviation
    assert abs(ratio - 1) < 6.2 / np.sqrt(2 * 4096) + 0.01


def test_sixteen_bits_cost_next_to_nothing() -> None:
    """The mean squared error of a shared sum over that of central noise of the same
    multiplier, z = 1, 50 clients."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=2**14)
    updates = [base * 0.7 / np.linalg.norm(base) + rng.normal(size=2**14) * 0.7 / 2**7 for _ in range(50)]
    truth = np.sum([u / max(1.0, float(np.linalg.norm(u))) for u in updates], axis=0)
    total = totals(Shared(bits=16, least=50), updates)
    assert np.mean((total - truth) ** 2) < 1.08  # 1.01 and 6 deviations of a mean of 16,384 squares


# ------------------------------------------------------------------------------------------------ running


@pytest.mark.parametrize(
    "noise", [Central(1.0), OnClient(8.0, participations=2), Shared(4.0, bits=32, least=14)]
)
def test_an_account_runs_and_charges_a_federated_run(noise: Central | OnClient | Shared) -> None:
    federated = run(noise=noise)
    account = Ledger.open("sqlite://").create("phones", federated.unit, limit=Budget(100, 1e-4))
    release = account.run(federated, data(), rng=SeededRandom(1))
    assert release.value.rounds == 3
    assert account.spent().epsilon > 0
    with pytest.raises(UnitMismatch):
        Ledger.open("sqlite://").create("rows", Unit.row(), limit=Budget(100, 1e-4)).run(federated, data())


def test_a_run_learns() -> None:
    held_out = data()

    def accuracy(net: nn.Module) -> float:
        with torch.no_grad():
            x = torch.from_numpy(np.asarray(held_out.x))
            return float((net(x).argmax(1).numpy() == held_out.y).mean())

    federated = run(rounds=30, rate=1, learning_rate=0.5, clip=2.0, noise=Central(0.2), evaluate=accuracy)
    result = federated(data(), rng=SeededRandom(3))
    assert result.history.score[-1] > 0.9
    assert len(result.history.update_norm) == 30


def test_data_of_another_kind_is_refused_before_the_charge() -> None:
    account = Ledger.open("sqlite://").create("phones", Unit.client(), limit=Budget(100, 1e-4))
    with pytest.raises(DataError, match=r"federated\.Clients"):
        account.run(run(), [1, 2, 3], rng=SeededRandom(1))
    assert account.spent().epsilon == 0


def test_data_may_be_opened_after_the_charge() -> None:
    account = Ledger.open("sqlite://").create("phones", Unit.client(), limit=Budget(100, 1e-4))
    release = account.run(run(rounds=1), lambda: data(8), rng=SeededRandom(1))
    assert release.value.rounds == 1


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (nn.Linear(5, 2), np.zeros(40, np.int64)),
        (nn.Sequential(nn.Linear(5, 2), nn.Dropout()), np.zeros(40, np.int64)),
        (nn.Linear(4, 2), np.full(40, "maps", object)),
    ],
)
def test_a_model_that_no_client_could_train_is_refused_before_the_charge(
    model: nn.Module, labels: np.ndarray
) -> None:
    """Failures of clients do not show: it would be paid for, and only noise released."""
    account = Ledger.open("sqlite://").create("phones", Unit.client(), limit=Budget(100, 1e-4))
    federated = run_of(model, CRITERION, clients=8, rounds=1, noise=Central(1.0), progress=False)
    clients = iid(np.zeros((40, 4), np.float32), labels, clients=8)
    with pytest.raises(DataError, match=r"rows and labels that are numbers|made-up rows of shape"):
        account.run(federated, clients, rng=SeededRandom(1))
    assert account.spent().epsilon == 0


class Padded(nn.Module):
    """Takes no row that is all padding."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        if not (x != 0).any(1).all():
            raise RuntimeError("an empty row")
        out: Tensor = self.linear(x)
        return out


def test_a_model_that_fails_on_zeros_alone_is_no_reason_to_refuse() -> None:
    federated = run_of(Padded(), CRITERION, clients=8, rounds=1, noise=Central(1.0), progress=False)
    federated.fits(data(8))


class Fussy(nn.Module):
    """Fails on a row that it does not like, as a model may."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        if (x > 1e3).any():
            raise RuntimeError("a row that breaks the model")
        out: Tensor = self.linear(x)
        return out


@pytest.mark.parametrize("odd", [1e9, np.nan, np.inf])
def test_a_client_that_fails_adds_nothing_and_shows_nothing(odd: float) -> None:
    """With and without it the run ends, and its companions' updates are the same to the bit."""
    clients = data(6)
    broken = np.array(clients.x)
    broken[clients.order[clients.offsets[2] : clients.offsets[3]][0]] = odd
    federated = run_of(Fussy(), CRITERION, clients=6, rate=1, rounds=1, noise=Central(1.0), progress=False)
    account = Ledger.open("sqlite://").create("phones", Unit.client(), limit=Budget(100, 1e-4))
    try:
        account.run(
            federated, Clients(broken, clients.y, clients.order, clients.offsets), rng=SeededRandom(1)
        )
    except AccountFrozen:
        pytest.fail("one client froze the account")
    good = list(Rounds(federated, clients, SeededRandom(1))._client_updates(np.arange(6)))
    bad = list(
        Rounds(
            federated, Clients(broken, clients.y, clients.order, clients.offsets), SeededRandom(1)
        )._client_updates(np.arange(6))
    )
    assert not np.isfinite(bad[2]).all() or not bad[2].any()
    for client in (0, 1, 3, 4, 5):
        assert np.array_equal(good[client], bad[client])


def test_a_client_does_not_move_what_others_compute() -> None:
    federated, whole = run(), data(12)
    cohort = np.arange(12)
    rounds = Rounds(federated, whole, SeededRandom(2))
    together = list(rounds._client_updates(cohort))
    without = list(Rounds(federated, whole, SeededRandom(2))._client_updates(np.delete(cohort, 4)))
    for mine, other in zip(together[:4] + together[5:], without, strict=True):
        assert np.array_equal(mine, other)


@pytest.mark.parametrize(
    "noise",
    [Central(1.0), OnClient(1.0, participations=25), Shared(1.0, bits=32, least=21, participations=25)],
)
def test_an_adaptive_clip_is_paid_for_and_follows_the_norms(noise: Central | OnClient | Shared) -> None:
    """The count is one more coordinate: the whole costs what the multiplier says, and
    the update has more noise."""
    rule = Adaptive(start=10.0, count_noise=2.0, quantile=0.5)
    federated = run(clip=rule, noise=noise, rounds=25, rate=1, learning_rate=0.01)
    plain = run(noise=noise, rounds=25, rate=1)
    bounds = [accounting.epsilon(each.loss, 1e-5).upper for each in (federated, plain)]
    assert bounds[0] == pytest.approx(bounds[1], rel=5e-3)
    assert federated.shape.dimension == plain.shape.dimension + 1
    assert federated.shape.clip == pytest.approx(1 / np.sqrt(1 - (1.0 / 4.0) ** 2))
    clips = federated(data(), rng=SeededRandom(1)).history.clip
    assert clips[0] == 10.0
    assert clips[-1] < 1.0 or isinstance(noise, OnClient)  # norms are some hundredths: the bound comes down


def test_a_count_that_costs_more_than_the_round_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="count_noise"):
        run(clip=Adaptive(start=1.0, count_noise=0.4), noise=Central(1.0))


def test_correlated_noise_is_one_release_of_what_a_client_moves_in_all_its_turns() -> None:
    noise = Correlated(2.0, apart=4)
    federated = run(noise=noise, rounds=12)
    assert federated.loss == Silenced(GaussianNoise(2.0))
    assert federated.unit == Unit.client(zero_out=True)
    assert noise.sensitivity(12) == pytest.approx(
        np.sqrt(3) * np.linalg.norm(noise.encoder(12).coefficients[:4]), rel=1e-6
    )
    with pytest.raises(InvalidParameter, match="shift the others"):
        run(noise=noise, unit=Unit.client())


def test_correlated_noise_has_the_law_of_its_matrix() -> None:
    """Rounds of silent clients: C times the noises of all rounds is white with the
    deviation it should have (p = 1e-9)."""
    noise, rounds, numbers = Correlated(1.0, apart=3), 9, 20_000
    total = noise.summing(1.0, UpdateShape(numbers, 1.0, 5.0, rounds), SeededRandom(4))
    released = np.stack([np.asarray(total(iter([np.zeros(numbers)] * 2))) for _ in range(rounds)])
    white = noise.encoder(rounds).encoder @ released / noise.sensitivity(rounds)
    covariance = white @ white.T / numbers
    assert np.abs(covariance - np.eye(rounds)).max() < 6.5 * np.sqrt(2 / numbers)


def test_clients_take_turns_under_correlated_noise() -> None:
    rounds = Rounds(run(noise=Correlated(1.0, apart=3), rounds=9), data(7), SeededRandom(1))
    turns = []
    for number in range(1, 7):
        rounds.count = number
        turns.append(rounds._cohort().tolist())
    assert turns == [[0, 3, 6], [1, 4], [2, 5]] * 2
    assert run(noise=Correlated(1.0, apart=4), clients=40).denominator == 10


def test_nobody_takes_part_more_often_than_declared() -> None:
    federated = run(noise=OnClient(8.0, participations=2), rate=1, rounds=5)
    rounds = Rounds(federated, data(7), SeededRandom(2))
    sizes = [len(rounds._cohort()) for _ in range(5)]
    assert sizes == [7, 7, 0, 0, 0]


def test_denominators_are_declared() -> None:
    assert run(clients=1000, rate=0.1).denominator == pytest.approx(100)
    assert run(clients=1000, rate=0.1, weights=Capped(cap=5, total=700.0)).denominator == pytest.approx(70)
    assert Capped(cap=5, total=700).weight(20) == 1.0
    assert Capped(cap=5, total=700).weight(2) == pytest.approx(0.4)
    assert Uniform().weight(10**9) == 1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise": Central()}, "epsilon and delta"),
        ({"noise": Central(1.0), "epsilon": 1, "delta": 1e-5}, "epsilon and delta"),
        ({"rate": 1.5}, "rate"),
        ({"rounds": 0}, "rounds"),
        ({"clip": 0}, "clip"),
        ({"noise": 1.0}, "Central"),
        ({"batch": 0}, "batch"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"noise": Shared(2.0, bits=32, least=41), "clients": 40}, "never opened"),
    ],
)
def test_parameters_outside_their_range_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        run(**settings)


def test_models_with_running_means_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="without buffers"):
        run_of(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), CRITERION, noise=Central(1.0))
